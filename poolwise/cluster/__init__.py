"""More than one machine, with Ray (`pip install 'poolwise[ray]'`). Ray starts only when it is asked for."""

from poolwise.cluster.grid import execute_all
from poolwise.cluster.predict import predict
from poolwise.cluster.session import Session, connect
from poolwise.cluster.shards import hold, open_folder, spread

__all__ = ["Session", "connect", "execute_all", "hold", "open_folder", "predict", "spread"]
