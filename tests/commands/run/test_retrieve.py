"""`fitrag retrieve`, and `--index` on the verbs that look at passages."""

import json

import pytest
from command_fakes import FOUND, passages, read, write

CORPUS = [
    {"id": "a", "title": "Danube", "text": "The Danube rises in the Black Forest."},
    {"id": "b", "title": "Rhine", "text": "The Rhine flows to the North Sea."},
    {"id": "c", "title": "Cats", "text": "Cats sleep for most of the day."},
]


def test_a_corpus_is_searched_by_words(tmp_path, fitrag):
    given = write(tmp_path / "in.jsonl", [{"id": 1, "question": "Where does the Danube rise?"}])
    corpus, out = write(tmp_path / "corpus.jsonl", CORPUS), tmp_path / "out.jsonl"
    assert fitrag("retrieve", given, out, "--corpus", corpus, "--k", 2)[0] == 0
    (row,) = read(out)
    assert row["id"] == 1 and len(row["passages"]) == 2
    assert row["passages"][0] == CORPUS[0]


def test_an_index_is_searched_a_chunk_at_a_time(tmp_path, index, fitrag, rows):
    given, out = write(tmp_path / "in.jsonl", rows), tmp_path / "out.jsonl"
    assert fitrag("retrieve", given, out, "--index", index.folder)[0] == 0
    assert index.asked == [16, 16, 8]
    found = {"id": "p1", "title": "T", "text": FOUND, "score": 0.5}
    assert all(row["passages"] == [found] for row in read(out))


@pytest.mark.parametrize("verb", ["score", "compress", "read"])
def test_a_row_without_passages_gets_those_of_the_index(tmp_path, scorer, index, fitrag, verb):
    own = {"question": "who ?", "passages": passages("Bob read it .")}
    given = write(tmp_path / "in.jsonl", [{"question": "who wrote it ?"}, own])
    out = tmp_path / "out.jsonl"
    assert fitrag(verb, given, out, "--index", index.folder)[0] == 0
    found, kept = read(out)
    assert [each["text"] for each in found["passages"]] == [FOUND]
    assert kept["passages"] == own["passages"]
    assert index.asked == [1]
    before = out.read_bytes()
    said = fitrag(verb, given, out, "--index", index.folder, "--json")[1]
    assert json.loads(said)["resumed"] == 2 and out.read_bytes() == before
