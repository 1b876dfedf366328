"""The reference: one page per public module, and one for the command line."""

import types
from collections.abc import Iterator
from typing import Any

import click
import typer

from docs.tooling.public import MODULES, modules, names
from poolwise.cli import app


def pages() -> dict[str, str]:
    """The Markdown of every page by its file name."""
    made = {f"{name}.md": _module_page(name, module) for name, module in modules().items()}
    return {"index.md": _index(), **made, "command-line.md": command_line()}


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


def _module_page(path: str, module: types.ModuleType) -> str:
    lines = [f"# {path}", "", (module.__doc__ or "").strip(), ""]
    others = []
    for name in names(module):
        value = getattr(module, name)
        if isinstance(value, types.ModuleType):
            if f"{path}.{name}" in MODULES:
                others.append(f"[`{path}.{name}`]({path}.{name}.md)")
        else:
            lines += [f"::: {_home(path, name, value)}", ""]
    if others:
        lines[4:4] = ["Modules: " + ", ".join(others) + ".", ""]
    return "\n".join(lines)


def _home(path: str, name: str, value: Any) -> str:
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
