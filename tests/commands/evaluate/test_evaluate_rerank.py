"""`fitrag evaluate rerank`: labels and scores that rows bring or that are made; what is told."""

import json

import pytest
from command_fakes import passages, write

from fitrag_integrations import BiLabelScore
from fitrag_integrations.commands.engine import models

RAIN, WIND, ANN = "Rain falls on the sea.", "The wind blows.", "Ann wrote the part."


def row(i, *texts, **others):
    return {
        "id": i,
        "question": f"who wrote part {i} ?",
        "answers": ["Ann"],
        "passages": passages(*(texts or (RAIN, WIND, ANN))),
        **others,
    }


class Halves:
    """A scorer of one label."""

    def score(self, pairs):
        return [BiLabelScore(0.5 + 0.1 * ("Ann" in p.text)) for _, p in pairs]


@pytest.fixture
def tell(tmp_path, evaluate):
    """Run over rows; gives the figures, or with another code what is wrong."""

    def run(rows, *arguments, code=0):
        given = "rerank", write(tmp_path / "in.jsonl", rows), "--json", "--resamples", 50
        told = evaluate(*given, *arguments, code=code)
        if code:
            return told
        told, found = json.loads(told), {}
        for row in told["figures"]:
            found.setdefault(row["system"], {})[row["figure"]] = row
        return {**told, "figures": found}

    return run


def test_it_scores_labels_and_compares(tell, scorer):
    told = tell([row(i) for i in range(20)], "--k", "1,3,50")
    assert told["questions"] == 20
    assert list(told["figures"]) == ["retriever", "has_answer", "llm_prefer", "sum"]
    ours, base = told["figures"]["has_answer"], told["figures"]["retriever"]
    names = ["R@1", "R@3", "share@3", "MRR", "nDCG@10", "AUC"]
    assert list(base) == names  # no row is 50 deep
    assert (base["R@1"]["value"], base["R@3"]["value"]) == (0.0, 1.0)
    assert base["MRR"]["value"] == pytest.approx(1 / 3)
    assert base["MRR"]["difference"] is None
    ends = [ours["MRR"][name] for name in ("difference", "difference_low", "difference_high")]
    assert ours["MRR"]["value"] == 1.0 and ends == pytest.approx([2 / 3] * 3)
    assert 0 < ours["calibration error"]["value"] < 1
    assert ours["AUC"]["pairs"] == [60, 20]
    assert told["notes"] == []
    assert sum(scorer.calls) == 60
    assert max(scorer.calls) == 48  # questions share a batch


def test_scores_of_the_rows_are_taken_unless_a_model_is_named(tell, scorer):
    scores = [{"has_answer": 0.9, "llm_prefer": 0.1}, *[{"has_answer": 0.2, "llm_prefer": 0.3}] * 2]
    rows = [row(i, scores=scores) for i in range(3)]
    assert tell(rows)["figures"]["has_answer"]["MRR"]["value"] == pytest.approx(1 / 3)
    assert scorer.calls == []
    assert tell(rows, "--model", "mine")["figures"]["has_answer"]["MRR"]["value"] == 1.0
    assert scorer.calls == [9]
    tell([*rows, row(4)])  # of two scorers none is mixed
    assert scorer.calls == [9, 12]


def test_labels_of_the_rows_are_believed(tell, scorer):
    given = row(0)
    for passage, label in zip(given["passages"], (True, 0, 0), strict=True):
        passage["has_answer"] = label
    del given["answers"]
    assert tell([given])["figures"]["retriever"]["MRR"]["value"] == 1.0
    assert "--reader" in tell([given], "--reader", "embedded", code=2)  # no answers to compare with


