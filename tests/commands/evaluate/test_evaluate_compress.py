"""`fitrag evaluate compress`: kept answers, the curve, and a reader before and after."""

import json
from functools import partial

import pytest
from command_fakes import FirstWord, passages, write

from fitrag_integrations.commands.engine import models

TEXT = "Rain falls here. Ann wrote it. It sold well."


class Reader(FirstWord):
    """Answer with the first word of the passage, and count what is read."""

    def __init__(self):
        self.calls = []

    def read(self, pairs):
        self.calls.append(len(pairs))
        return super().read(pairs)


@pytest.fixture
def reader(monkeypatch):
    made = Reader()
    monkeypatch.setattr(models, "load_reader", lambda options: made)
    return made


@pytest.fixture
def tell(evaluate):
    return partial(evaluate, "compress", "--resamples", 20, "--quiet")


def rows(count=20):
    """Half of them keep the sentence with the answer."""
    at = TEXT.index("Ann"), TEXT.index(" It sold")
    kept = [at, (0, TEXT.index(" Ann"))]
    return [
        {
            "question": f"who wrote part {i}?",
            "answers": ["Ann"],
            "passages": passages(TEXT, f"Wind {i}."),
            "excerpts": [
                {
                    "passage": 0,
                    "start": kept[i % 2][0],
                    "end": kept[i % 2][1],
                    "score": 0.5 + i / 99,
                }
            ],
        }
        for i in range(count)
    ]


def values(figures):
    return {row["figure"]: row["value"] for row in figures}


def test_it_tells_what_is_kept_and_draws_the_curve(tmp_path, tell):
    source = write(tmp_path / "in.jsonl", rows())
    told = json.loads(tell(source, "--json", "--out", tmp_path / "out.json"))
    found = values(told["figures"])
    assert (found["answer in the passages"], found["answer kept"]) == (1.0, 0.5)
    assert 0 < found["share of tokens"] < 1
    assert list(told["curves"]) == ["first passages", "first excerpts", "above a score"]
    assert told["curves"]["first passages"][-1] == [1.0, 1.0]
    made = json.loads((tmp_path / "out.json").read_text())
    assert made["plot"]["series"] == told["curves"]
    assert "answer kept" in tell(source, "--plot", tmp_path / "out.pdf")


def test_a_reader_answers_before_and_after(tmp_path, reader, tell):
    source, out = write(tmp_path / "in.jsonl", rows()), tmp_path / "out.json"
    told = json.loads(tell(source, "--reader", "embedded", "--out", out, "--json"))
    right = {r["system"]: r for r in told["figures"] if r["figure"] == "right"}
    assert right["from the passages"]["value"] == 0.0
    after = right["from the excerpts"]
    assert (after["value"], after["difference"]) == (0.5, 0.5)
    assert after["p"] == pytest.approx(2 / 2**10)
    # 20 questions of 2 passages each; what repeats is read once: 2 different excerpts a question
    assert sum(reader.calls) == 2 * 20 + 20
    last = json.loads(out.read_text())["questions"][-2]
    assert (last["shown"]["prediction"], last["values"]) == ("Ann", {"right": 1.0})


def test_hopeless_questions_are_told(tmp_path, tell):
    source = write(tmp_path / "in.jsonl", [{**row, "answers": ["Eve"]} for row in rows(3)])
    told = json.loads(tell(source, "--json"))
    assert "answer kept" not in values(told["figures"])
    assert (told["curves"], "3 questions" in told["notes"][0]) == ({}, True)
