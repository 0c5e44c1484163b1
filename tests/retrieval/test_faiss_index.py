"""Building, searching and adding; nothing here touches the disk."""

import asyncio
import pickle
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from retrieval_fakes import WordEncoder, passages

import fitrag_integrations
from fitrag_integrations import Context, InputError, Passage, PortError, Ports, run_many
from fitrag_integrations.ports import Retriever
from fitrag_integrations.retrieval import (
    FaissIndex,
    IndexRetriever,
    TextEncoder,
    _store,
    passage_text,
)

TEXTS = ["the river runs", "the king of rome", "film music", "king king rome rome rome"]


@pytest.fixture
def index(words):
    return FaissIndex.build(passages(*TEXTS), encoder=words)


def ids(found):
    return [passage.id for passage in found]


def test_the_inner_product_ranks(index):
    kings, music = index.search(["king rome", "music"], k=2)
    assert ids(kings) == ["p3", "p1"] and ids(music)[0] == "p2"
    assert [p.metadata["retrieval_score"] for p in kings] == [5.0, 2.0]
    assert all(type(p.metadata["retrieval_score"]) is float for p in kings)


def test_results_are_copies_with_their_metadata(words):
    original = Passage("a", "rome", "Rome", "wiki", {"page": 3, "retrieval_score": -1.0})
    index = FaissIndex.build([original], encoder=words)
    ((found,),) = index.search(["rome"])
    assert found.metadata == {"page": 3, "retrieval_score": 2.0}
    assert (found.text, found.title, found.source) == ("rome", "Rome", "wiki")
    assert original.metadata["retrieval_score"] == -1.0 and index.passages == (original,)


def test_the_title_is_encoded_too():
    assert passage_text(Passage("a", "text", "Title")) == "Title text"
    assert passage_text(Passage("a", "text")) == "text"


def test_all_come_where_k_is_larger(index):
    assert len(index.search(["king"], k=99)[0]) == len(index) == 4
    assert index.search([]) == []
    assert FaissIndex(WordEncoder()).search(["king", "rome"]) == [[], []]


def test_adding_extends_the_index(index):
    assert index.add([Passage("new", "ocean ocean")]) == 1
    assert ids(index.search(["ocean"], k=1)[0]) == ["new"]
    assert index.add([]) == 0 and len(index) == 5


def test_large_builds_go_block_by_block(words, capsys):
    many = [Passage(str(i), f"word{i}") for i in range(300)]
    index = FaissIndex.build(iter(many), encoder=words, show_progress=True)
    assert max(map(len, words.calls)) == 128 and len(index) == 300
    assert index.passages == tuple(many)
    captured = capsys.readouterr()
    assert captured.out == "" and "Encoding passages" in captured.err


def test_an_equal_passage_is_stored_once(index):
    assert (
        index.add([Passage("p0", TEXTS[0], "other title"), Passage("x", "a"), Passage("x", "a")])
        == 1
    )
    assert len(index) == 5 and index.passages[0].title == ""


@pytest.mark.parametrize(
    ("bad", "named"),
    [
        (Passage("p0", "another text"), "id 'p0'"),
        (Passage("blank", " \n"), "id 'blank'"),
        ("text", r"passages\[1\]"),
        (InputError("file.jsonl, line 7: broken"), "line 7"),
    ],
)
def test_bad_passages_raise_or_are_counted(index, bad, named):
    with pytest.raises(InputError, match=named):
        index.add([Passage("ok", "fine"), bad])
    assert len(index) == 4 and index.skipped == 0  # all or none
    assert index.add([Passage("ok", "fine"), bad], on_bad="skip") == 1
    assert len(index) == 5 and index.skipped == 1


def test_a_failing_encoder_leaves_the_index_as_it_was(index, words):
    words.encode = lambda texts: np.full((len(texts), 64), np.nan, np.float32)
    with pytest.raises(PortError, match="finite"):
        index.add([Passage("new", "x")])
    words.encode = lambda texts: np.zeros((1, 3))
    with pytest.raises(PortError, match=r"\(1, 3\), not \(2, 64\)"):
        index.search(["a", "b"])
    assert len(index) == 4 == index._store.flat.ntotal


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda index: index.search(["king", "  "]), r"queries\[1\]"),
        (lambda index: index.search("king"), "queries"),
        (lambda index: index.search(["king"], k=0), "k"),
        (lambda index: index.search(["king"], k=True), "k"),
        (lambda index: index.as_retriever(k="3"), "k"),
        (lambda index: index.add("text"), "passages"),
        (lambda index: index.add(Passage("a", "b")), "passages"),
        (lambda index: index.add([], on_bad="ignore"), "on_bad"),
        (lambda index: FaissIndex(object()), "encoder"),
        (lambda index: FaissIndex(WordEncoder), "encoder"),
    ],
)
def test_bad_arguments_are_named(index, call, named):
    with pytest.raises(InputError, match=named):
        call(index)


