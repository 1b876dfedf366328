"""Random changes to training images that do not change their class."""

import torch
import torch.nn.functional as F
from torch import Tensor

from poolwise.errors import ParameterError


def crop_and_flip(images: Tensor, generator: torch.Generator) -> Tensor:
    """Each image shifted by up to an eighth of its size, filled up with zeros, and mirrored with probability 1/2."""
    if images.ndim != 4:
        raise ParameterError(f'augment="crop-flip" is for images [n, C, height, width], not {list(images.shape)}.')
    n, _, height, width = images.shape
    pad_y, pad_x = max(1, height // 8), max(1, width // 8)
    padded = F.pad(images, (pad_x, pad_x, pad_y, pad_y))
    top = torch.randint(0, 2 * pad_y + 1, (n, 1), generator=generator)
    left = torch.randint(0, 2 * pad_x + 1, (n, 1), generator=generator)
    mirrored = torch.randint(0, 2, (n, 1), generator=generator).bool()
    rows = top + torch.arange(height)
    columns = torch.arange(width).expand(n, -1)
    columns = left + torch.where(mirrored, columns.flip(1), columns)
    picked = padded.permute(0, 2, 3, 1)[torch.arange(n)[:, None, None], rows[:, :, None], columns[:, None, :]]
    return picked.permute(0, 3, 1, 2)
