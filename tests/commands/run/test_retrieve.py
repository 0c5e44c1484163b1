"""`fitrag retrieve`, and `--index` on the verbs that look at passages."""

import json

import pytest
from command_fakes import passages, read, write

from fitrag_integrations.commands.engine import models
from fitrag_integrations.types import Passage

CORPUS = [
    {"id": "a", "title": "Danube", "text": "The Danube rises in the Black Forest."},
    {"id": "b", "title": "Rhine", "text": "The Rhine flows to the North Sea."},
    {"id": "c", "title": "Cats", "text": "Cats sleep for most of the day."},
]


class Fixed:
    """Find the same passages for every question."""

    def __init__(self):
        self.asked = []

    def retrieve(self, queries):
        self.asked.append(len(queries))
        found = [Passage("7", "Ann wrote it .", "T", metadata={"retrieval_score": 0.5})]
        return [found for _ in queries]


@pytest.fixture
def index(tmp_path, monkeypatch):
    (tmp_path / "index").mkdir()
    made = Fixed()
    monkeypatch.setattr(models, "load_retriever", lambda folder, options, k: made)
    return made


def test_a_corpus_is_searched_by_words(tmp_path, fitrag):
    given = write(tmp_path / "in.jsonl", [{"id": 1, "question": "Where does the Danube rise?"}])
    corpus, out = write(tmp_path / "corpus.jsonl", CORPUS), tmp_path / "out.jsonl"
    assert fitrag("retrieve", given, out, "--corpus", corpus, "--k", 2)[0] == 0
    (row,) = read(out)
    assert row["id"] == 1 and len(row["passages"]) == 2
    assert row["passages"][0] == CORPUS[0]


def test_an_index_is_searched_a_chunk_at_a_time(tmp_path, index, fitrag, rows):
    given, out = write(tmp_path / "in.jsonl", rows), tmp_path / "out.jsonl"
    assert fitrag("retrieve", given, out, "--index", tmp_path / "index")[0] == 0
    assert index.asked == [16, 16, 8]
    found = {"id": "7", "title": "T", "text": "Ann wrote it .", "score": 0.5}
    assert all(row["passages"] == [found] for row in read(out))


@pytest.mark.parametrize("verb", ["score", "compress", "read"])
def test_a_row_without_passages_gets_those_of_the_index(tmp_path, scorer, index, fitrag, verb):
    own = {"question": "who ?", "passages": passages("Bob read it .")}
    given = write(tmp_path / "in.jsonl", [{"question": "who wrote it ?"}, own])
    out = tmp_path / "out.jsonl"
    assert fitrag(verb, given, out, "--index", tmp_path / "index", "--strict")[0] == 0
    found, kept = read(out)
    assert [each["text"] for each in found["passages"]] == ["Ann wrote it ."]
    assert kept["passages"] == own["passages"]
    assert index.asked == [1]
    before = out.read_bytes()
    said = fitrag(verb, given, out, "--index", tmp_path / "index", "--json")[1]
    assert json.loads(said)["resumed"] == 2 and out.read_bytes() == before
