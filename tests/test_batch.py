"""Batches and queries: comparison, tables, files, pages."""

import json
import sys
from html.parser import HTMLParser

import numpy as np
import pytest
from pools import pool

import poolwise as pw
from poolwise import errors
from poolwise.learning.query import Query


@pytest.fixture
def batch():
    return pw.select(pool(40, 5, 3), 12, "lbb")


def named(names=None):
    ids = names or [f'a,"{i}"\n<b>{i}</b>&' for i in range(40)]
    return pw.select(pw.Predictions.from_log_probs(pool(40, 5, 3), ids=ids), 12, "lbb")


def test_comparison_and_hash(batch):
    again = pw.select(pool(40, 5, 3), 12, "lbb")
    other = pw.select(pool(40, 5, 3), 11, "lbb")
    assert batch == batch == again
    assert hash(batch) == hash(again)
    assert batch != other
    assert batch != "batch"
    assert batch != pw.select(pool(40, 5, 3), 12, "bald")
    assert len({batch, again, other}) == 2
    assert batch.diagnostics == again.diagnostics
    assert hash(batch.diagnostics) == hash(again.diagnostics)
    assert batch.diagnostics != other.diagnostics
    assert batch != named()


def test_queries_are_compared_too(batch):
    query = Query(batch.indices, batch.scores, batch.diagnostics)
    assert query == Query(batch.indices.copy(), batch.scores.copy(), None)
    assert hash(query) == hash(Query(batch.indices.copy(), batch.scores, None))
    assert query != batch
    assert query.part(np.arange(12) < 3) != query
    assert Query.from_dict(query.as_dict()) == query
    scores = np.full(12, np.nan)
    assert Query(batch.indices, scores, None) == Query(batch.indices, scores.copy(), None)


def test_a_frame_has_a_row_per_pick(batch):
    frame = batch.to_frame()
    assert list(frame.columns) == ["order", "index", "score"]
    assert frame["index"].tolist() == batch.indices.tolist()
    assert frame["score"].tolist() == batch.scores.tolist()
    frame = named().to_frame()
    assert frame["id"].tolist() == [f'a,"{i}"\n<b>{i}</b>&' for i in frame["index"]]


def test_what_is_not_installed_is_named(batch, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "pandas", None)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(errors.MissingInputError, match="pip install pandas"):
        batch.to_frame()
    with pytest.raises(errors.MissingInputError, match="poolwise\\[parquet\\]"):
        batch.save(tmp_path / "x.parquet")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("ending", [".csv", ".json", ".parquet", ".CSV"])
def test_files_hold_the_picks(tmp_path, ending):
    pd = pytest.importorskip("pandas")
    batch, path = named(), tmp_path / f"x{ending}"
    batch.save(path)
    batch.save(str(path))  # replaces it
    if ending == ".json":
        content = json.loads(path.read_text())
        assert content["method"] == "lbb"
        assert content["diagnostics"]["ceiling"] == pytest.approx(np.log(5))
        found = pd.DataFrame(content["picks"])
    else:
        found = (pd.read_csv if ending.lower() == ".csv" else pd.read_parquet)(path)
    assert found["index"].tolist() == batch.indices.tolist()
    assert found["id"].tolist() == batch.ids.tolist()
    np.testing.assert_allclose(found["score"], batch.scores)
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_a_query_without_diagnostics_is_saved_and_shown(tmp_path):
    query = Query(np.arange(3), np.array([0.5, np.nan, np.inf]), None)
    query.save(tmp_path / "q.json")
    assert json.loads((tmp_path / "q.json").read_text())["picks"][1]["score"] is None
    assert "Query of 3" in query._repr_html_()
    assert Query(np.arange(0), np.zeros(0), None)._repr_html_()


def test_a_file_that_cannot_be_written_is_said(batch, tmp_path):
    with pytest.raises(errors.ParameterError, match=r"\.csv, \.json or \.parquet"):
        batch.save(tmp_path / "x.xlsx")
    with pytest.raises(errors.FileError, match="cannot write"):
        batch.save(tmp_path / "none" / "x.csv")


class _Page(HTMLParser):
    """Checks that every tag is closed."""

    def __init__(self):
        super().__init__()
        self.open, self.seen, self.text = [], [], ""

    def handle_starttag(self, tag, attributes):
        self.seen.append(tag)
        if tag != "br":
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.seen.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def read(page):
    parser = _Page()
    parser.feed(page)
    assert parser.open == []
    return parser


