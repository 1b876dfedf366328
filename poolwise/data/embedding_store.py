"""Embeddings on the disk, by text and encoder, so that no text is ever encoded twice."""

import hashlib
import json
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

from poolwise.arrays import Array
from poolwise.errors import FileError
from poolwise.storage import FolderLock, replacing

# Bytes of the key that stands for a text: of 2⁶⁴ texts, two would be expected to share one.
_KEY = 16


def text_key(text: str) -> bytes:
    """What a text is known by."""
    return content_key(text.encode("utf-8", "surrogatepass"))


def content_key(content: bytes) -> bytes:
    """What an example is known by."""
    return hashlib.sha256(content).digest()[:_KEY]


class EmbeddingStore:
    """A folder of embeddings: one folder per encoder, with files of a block of texts each.

    Args:
        folder: where it is, or is to be.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def known_encoder(self, stamp: object) -> tuple[str, int] | None:
        """Fingerprint and width of an encoder whose files have this stamp, if it was used before.

        They are in the weights, and reading those takes longer than reading embeddings.
        """
        if not stamp:
            return None
        with suppress(OSError, ValueError, KeyError, TypeError):
            known = json.loads(self._note(stamp).read_text())
            return str(known["fingerprint"]), int(known["width"])
        return None

    def note_encoder(self, stamp: object, fingerprint: str, width: int) -> None:
        """Remember which encoder the files with this stamp are."""
        if stamp and self.known_encoder(stamp) != (fingerprint, width):
            with self._writing(self._folder / "encoders"), replacing(self._note(stamp)) as file:
                file.write(json.dumps({"fingerprint": fingerprint, "width": width}).encode())

    def read(self, fingerprint: str, rows: Mapping[bytes, int], values_U_D: Array) -> Array:
        """Fill in what is kept of some texts; `[U]` whether each was found. A damaged file counts for nothing.

        Args:
            fingerprint: the encoder.
            rows: the row of each text, by its key.
            values_U_D: the rows, written to in place.
        """
        found_U = np.zeros(len(rows), bool)
        for path in sorted((self._folder / fingerprint).glob("*.npz")):
            try:
                with path.open("rb") as file, np.load(file, allow_pickle=False) as block:
                    keys, values = block["keys"], block["values"]
            except (OSError, EOFError, KeyError, ValueError, zipfile.BadZipFile, zlib.error):
                continue
            if keys.shape != (len(values), _KEY) or values.shape[1:] != values_U_D.shape[1:]:
                continue
            if keys.dtype != np.uint8 or values.dtype != np.float32:
                continue
            rows_n = np.array([rows.get(key.tobytes(), -1) for key in keys], np.int64)
            values_U_D[rows_n[rows_n >= 0]] = values[rows_n >= 0]
            found_U[rows_n[rows_n >= 0]] = True
        return found_U

    @contextmanager
    def writing(self, fingerprint: str) -> Iterator[None]:
        """One process at a time encodes with an encoder."""
        with self._writing(self._folder / fingerprint):
            yield

    def write(self, fingerprint: str, keys: Sequence[bytes], values_n_D: Array) -> None:
        """Keep a block."""
        name = hashlib.sha256(b"".join(keys)).hexdigest()[:32]
        with replacing(self._folder / fingerprint / f"{name}.npz") as file:
            np.savez(file, keys=np.frombuffer(b"".join(keys), np.uint8).reshape(-1, _KEY), values=values_n_D)

    def _note(self, stamp: object) -> Path:
        return self._folder / "encoders" / f"{hashlib.sha256(repr(stamp).encode()).hexdigest()[:32]}.json"

    @contextmanager
    def _writing(self, folder: Path) -> Iterator[None]:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FileError(f"embeddings cannot be kept in {folder} ({error.strerror}). Use another folder.") from error
        with FolderLock(folder, wait=True):
            yield
