"""An index on disk finds what one in memory finds, while it grows and after it was stopped."""

import json
import multiprocessing

import pytest
from retrieval_fakes import WordEncoder, passages

from fitrag_integrations import Passage
from fitrag_integrations.errors import ChecksumError, InputError, ModelLoadError, StorageError
from fitrag_integrations.retrieval import FaissIndex, GrowingIndex, growing

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
        monkeypatch.setattr(
            index, "_commit", lambda *_, **__: (_ for _ in ()).throw(OSError("full"))
        )
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
    for queries in ("a river", ["a river", " "]):
        with pytest.raises(InputError, match="queries"):
            index.search(queries)


def test_a_full_disk_is_named_and_costs_one_block(tmp_path):
    resource = pytest.importorskip("resource")
    index = GrowingIndex(tmp_path, WordEncoder())
    index.add(passages(*TEXTS[:20]))
    allowed = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4000, allowed[1]))
    try:
        with pytest.raises(StorageError, match=r"vectors\.f16"):
            index.add(passages(*TEXTS))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, allowed)
    assert len(index) == 20 and index.add(passages(*TEXTS)) == 70


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


FILES = ["vectors.f16", "passages.jsonl", "ends.i64", "marks.i64", "segments.jsonl", "state.json"]


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", ["missing", "short", "changed"])
def test_a_damaged_file_is_refused_with_the_remedy_and_kept(tmp_path, name, damage):
    GrowingIndex(tmp_path, WordEncoder()).add(passages(*TEXTS))
    path = tmp_path / name
    before = path.read_bytes()
    if damage == "missing":
        path.unlink()
    elif damage == "short":
        path.write_bytes(before[: len(before) // 2])
    else:
        middle = len(before) // 2
        path.write_bytes(before[:middle] + bytes([before[middle] ^ 1]) + before[middle + 1 :])
    kept = {each.name: each.read_bytes() for each in tmp_path.iterdir()}
    with pytest.raises(ModelLoadError, match="build the index again") as caught:
        GrowingIndex(tmp_path, WordEncoder()).verify()
    if damage == "changed" and name != "state.json":
        assert isinstance(caught.value, ChecksumError) and name in str(caught.value)
    else:
        with pytest.raises((ModelLoadError, InputError)):
            GrowingIndex(tmp_path, WordEncoder()).add(passages(*TEXTS, "one more"))
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == kept


def test_a_folder_that_is_damaged_under_an_open_index_is_refused(tmp_path):
    index = GrowingIndex(tmp_path, WordEncoder())
    index.add(passages(*TEXTS))
    (tmp_path / "passages.jsonl").write_bytes(b"[" * (tmp_path / "passages.jsonl").stat().st_size)
    with pytest.raises(ModelLoadError, match=r"passages\.jsonl cannot be read"):
        index.search(["w1"])
    (tmp_path / "ends.i64").unlink()
    for call in (lambda: index.search(["w1"]), lambda: len(index), lambda: index.add([])):
        with pytest.raises(ModelLoadError, match=r"ends\.i64 has 0 bytes, not 720"):
            call()


def test_a_state_of_fewer_passages_than_were_committed_is_found(tmp_path):
    GrowingIndex(tmp_path, WordEncoder()).add(passages(*TEXTS))
    state = tmp_path / "state.json"
    state.write_text(state.read_text().replace('"count": 90', '"count": 10'))
    with pytest.raises(ChecksumError, match=r"state\.json does not agree"):
        GrowingIndex(tmp_path, WordEncoder()).verify()


def test_an_index_without_checksums_is_refused_with_the_remedy(tmp_path):
    GrowingIndex(tmp_path, WordEncoder()).add(passages(*TEXTS))
    state = tmp_path / "state.json"
    state.write_text(state.read_text().replace('"format": 2', '"format": 1'))
    with pytest.raises(ModelLoadError, match=r"format 1, allowed 2.*build the index again"):
        GrowingIndex(tmp_path, WordEncoder())


def begin(folder, barrier, told):
    """Open and fill an index the moment that others do; what is told is the error, or "done"."""
    growing.BLOCK = 20
    for turn in range(15):
        barrier.wait()
        try:
            index = GrowingIndex(folder / str(turn), WordEncoder())
            index.add(passages(*TEXTS))
            told.put("done")
        except Exception as error:
            told.put(f"{type(error).__name__}: {error}")


def test_processes_that_begin_at_once_end_with_one_whole_index_or_a_message(tmp_path):
    home = multiprocessing.get_context("spawn")
    barrier, told = home.Barrier(4), home.Queue()
    started = [home.Process(target=begin, args=(tmp_path, barrier, told)) for _ in range(4)]
    for process in started:
        process.start()
    ends = [told.get(timeout=120) for _ in range(60)]
    for process in started:
        process.join()
    assert {end.split(":")[0] for end in ends} <= {"done", "InputError"}, set(ends)
    assert all("no other run is writing" in end for end in ends if end != "done")
    for turn in range(15):
        index = GrowingIndex(tmp_path / str(turn), WordEncoder())
        index.verify()
        assert len(index) == 90


def test_a_reader_sees_the_last_committed_state_while_another_process_writes(tmp_path):
    home = multiprocessing.get_context("spawn")
    barrier, told = home.Barrier(1), home.Queue()
    writer = home.Process(target=begin, args=(tmp_path, barrier, told))
    writer.start()
    lengths = set()
    for turn in range(15):
        while not (tmp_path / str(turn) / "state.json").exists():
            pass
        index = GrowingIndex(tmp_path / str(turn), WordEncoder())
        while (count := len(index)) < 90:
            rows = index.search(["w1"], 200)[0]
            assert count <= len(rows) <= 90
            lengths.add(count)
        index.verify()
    writer.join()
    assert lengths <= {0, 20, 40, 60, 80}
