"""Many queries against a flat index by one product: the same places as FAISS finds."""

import numpy as np
import pytest

from fitrag_integrations import Passage
from fitrag_integrations.models.runtime import choosing
from fitrag_integrations.retrieval import _store
from fitrag_integrations.retrieval._store import Products, Store, products_of


def unit(count, width=24, seed=5):
    made = np.random.default_rng(seed).standard_normal((count, width)).astype(np.float32)
    return made / np.linalg.norm(made, axis=1, keepdims=True)


@pytest.fixture
def flat():
    return _store.add_to(_store.empty("flat", 24), "flat", unit(3000))


@pytest.fixture
def quick(monkeypatch):
    """Have a processor that is fast in bfloat16, and small indexes gain."""
    monkeypatch.setattr(choosing, "rate", {"float32": 1.0, "bfloat16": 4.0}.get)
    monkeypatch.setattr(_store, "VECTORS", (100, 5000))


@pytest.mark.parametrize("k", [1, 10, 100, 3000])
def test_places_are_those_of_faiss(flat, k):
    asked = unit(40, seed=6)
    scores, places = Products(flat).nearest(asked, k)
    expected, there = flat.search(asked, k)
    assert (places == there).all() or k == 3000 == len(set(places[0].tolist()))
    np.testing.assert_allclose(scores, expected, atol=1e-6)


def test_what_rounding_could_have_left_out_is_searched_by_faiss(flat, monkeypatch):
    near = unit(1)[0] + 1e-5 * unit(3000, seed=8)  # all alike once rounded
    alike = _store.add_to(_store.empty("flat", 24), "flat", near.astype(np.float32))
    asked = np.concatenate([unit(8, seed=9), unit(1)])
    assert (Products(alike).nearest(asked, 5)[1] == alike.search(asked, 5)[1]).all()


def test_who_gains(flat, quick, monkeypatch):
    assert products_of(flat, "flat") is not None
    assert products_of(flat, "fp16") is None
    assert products_of(_store.add_to(_store.empty("flat", 24), "flat", unit(50)), "flat") is None
    monkeypatch.setattr(choosing, "rate", {"float32": 1.0, "bfloat16": 1.1}.get)
    assert products_of(flat, "flat") is None


def test_a_store_finds_what_was_added_since(quick):
    store, vectors = Store.empty(24), unit(3000)
    named = [Passage(str(i), f"text {i}") for i in range(3000)]
    asked = unit(12, seed=6)
    for at in (slice(0, 1000), slice(1000, 3000)):
        store.add(named[at], vectors[at])
        found = store.nearest(asked, 7)
        assert store._products is not None
        _, places = store.flat.search(asked, 7)
        assert [[p.id for p in row] for row in found] == [list(map(str, row)) for row in places]
    alone, among = store.nearest(asked[:2], 7)[0], store.nearest(asked, 7)[0]
    assert [p.id for p in alone] == [p.id for p in among]
