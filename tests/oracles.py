"""Every formula once more, slowly and obviously: float64, loops, brute force.

`probs` is `[N, K, C]` everywhere; a point is `[K, C]`. Nothing here is imported from the package.
"""

import itertools
import math

import numpy as np
import torch

# Entropies -----------------------------------------------------------------------------------------------------------


def entropy(p):
    return -math.fsum(float(x) * math.log(float(x)) for x in np.asarray(p, np.float64).ravel() if x > 0)


def mean_prediction(point):
    K, C = point.shape
    return np.array([math.fsum(float(point[k, c]) for k in range(K)) / K for c in range(C)])


def predictive_entropy(point):
    return entropy(mean_prediction(point))


def conditional_entropy(point):
    return math.fsum(entropy(member) for member in point) / len(point)


def bald(point):
    return predictive_entropy(point) - conditional_entropy(point)


def least_confidence(point):
    return 1 - max(mean_prediction(point))


def margin(point):
    mean = sorted(mean_prediction(point), reverse=True)
    return 1 - (mean[0] - mean[1]) if len(mean) > 1 else 0.0


# Pairs and batches ---------------------------------------------------------------------------------------------------


def joint_table(a, b):
    """`[C, C]` probability of each pair of labels."""
    K, C = a.shape
    table = np.zeros((C, C))
    for x, y in itertools.product(range(C), range(C)):
        table[x, y] = math.fsum(float(a[k, x]) * float(b[k, y]) for k in range(K)) / K
    return table


def pair_information(a, b):
    """Kullback-Leibler divergence of the joint table from the product of its margins."""
    table, p, q = joint_table(a, b), mean_prediction(a), mean_prediction(b)
    terms = []
    for x, y in itertools.product(range(len(p)), range(len(q))):
        if table[x, y] > 0:
            # x ln(x / y) - x + y is never negative, sums to the same, and keeps its digits where x is close to y.
            expected = p[x] * q[y]
            change = (table[x, y] - expected) / expected
            logarithm = math.log1p(change) if change > -0.5 else math.log(table[x, y] / expected)
            terms.append(table[x, y] * logarithm - table[x, y] + expected)
        else:
            terms.append(p[x] * q[y])
    return max(0.0, math.fsum(terms))


def joint_entropy(batch):
    """Entropy of the labels of `[b, K, C]`, over all `C^b` configurations."""
    b, K, C = batch.shape
    table = []
    for labels in itertools.product(range(C), repeat=b):
        table.append(math.fsum(math.prod(float(batch[i, k, labels[i]]) for i in range(b)) for k in range(K)) / K)
    return entropy(table)


def batch_information(batch):
    """BatchBALD: `H[y_1:b] - Σ_i mean_k H[y_i | θ_k]`."""
    return joint_entropy(batch) - math.fsum(conditional_entropy(point) for point in batch)


def total_correlation(batch):
    return math.fsum(predictive_entropy(point) for point in batch) - joint_entropy(batch)


def batchbald_greedy(probs, size):
    picks, gains, known = [], [], 0.0
    for _ in range(size):
        values = [-math.inf if i in picks else batch_information(probs[[*picks, i]]) for i in range(len(probs))]
        best = int(np.argmax(values))
        gains.append(values[best] - known)
        known = values[best]
        picks.append(best)
    return picks, gains


# LBB -----------------------------------------------------------------------------------------------------------------


def lbb_objective(batch, pairs="unordered"):
    """The paper's formula of a finished batch, each pair counted once or twice."""
    total = math.fsum(bald(point) for point in batch)
    for i, j in itertools.permutations(range(len(batch)), 2):
        total -= pair_information(batch[i], batch[j]) * (1.0 if pairs == "ordered" else 0.5)
    return total


def lbb_gain(probs, picks, i, redundancy="normalised", pairs="unordered"):
    own = bald(probs[i])
    if not picks:
        return own
    shared = [pair_information(probs[i], probs[j]) for j in picks]
    if redundancy == "max":
        return own - max(shared)
    if redundancy == "mean":
        return own - math.fsum(shared) / len(shared)
    if redundancy == "sum":
        return own - math.fsum(shared) * (2 if pairs == "ordered" else 1)
    ratios = []
    for j, value in zip(picks, shared, strict=True):
        scale = math.sqrt(pair_information(probs[i], probs[i]) * pair_information(probs[j], probs[j]))
        ratios.append(min(max(value / scale, 0.0), 1.0) if scale > 0 else 0.0)
    return own * (1 - max(ratios))


def lbb_greedy(probs, size, redundancy="normalised", pairs="unordered"):
    picks, gains = [], []
    for _ in range(size):
        values = [-math.inf if i in picks else lbb_gain(probs, picks, i, redundancy, pairs) for i in range(len(probs))]
        best = int(np.argmax(values))
        picks.append(best)
        gains.append(values[best])
    return picks, gains


def released_score(probs, i, reference):
    """The score of the paper's released program: a point against a reference set, by a double loop."""
    _, K, C = probs.shape
    mean_i = mean_prediction(probs[i])
    score = bald(probs[i])
    for c in range(C):
        together = chance = 0.0
        for j in reference:
            if j != i:
                together += sum(float(probs[i, k, c]) * float(probs[j, k, c]) for k in range(K)) / K
                chance += mean_i[c] * mean_prediction(probs[j])[c]
        score += together * (math.log(1 + together) - math.log(1 + chance))
    return score


# Looking ahead -------------------------------------------------------------------------------------------------------


