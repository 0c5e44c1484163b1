"""Parts of an index, searched as one."""

import pytest
from retrieval_fakes import WordEncoder, passages

from fitrag_integrations import errors
from fitrag_integrations.retrieval import FaissIndex, IndexShards

RIVERS = ("danube", "rhine", "oder")
SHELF = passages(*(f"text {i} of {RIVERS[i % 3]} {i * i}" for i in range(60)))


@pytest.fixture
def folder(tmp_path, words):
    for part in range(3):
        FaissIndex.build(SHELF[part::3], encoder=words).save(tmp_path / f"part{part}")
    return tmp_path


def scores(rows):
    return [[passage.metadata["retrieval_score"] for passage in row] for row in rows]


async def test_parts_find_what_the_whole_finds(folder, words):
    parts, whole = IndexShards.load(folder, encoder=words), FaissIndex.build(SHELF, encoder=words)
    queries = ["text 7 of rhine 49", "oder", "16 danube"]
    assert len(parts) == 60 and "3 parts" in repr(parts)
    words.calls.clear()
    assert parts.search(queries, 1)[0][0].id == "p7"
    assert words.calls.count(queries) == 1
    for k in (1, 5, 100):
        assert scores(parts.search(queries, k)) == scores(whole.search(queries, k))
    assert await parts.asearch(queries, 4) == parts.search(queries, 4)
    retriever = parts.as_retriever(4)
    assert retriever.retrieve(queries) == parts.search(queries, 4)
    assert retriever is parts.as_retriever(4)


def test_a_part_of_another_encoder_is_refused(folder):
    other = WordEncoder(salt="other")
    FaissIndex.build(passages("a danube b"), encoder=other).save(folder / "part9")
    with pytest.raises(errors.InputError, match="encoder"):
        IndexShards.load(folder, encoder=WordEncoder()).search(["danube"], 2)


def test_no_parts_are_no_index(tmp_path):
    with pytest.raises(errors.ModelLoadError, match=r"no folder in it has a manifest\.json"):
        IndexShards.load(tmp_path)
    with pytest.raises(errors.InputError, match="at least one"):
        IndexShards([])
    assert IndexShards([FaissIndex(WordEncoder())]).search(["a"], 2) == [[]]
