"""k-means and the rules on top of it, against slow programs, other libraries, and awkward features."""

import itertools
import sys

import numpy as np
import pytest
import torch
from pools import features, one_hot, pool, uniform

import poolwise as pw
from poolwise import errors
from poolwise.selection import (
    closest,
    clustering,
    feature_blocks,
    near_pairs,
    nearest_centres,
    purity,
    round_robin,
    typiclust,
)
from poolwise.selection.balls import Balls
from poolwise.selection.drop_query import inconsistency, unstable
from poolwise.selection.feature_blocks import Rows

METHODS = ("k-means", "typiclust", "prob-cover", "drop-query")
MEMORY = 1 << 28


def blobs(count, each, D=5, seed=0, spread=0.05):
    """Points around far centres, in random order, and the centre of each."""
    draw = np.random.default_rng(seed)
    label = draw.permutation(np.repeat(np.arange(count), each))
    return (10 * draw.normal(size=(count, D)))[label] + spread * draw.normal(size=(len(label), D)), label


def select(method, z, size, **options):
    x = options.pop("x", None)
    x = pool(len(z), 3, 4) if x is None else x
    return pw.select(x, size, method, embeddings=z, information=False, **options)


def found(z, count, seed=0, memory=MEMORY):
    return clustering.k_means(Rows([z], memory), count, np.random.default_rng(seed), memory)


def inertia(z, cluster):
    return sum(np.square(z[cluster == g] - z[cluster == g].mean(0)).sum() for g in np.unique(cluster))


# k-means


def slow_lloyd(z, centres):
    """Lloyd's algorithm to its end, with plain loops over centres."""
    before = None
    while True:
        cluster = np.argmin([np.square(z - centre).sum(1) for centre in centres], 0)
        if before is not None and (cluster == before).all():
            return cluster
        centres = np.array([z[cluster == g].mean(0) for g in range(len(centres))])
        before = cluster


@pytest.mark.parametrize("seed", range(5))
def test_lloyd_gives_the_clusters_of_a_slow_program(seed, monkeypatch):
    monkeypatch.setattr(clustering, "_TOLERANCE", 0.0)
    z = np.random.default_rng(seed).normal(size=(300, 3))
    rows = Rows([z], MEMORY)
    start = np.random.default_rng(seed + 50).choice(300, 7, replace=False)
    _, clusters = clustering._lloyd(rows, rows.take(start), 100)
    np.testing.assert_array_equal(clusters.cluster, slow_lloyd(z, z[start]))
    assert clusters.inertia == pytest.approx(inertia(z, clusters.cluster), rel=1e-4)


def test_k_means_is_as_good_as_that_of_scikit_learn():
    from sklearn.cluster import KMeans

    z = np.random.default_rng(0).normal(size=(4000, 8))
    ours = np.mean([found(z, 20, seed).inertia for seed in range(4)])
    theirs = np.mean([KMeans(20, n_init=1, random_state=seed).fit(z).inertia_ for seed in range(4)])
    assert ours < 1.01 * theirs


@pytest.mark.parametrize("each", [10, 400])  # with 400 per cluster, centres are found on a sample
def test_k_means_finds_clusters_that_are_there(each):
    for seed in range(5):
        z, label = blobs(30, each, seed=seed)
        cluster = found(z, 30, seed).cluster
        assert len(set(zip(cluster.tolist(), label.tolist(), strict=True))) == 30


def test_centres_are_drawn_by_k_means_plus_plus():
    # Of 0, 1 and 3 on a line: the first is uniform, the second in proportion to the squared distance to it.
    z = np.array([[0.0], [1.0], [3.0]])
    expected = {}
    for a, b in itertools.permutations(range(3), 2):
        others = [np.square(z[a] - z[j]).item() for j in range(3) if j != a]
        expected[a, b] = np.square(z[a] - z[b]).item() / sum(others) / 3
    rows = Rows([z], MEMORY)
    draws = [tuple(clustering.draw_centres(rows, 2, np.random.default_rng(seed)).tolist()) for seed in range(1500)]
    for pair, probability in expected.items():
        error = np.sqrt(probability * (1 - probability) / 1500)
        assert abs(np.mean([draw == pair for draw in draws]) - probability) < 5 * error


