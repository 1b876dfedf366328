"""The reference: one page per public module, or per name of the large ones, and one for the command line."""

import types
from collections.abc import Iterator
from typing import Any

import click
import typer

from docs.tooling.public import MODULES, modules, names
from poolwise.cli import app

SPLIT = ("poolwise", "poolwise.data", "poolwise.posteriors")
"""Modules with so much in them that each name has its own page."""


def pages() -> dict[str, str]:
    """The Markdown of every page by its file name."""
    made = {"index.md": _index()}
    for path, module in modules().items():
        if path in SPLIT:
            made[f"{path}.md"] = _list_page(path, module)
            made |= {name_file(path, name, module): _name_page(path, name) for name in _own(module)}
        else:
            made[f"{path}.md"] = _module_page(path, module)
    return {**made, "command-line.md": command_line()}


def undocumented() -> list[str]:
    """Public names without a docstring."""
    found = []
    for path, module in modules().items():
        values = {name: getattr(module, name) for name in names(module)}
        kinds = (type, types.FunctionType, types.ModuleType)
        found += [f"{path}.{n}" for n, value in values.items() if isinstance(value, kinds) and not value.__doc__]
    return found


def _index() -> str:
    lines = ["# Reference", "", "Every public name, with its arguments and an example.", ""]
    lines += ["| module | what it is for |", "| --- | --- |"]
    lines += [f"| [`{name}`]({name}.md) | {MODULES[name]} |" for name in modules()]
    lines += ["| [`poolwise`](command-line.md) in a shell | The command line. |", ""]
    return "\n".join(lines)


def _own(module: types.ModuleType) -> list[str]:
    """The public names of a module that are not modules."""
    return [name for name in names(module) if not isinstance(getattr(module, name), types.ModuleType)]


def _head(path: str, module: types.ModuleType) -> list[str]:
    """The title of a module's page, what the module is for, and the modules in it."""
    lines = [f"# {path}", "", (module.__doc__ or "").strip(), ""]
    inner = [f"{path}.{name}" for name in names(module) if f"{path}.{name}" in MODULES]
    return lines + (["Modules: " + ", ".join(f"[`{name}`]({name}.md)" for name in inner) + ".", ""] if inner else [])


def _module_page(path: str, module: types.ModuleType) -> str:
    lines = _head(path, module)
    for name in _own(module):
        lines += [f"::: {_home(path, name)}", ""]
    return "\n".join(lines)


def _list_page(path: str, module: types.ModuleType) -> str:
    """The names of a module in a table, each with a link to its page."""
    lines = [*_head(path, module), "| name | what it is |", "| --- | --- |"]
    for name in _own(module):
        value = getattr(module, name)
        told = value.__doc__ if isinstance(value, type | types.FunctionType) else None
        summary = (told or "").strip().split("\n\n")[0].replace("\n", " ").replace("|", "\\|")
        lines.append(f"| [`{name}`]({name_file(path, name, module)}) | {' '.join(summary.split())} |")
    return "\n".join([*lines, ""])


def name_file(path: str, name: str, module: types.ModuleType) -> str:
    """The file of a name's page. Some systems do not tell `Method` from `method`, so the kind is part of it."""
    kind = "class" if isinstance(getattr(module, name), type) else "function"
    return f"{path}.{name}-{kind}.md"


def _name_page(path: str, name: str) -> str:
    top = f"---\ntitle: {name}\n---\n\nPart of [`{path}`]({path}.md).\n\n"
    return f"{top}::: {_home(path, name)}\n    options:\n      heading_level: 1\n"


def _home(path: str, name: str) -> str:
    """The path under which Griffe finds an object."""
    if path == "poolwise.stopping":
        return f"poolwise.learning.stopping.{name}"
    return f"{path}.{name}"


def command_line() -> str:
    """The commands and their options."""
    group = typer.main.get_command(app)
    lines = ["# The command line", "", _text(group.help), ""]
    context = click.Context(group, info_name="poolwise")
    for name, command in _commands(group, context):
        lines += [f"## poolwise {name}", "", _text(command.help), ""]
        lines += ["| argument or option | what it does | default |", "| --- | --- | --- |"]
        for parameter in command.params:
            if parameter.name != "help":
                lines.append(_parameter(parameter))
        lines.append("")
    return "\n".join(lines)


def _commands(group: click.Group, context: click.Context, before: str = "") -> Iterator[tuple[str, click.Command]]:
    """The commands by their whole names, those of groups too."""
    for name in sorted(group.list_commands(context)):
        command = group.get_command(context, name)
        assert command is not None
        if hasattr(command, "list_commands"):
            yield from _commands(command, context, f"{before}{name} ")
        else:
            yield f"{before}{name}", command


def _text(help_text: str | None) -> str:
    """A help text as Markdown: paragraphs that keep their lines (they begin with a backspace) are commands."""
    paragraphs = (help_text or "").split("\n\n")
    shown = []
    for paragraph in paragraphs:
        if paragraph.lstrip().startswith("\b"):
            lines = [line.strip() for line in paragraph.replace("\b", "").splitlines() if line.strip()]
            paragraph = "\n".join(["```sh", *lines, "```"])
        shown.append(paragraph)
    return "\n\n".join(shown)


def _parameter(parameter: Any) -> str:
    option = parameter.param_type_name == "option"
    shown = ", ".join(f"`{name}`" for name in parameter.opts) if option else f"`{parameter.metavar or parameter.name}`"
    default = parameter.default
    plain = "" if default in (None, False) or callable(default) or parameter.required else f"`{default}`"
    return f"| {shown} | {(parameter.help or '').replace('|', chr(92) + '|')} | {plain} |"
