"""The tasks: which contenders run on which pool, and what Poolwise must reach there."""

from benchmarks import checks
from benchmarks.cases import ALL, ONE, Case, Sizes, Task, select
from benchmarks.data import Pool

PEERS = ("batchbald_redux", "scikit-activeml", "baal")
TABLE_2 = {  # the paper's own times in seconds, on its hardware
    10: {"BALD": 5.04, "PowerBALD": 5.29, "BatchBALD": 268.9, "Large BB": 18.18, "Power LBB": 20.13},
    20: {"BALD": 5.13, "PowerBALD": 5.93, "BatchBALD": 838.85, "Large BB": 20.06, "Power LBB": 18.56},
}


def bald(s: Sizes, classes: int) -> Task:
    pool = Pool(s.n(50_000), 20, classes)
    names = ("poolwise", "small-text", "baal", "scikit-activeml", "batchbald_redux")
    cases = tuple(Case(name, f"{name} bald", pool, 10) for name in names)
    return Task(
        f"bald-{classes}",
        f"BALD scores, {pool.shape}",
        cases,
        "poolwise",
        lambda find: [checks.faster_than_peers(find, list(names[1:]), "poolwise", 4)],
    )


def lbb(s: Sizes) -> Task:
    pool, b = Pool(s.n(50_000), 10, 10), s.b(100)
    return Task(
        "lbb",
        f"Large BatchBALD (default), {pool.shape}, b = {b}",
        (select("lazy", pool, b, "lbb"), select("full", pool, b, "lbb", evaluation="full")),
        "lazy",
        lambda find: [
            checks.faster(find, "full", "lazy", 15),
            checks.pairs_share(find, "lazy", pool.n, b, 0.05),
            checks.same_picks(find, "lazy", "full"),
        ],
        "Both are Poolwise's; `full` evaluates every point at every pick, with the same kernel.",
    )


def lbb_classes(s: Sizes) -> Task:
    pool, b = Pool(s.n(50_000), 5, 100), s.b(200)
    return Task(
        "lbb-100-classes",
        f"Large BatchBALD with 100 classes, {pool.shape}, b = {b}",
        (
            select("lazy", pool, b, "lbb"),
            select("full", pool, b, "lbb", evaluation="full", threads=(ONE,), limit=1800.0),
        ),
        "lazy",
        lambda find: [checks.faster(find, "full", "lazy", 20), checks.same_picks(find, "lazy", "full")],
    )


def lbb_dropout(s: Sizes) -> Task:
    pool, b = Pool(s.n(50_000), 100, 10, "mc-dropout"), s.b(100)
    return Task(
        "lbb-mc-dropout",
        f"Large BatchBALD on MC dropout, {pool.shape}, b = {b}",
        (select("lazy", pool, b, "lbb"), select("full", pool, b, "lbb", evaluation="full", threads=(ONE,))),
        "lazy",
        lambda find: [checks.same_picks(find, "lazy", "full")],
    )


def lbb_growth(s: Sizes) -> Task:
    pool, small, large = Pool(s.n(50_000), 10, 10), s.b(100), s.b(1_000)
    tenth, whole = (Pool(s.n(n), 10, 10, "synthetic", "float16") for n in (100_000, 1_000_000))
    b100, b1000 = f"b = {small}", f"b = {large}"
    n_small, n_large = f"mapped N = {tenth.n:,}", f"mapped N = {whole.n:,}"
    return Task(
        "lbb-growth",
        f"Large BatchBALD, growth with b ({pool.shape}) and with N (mapped float16, K = C = 10, b = {small})",
        (
            select(b100, pool, small, "lbb"),
            select(b1000, pool, large, "lbb"),
            select(n_small, tenth, small, "lbb"),
            select(n_large, whole, small, "lbb"),
        ),
        b100,
        lambda find: [
            checks.at_most_times(find, b1000, b100, 40),
            checks.pairs_share(find, b1000, pool.n, large, 1.0),
            checks.at_most_times(find, n_large, n_small, 12),
            checks.pairs_share(find, n_large, whole.n, small, 1.0),
        ],
        "Opening and validating the mapped file is part of its time.",
    )


def batchbald(s: Sizes) -> Task:
    pool, m = Pool(s.n(2_000), 20, 10), s.m(10_000)
    mine = select("poolwise", pool, 10, "batchbald", configurations=m)
    slow = PEERS[1:]  # a minute per run: one thread only
    cases = [
        Case(peer, f"{peer} batchbald", pool, 10, {"configurations": m}, (ONE,) if peer in slow else (ONE, ALL))
        for peer in PEERS
    ]
    return Task(
        "batchbald",
        f"BatchBALD, {pool.shape}, b = 10, {m:,} configurations",
        (mine, *cases),
        "poolwise",
        lambda find: [
            checks.faster(find, "batchbald_redux", "poolwise", 20),
            checks.memory(find, "poolwise", 200),
            checks.same_picks(find, "poolwise", "batchbald_redux", first=5),
        ],
        "batchbald_redux computes in float32. Joint labels are enumerated up to pick 5, and sampled after that. baal "
        "ranks b + 1 points by a value that grows from pick to pick, so its first b points leave out its best pick.",
    )


