"""Images for browsers: decoded and encoded again, and kept in memory for a while."""

import threading
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path

from poolwise.errors import FileError
from poolwise.labelling.images import inside, served
from poolwise.labelling.project import Project

SIZES = {"small": 240, "shown": 1_400, "large": 4_096}
"""Pixels of the longer side, by the name of a size."""

# Bytes of encoded images that are kept in memory, and images that are decoded at once.
_KEPT, _AT_ONCE = 96 << 20, 2


@dataclass(frozen=True)
class Picture:
    """An image that can be sent.

    Attributes:
        data: the encoded pixels.
        kind: the media type.
        stamp: changes when the file does.
    """

    data: bytes
    kind: str
    stamp: str


class Pictures:
    """The images of a project.

    Args:
        project: the project.
    """

    def __init__(self, project: Project) -> None:
        self._items = project.items
        data = (project.folder / project.description.data).resolve()
        data = project.items.originals.resolve() if project.items.originals is not None else data
        self._home = data if data.is_dir() else data.parent
        self._kept: OrderedDict[tuple[int, str, str], Picture] = OrderedDict()
        self._size = 0
        self._lock, self._decoding = threading.Lock(), threading.Semaphore(_AT_ONCE)

    def get(self, place: int, size: str) -> Picture:
        """The image of an item.

        Args:
            place: the position of the item. There are no paths in requests, so none can lead elsewhere.
            size: one of `SIZES`.
        """
        files = self._items.files
        if files is None or not 0 <= place < len(files) or size not in SIZES:
            raise FileError("there is no such image.")
        path = files[place]
        stamp = _stamp(path)
        key = (place, size, stamp)
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        if not inside(path, self._home):  # it may have become a link since the project was opened
            raise FileError(f"{path.name}: is not in the folder of the data any more.")
        with self._decoding:
            data, kind = served(path, SIZES[size])
        picture = Picture(data, kind, stamp)
        with self._lock:
            self._kept[key] = picture
            self._size += len(data)
            while self._size > _KEPT and len(self._kept) > 1:
                self._size -= len(self._kept.popitem(last=False)[1].data)
        return picture


def _stamp(path: Path) -> str:
    try:
        status = path.stat()
    except OSError as error:
        raise FileError(f"{path.name}: cannot be read ({error.strerror}).") from error
    return f"{status.st_size:x}-{status.st_mtime_ns:x}"
