"""Data sets by name, your own data, and the examples that both become."""

from typing import TYPE_CHECKING

from poolwise.lazy import lazy_names

if TYPE_CHECKING:
    from poolwise.data.catalogue import DataSet, Status, datasets_table, load
    from poolwise.data.encoding import Encoder, encode, encoded
    from poolwise.data.examples import (
        DatasetExamples,
        Examples,
        Inputs,
        Subset,
        TensorExamples,
        TextExamples,
        as_examples,
        needed_labels,
    )
    from poolwise.data.labels import as_labels
    from poolwise.data.opening import OpenedData, open_data
    from poolwise.data.reading import Format, formats_table, reader
    from poolwise.data.repeats import Repeated
    from poolwise.data.specs import SPECS, Form, Hub, Spec, find_spec
    from poolwise.data.tokens import TokenExamples, tokenise

__all__ = [
    "SPECS",
    "DataSet",
    "DatasetExamples",
    "Encoder",
    "Examples",
    "Form",
    "Format",
    "Hub",
    "Inputs",
    "OpenedData",
    "Repeated",
    "Spec",
    "Status",
    "Subset",
    "TensorExamples",
    "TextExamples",
    "TokenExamples",
    "as_examples",
    "as_labels",
    "datasets_table",
    "encode",
    "encoded",
    "find_spec",
    "formats_table",
    "load",
    "needed_labels",
    "open_data",
    "reader",
    "tokenise",
]

# Where each public name is defined. A name is loaded when it is first used, so that nobody waits for the rest.
_HOMES = {
    "SPECS": ".specs",
    "DataSet": ".catalogue",
    "DatasetExamples": ".examples",
    "Encoder": ".encoding",
    "Examples": ".examples",
    "Form": ".specs",
    "Format": ".reading",
    "Hub": ".specs",
    "Inputs": ".examples",
    "OpenedData": ".opening",
    "Repeated": ".repeats",
    "Spec": ".specs",
    "Status": ".catalogue",
    "Subset": ".examples",
    "TensorExamples": ".examples",
    "TextExamples": ".examples",
    "TokenExamples": ".tokens",
    "as_examples": ".examples",
    "as_labels": ".labels",
    "datasets_table": ".catalogue",
    "encode": ".encoding",
    "encoded": ".encoding",
    "find_spec": ".specs",
    "formats_table": ".reading",
    "load": ".catalogue",
    "needed_labels": ".examples",
    "open_data": ".opening",
    "reader": ".reading",
    "tokenise": ".tokens",
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