def table_2(s: Sizes, b: int, factor: float) -> Task:
    pool, m = Pool(s.n(49_980), 5, 10), s.m(10_000)
    sampled = {"configurations": m}
    # One run of batchbald_redux takes ten minutes for b = 10. For b = 20 it is only shown that it takes longer than
    # two, which is more than the target needs.
    limit = 1800.0 if b == 10 else 120.0
    peers = [Case(f"BatchBALD, {p}", f"{p} batchbald", pool, b, sampled, (ONE,), limit) for p in PEERS]
    return Task(
        f"table-2-b{b}",
        f"The paper's Table 2, {pool.shape}, b = {b}",
        (
            select("BALD", pool, b, "bald"),
            select("PowerBALD", pool, b, "power-bald"),
            select("BatchBALD", pool, b, "batchbald", configurations=m),
            select("Large BB", pool, b, "lbb"),
            select("Power LBB", pool, b, "power-lbb"),
            *peers,
        ),
        "Large BB",
        lambda find: [checks.faster(find, "BatchBALD, batchbald_redux", "Large BB", factor)],
        "The paper gives, on its hardware: " + ", ".join(f"{k} {v:g} s" for k, v in TABLE_2[b].items()) + ".",
    )


def mapped(s: Sizes) -> Task:
    pool, b = Pool(s.n(1_000_000), 20, 10, "synthetic", "float16"), s.b(100)
    methods = ("lbb", "power-lbb")
    return Task(
        "mapped",
        f"A mapped file, {pool.shape} float16, b = {b}",
        tuple(select(method, pool, b, method) for method in methods),
        "lbb",
        lambda find: [checks.memory(find, method, 1_200, "memory_peak_mb") for method in methods],
        "Peak resident memory is everything: the interpreter, PyTorch, and the pages of the file in use.",
    )


def badge(s: Sizes) -> Task:
    pool = Pool(s.n(10_000), 1, 10, "embedded", features=512)
    small = Pool(2_000, 1, 10, "embedded", features=128)
    b, seeds = s.b(100), 5 if s.quick else 20
    names = "poolwise", "scikit-activeml"
    trials = [
        Case(f"{name}, {seeds} seeds", f"{name} badge potential", small, 50, {"seeds": seeds}, (ONE,))
        for name in (*names, "numpy")
    ]
    return Task(
        "badge",
        f"BADGE, {pool.shape}, b = {b}",
        (*(Case(name, f"{name} badge", pool, b) for name in names), *trials),
        "poolwise",
        lambda find: [
            checks.faster(find, "scikit-activeml", "poolwise", 20),
            checks.same_potential(find, trials[0].label, trials[2].label),
        ],
        f"The rows with seeds: the potential after 50 picks on {small.shape}; their time is for all seeds. "
        "scikit-activeml keeps the distance to the origin from its first step, as if the origin were a pick, which "
        "k-means++ and the BADGE paper do not do; its potential is higher. So the distribution is compared with the "
        "definition, written out in NumPy.",
    )


def coreset(s: Sizes) -> Task:
    pool, b = Pool(s.n(20_000), 1, 10, "embedded", features=512, labelled=s.n(1_000)), s.b(100)
    names = ("poolwise", "scikit-activeml", "small-text")
    return Task(
        "coreset",
        f"Core-set (greedy k-centre), {pool.n:,} + {pool.labelled:,} labelled, 512 features, b = {b}",
        tuple(Case(name, f"{name} coreset", pool, b) for name in names),
        "poolwise",
        lambda find: [checks.same_picks(find, "poolwise", "scikit-activeml")],
    )


def pairwise(s: Sizes) -> Task:
    pool, b = Pool(s.n(5_000), 10, 10), s.b(100)
    return Task(
        "greedy-pairwise",
        f"Greedy pairwise sum (LBB as printed), {pool.shape}, b = {b}",
        (
            select("lazy", pool, b, "lbb", redundancy="sum"),
            select("full", pool, b, "lbb", redundancy="sum", evaluation="full"),
        ),
        "lazy",
        lambda find: [checks.same_picks(find, "lazy", "full")],
        "No other package has this method.",
    )


def coverage(s: Sizes) -> Task:
    pool, b = Pool(s.n(50_000), 20, 10), s.b(1_000)
    return Task(
        "posterior-coverage",
        f"Posterior coverage against power-lbb, {pool.shape}, b = {b}",
        tuple(select(name, pool, b, name) for name in ("posterior-coverage", "power-lbb")),
        "posterior-coverage",
        lambda find: [checks.faster(find, "power-lbb", "posterior-coverage", 1)],
    )


def one_hot(s: Sizes) -> Task:
    pool, m = Pool(s.n(1_000), 20, 10, "one-hot"), 1_000
    bald_names = ("poolwise", "small-text", "baal", "scikit-activeml", "batchbald_redux")
    cases = [Case(f"BALD, {name}", f"{name} bald", pool, 10, threads=(ONE,)) for name in bald_names]
    cases.append(select("BatchBALD, poolwise", pool, 10, "batchbald", configurations=m, threads=(ONE,)))
    for peer in PEERS:
        cases.append(Case(f"BatchBALD, {peer}", f"{peer} batchbald", pool, 10, {"configurations": m}, (ONE,)))
    return Task(
        "one-hot",
        f"One-hot predictions: are there NaNs in the result? {pool.shape}",
        tuple(cases),
        "",
        lambda find: [checks.finite(find, f"{name}, poolwise") for name in ("BALD", "BatchBALD")],
        "Half the rows are certain: probabilities 0 and 1 exactly, as saturated networks predict in float32.",
    )


def all_tasks(s: Sizes) -> list[Task]:
    """Every task but the curves of the picture, in the order of the page."""
    return [
        bald(s, 10),
        bald(s, 100),
        lbb(s),
        lbb_classes(s),
        lbb_growth(s),
        batchbald(s),
        table_2(s, 10, 15),
        table_2(s, 20, 42),
        mapped(s),
        badge(s),
        coreset(s),
        pairwise(s),
        coverage(s),
        lbb_dropout(s),
        one_hot(s),
    ]