def test_draws_that_share_a_pass_have_the_distribution_of_single_draws(monkeypatch):
    z = np.random.default_rng(1).normal(size=(40, 2))
    rows = Rows([z], MEMORY)
    together = [np.sort(clustering.draw_centres(rows, 30, np.random.default_rng(seed))) for seed in range(20)]
    monkeypatch.setattr(clustering, "_DRAWN", 1)
    one_by_one = [np.sort(clustering.draw_centres(rows, 30, np.random.default_rng(seed))) for seed in range(20)]
    np.testing.assert_array_equal(together, one_by_one)  # the same race


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("shift", [0.0, 1e3])
def test_the_nearest_centres_are_exact_as_they_move(compiled, shift, monkeypatch):
    draw = np.random.default_rng(2)
    monkeypatch.setattr(nearest_centres, "_MANY", 0 if compiled else 1 << 60)
    monkeypatch.delitem(sys.modules, nearest_centres._COMPILED, raising=False)
    z, _ = blobs(12, 60, D=6, spread=2.0)
    z = np.concatenate([z, z[:40]]) + shift
    rows = Rows([z], MEMORY)
    x = rows.exact_block(0).float().double().numpy()
    centres, starts = nearest_centres.grouped(rows.take(draw.choice(len(z), 48, replace=False)))
    centres[7] = centres[30]  # twice the same
    nearest = nearest_centres.NearestCentres(rows, starts, MEMORY)
    for step in (0.0, 0.3, 0.05, 0.01, 0.0):
        centres += step * torch.from_numpy(draw.normal(size=centres.shape)) * draw.integers(0, 2)
        found = np.concatenate([nearest_n for _, _, nearest_n in nearest.find(centres)])
        squared = np.square(x[:, None] - centres.numpy()).sum(2)
        np.testing.assert_array_equal(found, (squared <= squared.min(1, keepdims=True) + 1e-12).argmax(1))


def test_clusters_do_not_depend_on_numba(monkeypatch):
    z = np.random.default_rng(3).normal(size=(3000, 8)) + 3 * np.random.default_rng(4).normal(size=(3000, 1))
    monkeypatch.delitem(sys.modules, nearest_centres._COMPILED, raising=False)
    plain = found(z, 40).cluster
    assert nearest_centres._COMPILED not in sys.modules
    monkeypatch.setattr(nearest_centres, "_MANY", 0)
    np.testing.assert_array_equal(found(z, 40).cluster, plain)
    assert nearest_centres._COMPILED in sys.modules


def test_samples_that_grow_give_as_good_clusters(monkeypatch):
    z = np.random.default_rng(5).normal(size=(6000, 4))
    whole = np.mean([found(z, 20, seed).inertia for seed in range(4)])
    monkeypatch.setattr(clustering, "_SMALLEST", 1)
    assert np.mean([found(z, 20, seed).inertia for seed in range(4)]) < 1.01 * whole


def test_an_empty_cluster_gets_the_farthest_row():
    z = np.array([[0.0], [0.1], [0.2], [9.0]])
    rows = Rows([z], MEMORY)
    start = torch.cat([rows.take(np.array([1])), rows.take(np.array([1]))])  # twice the same: the second gets no row
    _, clusters = clustering._lloyd(rows, start, 100)
    np.testing.assert_array_equal(clusters.cluster == clusters.cluster[3], [False, False, False, True])


def test_there_are_no_more_clusters_than_different_rows():
    z = np.repeat(np.random.default_rng(0).normal(size=(4, 3)), 25, 0)
    clusters = found(z, 10)
    assert clusters.count == 4
    assert len(np.unique(clusters.cluster)) == 4
    assert found(np.zeros((9, 2)), 5).count == 1


@pytest.mark.parametrize("shift", [0.0, 1e4])
def test_far_tight_clusters_are_told_apart(shift):
    z, label = blobs(6, 30, D=3, spread=1e-3)
    cluster = found(z + shift, 6).cluster
    assert len(set(zip(cluster.tolist(), label.tolist(), strict=True))) == 6


@pytest.mark.parametrize(
    ("N", "D", "count"),
    [
        pytest.param(9000, 3, 20, marks=pytest.mark.thorough),
        (1500, 1200, 4),
        pytest.param(9000, 1, 8, marks=pytest.mark.thorough),
    ],
)
def test_clusters_do_not_depend_on_memory_or_threads(N, D, count):
    z = np.random.default_rng(0).normal(size=(N, D)).astype(np.float32)
    expected, before = found(z, count), torch.get_num_threads()
    np.testing.assert_array_equal(found(z, count, memory=1).cluster, expected.cluster)
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            batches = [select("k-means", z, count, memory=memory).indices for memory in (1, "1GB")]
            np.testing.assert_array_equal(*batches)
    finally:
        torch.set_num_threads(before)


