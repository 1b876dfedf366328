"""A data set repeated several times, with other noise each time, in the memory of one copy.

Batch methods are compared on such pools with near-duplicates (Repeated MNIST of Kirsch et al., BatchBALD, 2019).

The noise of an element depends on the seed, the row and the position in the row only, so it does not depend on the
order or the size of batches. It is computed with whole numbers and a table, so it is the same on every processor.
"""

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from poolwise.arrays import Array
from poolwise.data.examples import Examples, TensorExamples
from poolwise.data.formats.files import machine_memory
from poolwise.errors import ParameterError
from poolwise.seeding import stream

# SplitMix64 (Steele, Lea and Flood 2014): the step of the counter, and two rounds of a shift and an odd factor.
_STEP = np.uint64(0x9E3779B97F4A7C15)
_MIX = ((np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)), (np.uint64(27), np.uint64(0x94D049BB133111EB)))
_LAST_SHIFT = np.uint64(31)

# Bytes that a pool needs per row, whatever the inputs are: labels, positions, scores and a few copies of them.
_ROW = 64

# Elements at a time: their counters and indices stay in a cache.
_BLOCK = 1 << 18


class Repeated:
    """Examples that are repeated with noise: row `r` is a copy of the original `r % N`.

    Args:
        examples: the originals.
        repeats: how many copies of each.
        noise: standard deviation of the Gaussian noise, added after scaling.
        seed: of the noise.

    Example:
        >>> import numpy as np, torch
        >>> copies = Repeated(TensorExamples(torch.zeros(5, 2)), repeats=3, noise=0.1)
        >>> len(copies), copies.originals(np.array([6, 11])).tolist()
        (15, [1, 1])
    """

    def __init__(self, examples: Examples, repeats: int = 4, noise: float = 0.1, seed: int = 0) -> None:
        if not isinstance(examples, TensorExamples):
            raise ParameterError(
                f"examples to repeat must be TensorExamples, not {type(examples).__name__}: noise is added to numbers."
            )
        if isinstance(repeats, bool) or not isinstance(repeats, int) or repeats < 1:
            raise ParameterError(f"repeats must be a whole number of at least 1, not {repeats!r}.")
        memory, rows = machine_memory(), len(examples) * repeats
        if memory is not None and rows * _ROW > memory:
            raise ParameterError(
                f"repeats = {repeats:,} of {len(examples):,} examples makes {rows:,} rows, more than this machine can "
                "keep track of. Lower repeats."
            )
        if not 0 <= noise < float("inf"):
            raise ParameterError(f"noise must be a standard deviation, a number of at least 0, not {noise!r}.")
        self.examples, self.repeats, self.noise = examples, repeats, float(noise)
        self._key = stream(seed, "repeats").integers(1 << 64, dtype=np.uint64)

    def __len__(self) -> int:
        return len(self.examples) * self.repeats

    @property
    def labels(self) -> Array | None:
        """`[repeats · N]` labels, or None where there are none; computed at each call, to save memory."""
        return None if self.examples.labels is None else np.tile(self.examples.labels, self.repeats)

    @property
    def class_names(self) -> tuple[str, ...] | None:
        """The names of the classes."""
        return self.examples.class_names

    def originals(self, indices_n: Array) -> Array:
        """`[n]` positions of the originals of some rows.

        Args:
            indices_n: the rows.
        """
        outside = (indices_n < 0) | (indices_n >= len(self))
        if outside.any():
            raise ParameterError(f"positions must be from 0 to {len(self) - 1}, not {indices_n[outside][0]}.")
        rows: Array = indices_n % len(self.examples)
        return rows

    def batch(self, indices_n: Array) -> Tensor:
        """`[n, ...]` float32 inputs with their noise.

        Args:
            indices_n: the positions.
        """
        batch = self.examples.batch(self.originals(indices_n))
        return batch.add_(self._noise(indices_n, batch.shape))

    def images(self, indices_n: Array) -> Array | None:
        """`[n, height, width, channels]` bytes to show to a person, with the noise; None if these are not images.

        Args:
            indices_n: the positions.
        """
        if self.examples.inputs.dtype != torch.uint8:
            return None
        clean = self.examples.inputs[torch.from_numpy(self.originals(indices_n))]
        noise = self._noise(indices_n, clean.shape)
        scale = 255.0 if self.examples.std is None else 255 * self.examples.std
        shown: Array = (clean + noise * scale).round_().clamp_(0, 255).byte().permute(0, 2, 3, 1).numpy()
        return shown

    def _noise(self, rows_n: Array, shape: torch.Size) -> Tensor:
        noise = np.empty((len(rows_n), shape[1:].numel()), np.float32)
        step = max(1, _BLOCK // max(1, noise.shape[1]))
        for start in range(0, len(rows_n), step):
            noise[start : start + step] = gaussian(self._key, rows_n[start : start + step], noise.shape[1])
        noise *= np.float32(self.noise)
        return torch.from_numpy(noise).view(shape)


def gaussian(key: np.uint64, rows_n: Array, width: int) -> Array:
    """`[n, width]` float32 standard normal noise, a function of the key, the row and the column.

    Two columns share one number of 64 random bits; of their 32 bits each takes two table entries of 16 bits.
    """
    pairs = (width + 1) // 2
    bits: Array = rows_n.astype(np.uint64)[:, None] * np.uint64(pairs) + np.arange(pairs, dtype=np.uint64)
    bits *= _STEP
    bits += key
    for shift, factor in _MIX:
        bits ^= bits >> shift
        bits *= factor
    bits ^= bits >> _LAST_SHIFT
    entries = bits.astype("<u8", copy=False).view("<u2").reshape(len(rows_n), 2 * pairs, 2)
    table = _quantiles()
    noise: Array = table.take(entries[:, :width, 0])
    noise += table.take(entries[:, :width, 1])
    return noise


@lru_cache(maxsize=1)
def _quantiles() -> Array:
    """`[65536]` float32 entries such that the sum of two drawn at random is standard normal.

    The entries are the quantiles of a normal distribution of half the variance, at the middles of 65,536 equal steps.
    The sum of two has 2³² values, up to 6.1 standard deviations; its distribution function is within 10⁻⁵ of the normal
    one. Beyond 3 standard deviations lie as many draws as should, to 1 in 1,000; beyond 4, 2 in 100 too few.
    """
    levels = (torch.arange(1 << 16, dtype=torch.float64) + 0.5) / (1 << 16)
    quantiles = torch.special.ndtri(levels)
    # Middles of steps have slightly too small a variance, by 2 · 10⁻⁵; the division makes it exact.
    quantiles /= (2 * quantiles.square().mean()).sqrt()
    entries: Array = quantiles.float().numpy()
    return entries