def test_the_page_shows_picks_curve_and_warning():
    page = read(named()._repr_html_())
    assert page.seen.count("tr") == 11  # ten picks and the head
    assert "2 more" in page.text
    assert {"svg", "polyline", "table"} <= {*page.seen}
    assert "b" not in page.seen[page.seen.index("table") :]  # the names are escaped
    assert "<b>" in page.text
    assert "saturated:" not in page.text
    with pytest.warns(pw.SaturationWarning) as caught:
        tired = pw.select(pool(80, 2, 4, scale=1.5), 60, "batchbald")
    assert str(caught[0].message) in read(tired._repr_html_()).text
    html = tired._repr_html_()
    assert "currentColor" in html
    assert "#fff" not in html
    assert "black" not in html
    one = pw.select(pool(9, 2, 4), 1, "margin")
    assert "svg" in read(one._repr_html_()).seen
    skipped = pw.select(pool(9, 2, 4), 3, "margin", information=False)
    assert "svg" not in read(skipped._repr_html_()).seen


def test_one_sample_is_told_to_use_margin():
    with pytest.warns(pw.SaturationWarning) as caught:
        batch = pw.select(pool(40, 1, 4), 5, "lbb")
    message = str(caught[0].message)
    assert "method='margin'" in message
    assert "more posterior samples" in message
    assert "power-lbb" not in message
    assert "one posterior sample" in str(batch.diagnostics)


def test_all_information_is_never_called_not_saturated():
    x = pool(300, 3, 10, scale=4.0)
    batch = pw.select(x, 40, "margin")
    assert batch.diagnostics.information[-1] > 0.995 * np.log(3)
    said = str(batch.diagnostics)
    assert "not saturated" not in said
    assert "tell all that K = 3" in said
    few = pw.select(x, 1, "margin")
    assert "not saturated" in str(few.diagnostics)


def test_comparisons_are_called_comparisons():
    said = str(pw.select(pool(300, 5, 3), 50, "lbb").diagnostics)
    assert "comparisons" in said
    assert "pairs" not in said


# Excluding


@pytest.mark.parametrize("method", ["margin", "lbb", "power-lbb", "posterior-coverage", "random"])
@pytest.mark.parametrize("candidates", [None, "50%", 12, "top:15", "sample:15", np.arange(30)])
@pytest.mark.filterwarnings("ignore::poolwise.SaturationWarning", "ignore::poolwise.PrefilterWarning")
def test_excluded_points_are_never_chosen_and_the_others_are_as_without_them(method, candidates):
    x = pool(40, 5, 3)
    excluded = pw.select(x, 10, "margin").indices
    kept = np.setdiff1d(np.arange(40), excluded)
    if method == "random" and isinstance(candidates, str) and candidates.startswith("top"):
        pytest.skip("random has no bounds")
    batch = pw.select(x, 6, method, exclude=excluded, candidates=candidates)
    assert not {*batch.indices} & {*excluded}
    if isinstance(candidates, np.ndarray):
        assert {*batch.indices} <= {*candidates}
        candidates = np.flatnonzero(np.isin(kept, candidates))
    alone = pw.select(x[kept], 6, method, candidates=candidates)
    np.testing.assert_array_equal(batch.indices, kept[alone.indices])
    np.testing.assert_array_equal(batch.scores, alone.scores)


@pytest.mark.parametrize("what", ["exclude", "candidates"])
@pytest.mark.parametrize(
    "wrong", [[1, 1], [-1], [40], [[1, 2]], [0.5], [True, False], np.array([2**63 + 5], np.uint64), [10**30], ["a"]]
)
def test_positions_that_are_none_are_refused(what, wrong):
    with pytest.raises(errors.ParameterError, match=what):
        pw.select(pool(40, 5, 3), 1, "margin", **{what: wrong})


def test_unsigned_positions_do_not_wrap():
    good = np.array([3, 5, 9], np.uint64)
    assert {*pw.select(pool(40, 5, 3), 3, "margin", candidates=good).indices} == {3, 5, 9}
    with pytest.raises(errors.ParameterError, match="18446744073709551615"):
        pw.select(pool(40, 5, 3), 1, "margin", candidates=np.array([2**64 - 1], np.uint64))


def test_excluding_too_many_or_none():
    x = pool(40, 5, 3)
    with pytest.raises(errors.BatchSizeError, match="only 2 of the 40"):
        pw.select(x, 3, "margin", exclude=np.arange(38))
    assert pw.select(x, 3, "margin", exclude=[]) == pw.select(x, 3, "margin")
    with pytest.raises(errors.BatchSizeError, match="not excluded"):
        pw.select(x, 3, "margin", exclude=[1, 2], candidates=[1, 2, 3, 4])
