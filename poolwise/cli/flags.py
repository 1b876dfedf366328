"""Errors that name flags of the command line, `--batch-size 5`, where Python has `batch_size=5`."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

# A value after the equals sign: quoted, or one word.
_VALUE = r"""(?:"([^"]*)"|'([^']*)'|([\w.%:+-]*[\w%]))?"""


def option_names(parameters: Iterable[Any]) -> dict[str, str]:
    """The flag of each option of a command, by its name in Python.

    Args:
        parameters: those of the command.
    """
    flags = {}
    for parameter in parameters:
        long = [flag for flag in parameter.opts if flag.startswith("--")]
        if long and parameter.name:
            flags[parameter.name] = long[0]
    return flags


def in_flags(message: str, flags: Mapping[str, str]) -> str:
    """A message with Python's arguments written as flags.

    `name=value` becomes `--name value`, `name=` becomes `--name`. A name alone is only replaced where it cannot be an
    ordinary word: with an underscore, or at the beginning of a sentence such as "memory must be ...".

    Args:
        message: what an error says.
        flags: the flag of each argument.
    """
    for name, flag in sorted(flags.items(), key=lambda item: -len(item[0])):
        before = rf"(?<![-\w./'\"]){re.escape(name)}"

        def replaced(match: re.Match[str], flag: str = flag) -> str:
            value = next((group for group in match.groups() if group is not None), "")
            return f"{flag} {value}" if value and value != "True" else flag

        message = re.sub(rf"{before}={_VALUE}", replaced, message)
        alone = rf"{before}\b(?![='\"])" if "_" in name else rf"(?:^|(?<=: )){re.escape(name)}(?= must )"
        message = re.sub(alone, flag, message)
    return message