def test_threads_search_while_another_adds(index):
    queries = [f"{word} rome" for word in ("king", "film", "river", "the")] * 16
    expected = [ids(index.search([query], k=2)[0]) for query in queries]
    stop = threading.Event()

    def grow():
        for i in range(10_000):
            if stop.is_set():
                return
            index.add([Passage(f"more{i}", f"unrelated{i}")])

    writer = threading.Thread(target=grow)
    writer.start()
    with ThreadPoolExecutor(16) as pool:
        found = [ids(r) for r in pool.map(lambda query: index.search([query], k=2)[0], queries)]
    stop.set()
    writer.join()
    assert found == expected
    assert len(index) == index._store.flat.ntotal


async def test_async_search_is_the_same_and_does_not_block(index, words):
    encode, free = words.encode, threading.Event()

    def waiting(texts):
        assert free.wait(20), "the event loop was held up"
        return encode(texts)

    words.encode = waiting
    pending = asyncio.create_task(index.asearch(["king rome", "music"], k=2))
    await asyncio.sleep(0.01)
    free.set()
    assert await pending == index.search(["king rome", "music"], k=2)


async def test_async_search_uses_the_encoders_own_coroutine():
    class Async(WordEncoder):
        async def aencode(self, texts):
            waited.append(list(texts))
            return self.encode(texts)

    waited = []
    index = FaissIndex.build(passages("rome", "ocean"), encoder=Async())
    (found,) = await index.asearch(["rome"], k=1)
    assert ids(found) == ["p0"] and waited == [["rome"]]
    assert await index.asearch([]) == [] and await FaissIndex(Async()).asearch(["x"]) == [[]]
    with pytest.raises(InputError, match="queries"):
        await index.asearch([""])


def test_flows_join_their_calls(index, words):
    def method(question, ports):
        (found,) = yield from ports.retrieve.ask([question])
        return Context(question, (), queries=tuple(ids(found)))

    del words.calls[:]
    flows = [method(q, Ports(retrieve=index.as_retriever(k=1))) for q in ("king", "music")]
    first, second = run_many(flows)
    assert (first.value.queries, second.value.queries) == (("p3",), ("p2",))
    assert words.calls == [["king", "music"]]


async def test_the_retriever_face(index):
    retriever = index.as_retriever(k=3)
    assert isinstance(retriever, Retriever) and isinstance(WordEncoder(), TextEncoder)
    assert retriever is index.as_retriever(3) == IndexRetriever(index, 3)
    assert retriever != index.as_retriever(4) and hash(retriever) == hash(IndexRetriever(index, 3))
    assert retriever.retrieve(["king", "film"]) == index.search(["king", "film"], 3)
    assert await retriever.aretrieve(["king"]) == index.search(["king"], 3)


def test_pickle_keeps_passages_and_vectors(index):
    again = pickle.loads(pickle.dumps(index))
    assert again.passages == index.passages
    assert again.search(["king rome"]) == index.search(["king rome"])
    assert again.add([Passage("new", "ocean")]) == 1
    retriever = pickle.loads(pickle.dumps(index.as_retriever(2)))
    assert retriever.retrieve(["king"]) == index.search(["king"], 2)


def printed_by(script):
    root = Path(fitrag_integrations.__file__).parents[1]
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, cwd=root)
    assert not done.returncode, done.stderr
    return done.stdout


def test_a_missing_faiss_names_the_extra():
    script = (
        "import sys; sys.modules['faiss'] = None\n"
        "from fitrag_integrations import MissingExtraError\n"
        "from fitrag_integrations.retrieval import FaissIndex\n"
        "class E: name, width, encode = 'e', 2, list\n"
        "try: FaissIndex(E())\n"
        "except MissingExtraError as error: print(error)"
    )
    assert printed_by(script).strip() == (
        'faiss is needed for FaissIndex: pip install "fitrag-integrations[faiss]"'
    )


class GpuFaiss:
    """FAISS as it is built for a GPU; the copy there finds the same."""

    StandardGpuResources = object

    def __init__(self, gpus=1):
        self.gpus, self.copied = gpus, []

    def get_num_gpus(self):
        return self.gpus

    def index_cpu_to_gpu(self, resources, device, flat):
        assert isinstance(resources, self.StandardGpuResources) and device == 0
        self.copied.append(flat.ntotal)
        return flat


@pytest.mark.parametrize(("gpus", "copied"), [(1, [2, 3]), (0, [])])
def test_an_index_is_searched_on_a_gpu_where_faiss_has_one(gpus, copied, monkeypatch):
    index = FaissIndex.build(passages("the river runs", "film music"), encoder=WordEncoder())
    fake = GpuFaiss(gpus)
    monkeypatch.setattr(_store, "faiss", lambda: fake)
    before = [index.search(["the river"], 1) for _ in range(2)]
    assert before[0] == before[1] and before[0][0][0].text == "the river runs"
    index.add([Passage("c", "the king of rome")])
    assert index.search(["king"], 1)[0][0].id == "c"
    assert fake.copied == copied
    monkeypatch.setattr(_store, "MOST_ON_GPU", 1)
    assert len(index.search(["king"], 3)[0]) == 3
