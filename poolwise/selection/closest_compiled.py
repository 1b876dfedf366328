"""The inner loop of `closest`, compiled by Numba."""

import numpy as np

from poolwise.arrays import Array
from poolwise.compiling import compiled


@compiled
def add_nearness(
    products_s_m: Array, lengths_s: Array, lengths_m: Array, reach: np.float32, own: bool, sums_s: Array, sums_m: Array
) -> None:
    """Add by how much distances are below the reach, to the sums of both rows of each pair.

    Args:
        products_s_m: `[s, m]` products of rows.
        lengths_s: `[s]` squared lengths of the first, less what rounding may add to squared distances.
        lengths_m: `[m]` squared lengths of the second.
        reach: a distance.
        own: whether the second begin with the first: a pair of these counts once, a row with itself never.
        sums_s: `[s]` sums of the first, added to.
        sums_m: `[m]` sums of the second, added to.
    """
    nothing, twice = np.float32(0.0), np.float32(2.0)
    for i in range(len(products_s_m)):
        begin = i + 1 if own else 0
        product_m, length_m, sum_m = products_s_m[i, begin:], lengths_m[begin:], sums_m[begin:]
        total, length = nothing, lengths_s[i]
        for j in range(len(product_m)):
            squared = max(length + (length_m[j] - twice * product_m[j]), nothing)
            near = max(reach - np.sqrt(squared), nothing)
            total += near
            sum_m[j] += near
        sums_s[i] += total
