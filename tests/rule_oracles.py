"""The selection rules `bait`, `lcmd`, `falcun` and `gp-look-ahead` once more: loops, explicit matrices, fresh inverses.

`probs` is `[N, K, C]`. Nothing here is imported from the package.
"""

import mpmath
import numpy as np

# BAIT ----------------------------------------------------------------------------------------------------------------


def fisher_factor(point, features, form):
    """Rows V whose `VᵀV` is the Fisher information of a last linear layer at one point."""
    mean = point.mean(0)
    if form == "binary":
        best = int(np.argmax(mean))
        return np.sqrt(mean[best] * np.delete(mean, best).sum()) * features[None]
    rows = [np.sqrt(p) * np.kron(np.eye(len(mean))[c] - mean, features) for c, p in enumerate(mean)]
    return np.array(rows)


def fisher_information(point, features):
    """The same of all classes, written out: `(diag(p) - p pᵀ) ⊗ h hᵀ`."""
    mean = point.mean(0)
    return np.kron(np.diag(mean) - np.outer(mean, mean), np.outer(features, features))


def bait_greedy(probs, features, size, labelled=((), ()), form="binary", regularisation=1.0, oversampling=2.0):
    """Add points by the trace of a fresh inverse, then remove points likewise."""
    factors = [fisher_factor(p, h, form) for p, h in zip(probs, np.asarray(features, np.float64), strict=True)]
    known = [fisher_factor(p, h, form) for p, h in zip(labelled[0], np.asarray(labelled[1], np.float64), strict=True)]
    mean = sum(v.T @ v for v in [*factors, *known]) / (len(factors) + len(known))
    start = regularisation * np.eye(len(mean)) + sum((v.T @ v for v in known), np.zeros_like(mean))

    def trace(picks):
        return np.trace(np.linalg.inv(start + sum((factors[i].T @ factors[i] for i in picks), 0 * mean)) @ mean)

    picks, gains = [], []
    for _ in range(min(len(factors), int(np.ceil(oversampling * size)))):
        before = trace(picks)
        falls = [-np.inf if i in picks else before - trace([*picks, i]) for i in range(len(factors))]
        picks.append(int(np.argmax(falls)))
        gains.append(max(falls))
    while len(picks) > size:
        after = [trace(picks[:t] + picks[t + 1 :]) for t in range(len(picks))]
        worst = int(np.argmin(after))
        del picks[worst], gains[worst]
    return picks, gains


def bait_gains(probs, features, picks, regularisation):
    """What each point takes from the trace of the binary form after some picks, with 80 digits."""
    with mpmath.workdps(80):
        rows = [mpmath.matrix(fisher_factor(p, h, "binary")[0].tolist()) for p, h in zip(probs, features, strict=True)]
        mean = sum((row * row.T for row in rows[1:]), rows[0] * rows[0].T) / len(rows)
        known = regularisation * mpmath.eye(len(rows[0]))
        for i in picks:
            known += rows[i] * rows[i].T
        inverse = known**-1
        gains = [(r.T * inverse * mean * inverse * r)[0] / (1 + (r.T * inverse * r)[0]) for r in rows]
        return np.array([0.0 if i in picks else float(gain) for i, gain in enumerate(gains)])


# LCMD ----------------------------------------------------------------------------------------------------------------


def lcmd_greedy(probs, size, labelled=()):
    """The farthest point of the cluster with the largest sum of squared distances."""
    z = [((p - p.mean(0)) / np.sqrt(len(p))).ravel() for p in probs]
    centres = [((p - p.mean(0)) / np.sqrt(len(p))).ravel() for p in labelled]
    picks, gains = [], []
    for _ in range(size):
        if centres:
            squared = np.array([[((x - c) ** 2).sum() for c in centres] for x in z])
            nearest, distance = squared.argmin(1), squared.min(1)
        else:
            nearest, distance = np.zeros(len(z), int), np.array([(x**2).sum() for x in z])
        sizes = [distance[nearest == c].sum() for c in range(max(1, len(centres)))]
        inside = np.where(nearest == int(np.argmax(sizes)), distance, -1.0)
        inside[picks] = -1.0
        best = int(np.argmax(inside))
        picks.append(best)
        gains.append(inside[best])
        centres.append(z[best])
    return picks, gains


# Falcun --------------------------------------------------------------------------------------------------------------


def falcun_relevance(probs, picks):
    """`u + d` of all points after some picks in order; 0 at the picks."""
    means = [p.mean(0) for p in probs]
    uncertainty = np.array([1 - (np.sort(m)[-1] - np.sort(m)[-2]) if len(m) > 1 else 0.0 for m in means])
    distance = uncertainty.copy()
    for j in picks:
        distance = np.minimum(distance, [np.abs(m - means[j]).sum() for m in means])
        distance = distance - distance.min()
        if distance.max() > 0:
            distance = distance / distance.max()
    relevance = uncertainty + distance
    relevance[list(picks)] = 0.0
    return relevance


# Looking ahead on a Gaussian process -------------------------------------------------------------------------------


def gp_look_ahead_greedy(probs, size, noise, targets=None):
    """Condition the explicit covariance of pool and targets, for every point that could be next."""
    N, K, C = probs.shape
    everything = np.concatenate([probs, probs if targets is None else targets])
    centred = (everything - everything.mean(1, keepdims=True)) / np.sqrt(K)
    covariances = [centred[:, :, c] @ centred[:, :, c].T for c in range(C)]

    def average_variance(picks):
        total = 0.0
        for cov in covariances:
            inner = cov[np.ix_(picks, picks)] + noise * np.eye(len(picks))
            left = cov - cov[:, picks] @ np.linalg.solve(inner, cov[picks, :]) if picks else cov
            total += np.diag(left)[N:].mean()
        return total

    picks, gains = [], []
    for _ in range(size):
        before = average_variance(picks)
        falls = [-np.inf if i in picks else before - average_variance([*picks, i]) for i in range(N)]
        picks.append(int(np.argmax(falls)))
        gains.append(max(falls))
    return picks, gains
