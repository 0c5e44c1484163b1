"""An index on disk finds what one in memory finds, while it grows and after it was stopped."""

import json

import pytest
from retrieval_fakes import WordEncoder, passages

from fitrag_integrations import Passage
from fitrag_integrations.errors import InputError, ModelLoadError
from fitrag_integrations.retrieval import FaissIndex, GrowingIndex
from fitrag_integrations.retrieval.disk import growing

TEXTS = [f"w{i % 7} w{i % 11} w{i % 13} w{i}" for i in range(90)]
QUERIES = ["w1 w2 w3", "w45", "w6 w10"]


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(growing, "BLOCK", 20)
    monkeypatch.setattr(growing, "ROWS", 16)


def found(index, k=5):
    return [
        [(p.id, p.text, p.metadata["retrieval_score"]) for p in row]
        for row in index.search(QUERIES, k)
    ]


def scores(index, k=5):
    return [[one[2] for one in row] for row in found(index, k)]


def test_it_finds_what_an_index_in_memory_finds(tmp_path):
    index = GrowingIndex(tmp_path, WordEncoder())
    assert index.search(QUERIES) == [[], [], []] and len(index) == 0
    assert index.add(passages(*TEXTS)) == 90
    exact = FaissIndex.build(passages(*TEXTS), encoder=WordEncoder())
    assert scores(index) == scores(exact) and scores(index, 200) == scores(exact, 200)
    assert found(GrowingIndex(tmp_path, WordEncoder())) == found(index)


def test_it_is_searched_while_it_grows(tmp_path):
    index, reader = (GrowingIndex(tmp_path, WordEncoder()) for _ in range(2))

    def slowly():
        for i, passage in enumerate(passages(*TEXTS)):
            if i == 50:
                assert len(reader) == 40 and len(reader.search(["w1"], 50)[0]) == 40
            yield passage

    assert index.add(slowly()) == 90 and len(reader) == 90


@pytest.mark.parametrize("name", ["vectors.f16", "passages.jsonl", "ends.i64", "marks.i64", None])
def test_a_stopped_build_goes_on_to_the_same_index(tmp_path, monkeypatch, name):
    whole = GrowingIndex(tmp_path / "whole", WordEncoder())
    whole.add(passages(*TEXTS))
    index = GrowingIndex(tmp_path / "stopped", WordEncoder())
    index.add(passages(*TEXTS[:40]))
    if name is None:  # all was written, but for the state
        monkeypatch.setattr(index, "_commit", lambda state: (_ for _ in ()).throw(OSError("full")))
        with pytest.raises(OSError, match="full"):
            index.add(passages(*TEXTS))
    else:
        with (tmp_path / "stopped" / name).open("ab") as file:
            file.write(b"half a block")
    again = GrowingIndex(tmp_path / "stopped", WordEncoder())
    assert len(again) == 40
    assert again.add(passages(*TEXTS)) == 50
    assert found(again) == found(whole)
    for path in (tmp_path / "whole").iterdir():
        assert path.read_bytes() == (tmp_path / "stopped" / path.name).read_bytes()


def test_equal_passages_are_stored_once_and_other_texts_refused(tmp_path):
    index = GrowingIndex(tmp_path, WordEncoder())
    assert index.add(passages("a river")) == 1 and index.add(passages("a river")) == 0
    with pytest.raises(InputError, match="id 'p0'.*stored under this id"):
        index.add(passages("a city"))
    assert index.add([*passages("a city"), Passage("q", "rome")], on_bad="skip") == 1
    with pytest.raises(InputError, match="passages"):
        index.add(["no passage"])


def test_another_encoder_and_a_damaged_folder_are_refused(tmp_path):
    index = GrowingIndex(tmp_path, WordEncoder())
    index.add(passages(*TEXTS))
    with pytest.raises(InputError, match="encoder: .*begun with, 'words'"):
        GrowingIndex(tmp_path, WordEncoder(name="other"))
    (tmp_path / "vectors.f16").write_bytes(b"")
    with pytest.raises(ModelLoadError, match="vectors.f16 has 0 bytes"):
        index.add(passages("more"))
    state = tmp_path / "state.json"
    state.write_text(json.dumps({**json.loads(state.read_text()), "format": 9}))
    with pytest.raises(ModelLoadError, match="format 9"):
        GrowingIndex(tmp_path, WordEncoder())
