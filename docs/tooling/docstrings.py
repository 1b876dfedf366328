"""An extension for Griffe, which reads our docstrings: `Example:` is the section that it calls `Examples:`."""

import re
from typing import Any

import griffe


class ExampleSections(griffe.Extension):
    """Rename the heading of examples, so that they are shown as code."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change the docstring of one object, before it is parsed."""
        if obj.docstring is not None:
            obj.docstring.value = re.sub(r"^Example:[ \t]*$", "Examples:", obj.docstring.value, flags=re.MULTILINE)
