"""Polynomials that are nowhere above, or nowhere below, the function `h(δ) = φ(δ) / δ²`, with `φ` as in `pairs`.

With `φ(δ) = (1 + δ) ln(1 + δ) - δ`, Taylor's formula gives `h(δ) = ∫ (1 - s) / (1 + s δ) ds` over s from 0 to 1. So on
`δ > -1` the derivatives of h alternate: h falls, is convex, has a negative third and a positive fourth derivative. A
polynomial that agrees with h at n nodes, counted as often as it touches, leaves an error of the n-th derivative times
the product of all `δ - node`, over n!. Where `-1 ≤ δ ≤ D`, the sign of that is known for these nodes:

| degree | never above h | never below h |
| --- | --- | --- |
| 0 | D | -1 |
| 1 | t, t | -1, D |
| 2 | t, t, D | -1, t, t |
| 3 | t, t, u, u | -1, t, t, D |

`δ ≤ K - 1` for K posterior samples, since none is more than K times their average.
"""

import functools
import itertools
import math

import numpy as np

# Where polynomials touch h. They need be close to the best places only, since the error of a polynomial grows with the
# square of how far its nodes are from there.
_LEFT, _RIGHT = (-0.8, -0.6, -0.4, -0.2, 0.0), (0.2, 0.5, 1.0, 1.7, 3.0, 6.0, 12.0, 24.0, 48.0)
# Polynomials from above that touch h further left than this have large coefficients, and rounding grows with them.
_LEFTMOST_ABOVE = -0.5
# D is this much above K - 1, which undoes the rounding of δ.
_BEYOND = 1e-3

Polynomial = tuple[float, ...]


@functools.cache
def below(degree: int, K: int) -> tuple[Polynomial, ...]:
    """Coefficients of 1, δ, δ² ... of polynomials that are nowhere above h.

    Args:
        degree: their degree, 0 to 3.
        K: how many posterior samples there are.

    Example:
        >>> below(1, 5)[4]  # the tangent at 0
        (0.5, -0.16666666666666666)
    """
    last = K - 1 + _BEYOND
    right = tuple(t for t in _RIGHT if t < 0.9 * last)
    if degree == 0:
        return (_through(last),)
    if degree == 1:
        return tuple(_through(t, t) for t in _LEFT + right)
    if degree == 2:
        return tuple(_through(t, t, last) for t in _LEFT + right)
    return tuple(_through(t, t, u, u) for t, u in itertools.product(_LEFT, right))


@functools.cache
def above(degree: int, K: int) -> tuple[Polynomial, ...]:
    """Coefficients of 1, δ, δ² ... of polynomials that are nowhere below h.

    Args:
        degree: their degree, 0 to 3.
        K: how many posterior samples there are.

    Example:
        >>> above(0, 5)  # h(-1)
        ((1.0,),)
    """
    last = K - 1 + _BEYOND
    touching = tuple(t for t in _LEFT + _RIGHT if _LEFTMOST_ABOVE < t < 0.9 * last)
    if degree == 0:
        return (_through(-1.0),)
    if degree == 1:
        return (_through(-1.0, last),)
    if degree == 2:
        return tuple(_through(-1.0, t, t) for t in touching)
    return tuple(_through(-1.0, t, t, last) for t in touching)


def _through(*nodes: float) -> Polynomial:
    """The polynomial that agrees with h at some nodes, and touches it at those given twice in a row (Newton's form)."""
    differences = [_share(t)[0] for t in nodes]
    coefficients = [differences[0]]
    for step in range(1, len(nodes)):
        differences = [
            (differences[i + 1] - differences[i]) / (nodes[i + step] - nodes[i])
            if nodes[i + step] != nodes[i]
            else _share(nodes[i])[1]
            for i in range(len(nodes) - step)
        ]
        coefficients.append(differences[0])
    found = np.polynomial.Polynomial([coefficients[-1]])
    for coefficient, node in zip(coefficients[-2::-1], nodes[-2::-1], strict=True):
        found = found * np.polynomial.Polynomial([-node, 1.0]) + coefficient
    return tuple(float(a) for a in found.coef)


def _share(t: float) -> tuple[float, float]:
    """`h(t)` and its derivative; at 0 and -1 their limits (the derivative at -1 is not finite)."""
    if t == 0:
        return 1 / 2, -1 / 6
    if t == -1:
        return 1.0, -math.inf
    logarithm = math.log1p(t)
    phi = (1 + t) * logarithm - t
    return phi / t**2, logarithm / t**2 - 2 * phi / t**3
