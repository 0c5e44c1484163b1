"""Each measure by hand: a row in, numbers out."""

import pytest

from fitrag_integrations import BiLabelScore
from fitrag_integrations.errors import InputError
from fitrag_integrations.evaluation import measures
from fitrag_integrations.evaluation.compression import Compressed, kept_curves
from fitrag_integrations.evaluation.cost import Prices
from fitrag_integrations.evaluation.ranking import Candidates
from fitrag_integrations.evaluation.table import Table
from fitrag_integrations.types import Excerpt, Passage


def test_answers_are_judged_counted_and_priced():
    row = {"question": "q", "answers": ["Ann"], "answer": " ", "tokens_in": 1000, "tokens_out": 10}
    found = measures.answers(row, Prices(2.0, 10.0))
    assert found == {
        "accuracy": 0.0,
        "EM": 0.0,
        "F1": 0.0,
        "empty": 1.0,
        "tokens_in": 1000.0,
        "tokens_out": 10.0,
        "cost of a thousand questions": pytest.approx(2.1),
    }
    right = measures.answers({**row, "answer": "by Ann", "notes": ["slow"]})
    assert (right["accuracy"], right["empty"], right["noted"], right["errors"]) == (1, 0, 1, 0)
    with pytest.raises(InputError, match="tokens_in"):
        measures.answers({"answers": ["Ann"], "answer": "Ann"}, Prices(1.0))


TEXT = "Rain falls. Ann wrote it. It sold well."
MILL = Passage("m", TEXT, "Book")
KEPT = Excerpt(MILL, 12, 25, 0.9)


def test_compression_keeps_an_answer_or_not():
    row = Compressed("who?", ("Ann",), (MILL, Passage("w", "Wind.")), (KEPT,))
    found = measures.compressed(row, lambda text: len(text.split()))
    assert (found["answer in the passages"], found["answer kept"]) == (1.0, 1.0)
    assert found["share of tokens"] == found["tokens_out"] / found["tokens_in"] < 1
    lost = measures.compressed(Compressed("who?", ("Eve",), (MILL,), ()))
    assert lost["answer kept"] is None
    more = Excerpt(MILL, 0, 11, 0.1)
    curves = kept_curves([Compressed("who?", ("Ann",), (MILL,), (more, KEPT))])
    assert list(curves) == ["first passages", "first excerpts", "above a score"]
    assert curves["first passages"] == [[1.0, 1.0]] and curves["first excerpts"][0][1] == 1.0
    assert kept_curves([Compressed("who?", ("Eve",), (MILL,), ())]) == {}


def test_touching_excerpts_are_read_as_one_and_others_are_not():
    row = Compressed("who?", ("falls Ann",), (MILL,), ())
    assert row.holds([Excerpt(MILL, 0, 11), Excerpt(MILL, 11, 16)])
    assert not row.holds([Excerpt(MILL, 0, 5), Excerpt(MILL, 12, 16)])
    assert Compressed("q", ("Book Rain",), (MILL,), ()).holds([Excerpt(MILL, 0, 5)])


def test_an_order_of_passages():
    scores = tuple(BiLabelScore(h, p) for h, p in ((0.2, 0.5), (0.9, 0.5), (0.4, 0.5)))
    row = Candidates((0, 1, 0), scores, (0, None, 1), (False, True, False))
    found = measures.ranking(row, "has_answer", (1, 2), (1, 2))
    assert (found["R@1"], found["share@2"], found["MRR"], found["accuracy@1"]) == (1, 0.5, 1, 1)
    assert found["AUC"] == found["calibration error"] == [(0.2, 0), (0.9, 1), (0.4, 0)]
    assert "accuracy@2" not in found  # nobody said whom to trust
    assert measures.ranking(row, "retriever", (1,))["R@1"] == 0.0
    assert measures.ranking(row, "llm_prefer")["calibration error"] == [(0.5, 0), (0.5, 1)]
    assert "calibration error" not in measures.ranking(row, "sum")


GATE = [  # p_known, right without, right with
    {"question": f"q{i}", "p_known": p, "right_without": a, "right_with": b}
    for i, (p, a, b) in enumerate([(0.9, 1, 1), (0.8, 1, 0), (0.6, 0, 1), (0.3, 1, 1), (0.1, 0, 1)])
]


def test_a_gate_and_the_answers_it_leads_to():
    table = Table.of("", {"": GATE}, lambda row: measures.gate(row, 0.5))
    found = {figure.measure: figure for figure in table.figures}
    values = {name: figure.value for name, figure in found.items()}
    assert (values["known"], values["accuracy of the gate"]) == (0.6, 0.6)
    assert values["AUC"] == pytest.approx(5 / 6)
    assert found["AUC"].count == "5 (3 of 5 are 1)"
    assert values["share of retrieval"] == 0.4
    assert (values["accuracy of the answers"], values["oracle"]) == (0.8, 1.0)
    assert (values["never retrieving"], values["always retrieving"]) == (0.6, 0.8)
    assert values["best point: accuracy"] == 1.0 and values["best point: share"] == 0.6
    only = measures.gate({"p_known": 0.9, "known": 1})
    assert "oracle" not in only and only["known"] == 1.0


@pytest.mark.parametrize(
    ("action", "answers", "wanted"),
    [
        ("correct", ["Ann"], {"right where decided": 1.0, "right where correct": 1.0}),
        ("correct", ["Eve"], {"right where decided": 0.0, "right where correct": 0.0}),
        ("incorrect", ["Eve"], {"right where decided": 1.0, "right where incorrect": 1.0}),
        ("ambiguous", ["Ann"], {"decided": 0.0, "right where decided": None}),
    ],
)
def test_an_action_against_what_is_there(action, answers, wanted):
    passages = [{"title": "", "text": TEXT}, {"text": "Rain."}]
    row = {"answers": answers, "passages": passages, "action": action, "grades": [0.7, -0.2]}
    found = measures.route(row)
    assert wanted.items() <= found.items()
    there = int(answers == ["Ann"])
    assert found["AUC of the best grade"] == [(0.7, there)]
    assert found["AUC of each grade"] == [(0.7, there), (-0.2, 0)]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"grades": [0.5]}, "a list of 2 numbers"),
        ({"grades": [2, 0]}, r"grades\[0\]"),
        ({"action": "yes"}, "action"),
        ({"passages": 3}, "passages"),
        ({"passages": [{"has_answer": 2}] * 2}, "has_answer"),
    ],
)
def test_rows_of_an_evaluator_that_are_none(changes, said):
    row = {"answers": ["Ann"], "passages": [{"text": TEXT}] * 2, "action": "correct", **changes}
    with pytest.raises(InputError, match=said):
        measures.route(row)