def test_clusters_are_visited_in_turn():
    clusters = clustering.Clusters(4, np.array([0, 1, 1, 1, 2, 2, 3, 3]), 1, 0.0)
    labelled = np.array([0, 2, 0, 0])
    picks = round_robin.pick_in_turn(clusters, labelled, 8, lambda members, count: (np.arange(count), np.zeros(count)))
    assert picks.indices.tolist() == [4, 6, 0, 1, 5, 7, 2, 3]  # of clusters 2, 3, 0, 1; 2, 3, 1; 1


# TypiClust


def slow_typicality(z, members, neighbours):
    result = []
    for i in members:
        distances = sorted(np.linalg.norm(z[i] - z[j]) for j in members if j != i)[:neighbours]
        result.append(1 / np.mean(distances) if distances else 0.0)
    return np.array(result)


@pytest.mark.parametrize(("labelled", "size", "neighbours"), [(0, 6, 20), (5, 7, 3), (0, 12, 1)])
def test_typiclust_takes_the_most_typical_points_of_uncovered_clusters(labelled, size, neighbours):
    z = np.random.default_rng(3).normal(size=(150, 4))
    known = np.random.default_rng(4).normal(size=(labelled, 4))
    task = pw.Task(pw.Predictions.from_log_probs(pool(150, 3, 4), embeddings=z, labelled_embeddings=known), size)
    clusters, count = round_robin.cluster_points(task, 500)
    assert clusters.count == labelled + size
    sizes = np.bincount(clusters.cluster, minlength=clusters.count)
    expected = []
    for g in np.lexsort((-sizes, count))[:size]:
        members = np.flatnonzero(clusters.cluster == g)
        typicality = slow_typicality(z, members, neighbours)
        expected.append((members[typicality.argmax()], typicality.max()))
    batch = select("typiclust", z, size, labelled_embeddings=known, neighbours=neighbours)
    assert sorted(batch.indices.tolist()) == sorted(i for i, _ in expected)
    np.testing.assert_allclose(sorted(batch.scores), sorted(score for _, score in expected), rtol=1e-9)


def test_typiclust_goes_round_again_and_leaves_small_clusters_for_the_end():
    z, label = blobs(3, 8)
    z, label = np.concatenate([z, [[500.0] * 5]]), np.append(label, 3)
    batch = select("typiclust", z, 25, clusters=4, smallest_cluster=5)
    assert [sorted(label[batch.indices[i : i + 3]].tolist()) for i in range(0, 24, 3)] == [[0, 1, 2]] * 8
    assert label[batch.indices[24]] == 3
    assert 3 in label[select("typiclust", z, 4, clusters=4).indices]


def test_typicality_is_exact_far_from_the_origin_and_in_half_precision():
    draw = np.random.default_rng(0)
    for z in (draw.normal(size=(80, 3)) + 1e5, draw.normal(size=(80, 3)).astype(np.float16)):
        places, scores = typiclust.most_typical(Rows([z], 1), 5, 4)
        expected = slow_typicality(z.astype(np.float64), range(80), 4)
        np.testing.assert_array_equal(places, np.argsort(-expected)[:5])
        np.testing.assert_allclose(scores, np.sort(expected)[::-1][:5], rtol=1e-6)


@pytest.mark.parametrize("size", [100, 300])
def test_typicality_does_not_depend_on_how_many_points_are_compared_at_once(size, monkeypatch):
    z = np.random.default_rng(7).normal(size=(size, 9)).astype(np.float32)
    z[5:9] = z[50:54]
    expected = slow_typicality(z.astype(np.float64), range(size), 6)
    loops = closest._loops(1 << 60)
    for few, strip, block, used in (
        (1000, 128, 512, None),
        (0, 128, 512, loops),
        (0, 16, 96, loops),
        (0, 16, 96, None),
    ):
        monkeypatch.setattr(typiclust, "_FEW", few)
        monkeypatch.setattr(closest, "_STRIP", strip)
        monkeypatch.setattr(closest, "_loops", lambda products, used=used: used)
        monkeypatch.setattr(feature_blocks, "BLOCK", 4 * 9 * block)  # this many rows
        places, scores = typiclust.most_typical(Rows([z], MEMORY), 4, 6)
        assert places.tolist() == np.argsort(-expected, kind="stable")[:4].tolist()
        np.testing.assert_allclose(scores, expected[places], rtol=1e-9)