def test_answers_of_a_reader(tell, scorer):
    told = tell([row(i) for i in range(12)], "--reader", "embedded", "--read-k", "1,3")
    base, ours = told["figures"]["retriever"], told["figures"]["has_answer"]
    assert base["accuracy@1"]["value"] == 0.0  # it reads "Rain"
    assert ours["accuracy@1"]["value"] == 1.0
    assert ours["accuracy@1"]["p"] == pytest.approx(2 * 0.5**12)
    assert ours["accuracy@1"]["difference_low"] == 1.0
    assert base["accuracy@3"]["value"] == ours["accuracy@3"]["value"]  # the same three passages
    assert "calibration error" in told["figures"]["llm_prefer"]  # every passage was read


def test_the_reader_reads_only_what_comes_first(tell, scorer, monkeypatch):
    asked = []

    class Counting:
        def read(self, pairs):
            asked.extend(pairs)
            return [type("A", (), {"text": p.text.split()[0], "score": 0.5})() for _, p in pairs]

    monkeypatch.setattr(models, "load_reader", lambda options: Counting())
    texts = (RAIN, WIND, ANN, *(f"{WIND} {RAIN * (i + 2)}" for i in range(9)))
    told = tell([row(0, *texts)], "--reader", "embedded", "--read-k", "1")
    assert 1 < len(asked) <= 4
    assert told["figures"]["has_answer"]["accuracy@1"]["value"] == 1.0
    assert "calibration error" not in told["figures"]["llm_prefer"]


def test_recorded_answers(tell, scorer):
    rows = [row(i) for i in range(4)]
    for given in rows:
        for passage, label in zip(given["passages"], (0, 0, 1), strict=True):
            passage["llm_prefer"] = label
    told = tell(rows)["figures"]
    assert told["has_answer"]["accuracy@1"]["value"] == 1.0
    assert "accuracy@3" not in told["has_answer"]  # nobody said whom to trust among three
    assert "calibration error" in told["llm_prefer"]
    for given in rows:
        for passage, trust in zip(given["passages"], (0.9, 0.1, 0.2), strict=True):
            passage["reader_score"] = trust
    told = tell(rows)["figures"]
    assert told["has_answer"]["accuracy@3"]["value"] == 0.0
    rows[0]["passages"][0]["llm_prefer"] = None  # it was asked and gave no answer
    assert tell(rows)["figures"]["sum"]["accuracy@1"]["questions"] == 3


def test_a_ready_reranker_has_one_label_and_says_so(tell, monkeypatch):
    from fitrag_integrations.models import BiLabelScorer

    asked = []

    def from_reranker(name, **how):
        asked.append((name, how))
        return Halves()

    monkeypatch.setattr(BiLabelScorer, "from_reranker", from_reranker)
    told = tell([row(0)], "--reranker", "some/reranker", "--scale", "logit", "--device", "cpu")
    how = {"scale": "logit", "device": "cpu", "dtype": None, "batch_tokens": None}
    assert asked == [("some/reranker", how)]
    assert list(told["figures"]) == ["retriever", "has_answer"]
    assert "no llm_prefer" in told["notes"][0]


def test_one_letter_answers_are_counted(tell, scorer):
    told = tell([row(0, answers=["a", "Ann"]), row(1), row(2, answers=["?!", "Ann"])])
    assert told["notes"][0].startswith("2 rows have an answer of one letter or none")


def test_the_table_and_the_drawing(tmp_path, fitrag, scorer):
    pytest.importorskip("matplotlib")
    source = write(tmp_path / "in.jsonl.gz", [row(i) for i in range(8)])
    plot = tmp_path / "out.png"
    options = ("--plot", plot, "--reader", "embedded", "--resamples", 20)
    code, out, err = fitrag("evaluate", "rerank", source, *options)
    assert (code, err) == (0, "")
    assert out.splitlines()[0].startswith("8 questions")
    (line,) = [line for line in out.splitlines() if line.split()[:2] == ["MRR", "has_answer"]]
    assert "1.000" in line and "+0.667  +0.667 to +0.667" in line
    assert "0.0078" in out  # McNemar's p of accuracy@1
    assert plot.read_bytes().startswith(b"\x89PNG")
