"""Where the predictions of a posterior are put as they are made."""

import math
import os
import tempfile
import threading
from pathlib import Path
from typing import Literal

import numpy as np

from poolwise.arrays import Array
from poolwise.errors import FileError
from poolwise.predictions import Predictions


class Sheet:
    """Room for predictions: in memory if they fit half of the budget, else in a mapped file.

    Args:
        kind: what is written to it.
        shape: `(N, K, C)`.
        memory: bytes that may be taken.
        out: a `.npy` file for the predictions; without it, what does not fit goes to a temporary file.
    """

    def __init__(
        self, kind: Literal["probs", "log-probs"], shape: tuple[int, int, int], memory: int, out: Path | None = None
    ) -> None:
        self._kind, self._out, self._partial = kind, out, None
        size = 4 * math.prod(shape)
        if out is None and size <= memory // 2:
            self.values: Array = np.zeros(shape, np.float32)
            return
        folder = Path(tempfile.gettempdir()) if out is None else out.parent
        self._partial = folder / f".poolwise-{os.getpid()}-{threading.get_ident()}-{id(self)}.npy"
        try:
            self.values = np.lib.format.open_memmap(self._partial, "w+", np.float32, shape)
            if hasattr(os, "posix_fallocate"):  # a full disk is then an error now, not a crash when pages are written
                with self._partial.open("r+b") as file:
                    os.posix_fallocate(file.fileno(), 0, self._partial.stat().st_size)
        except OSError as error:
            self.clear()
            raise FileError(
                f"there is no room for predictions of {size / 1e9:.1f} GB in {folder} ({error.strerror}). "
                "Free some, or pass out= with a path elsewhere."
            ) from error

    def clear(self) -> None:
        """Remove what is unfinished."""
        if self._partial is not None:
            self._partial.unlink(missing_ok=True)

    def finish(self, embeddings: Array | None) -> Predictions:
        """The predictions as they are stored."""
        if self._partial is None:
            make = Predictions.from_probs if self._kind == "probs" else Predictions.from_log_probs
            return make(self.values, embeddings=embeddings, layout="NKC", validate=False)
        self.values.flush()  # type: ignore[attr-defined]
        del self.values
        path = self._partial if self._out is None else self._out
        self._partial.replace(path)
        # Without `out`, the mapping keeps the contents when the file is removed, until the predictions are gone.
        return Predictions.open(path, kind=self._kind, layout="NKC", embeddings=embeddings, validate=False)
