"""`fitrag label eligibility` and `fitrag train eligibility`, over fakes."""

import json

import pytest
from command_fakes import FirstWord, read, write

from fitrag_integrations import BiLabelScore
from fitrag_integrations.commands.engine import models
from fitrag_integrations.commands.label import asking as asking_module
from fitrag_integrations.models import EligibilityDetector
from fitrag_integrations.training.asking_llm import AskLLM

SENTENCES = ("The city of part {i} is Rome{i}.", "It rains.", "A river. A bridge. A wall. A tower.")


class Cities:
    """Score by the city named, and by the river."""

    name = "cities"

    def score(self, pairs):
        return [self.one(passage.text) for _, passage in pairs]

    def one(self, text):
        return BiLabelScore(0.9 if "Rome" in text else 0.2, 0.6 if "river" in text else 0.3)


class Model:
    """Know part 0 by heart; read the others off a passage."""

    def __init__(self):
        self.asked = []

    def __call__(self, prompts):
        self.asked += prompts
        return [self.one(prompt) for prompt in prompts]

    def one(self, prompt):
        if "Passage:" not in prompt:
            return "Rome0" if "part 0?" in prompt else "Who knows"
        return prompt.partition("is ")[2].partition(".")[0] or "nothing"


def row(i):
    passages = [{"title": "", "text": text.format(i=i)} for text in SENTENCES]
    return {
        "id": i,
        "question": f"which is the city of part {i}?",
        "answers": [f"Rome{i}"],
        "passages": passages,
    }


@pytest.fixture
def model(monkeypatch):
    made = Model()

    def load(asking, hardware):
        return AskLLM(made, name=asking.llm, retries=0)

    monkeypatch.setattr(asking_module, "load_asker", load)
    return made


@pytest.fixture
def label(fitrag, tmp_path, monkeypatch):
    monkeypatch.setattr(models, "load_scorer", lambda options: Cities())
    monkeypatch.setattr(models, "load_reader", lambda options: FirstWord())

    def run(rows, *more, out="out.jsonl"):
        source, target = write(tmp_path / "rows.jsonl", rows), tmp_path / out
        code, printed, err = fitrag("label", "eligibility", source, "--out", target, *more)
        return code, printed + err, read(target) if target.exists() else None

    return run


def test_only_questions_that_need_retrieval_have_combinations(label, model):
    code, _, (known, asked) = label([row(0), row(1)], "--llm", "m", "--seed", 1)
    if known["id"] == 1:
        known, asked = asked, known
    assert code == 0 and known["needs_retrieval"] is False and known["combinations"] == []
    assert asked["needs_retrieval"] is True and asked["llm"] == "m"
    fitted = {"scorer": "cities", "window": 3, "stride": 1, "per_passage": 1}
    assert asked["fitted_for"] == fitted
    found = [one for one in asked["combinations"] if "prefixes" in one["kinds"]]
    assert [one["scores"] for one in found] == [
        [[0.9, 0.3]],
        [[0.9, 0.3], [0.2, 0.6]],
        [[0.9, 0.3], [0.2, 0.6], [0.2, 0.3]],
    ]
    assert [one["left"] for one in found] == [[[0.2, 0.6], [0.2, 0.3]], [[0.2, 0.3]], []]
    assert [(one["eligible"], one["has_answer"]) for one in found] == [(1, 1)] * 3
    assert 0 < found[0]["share"] < found[1]["share"] < found[2]["share"] <= 1
    assert any("random" in one["kinds"] for one in asked["combinations"])


def test_random_combinations_are_those_on_the_skyline(label, model):
    _, _, (found,) = label([row(1)], "--combinations", "random", "--draws", 200, "--overlap", 1)
    held = [[sum(pair) for pair in one["scores"]] for one in found["combinations"]]
    # whatever holds the city and the river exceeds all that lacks one of them
    assert sorted(map(len, held)) == [2, 3]
    assert all(one["kinds"] == ["random"] for one in found["combinations"])


def test_a_reader_reads_part_by_part_and_needs_no_closed_book(label):
    _, _, (found,) = label([row(0)], "--combinations", "prefixes")
    assert found["needs_retrieval"] is True and len(found["combinations"]) == 3
    assert {one["answer"] for one in found["combinations"]} <= {"The", "It", "A"}


def test_a_second_run_asks_nothing_again(label, model):
    label([row(1), row(2)], "--limit", 1)
    first = list(model.asked)
    _, _, rows = label([row(1), row(2)])
    assert len(rows) == 2 and not set(model.asked[len(first) :]) & set(first)
    before = list(model.asked)
    assert label([row(1), row(2)])[2] == rows and model.asked == before


def test_bad_rows_and_other_options_are_told(label, model):
    bad = [{**row(1), "answers": []}, {**row(2), "passages": []}, row(3)]
    code, told, found = label(bad)
    assert code == 1 and "'errors': 2" in told
    assert sorted("error" in one for one in found) == [False, True, True]
    code, told, _ = label(bad, "--window", 2)
    assert code == 2 and "--window` must be 3" in told
    code, told, _ = label(bad, "--combinations", "all", out="new.jsonl")
    assert code == 2 and "--combinations` must be" in told


def test_labels_become_a_detector(label, model, fitrag, tmp_path):
    rows = [row(i) for i in range(1, 25)]
    label(rows, "--combinations", "prefixes")
    code, out, err = fitrag(
        *("train", "eligibility", tmp_path / "out.jsonl", "--out", tmp_path / "made"),
        *("--epochs", 5, "--max-pairs", 4, "--hidden", 8, "--sees-rest", "--json"),
    )
    assert code == 0 and json.loads(out)["answers_kept"] == 1.0, err
    made = EligibilityDetector.from_pretrained(tmp_path / "made", for_scorer="cities")
    assert made.sees_rest and made.fitted_for["window"] == 3
    source, target = write(tmp_path / "few.jsonl", [row(3)]), tmp_path / "small.jsonl"
    cut = ("compress", source, target, "--window", 3)
    code, _, err = fitrag(*cut, "--detector", tmp_path / "made")
    assert code == 0, err
    (found,) = read(target)
    assert [one["passage"] for one in found["excerpts"]] == [0]
    fitrag(*cut, "--detector", "none", "--overwrite")
    assert len(read(target)[0]["excerpts"]) == 3
