"""Labelling configurations: what annotators see, and how their answers are called."""

from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree import ElementTree
from xml.sax.saxutils import quoteattr

from poolwise.errors import LabelError

_KINDS = {"text": "Text", "image": "Image"}

# With more classes than this, one below the other instead of side by side.
_INLINE = 12


@dataclass(frozen=True)
class Form:
    """The part of a labelling configuration that asks for one class of a text or an image.

    Attributes:
        control: the name of its choices.
        shown: the name of what is shown.
        kind: `"text"` or `"image"`.
        key: the field of a task with the text or the address of the image.
        classes: the choices, in their order.
    """

    control: str
    shown: str
    kind: str
    key: str
    classes: Sequence[str]

    def result(self, label: str) -> list[dict[str, object]]:
        """What an annotation or a prediction says if it says this class."""
        return [
            {"from_name": self.control, "to_name": self.shown, "type": "choices", "value": {"choices": [label]}},
        ]


def make_form(kind: str, classes: Sequence[str]) -> Form:
    """The form that Poolwise makes."""
    return Form("label", kind, kind, kind, list(classes))


def as_xml(form: Form) -> str:
    """The configuration with this form and nothing else.

    Example:
        >>> read_form(as_xml(make_form("text", ["good", "bad"]))).classes
        ['good', 'bad']
    """
    inline = "true" if len(form.classes) <= _INLINE else "false"
    choices = "\n".join(f"    <Choice value={quoteattr(name)}/>" for name in form.classes)
    return (
        f"<View>\n  <{_KINDS[form.kind]} name={quoteattr(form.shown)} value={quoteattr('$' + form.key)}/>\n"
        f'  <Choices name={quoteattr(form.control)} toName={quoteattr(form.shown)} choice="single" '
        f'required="true" showInline="{inline}">\n{choices}\n  </Choices>\n</View>\n'
    )


def read_form(config: str) -> Form:
    """The form of a project of Label Studio, which may have been made by anybody.

    Args:
        config: its labelling configuration.
    """
    if "<!" in config.replace("<!--", ""):  # a document type could define entities that fill the memory
        raise LabelError("the labelling configuration has a document type. Remove it in Label Studio's settings.")
    try:
        root = ElementTree.fromstring(config or "<View/>")
    except ElementTree.ParseError as error:
        raise LabelError(
            f"the labelling configuration cannot be read ({error}). Correct it in Label Studio."
        ) from error
    shown = {
        tag.get("name"): (kind, tag.get("value", "").removeprefix("$"))
        for kind, name in _KINDS.items()
        for tag in root.iter(name)
    }
    found = [tag for tag in root.iter("Choices") if tag.get("toName") in shown]
    named = [tag for tag in found if tag.get("name") == "label"]
    if len(found) != 1 and len(named) != 1:
        raise LabelError(
            f"the labelling configuration has {len(found)} choices of a text or an image, and needs one. Name the one "
            'to use "label" in Label Studio\'s settings, or make another project with create=.'
        )
    choices = (named or found)[0]
    kind, key = shown[choices.get("toName")]
    classes = [tag.get("alias") or tag.get("value") or "" for tag in choices.iter("Choice")]
    return Form(choices.get("name", ""), choices.get("toName", ""), kind, key, classes)
