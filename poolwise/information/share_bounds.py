"""Polynomials that are nowhere above, or nowhere below, the function `h(δ) = φ(δ) / δ²`, with `φ` as in `pairs`.

With `φ(δ) = (1 + δ) ln(1 + δ) - δ`, Taylor's formula gives `h(δ) = ∫ (1 - s) / (1 + s δ) ds` over s from 0 to 1. So on
`δ > -1` the derivatives of h alternate: h falls, is convex, has a negative third and a positive fourth derivative. A
polynomial that agrees with h at some nodes, counted as often as it touches, leaves an error of a derivative times the
product of `δ - node`, over a factorial:

- nodes t, t, u, u: `h''''/24 · (δ - t)² (δ - u)² ≥ 0`, so the cubic is never above h;
- nodes -1, t, t: `h'''/6 · (δ + 1) (δ - t)² ≤ 0`, so the parabola is never below h;
- nodes -1, t, t, D: `h''''/24 · (δ + 1) (δ - t)² (δ - D) ≤ 0` as long as `δ ≤ D`, so nor is the cubic.

`δ ≤ K - 1` for K posterior samples, since none is more than K times their average.
"""

import functools
import itertools
import math

# Where the cubics from below touch h: at one place of each list. They need be close to the best pair only, since the
# error of a polynomial grows with the square of how far its nodes are from there.
_LEFT, _RIGHT = (-0.8, -0.6, -0.4, -0.2, 0.0), (0.2, 0.5, 1.0, 1.7, 3.0, 6.0)
# Where the polynomials from above touch h.
_TOUCHING = (-0.5, -0.2, 0.0, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0)
# The last node is this much above K - 1, which undoes the rounding of δ.
_BEYOND = 1e-3

Polynomial = tuple[float, ...]


@functools.cache
def below() -> tuple[Polynomial, ...]:
    """Coefficients of 1, δ, δ² and δ³ of cubics that are nowhere above h.

    Example:
        >>> len(below()), below()[0]
        (31, (0.5, -0.16666666666666666, 0.08333333333333333, -0.05))
    """
    found: list[Polynomial] = [(1 / 2, -1 / 6, 1 / 12, -1 / 20)]  # all four nodes at 0: Taylor's
    for t, u in itertools.product(_LEFT, _RIGHT):
        (at_t, slope_t), (at_u, slope_u) = _share(t), _share(u)
        between = (at_u - at_t) / (u - t)
        square = (between - slope_t) / (u - t)
        cube = (slope_u - 2 * between + slope_t) / (u - t) ** 2
        found.append(
            (
                at_t - slope_t * t + square * t * t - cube * t * t * u,
                slope_t - 2 * square * t + cube * (t * t + 2 * t * u),
                square - cube * (2 * t + u),
                cube,
            )
        )
    return tuple(found)


@functools.cache
def above(K: int | None) -> tuple[Polynomial, ...]:
    """Coefficients of polynomials that are nowhere below h.

    Args:
        K: how many posterior samples there are, for cubics; None for parabolas.

    Example:
        >>> constant, slope, curve = above(None)[2]  # the parabola that touches h at 0
        >>> constant, round(constant - slope + curve, 9)  # its values at 0 and at -1
        (0.5, 1.0)
    """
    found: list[Polynomial] = []
    for t in _TOUCHING:
        at_t, slope = _share(t)
        curve = (1 - at_t + slope * (1 + t)) / (1 + t) ** 2
        parabola = (at_t - slope * t + curve * t * t, slope - 2 * curve * t, curve)
        if K is None:
            found.append(parabola)
            continue
        last = K - 1 + _BEYOND
        if t > 0.9 * last:
            break
        miss = _share(last)[0] - (parabola[0] + parabola[1] * last + parabola[2] * last**2)
        cube = miss / ((last + 1) * (last - t) ** 2)
        terms = (t * t, t * t - 2 * t, 1 - 2 * t)
        found.append((*(a + cube * b for a, b in zip(parabola, terms, strict=True)), cube))
    return tuple(found)


def _share(t: float) -> tuple[float, float]:
    """`h(t)` and its derivative; at 0 their limits."""
    if t == 0:
        return 1 / 2, -1 / 6
    logarithm = math.log1p(t)
    phi = (1 + t) * logarithm - t
    return phi / t**2, logarithm / t**2 - 2 * phi / t**3