def test_the_closest_rows_are_found_wherever_they_are():
    # The mean is in a sparse region: those looked at first are not the closest, and many are closer than they.
    draw = np.random.default_rng(3)
    z = np.concatenate(
        [draw.normal(size=(150, 5)), 0.1 * draw.normal(size=(90, 5)) + 6, draw.normal(size=(150, 5)) + 12]
    )
    expected = slow_typicality(z, range(len(z)), 20)
    for count in (1, 70):
        places, scores = typiclust.most_typical(Rows([z], MEMORY), count, 20)
        assert places.tolist() == np.argsort(-expected, kind="stable")[:count].tolist()
        np.testing.assert_allclose(scores, expected[places], rtol=1e-9)


# ProbCover


def slow_cover(z, size, radius, known=()):
    """Greedy maximum cover, one point at a time; gains and picks."""
    near = np.array([[np.linalg.norm(a - b) <= radius * (1 + 1e-12) for b in z] for a in z])
    covered = np.array([any(np.linalg.norm(a - b) <= radius for b in known) for a in z])
    picks, gains = [], []
    for _ in range(size):
        gain = (near & ~covered).sum(1).astype(float)
        gain[picks] = -1
        picks.append(int(gain.argmax()))
        gains.append(gain.max())
        covered |= near[picks[-1]]
    return picks, gains


@pytest.mark.parametrize("memory", ["1GB", 4000, 1])  # lists of neighbours, or none
@pytest.mark.parametrize("labelled", [0, 6])
@pytest.mark.parametrize("evaluation", ["lazy", "full"])
def test_prob_cover_is_greedy_maximum_cover(labelled, memory, evaluation):
    draw = np.random.default_rng(5)
    z, known = draw.normal(size=(90, 3)), draw.normal(size=(labelled, 3))
    options = {"labelled_embeddings": known, "memory": memory, "evaluation": evaluation}
    batch = select("prob-cover", z, 12, radius=0.8, **options)
    picks, gains = slow_cover(z, 12, 0.8, known)
    assert batch.indices.tolist() == picks
    assert batch.scores.tolist() == gains


@pytest.mark.parametrize("shift", [0, 1000.25, 1e6])
@pytest.mark.parametrize("memory", ["1GB", 1])
def test_a_distance_equal_to_the_radius_is_within_it(shift, memory):
    z = np.array(list(itertools.product(range(7), range(7))), np.float64) + shift
    batch = select("prob-cover", z, 5, radius=1.0, memory=memory)
    picks, gains = slow_cover(z, 5, 1.0)
    assert batch.indices.tolist() == picks
    assert batch.scores.tolist() == gains
    assert gains[0] == 5


@pytest.mark.parametrize("radius", [0.0, 6.5, 7.0, 20.5])  # with the last, sketches leave out too little
@pytest.mark.parametrize("memory", ["1GB", pytest.param(4_000_000, marks=pytest.mark.thorough)])
def test_sketches_leave_out_no_pair(radius, memory):
    draw = np.random.default_rng(1)
    z = draw.normal(size=(20, 200))[draw.integers(0, 20, 1300)] + draw.normal(size=(1300, 200)) / 3
    z[100:110] = z[:10]
    known = z[::400] + 0.01
    exactly = {"compute_mode": "donot_use_mm_for_euclid_dist"}
    near, labelled = (torch.cdist(torch.from_numpy(z), torch.from_numpy(x), **exactly).numpy() for x in (z, known))
    near, covered = near <= radius * (1 + 1e-12), (labelled <= radius).any(1)
    batch = select("prob-cover", z, 5, radius=radius, labelled_embeddings=known, memory=memory)
    for pick, score in zip(batch.indices, batch.scores, strict=True):
        gains = (near & ~covered).sum(1)
        gains[batch.indices[: batch.indices.tolist().index(pick)]] = -1
        assert (pick, score) == (gains.argmax(), gains.max())
        covered |= near[pick]


