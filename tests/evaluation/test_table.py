"""The table of every measurement: figures by hand, intervals by SciPy, what is written."""

import gzip
import json
from html.parser import HTMLParser

import numpy as np
import pytest
from scipy import stats

from fitrag_integrations.errors import InputError
from fitrag_integrations.evaluation import table as home
from fitrag_integrations.evaluation.plots import Plot
from fitrag_integrations.evaluation.table import (
    Draws,
    Measured,
    Table,
    bootstrap,
    mcnemar,
    mean_interval,
    page,
    share_interval,
)

VALUES = np.random.default_rng(2).normal(size=60)


def test_intervals_are_those_of_scipy():
    theirs = stats.bootstrap(
        (VALUES,), np.mean, n_resamples=500, method="percentile", rng=np.random.default_rng(3)
    ).confidence_interval
    assert mean_interval(VALUES, resamples=500, seed=3) == tuple(theirs)
    drawn = bootstrap(lambda at: float(VALUES[at].mean()), 60, resamples=500, seed=3)
    assert drawn == pytest.approx(tuple(theirs))  # the same draws without SciPy
    assert mean_interval([0.3]) == (0.3, 0.3)
    wilson = stats.binomtest(46, 46).proportion_ci(method="wilson")
    assert share_interval(np.ones(46)) == (wilson.low, wilson.high)


def test_pairing_takes_out_what_questions_have_in_common():
    noise = np.random.default_rng(4).normal(size=(2, 200))
    first = 5 * noise[0]
    low, high = mean_interval(first - (first - 0.1 + 0.1 * noise[1]))
    assert 0.05 < low < 0.1 < high < 0.15


def test_draws_that_define_nothing():
    assert bootstrap(lambda places: None, 5, resamples=10) is None
    found = bootstrap(lambda places: 1.0 if 0 in places else None, 3, resamples=50)
    assert found == (1.0, 1.0)


def test_mcnemar_by_hand():
    first, second = [1, 1, 1, 1, 0, 1], [0, 0, 0, 0, 0, 1]
    assert mcnemar(first, second) == mcnemar(second, first) == pytest.approx(2 * 0.5**4)
    assert mcnemar(first, first) == 1.0


@pytest.mark.parametrize(("first", "second"), [([1], [1, 0]), ([], []), ([[1]], [[1]])])
def test_lists_that_are_no_pairs(first, second):
    with pytest.raises(InputError):
        mcnemar(first, second)


def asked(count=20, **systems):
    """Rows of systems that are right where a function of the question says so."""
    return {
        name: [
            {"question": f"q{i}", "answers": ["a"], "right": right(i), "set": "ab"[i % 2]}
            for i in range(count)
        ]
        for name, right in systems.items()
    }


def measure(row):
    """A stranger's measure: one function."""
    return {"right": float(row["right"]), "AUC": [(0.1 * row["right"], row["set"] == "a")]}


def figure(table, name, system="", set="all"):
    (found,) = [f for f in table.figures if (f.measure, f.system, f.set) == (name, system, set)]
    return found


def test_systems_are_compared_with_the_first_question_by_question():
    rows = asked(plain=lambda i: i < 10, ours=lambda i: i < 15)
    rows["ours"].reverse()
    table = Table.of("both", rows, measure, draws=Draws(200, 1))
    one, other = figure(table, "right", "plain"), figure(table, "right", "ours")
    assert (one.value, one.difference, other.value, other.difference) == (0.5, None, 0.75, 0.25)
    assert one.bounds == share_interval([1] * 10 + [0] * 10)
    assert 0 < other.difference_bounds[0] < 0.25 < other.difference_bounds[1]
    assert other.p == mcnemar([1] * 15 + [0] * 5, [1] * 10 + [0] * 10)
    assert figure(table, "right", "ours", "a").questions == 10
    pooled = figure(table, "AUC", "plain")
    assert (pooled.value, pooled.pairs, pooled.count) == (0.5, (20, 10), "20 (10 of 20 are 1)")
    assert len(table.text().splitlines()) == 2 + len(table.figures)


def test_other_questions_are_refused_and_one_asked_twice_is_two():
    rows = asked(plain=bool, ours=bool)
    with pytest.raises(InputError, match="other questions for 'ours'"):
        Table.of("", {**rows, "ours": rows["ours"][1:]}, measure)
    twice = Table.of("", {"": rows["plain"] * 2}, measure)
    assert figure(twice, "right").questions == 40
    with pytest.raises(InputError, match="at least one question"):
        Table("", [])
    with pytest.raises(InputError, match="row 1: "):
        Table.of("", {"": [{}]}, lambda row: home.check_number("right", None))


def test_unknown_values_and_seconds():
    rows = [Measured(f"q{i}", {"right": None if i else 1.0, "seconds": 0.5}) for i in range(3)]
    table = Table("", rows)
    assert figure(table, "right").questions == 1
    assert figure(table, "seconds").bounds is None  # a batch's mean has no spread


def test_without_scipy_the_means_stay_and_a_note_says_what_is_missing(monkeypatch):
    monkeypatch.setattr(home, "installed", lambda name: False)
    table = Table.of("", asked(plain=bool, ours=bool), measure, plot=PLOT)
    assert figure(table, "right", "ours").bounds is None
    assert figure(table, "AUC", "plain").bounds is not None
    assert "fitrag-integrations[evaluate]" in table.text() and "<img" not in table.html()


SLY = "<script>alert(1)</script>\x1b[31m\u202e \ud800"
PLOT = Plot(
    "kept", "tokens", "answers", {SLY: [[0, 0.0], [1000, 1.0]]}, {"half": 0.5}, {"us": [9, 1]}
)


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.links = set(), []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.links += [value for name, value in attrs if name in ("src", "href")]


@pytest.mark.filterwarnings("ignore:Glyph")
def test_what_is_written_holds_everything_and_no_text_is_code(tmp_path):
    rows = [
        Measured(f"q{i}", {"right": 1.0, "tokens_in": 1234.0}, SLY, "", {"question": SLY})
        for i in range(2)
    ]
    table = Table(SLY, rows, notes=[SLY], plot=PLOT, settings={"seed": 0})
    for name in ("t.json", "t.json.gz", "t.html"):
        table.write(tmp_path / name)
    told = json.loads((tmp_path / "t.json").read_text())
    assert told == json.loads(gzip.decompress((tmp_path / "t.json.gz").read_bytes()))
    assert told["figures"][0]["value"] == 1.0 and len(told["questions"]) == 2
    shown = (tmp_path / "t.html").read_text()
    seen = Tags()
    seen.feed(shown)
    assert "script" not in seen.tags and all(link.startswith("data:image") for link in seen.links)
    assert "\u202e" not in shown and "\x1b" not in table.text() + shown
    assert "1,234" in table.text() and "1,000" in shown
    assert page([], "empty", "nothing").count("nothing") == 1
    with pytest.raises(InputError, match=r"\.json"):
        table.write(tmp_path / "t.txt")
