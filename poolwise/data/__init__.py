"""Data: sets by name, a user's own, and the examples that all of them become."""

from poolwise.data.catalogue import DataSet, Status, datasets_table, load
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
from poolwise.data.own import OpenedData, open_data
from poolwise.data.repeats import Repeated
from poolwise.data.specs import SPECS, Form, Hub, Spec, find_spec

__all__ = [
    "SPECS",
    "DataSet",
    "DatasetExamples",
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
    "as_examples",
    "as_labels",
    "datasets_table",
    "find_spec",
    "load",
    "needed_labels",
    "open_data",
]
