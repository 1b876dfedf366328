"""Links between the repository and the site: pages move, and files that are not part of the site lose their link."""

import re
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath

ROOT = Path(__file__).parents[2]
PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""Files of the repository that become pages of the site."""

_LINK = re.compile(r"(?P<shown>!?\[[^\]]*\])\((?P<target>[^)\s]+)\)")
_FENCE = re.compile(r"(```.*?```)", re.DOTALL)


def for_site(markdown: str, source: str, page: str) -> str:
    """The text of a file of the repository, with its links as they are on the site.

    Args:
        markdown: the text.
        source: where the file is in the repository, such as `docs/guide.md`.
        page: where its page is on the site, such as `guide.md`.
    """

    def link(match: re.Match[str]) -> str:
        target, _, anchor = match["target"].partition("#")
        if not target or "://" in target:
            return match[0]
        file = normpath(PurePosixPath(source).parent / target)
        moved = PAGES.get(file) or (file.removeprefix("docs/") if file.startswith("docs/") else None)
        if moved is not None:
            back = relpath(moved, str(PurePosixPath(page).parent))
            return f"{match['shown']}({back}{'#' + anchor if anchor else ''})"
        if not (ROOT / file).exists():
            return match[0]  # the strict build names it
        return f"`{file}`"

    parts = _FENCE.split(markdown)
    return "".join(part if part.startswith("```") else _LINK.sub(link, part) for part in parts)


def targets(markdown: str) -> list[str]:
    """The targets of all links outside code, without their anchors; those to other hosts are left out."""
    text = "".join(part for part in _FENCE.split(markdown) if not part.startswith("```"))
    found = [match["target"].partition("#")[0] for match in _LINK.finditer(text)]
    return [target for target in found if target and "://" not in target]
