"""Text from files: in UTF-8, in what a byte order mark says, or in an encoding that the caller names."""

import codecs
import warnings
from pathlib import Path

from poolwise.data.formats.files import read_bytes
from poolwise.errors import DataWarning, FileError, ParameterError

# The marks at the beginning of a file that say for certain how it is encoded; the longer before those they begin with.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8", "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32", "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32", "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16", "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16", "utf-16"),
)

# Bytes from the beginning that show whether a file without a mark is UTF-16.
_SAMPLE = 4_096

# Characters shown of the place that cannot be decoded.
_SHOWN = 40


def read_text(path: Path, encoding: str | None = None) -> str:
    """The text of a file, with its line breaks as they are.

    Args:
        path: the file, or its `.gz`.
        encoding: a name that Python knows, such as `"cp1252"`; None takes what a byte order mark says, or UTF-8.
    """
    content = read_bytes(path)
    wanted = None if encoding is None else _codec(encoding)
    family, marked = next(((name, codec) for mark, name, codec in _MARKS if content.startswith(mark)), (None, None))
    if marked is not None and family is not None:
        if wanted is not None and not wanted.startswith(family):
            raise FileError(
                f"{path}: begins with the mark of {family.upper()}, so it is not {encoding}. Leave encoding out."
            )
        wanted = marked
    elif wanted is None:
        _refuse_binary(path, content)
    try:
        text = content.decode(wanted or "utf-8")
    except UnicodeDecodeError as error:
        raise FileError(_undecodable(path, content, wanted or "utf-8", error)) from error
    if encoding is not None and marked is None:
        _warn_if_utf8(path, content, encoding, wanted or "")
    return text


def _codec(encoding: str) -> str:
    """The name of an encoding as Python spells it."""
    try:
        name = codecs.lookup(encoding).name
        b" ".decode(name, "ignore")  # which refuses what is no encoding of texts
    except (LookupError, TypeError, ValueError) as error:
        raise ParameterError(
            f"encoding must be a name that Python knows, such as utf-8, cp1252, latin-1 or utf-16, not {encoding!r}."
        ) from error
    return name


def _refuse_binary(path: Path, content: bytes) -> None:
    """A file with zero bytes is no UTF-8 text, though it may decode as such."""
    sample = content[:_SAMPLE]
    zeros = sample.count(0)
    if not zeros:
        return
    half = len(sample) // 4
    for name, start in (("utf-16-le", 1), ("utf-16-be", 0)):
        if zeros > half and zeros == sample[start::2].count(0):
            raise FileError(f"{path}: looks like UTF-16 without a mark at its beginning. Pass encoding={name!r}.")
    kind = "a zip archive, perhaps an Excel workbook" if content.startswith(b"PK") else "not a text file, or damaged"
    raise FileError(f"{path}: contains zero bytes, so it is {kind}. Save it as UTF-8 text.")


def _undecodable(path: Path, content: bytes, encoding: str, error: UnicodeDecodeError) -> str:
    start = max(content.rfind(b"\n", 0, error.start) + 1, error.start - _SHOWN // 2)
    shown = content[start : start + _SHOWN].split(b"\n")[0]
    line = content.count(b"\n", 0, error.start) + 1
    message = f"{path}, line {line}: not {encoding.upper()} text (byte 0x{content[error.start]:02x})."
    if encoding != "utf-8":
        return f"{message} Pass another encoding=."
    if content.startswith(b"PK"):
        return f"{message} It is a zip archive, perhaps an Excel workbook; save it as CSV in UTF-8."
    return (
        f"{message} Save it again as UTF-8, or name its encoding: with encoding='cp1252', which Windows and Excel "
        f"write in Western Europe (latin-1 is much the same), the place reads {shown.decode('cp1252', 'replace')!r}."
    )


def _warn_if_utf8(path: Path, content: bytes, encoding: str, codec: str) -> None:
    """Bytes that make sense as UTF-8 beyond ASCII are hardly ever anything else."""
    if codec.startswith(("utf", "ascii")) or content.isascii():
        return
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return
    warnings.warn(
        f"{path} is read as {encoding}, as asked for, but it is valid UTF-8, and accents may come out wrong. Leave "
        "encoding out to read it as UTF-8.",
        DataWarning,
        stacklevel=2,
    )
