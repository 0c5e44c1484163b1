"""Each kind of index finds what the exact one finds, is saved, mapped and added to."""

import pickle

import numpy as np
import pytest
from retrieval_fakes import WordEncoder, passages

from fitrag_integrations.errors import InputError, ModelLoadError
from fitrag_integrations.retrieval import FaissIndex
from fitrag_integrations.retrieval._store import KINDS

WORDS = np.array([f"w{i}" for i in range(40)])
CHANCE = np.random.default_rng(13)
TEXTS = [" ".join(CHANCE.choice(WORDS, 12)) for _ in range(300)]
QUERIES = [" ".join(CHANCE.choice(WORDS, 5)) for _ in range(20)]


def ids(found):
    return [[passage.id for passage in row] for row in found]


def built(kind):
    return FaissIndex.build(passages(*TEXTS), encoder=WordEncoder(), kind=kind)


def recall(index, k=10):
    """Give the share of the exact best scores that an index finds, ties counted alike."""
    exact, found = (one.search(QUERIES, k) for one in (built("flat"), index))
    last = [row[-1].metadata["retrieval_score"] for row in exact]
    good = [
        passage.metadata["retrieval_score"] >= least - 1e-3
        for row, least in zip(found, last, strict=True)
        for passage in row
    ]
    return sum(good) / (k * len(QUERIES))


def test_half_precision_finds_what_the_exact_one_finds():
    assert recall(built("fp16")) == 1.0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mapped", [False, True])
def test_a_kind_comes_back_from_its_folder(kind, mapped, tmp_path):
    index = built(kind)
    index.save(tmp_path)
    again = FaissIndex.load(tmp_path, encoder=WordEncoder(), memory_map=mapped)
    assert ids(again.search(QUERIES, 5)) == ids(index.search(QUERIES, 5))
    more = passages(*TEXTS, "one more of them")[-1:]
    if mapped:
        with pytest.raises(InputError, match="memory_map=False.*mapped from disk"):
            again.add(more)
    else:
        assert again.add(more) == 1
        assert again.search(["one more of them"], 1)[0][0].text == "one more of them"
        again.save(tmp_path)
        assert len(FaissIndex.load(tmp_path, encoder=WordEncoder())) == len(TEXTS) + 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_can_be_empty_and_pickled(kind, tmp_path):
    empty = FaissIndex(WordEncoder(), kind=kind)
    assert empty.search(QUERIES) == [[] for _ in QUERIES]
    empty.save(tmp_path)
    assert len(FaissIndex.load(tmp_path, encoder=WordEncoder())) == 0
    index = built(kind)
    assert len(pickle.loads(pickle.dumps(index)).search(QUERIES, 3)[0]) == 3
    assert pickle.loads(pickle.dumps(empty)).search(QUERIES) == [[] for _ in QUERIES]


def test_another_kind_is_refused(tmp_path):
    with pytest.raises(InputError, match="kind` must be one of flat, fp16"):
        FaissIndex(WordEncoder(), kind="pq")
    index = built("fp16")
    index.save(tmp_path)
    manifest = tmp_path / "manifest.json"
    for other in ("flat", "pq"):
        text = manifest.read_text()
        manifest.write_text(text.replace('"kind": "fp16"', f'"kind": "{other}"'))
        with pytest.raises(ModelLoadError):
            FaissIndex.load(tmp_path, encoder=WordEncoder())
        manifest.write_text(text)