def test_sketches_are_never_farther_apart_than_their_rows():
    z = np.random.default_rng(1).normal(size=(1500, 220)) * np.geomspace(1, 0.01, 220)
    rows = Rows([z], MEMORY)
    sketch = near_pairs._sketch(rows, 1500, MEMORY).double().numpy()[:300]
    exact = rows.take(np.arange(300)).numpy()
    apart, below = (np.square(x[:, None] - x).sum(2) for x in (exact, sketch))
    assert (below <= apart + 1e-6).all()
    assert below.sum() > 0.8 * apart.sum()


@pytest.mark.parametrize("share", [0.5, 0.9, 0.95, 1.0])
@pytest.mark.parametrize("room", [0, 600, 1 << 20])  # no pair is kept, or some at first, or all
def test_the_radius_is_the_largest_of_that_purity(share, room, monkeypatch):
    for name, value in {"COLUMNS": 32, "_STRIP": 16, "_SAMPLE": 8}.items():
        monkeypatch.setattr(purity, name, value)
    z = np.random.default_rng(6).normal(size=(120, 2))
    z[90:95] = z[:5]
    rows = Rows([z[:100], z[100:]], 1)
    cluster = found(z, 4).cluster
    pure = purity.Purity(rows, cluster, share, 100, room)
    assert pure.keeps == (room > 600)
    distance = np.linalg.norm(z[:, None] - z, axis=2)
    other = cluster[:, None] != cluster
    shares = [1 - ((distance <= r) & other).any(1).mean() for r in (pure.radius, pure.radius * (1 + 1e-5))]
    assert shares[0] >= share - 1e-12 > shares[1]
    if pure.keeps:
        near = np.zeros((100, 100), int)
        for first, second, i, j in pure.pairs(Balls(rows, pure.radius)):
            np.add.at(near[first, second], (i, j), 1)
            if first != second:
                np.add.at(near[second, first], (j, i), 1)
        np.testing.assert_array_equal(near, distance[:100, :100] <= pure.radius)


@pytest.mark.parametrize("shift", [0.0, 300.0])
@pytest.mark.parametrize("labelled", [0, 40])
def test_what_is_covered_does_not_depend_on_how_the_radius_was_found(labelled, shift):
    draw = np.random.default_rng(8)
    z = draw.normal(size=(30, 40))[draw.integers(0, 30, 2300)] + draw.normal(size=(2300, 40)) / 4 + shift
    z[700:720] = z[:20]
    known = draw.normal(size=(labelled, 40)) + shift
    batches = []
    for memory in ("1GB", 60_000, 1):  # one pass over the pairs, two passes with lists, no lists
        batches.append(select("prob-cover", z, 20, labelled_embeddings=known, memory=memory))
    task = pw.Task(pw.Predictions.from_log_probs(pool(2300, 3, 4), embeddings=z, labelled_embeddings=known), 20)
    rows = Rows([z, known], MEMORY)
    cluster = clustering.k_means(rows, 4, task.generator("k-means"), MEMORY).cluster
    radius = purity.Purity(rows, cluster, 0.95).radius
    given = select("prob-cover", z, 20, labelled_embeddings=known, radius=radius)
    for batch in batches:
        np.testing.assert_array_equal(batch.indices, given.indices)
        np.testing.assert_array_equal(batch.scores, given.scores)


def test_with_one_cluster_the_radius_is_zero():
    pure = purity.Purity(Rows([np.ones((5, 2))], MEMORY), np.zeros(5, np.int64), 0.9, 5, 1000)
    assert pure.radius == 0
    assert not pure.keeps


def test_prob_cover_covers_blobs_and_then_says_that_nothing_is_left():
    z, label = blobs(4, 30)
    with pytest.warns(pw.SaturationWarning, match="smaller radius"):
        batch = select("prob-cover", z, 6, purity=1.0)
    assert set(label[batch.indices[:4]]) == {0, 1, 2, 3}
    assert batch.scores.tolist() == [30, 30, 30, 30, 0, 0]
    assert batch.diagnostics.saturated_at == 4


# DropQuery


def test_inconsistency_is_the_share_of_samples_that_disagree_with_the_mean():
    x = pool(50, 7, 3)
    probs = np.exp(x.astype(np.float64))
    expected = (probs.argmax(2) != probs.mean(1).argmax(1)[:, None]).mean(1)
    task = pw.Task(pw.Predictions.from_log_probs(x), 1)
    np.testing.assert_allclose(task.scores(inconsistency), expected)
    halves = one_hot([[0, 1], [1, 0]], 2)  # the mean is undecided: neither sample contradicts it
    assert pw.Task(pw.Predictions.from_log_probs(halves), 1).scores(inconsistency).tolist() == [0, 0]


