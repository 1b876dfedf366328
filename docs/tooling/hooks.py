"""MkDocs calls these functions: they add the pages that are made from the code and from files outside docs/."""

import logging
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))  # the sources beside this file, not an installed copy

from mkdocs.structure.files import File  # noqa: E402

from docs.tooling import links, method_pages, public, reference_pages  # noqa: E402

log = logging.getLogger("mkdocs.hooks.poolwise")


def _pages() -> dict[str, str]:
    import poolwise as pw

    known = method_pages.notes()
    for name in pw.methods():
        if name not in known:
            log.warning("docs/tooling/methods.toml does not say when to use %s", name)
    for name in reference_pages.undocumented():
        log.warning("%s has no docstring", name)
    made = {f"methods/{name}.md": method_pages.page(name) for name in pw.methods() if name in known}
    made["methods/index.md"] = method_pages.index()
    made |= {f"reference/{name}": text for name, text in reference_pages.pages().items()}
    for source, page in links.PAGES.items():
        made[page] = links.for_site((ROOT / source).read_text(), source, page)
    made["index.md"] = "---\nhide: [navigation]\n---\n\n" + made["index.md"]  # it would list the home page alone
    return made


def on_config(config: Any) -> Any:
    """Put the pages that are made here into the navigation."""
    config["generated"] = _pages()
    groups = {
        "METHODS": sorted((name for name in config["generated"] if name.startswith("methods/")), key=_title),
        "REFERENCE": [name for name in config["generated"] if name.startswith("reference/")],
    }
    for group, pages in groups.items():
        pages.sort(key=lambda name: not name.endswith("/index.md"))
        config["nav"] = _expanded(config["nav"], group, _entries(pages))
    return config


def _entries(pages: list[str]) -> list[Any]:
    """Entries of the navigation. Pages of single names are below that of their module."""
    split: dict[str, list[Any]] = {f"reference/{module}.md": [] for module in reference_pages.SPLIT}
    entries: list[Any] = []
    for name in pages:
        module, _, title = name.removesuffix(".md").rpartition(".")
        title = title.partition("-")[0]
        if name in split:
            split[name].append(name)
            entries.append({_title(name): split[name]})
        elif f"{module}.md" in split and _title(name) not in public.MODULES:
            split[f"{module}.md"].append({title: name})
        else:
            entries.append(name if name.endswith("index.md") else {_title(name): name})
    return entries


def _title(name: str) -> str:
    title = name.split("/", 1)[1].removesuffix(".md")
    return "Command line" if title == "command-line" else title


def _expanded(nav: list[Any], group: str, entries: list[Any]) -> list[Any]:
    made: list[Any] = []
    for item in nav:
        if item == group:
            made += entries
        elif isinstance(item, dict):
            made.append({key: _expanded(v, group, entries) if isinstance(v, list) else v for key, v in item.items()})
        else:
            made.append(item)
    return made


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are made here."""
    for name, text in config["generated"].items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links to files that are not part of the site become the names of the files."""
    if page.file.generated_by is not None:
        return markdown
    name = page.file.src_uri
    return links.for_site(markdown, f"docs/{name}", name)


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Load nothing from another host: a file of ours lets the search work from a disk."""
    back = "../" * page.url.count("/")
    return output.replace("https://unpkg.com/iframe-worker/shim", f"{back}search-from-disk.js")


def on_post_template(output_content: str, **_: Any) -> str:
    """The same for the page of errors, which is no page of the documents."""
    return output_content.replace("https://unpkg.com/iframe-worker/shim", "search-from-disk.js")
