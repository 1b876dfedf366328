"""Data: sets by name, a user's own, and the examples that all of them become."""

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
    as_labels,
    needed_labels,
)
from poolwise.data.opening import OpenedData, open_data
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
    "load",
    "needed_labels",
    "open_data",
    "tokenise",
]
