"""A package imports only from those above it in the table of CONTRIBUTING.md."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "poolwise"


def table():
    """The rows of the table: each the names of the files and folders that share a layer."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    lines = text[text.index("| folder |") :].splitlines()[2:]
    rows = []
    for line in lines:
        if not line.startswith("|"):
            break
        names = re.findall(r"`([\w./]+?)(?:\.py|/)?`", line.split("|")[1])
        rows.append([name.removesuffix(".py").rstrip("/") for name in names])
    return rows


LAYERS = {name: layer for layer, names in enumerate(table()) for name in names}


def files():
    return [path for path in sorted(PACKAGE.rglob("*.py")) if path.parent != PACKAGE or path.stem[:2] != "__"]


def home(path):
    """The file or folder of the table that a file belongs to."""
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def imports(tree):
    """Parts of the package that a file imports, also inside functions; not those for type checkers only."""
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            node.body = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names = [f"{node.module}.{name.name}" for name in node.names]
        else:
            continue
        yield from (name.split(".")[1] for name in names if name.startswith("poolwise."))


def test_the_table_names_every_file_and_folder_of_the_package():
    there = {home(path) for path in files()}
    assert there == set(LAYERS)


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_file_imports_only_from_above(path):
    mine = LAYERS[home(path)]
    tree = ast.parse(path.read_text())
    below = {name for name in imports(tree) if name in LAYERS and LAYERS[name] > mine}
    assert not below, f"{home(path)} is above {', '.join(sorted(below))} in the table of CONTRIBUTING.md"


def test_an_import_from_below_would_be_found():
    tree = ast.parse("from poolwise.cli import app\nif TYPE_CHECKING:\n    from poolwise.reports import page\n")
    assert list(imports(tree)) == ["cli"]
    assert LAYERS["cli"] > LAYERS["selection"] > LAYERS["scores"] > LAYERS["errors"]
