"""Images as fixed features: their similarity to small patches of other images (Coates and Ng 2011).

Only the mean and the covariance of patches are learnt, and no label is used: random patches, whitened, serve as
filters. The response of a filter is how far its similarity is above the average over all filters. Responses are
averaged over the four quarters of the image. On such features a small network learns from few labels, on a processor
without a graphics card.
"""

import zlib

import torch
import torch.nn.functional as F
from torch import Tensor

from poolwise.data.examples import EncodedBy, TensorExamples
from poolwise.errors import ParameterError, ShapeError
from poolwise.parallel import one_thread_an_operation, ordered_map
from poolwise.seeding import torch_generator

# Patches that mean and covariance are computed from.
_SAMPLE = 50_000

# Added to the eigenvalues of the covariance, as a share of their mean: smaller ones are noise.
_RIDGE = 0.1

# Added to the variance of a patch (of numbers from 0 to 1) before dividing by its root, so that flat ones stay flat.
_CONTRAST = 1.5e-4

# Images worked on at a time: 64 of them take about 40 MB.
_CHUNK = 64


class Patches:
    """Filters from images; call it on images to get their features.

    Args:
        images: examples that are images, such as a training set; their labels are not used.
        filters: how many patches serve as filters.
        size: pixels of a patch, each way.
        seed: which patches are drawn.

    Example:
        >>> import torch
        >>> draws = torch.Generator().manual_seed(0)
        >>> images = TensorExamples(torch.randint(256, (8, 1, 10, 10), dtype=torch.uint8, generator=draws))
        >>> Patches(images, filters=3)(images)
        TensorExamples(8 examples [12] of float32, without labels)
    """

    def __init__(self, images: TensorExamples, filters: int = 200, size: int = 6, seed: int = 0) -> None:
        if filters < 2 or size < 1:
            raise ParameterError(f"patches need filters of at least 2 and a size of at least 1, not {filters}, {size}.")
        shape = images.inputs.shape
        if images.inputs.dtype != torch.uint8 or min(shape[2:]) < size + 1:
            raise ShapeError(f"patches of {size}×{size} are taken from larger images of bytes, not {list(shape[1:])}.")
        self._size = size
        draws = torch_generator(seed, "patches")
        count = max(_SAMPLE, filters)
        which, top, left = (
            torch.randint(high, (count,), generator=draws)
            for high in (shape[0], shape[2] - size + 1, shape[3] - size + 1)
        )
        across = torch.arange(size)
        rows, columns = (top[:, None] + across)[:, :, None], (left[:, None] + across)[:, None, :]
        # Axes: patch, row, column, channel; then each patch in one line, as `unfold` has them.
        patches = images.inputs[which[:, None, None], :, rows, columns].permute(0, 3, 1, 2).flatten(1)
        patches = _even(patches.double().div_(255))
        self._mean = patches.mean(0)
        eigenvalues, vectors = torch.linalg.eigh(torch.cov(patches.T))
        scale = (eigenvalues.clamp_min(0) + _RIDGE * eigenvalues.mean()).rsqrt()
        self._whiten = (vectors * scale) @ vectors.T
        self._filters = F.normalize((patches[:filters] - self._mean) @ self._whiten, dim=1)
        self._centre, self._spread = torch.zeros(4 * filters), torch.ones(4 * filters)
        sample = torch.randperm(len(images), generator=draws)[:2_000]
        features = self._features(images.inputs[sample])
        self._centre, self._spread = features.mean(0), features.std(0).clamp_min(1e-6)

    def __call__(self, images: TensorExamples) -> TensorExamples:
        """The same examples, with `4 · filters` features in place of images, each of about mean 0 and deviation 1."""
        made = TensorExamples(self._features(images.inputs), images.labels, images.class_names)
        made.encoder = EncodedBy("patches", f"{zlib.crc32(self._filters.numpy().data):08x}")
        return made

    def _features(self, images: Tensor) -> Tensor:
        with one_thread_an_operation():
            parts = list(ordered_map(self._part, torch.split(images, _CHUNK)))
        return (torch.cat(parts) - self._centre) / self._spread

    def _part(self, images: Tensor) -> Tensor:
        lines = F.unfold(images.float().div_(255), self._size).mT
        likeness = (_even(lines) - self._mean.float()) @ (self._filters @ self._whiten).float().T
        answers = (likeness - likeness.mean(2, keepdim=True)).clamp_min_(0).mT
        height, width = (side - self._size + 1 for side in images.shape[2:])
        return F.adaptive_avg_pool2d(answers.unflatten(2, (height, width)), 2).flatten(1)


def _even(lines: Tensor) -> Tensor:
    """Each patch with mean 0 and, unless it is flat, deviation 1."""
    return (lines - lines.mean(-1, keepdim=True)) / (lines.var(-1, keepdim=True) + _CONTRAST).sqrt()