def test_points_that_disagree_equally_are_kept_or_left_out_together():
    scores = np.array([0.2, 0.0, 0.4, 0.2, 0.6, 0.8])
    assert unstable(scores, 1).tolist() == [4, 5]  # all above one half
    assert unstable(scores, 3).tolist() == [2, 4, 5]
    assert unstable(scores, 4).tolist() == [0, 2, 3, 4, 5]
    assert unstable(scores, 99).tolist() == list(range(6))


def test_drop_query_spreads_over_the_unstable_points():
    z, label = blobs(10, 40)
    x = uniform(400, 4, 3).copy()
    unsteady = label < 5
    x[unsteady] = np.log([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8], [0.8, 0.1, 0.1]])
    batch = select("drop-query", z, 5, x=x, filter=10)
    assert set(label[batch.indices]) == set(range(5))
    assert batch.scores.tolist() == [0.5] * 5
    everything = select("drop-query", z, 10, x=x[:, :1])  # one sample cannot disagree: k-means on the pool
    assert set(label[everything.indices]) == set(range(10))


# All four


@pytest.mark.parametrize("method", ["k-means", "typiclust", "prob-cover"])
def test_what_is_labelled_is_not_covered_again(method):
    z, label = blobs(8, 25)
    known = np.array([z[label == g][0] for g in range(3)]) + 0.01
    batch = select(method, z, 5, labelled_embeddings=known, x=pool(200, 3, 8))
    assert set(label[batch.indices]) == {3, 4, 5, 6, 7}


@pytest.mark.parametrize("method", METHODS)
def test_every_blob_gets_a_point_and_the_batch_is_closer_than_a_random_one(method):
    z, label = blobs(12, 40, seed=2)

    def distance(picks):
        return np.linalg.norm(z[:, None] - z[picks], axis=2).min(1).mean()

    for seed in range(3):
        x = pool(480, 3, 12, seed=seed)
        batch = select(method, z, 12, seed=seed, x=x)
        assert set(label[batch.indices]) == set(range(12))
        assert distance(batch.indices) < distance(select("random", z, 12, seed=seed, x=x).indices) / 10


def awkward():
    draw = np.random.default_rng(0)
    mixed = draw.normal(size=(30, 4))
    mixed[::3] = 0
    return {
        "all equal": np.ones((30, 4)),
        "all zero": np.zeros((30, 4)),
        "zero rows": mixed,
        "three different": np.repeat(draw.normal(size=(3, 4)), 10, 0),
        "one column": draw.normal(size=(30, 1)),
        "many columns": draw.normal(size=(30, 10_000)),
        "half precision": draw.normal(size=(30, 4)).astype(np.float16),
        "tiny": draw.normal(size=(30, 4)) * 1e-30,
        "huge": draw.normal(size=(30, 4)) * 1e60,
        "an outlier": np.concatenate([draw.normal(size=(29, 4)), np.full((1, 4), 1e20)]),
    }


@pytest.mark.filterwarnings("ignore::poolwise.SaturationWarning")
@pytest.mark.parametrize("kind", awkward())
@pytest.mark.parametrize("method", METHODS)
def test_awkward_features_give_batches_of_different_points(method, kind):
    z = awkward()[kind]
    for size, known in ((1, 40), (7, 1), (30, 0), (30, 40)):
        labelled = np.resize(z, (known, z.shape[1]))
        batch = select(method, z, size, labelled_embeddings=labelled)
        assert len(set(batch.indices.tolist())) == size
        assert np.isfinite(batch.scores).all()
        again = select(method, z, size, labelled_embeddings=labelled, memory=1)
        np.testing.assert_array_equal(again.indices, batch.indices)


@pytest.mark.filterwarnings("ignore::poolwise.SaturationWarning")
@pytest.mark.parametrize("method", METHODS)
def test_equal_points_are_taken_from_the_lowest_on(method):
    assert select(method, np.ones((9, 3)), 4).indices.tolist() == [0, 1, 2, 3]


