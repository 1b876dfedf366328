"""More than one machine, with Ray (`pip install 'poolwise[ray]'`). Ray starts only when it is asked for."""

from typing import Any

from poolwise.cluster.grid import execute_all
from poolwise.cluster.predict import predict
from poolwise.cluster.session import Session, connect
from poolwise.cluster.shards import open_folder, put, spread
from poolwise.former import renamed

__all__ = ["Session", "connect", "execute_all", "open_folder", "predict", "put", "spread"]


def __getattr__(name: str) -> Any:
    return renamed(__name__, {"hold": "put"}, name)
