"""An index made by the command, and the verbs with the models that ship."""

import json

import pytest
from command_fakes import write

from fitrag_integrations.commands.engine import models
from fitrag_integrations.types import Passage

pytest.importorskip("faiss")
TEXTS = ("Ann wrote it in May. It sold. Bo read it.", "Rain falls in May. It ends.", "Cy came.")


class Letters:
    """Encode a text as how often it has each of four letters."""

    name = "letters"
    width = 4

    def encode(self, texts):
        return [[float(text.lower().count(letter)) for letter in "anwi"] for text in texts]


def passages():
    return [Passage(f"p{i}", text, f"T{i}") for i, text in enumerate(TEXTS)]


@pytest.fixture
def letters(monkeypatch):
    from fitrag_integrations import retrieval

    def load(folder, options, kind="FaissIndex"):
        return getattr(retrieval, kind).load(folder, encoder=Letters())

    monkeypatch.setattr(
        models, "new_index", lambda options, kind: retrieval.FaissIndex(Letters(), kind=kind)
    )
    monkeypatch.setattr(models, "load_index", load)


def test_index_builds_adds_and_answers(tmp_path, letters, scorer, fitrag):
    rows = [{"id": p.id, "title": p.title, "text": p.text, "year": 1} for p in passages()]
    corpus = write(tmp_path / "corpus.jsonl", [*rows[:2], b"nonsense", {"text": ""}])
    folder = tmp_path / "index"
    code, out, told = fitrag("index", corpus, folder, "--json")
    assert code == 0
    assert "2 left out" in told and "line 3" in told and "line 4" in told
    summary = json.loads(out)
    assert (summary["passages"], summary["added"], summary["skipped"]) == (2, 2, 2)
    code, _, err = fitrag("index", corpus, folder)
    assert code == 2 and "--add" in err
    more = write(tmp_path / "more.jsonl", rows)
    assert json.loads(fitrag("index", more, folder, "--add", "--json")[1])["added"] == 1
    got = json.loads(fitrag("answer", "who wrote it", "--index", folder, "--k", 2, "--json")[1])
    assert {each["id"] for each in got["context"]} <= {"p0", "p1", "p2"}
    assert len(got["context"]) == 2


@pytest.mark.parametrize(
    ("name", "left", "code", "said"),
    [
        ("corpus.jsonl", ".index.faiss.0123.tmp", 1, "0 passages"),  # as a killed run leaves it
        ("corpus.jsonl", "notes.txt", 2, "OUT_DIR"),
        ("nothing", "", 2, "Corpus not found"),
    ],
)
def test_no_index_is_made_of_nothing_or_over_other_files(
    tmp_path, letters, fitrag, name, left, code, said
):
    write(tmp_path / "corpus.jsonl", [{"text": ""}])
    (tmp_path / "index").mkdir()
    if left:
        (tmp_path / "index" / left).write_bytes(b"half")
    done = fitrag("index", tmp_path / name, tmp_path / "index")
    assert done[0] == code and said in done[2]


@pytest.mark.slow
class TestEmbedded:
    """The verbs with the models that ship."""

    def test_verbs(self, tmp_path, fitrag):
        row = {
            "id": 1,
            "question": "Who wrote the score of Amarcord?",
            "passages": [
                {"title": "Milan", "text": "Milan is a city in Italy. It is large."},
                {"title": "Amarcord", "text": "It is a film. Nino Rota wrote the score. It won."},
            ],
        }
        source = write(tmp_path / "in.jsonl", [row])
        for verb in ("score", "compress", "read", "answer"):
            out = tmp_path / f"{verb}.jsonl"
            assert fitrag(verb, source, out)[0] == 0
            row |= json.loads(out.read_text())
        assert row["scores"][1]["has_answer"] > row["scores"][0]["has_answer"]
        best = row["excerpts"][0]
        assert best["passage"] == 1
        assert row["prompt"].endswith(f"{row['question']}\n")

    def test_demo(self, fitrag):
        code, out, _ = fitrag("demo")
        before, after = out[out.index("Before: ") :].split("After: ")
        assert code == 0 and "Answer: 90 days" in out and "**90 days**" in after
        tokens = [
            int(part.partition(" tokens")[0].split()[-1].replace(",", ""))
            for part in (before, after)
        ]
        assert tokens[1] <= 30 < 500 < tokens[0] and len(out.splitlines()) < 24
        got = json.loads(fitrag("demo", "Who owns a removed client?", "--json")[1])
        assert got["question"] == "Who owns a removed client?" and got["context"]