def test_two_points_are_equally_near_to_their_centre_and_the_first_is_taken():
    z = np.random.default_rng(0).normal(size=(2, 7)) * 1e3
    assert select("k-means", z, 1).indices.tolist() == [0]
    assert select("typiclust", z, 1).indices.tolist() == [0]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_features_that_are_not_finite_are_refused(method, value):
    z, known = features(20), features(5)
    z[7, 2] = value
    with pytest.raises(errors.NotFiniteError, match=r"embeddings .* row 7"):
        select(method, z, 3)
    known[2] = value
    with pytest.raises(errors.NotFiniteError, match="labelled"):
        select(method, features(20), 3, labelled_embeddings=known)


@pytest.mark.filterwarnings("ignore::poolwise.SaturationWarning")
@pytest.mark.parametrize("method", METHODS)
def test_features_on_disk_larger_than_the_budget_give_the_same_batch(method, tmp_path):
    z, _ = blobs(15, 100, D=50, spread=2.0)
    np.save(tmp_path / "z.npy", z.astype(np.float32))
    mapped = np.load(tmp_path / "z.npy", mmap_mode="r")
    expected = select(method, np.array(mapped), 20, seed=3)
    batch = select(method, mapped, 20, seed=3, memory=mapped.nbytes // 10)
    np.testing.assert_array_equal(batch.indices, expected.indices)
    np.testing.assert_array_equal(batch.scores, expected.scores)
    assert any(select(method, mapped, 20, seed=s).indices.tolist() != expected.indices.tolist() for s in (1, 2, 4))


# Other libraries


def test_the_clusters_of_scikit_activeml_give_its_picks(monkeypatch):
    skactiveml = pytest.importorskip("skactiveml.pool", reason="needs scikit-activeml, see benchmarks/requirements.txt")
    from sklearn.cluster import KMeans

    z, known = np.random.default_rng(8).normal(size=(200, 6)), np.random.default_rng(9).normal(size=(7, 6))
    everything = np.concatenate([z, known])
    labels = np.concatenate([np.full(200, np.nan), np.zeros(7)])
    theirs = skactiveml.TypiClust(random_state=0, k=20).query(everything, labels, batch_size=12)

    def same_clusters(rows, count, generator, memory):
        state = np.random.RandomState(0)  # as it is handed on by scikit-activeml
        return clustering.Clusters(count, KMeans(count, random_state=state).fit_predict(everything), 1, 0.0)

    monkeypatch.setattr(round_robin, "k_means", same_clusters)
    ours = select("typiclust", z, 12, labelled_embeddings=known)
    assert sorted(ours.indices.tolist()) == sorted(theirs.tolist())  # clusters of one size come in random order there


def test_prob_cover_has_the_gains_of_scikit_activeml():
    skactiveml = pytest.importorskip("skactiveml.pool", reason="needs scikit-activeml, see benchmarks/requirements.txt")
    z, known = np.random.default_rng(8).normal(size=(200, 3)), np.random.default_rng(9).normal(size=(7, 3))
    everything, labels = np.concatenate([z, known]), np.concatenate([np.full(200, np.nan), np.zeros(7)])
    rule = skactiveml.ProbCover(deltas=[0.7], random_state=0, alpha=0.5)
    with pytest.warns(UserWarning, match="maximum purity"):  # one radius is not judged
        _, utilities = rule.query(everything, labels, batch_size=1, return_utilities=True)
    ours = select("prob-cover", z, 1, labelled_embeddings=known, radius=0.7)
    best = np.flatnonzero(utilities[0, :200] == np.nanmax(utilities[0, :200]))
    assert ours.indices.tolist() == [best[0]]
    assert ours.scores.tolist() == [np.nanmax(utilities[0])]


def test_typiclust_gives_way_to_margin_once_there_are_enough_labels():
    z, _ = blobs(6, 15)
    x, known = pool(len(z), 3, 4), features(20, 5)
    for labelled, expected in ((known[:7], "typiclust"), (known[:8], "margin"), (known, "margin")):
        batch = select("typiclust-then-margin", z, 9, x=x, labelled_embeddings=labelled, per_class=2)
        options = {"labelled_embeddings": labelled} if expected == "typiclust" else {}
        assert batch.indices.tolist() == select(expected, z, 9, x=x, **options).indices.tolist()
    with pytest.raises(errors.ParameterError, match="at least 1"):
        select("typiclust-then-margin", z, 9, per_class=0)
