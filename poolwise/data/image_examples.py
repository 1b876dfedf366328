"""Images in memory as embeddings of a pretrained network, for experiments: each is encoded once and then kept."""

from functools import cache as remembered
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from poolwise.data.embedding_store import EmbeddingStore, content_key
from poolwise.data.examples import EncodedBy, TensorExamples
from poolwise.data.image_encoding import ImageEncoder
from poolwise.progress import Report, silent

EFFICIENTNET = "efficientnet-lite0"
"""The name of the encoder in experiments, see `poolwise.data.image_encoding`."""

# Pixels each way that the network gets: 14 ms per image on one core, where 224 takes 70.
_SIDE = 128
# Images that are enlarged, encoded and written to the disk together.
_BLOCK = 256


def encoded_images(examples: TensorExamples, *, cache: str | Path, report: Report = silent) -> TensorExamples:
    """The same examples with embeddings of length 1 in place of images; no image is encoded twice.

    Args:
        examples: images as bytes; grey ones count as colour images.
        cache: the folder to keep embeddings in.
        report: told about progress.
    """
    encoder, store = _encoder(), EmbeddingStore(Path(cache))
    keys = [content_key(image.numpy().tobytes() + repr(tuple(image.shape)).encode()) for image in examples.inputs]
    rows: dict[bytes, int] = {}
    rows_N = np.array([rows.setdefault(key, len(rows)) for key in keys], np.int64)
    known, values_U_D = list(rows), np.empty((len(rows), encoder.width), np.float32)
    first_U = np.empty(len(rows), np.int64)  # where each image is in the examples
    first_U[rows_N[::-1]] = np.arange(len(rows_N))[::-1]
    with store.writing(encoder.fingerprint):
        missing = np.flatnonzero(~store.read(encoder.fingerprint, rows, values_U_D))
        for start in range(0, len(missing), _BLOCK):
            part = missing[start : start + _BLOCK]
            images = examples.inputs[torch.from_numpy(first_U[part])].float().expand(-1, 3, -1, -1)
            large = F.interpolate(images, size=encoder.side, mode="bilinear", align_corners=False)
            values_U_D[part] = encoder(large).numpy()
            store.write(encoder.fingerprint, [known[row] for row in part], values_U_D[part])
            report("encoding", start + len(part), len(missing))
    made = TensorExamples(torch.from_numpy(values_U_D[rows_N]), examples.labels, examples.class_names)
    made.encoder = EncodedBy(EFFICIENTNET, encoder.fingerprint)
    return made


@remembered
def _encoder() -> ImageEncoder:
    return ImageEncoder(_SIDE)