def epig(point, targets):
    return math.fsum(pair_information(point, target) for target in targets) / len(targets)


def smocu(point, targets, softness):
    """Expected fall of the cost, with both of its terms, from uniform weights to `w_k(y) ∝ p_k(y)`."""
    K, C = point.shape

    def cost(weights):
        total = 0.0
        for target in targets:
            confident = sum(weights[k] * max(target[k]) for k in range(K))
            mixed = [softness * sum(weights[k] * target[k, c] for k in range(K)) for c in range(C)]
            top = max(mixed)
            total += confident - (top + math.log(sum(math.exp(x - top) for x in mixed))) / softness
        return total / len(targets)

    after = 0.0
    for y, probability in enumerate(mean_prediction(point)):
        if probability > 0:
            after += probability * cost([float(point[k, y]) / (K * probability) for k in range(K)])
    return cost([1 / K] * K) - after


# Gaussian process ----------------------------------------------------------------------------------------------------


def gp_variance_greedy(probs, size, noise):
    """Condition the explicit `N × N` covariance of each class on the noisy values at the picks."""
    N, K, C = probs.shape
    covariances = [np.cov(probs[:, :, c], bias=True).reshape(N, N) if K > 1 else np.zeros((N, N)) for c in range(C)]
    picks, gains = [], []
    for _ in range(size):
        remaining = np.zeros(N)
        for cov in covariances:
            if picks:
                inner = cov[np.ix_(picks, picks)] + noise * np.eye(len(picks))
                remaining += np.diag(cov - cov[:, picks] @ np.linalg.solve(inner, cov[picks, :]))
            else:
                remaining += np.diag(cov)
        remaining[picks] = -np.inf
        best = int(np.argmax(remaining))
        gains.append(float(remaining[best]))
        picks.append(best)
    return picks, gains


# Coverage ------------------------------------------------------------------------------------------------------------


def coverage_gains(probs, picks, size, share=10.0, weights="margin", features=None):
    """What each undecided point would add to the coverage of all of them; features are the centred predictions."""
    undecided = [margin(point) for point in probs]
    kept = sorted(range(len(probs)), key=lambda i: (-undecided[i], i))[: math.ceil(share * size)]
    if features is None:
        features = np.array([(point - mean_prediction(point)).ravel() for point in probs])

    def cosine(a, b):
        scale = np.linalg.norm(a) * np.linalg.norm(b)
        return max(0.0, float(a @ b) / scale) if scale > 0 else 0.0

    gains = dict.fromkeys(kept, 0.0)
    for j in kept:
        covered = max((cosine(features[i], features[j]) for i in picks), default=0.0)
        for i in kept:
            weight = undecided[j] if weights == "margin" else 1.0
            gains[i] += weight * max(0.0, cosine(features[i], features[j]) - covered)
    return {i: gain for i, gain in gains.items() if i not in picks}


# Embeddings ----------------------------------------------------------------------------------------------------------


def gradient_embedding(logits, features):
    """`[C · D]` gradient of the cross-entropy at the predicted label, by autograd, of a last linear layer.

    The layer is made to give just these logits: its weights are zero and its bias is the logits.
    """
    layer = torch.nn.Linear(len(features), len(logits), dtype=torch.float64)
    with torch.no_grad():
        layer.weight.zero_()
        layer.bias.copy_(torch.as_tensor(logits))
    output = layer(torch.as_tensor(features, dtype=torch.float64))
    torch.nn.functional.cross_entropy(output[None], output.argmax()[None]).backward()
    return layer.weight.grad.flatten().numpy()


def k_centre_greedy(features, size, labelled=()):
    """The point farthest from every centre, again and again; first the point nearest to the mean."""
    centres, picks, gains = [np.asarray(x, np.float64) for x in labelled], [], []
    features = np.asarray(features, np.float64)
    for _ in range(size):
        if centres:
            distance = [min(np.linalg.norm(x - centre) for centre in centres) for x in features]
            for i in picks:
                distance[i] = -1.0
            best = int(np.argmax(distance))
            gains.append(distance[best])
        else:
            from_mean = [np.linalg.norm(x - features.mean(0)) for x in features]
            best = int(np.argmin(from_mean))
            gains.append(max(from_mean))
        picks.append(best)
        centres.append(features[best])
    return picks, gains


# Sampling ------------------------------------------------------------------------------------------------------------


def power_weights(scores, alpha):
    return [max(float(s), 0.0) ** alpha for s in scores]


def softmax_weights(scores, beta):
    return [math.exp(beta * (float(s) - max(scores))) for s in scores]


def softrank_weights(scores, alpha):
    """Rank 1 for the largest; equal scores share the mean of their ranks."""
    ranks = []
    for s in scores:
        above, equal = sum(t > s for t in scores), sum(t == s for t in scores)
        ranks.append(above + (equal + 1) / 2)
    return [rank**-alpha for rank in ranks]


def sequence_probabilities(weights_given, N, length):
    """Probability of every ordered sequence of picks, if each is drawn by its weight given those before it.

    Args:
        weights_given: from a list of picks to the weights of all N points.
    """
    result = {}

    def extend(picks, probability):
        if len(picks) == length:
            result[tuple(picks)] = probability
            return
        left = [i for i in range(N) if i not in picks]
        weights = weights_given(picks)
        total = sum(weights[i] for i in left)
        for i in left:
            share = weights[i] / total if total > 0 else 1 / len(left)
            if share > 0:
                extend([*picks, i], probability * share)

    extend([], 1.0)
    return result
