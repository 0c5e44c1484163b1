"""`fitrag route` and `fitrag evaluate route`, over an evaluator that computes from the text."""

import json

import pytest
from command_fakes import passages, read, write

from fitrag_integrations.commands.engine import models
from fitrag_integrations.methods.crag.evaluator import ActionThresholds


class Share:
    """Grade a passage by the share of the question's words it holds, from -1 to 1."""

    name = "share"
    thresholds = ActionThresholds(0.9, -0.5, 0.0, "share")

    def __init__(self):
        self.calls = []

    def evaluate(self, pairs):
        self.calls.append(len(pairs))
        return [self.one(question.lower().split(), passage) for question, passage in pairs]

    def one(self, words, passage):
        if "EVALUATOR FAILS" in passage.text:
            raise RuntimeError("no memory left")
        text = passage.text.lower().split()
        return 2 * sum(w in text for w in words) / len(words) - 1


@pytest.fixture
def evaluator(monkeypatch):
    made = Share()
    monkeypatch.setattr(models, "load_evaluator", lambda options: made)
    return made


@pytest.fixture
def routed(tmp_path, evaluator, fitrag):
    def run(given, *arguments):
        source = write(tmp_path / "in.jsonl", given)
        done = fitrag("route", source, tmp_path / "out.jsonl", "--overwrite", *arguments)
        return done[0], read(tmp_path / "out.jsonl") if done[0] != 2 else done[2]

    return run


def row(*texts, **more):
    return {"id": 7, "question": "ann wrote it all", "passages": passages(*texts), **more}


def test_each_action(routed, evaluator):
    given = [row("Rain.", "Ann wrote it all"), row("Ann wrote", "Rain."), row("Rain.", "Hail.")]
    code, got = routed(given)
    assert code == 0
    assert [r["action"] for r in got] == ["correct", "ambiguous", "incorrect"]
    assert [r["grades"] for r in got] == [[-1.0, 1.0], [0.0, -1.0], [-1.0, -1.0]]
    assert [{k: r[k] for k in given[0]} for r in got] == given
    assert evaluator.calls == [6]  # all rows of a chunk in one batch


def test_thresholds_given_here(routed):
    given = [row("Ann wrote it"), row("Ann wrote"), row("Ann")]  # 0.5, 0.0, -0.5
    assert [r["action"] for r in routed(given)[1]] == ["ambiguous"] * 3
    moved = routed(given, "--upper", 0.5, "--lower", 0.0)[1]
    assert [r["action"] for r in moved] == ["correct", "ambiguous", "incorrect"]
    moved = routed(given, "--upper", 0.25)[1]
    assert [r["action"] for r in moved] == ["correct", "ambiguous", "ambiguous"]


@pytest.mark.parametrize(
    ("own", "arguments", "said"),
    [
        (Share.thresholds, ["--upper", -0.9], "lower"),  # the wrong way round
        (None, [], "calibrate evaluator"),
    ],
)
def test_what_cannot_decide_is_refused(routed, evaluator, own, arguments, said):
    evaluator.thresholds = own
    code, told = routed([row("Rain.")], *arguments)
    assert code == 2 and said in told
    assert routed([row("Rain.")], "--upper", 0.5, "--lower", 0.1)[1][0]["action"] == "incorrect"


def test_without_passages_nothing_is_correct(routed, evaluator):
    code, got = routed([row(), row("Ann wrote it all")])
    assert code == 0
    assert [(r["action"], r["grades"]) for r in got] == [("incorrect", []), ("correct", [1.0])]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"question": " "}, "question"),
        ({"passages": [{"text": 3}]}, "passages[0].text"),
        ({"passages": [{"text": "EVALUATOR FAILS"}]}, "no memory left"),
    ],
)
def test_a_bad_row_has_no_action_and_no_grades(routed, changes, told):
    code, got = routed([row("Rain."), {**row("Rain."), **changes}, row("Hail.")])
    assert code == 1
    assert [r["action"] for r in got] == ["incorrect", None, "incorrect"]
    assert got[1]["grades"] == [] and told in json.dumps(got[1]["error"])


def written(by):
    """Make twenty questions of one passage and rain; `by` says who wrote the passage of each."""
    given = [row(f"{by(i)} wrote it all", "Rain falls.", answers=["Ann"]) for i in range(20)]
    return [{**one, "id": i, "question": f"ann wrote it {i}"} for i, one in enumerate(given)]


def ann_or_bob(i):
    return "Ann" if i % 2 else "Bob"


def values(told):
    return {r["figure"]: r["value"] for r in told["figures"]}


@pytest.fixture
def tell(fitrag):
    def run(*arguments, code=0):
        done = fitrag("evaluate", "route", "--resamples", 20, "--quiet", *arguments)
        assert done[0] == code, done
        return done[1] if code == 0 else done[2]

    return run


def test_rows_of_fitrag_route_are_judged_as_they_are(tmp_path, tell):
    done = [
        {**one, "action": "correct" if i < 15 else "ambiguous", "grades": [0.1, 0.0]}
        for i, one in enumerate(written(ann_or_bob))
    ]
    source = write(tmp_path / "routed.jsonl", done)
    found = values(json.loads(tell(source, "--json")))
    assert (found["right where decided"], found["decided"]) == (pytest.approx(7 / 15), 0.75)
    assert "AUC of each grade" in tell(source)
    anew = values(json.loads(tell(source, "--upper", 0.5, "--lower", 0.2, "--json")))
    assert anew["right where incorrect"] == 0.5
    assert "both" in tell(source, "--upper", 0.5, code=2)


def test_an_evaluator_is_asked_once_for_each_row(tmp_path, evaluator, tell):
    source, out = write(tmp_path / "in.jsonl", written(ann_or_bob)), tmp_path / "out.json"
    evaluator.thresholds = ActionThresholds(0.4, 0.2, model="share")
    told = json.loads(tell(source, "--out", out, "--json"))  # 0.5 for Ann, 0.0 for Bob
    assert values(told)["right where decided"] == 1.0
    assert evaluator.calls == [32, 8]
    tell(source, "--out", out, "--upper", 0.95)
    written_ = json.loads(out.read_text())
    assert values(written_)["decided"] == 0.5
    assert written_["settings"]["options"]["upper"] == 0.95
