"""An index on disk: what comes back, what is refused, and what a kill leaves."""

import hashlib
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from retrieval_fakes import WordEncoder, passages

import fitrag_integrations
from fitrag_integrations import ChecksumError, InputError, ModelLoadError, Passage
from fitrag_integrations.core.files import lock
from fitrag_integrations.retrieval import Encoder, FaissIndex

HARD = [
    Passage("plain", "the king of rome", "Rome", "wiki", {"page": 1, "tags": ["a"], "none": None}),
    Passage("lines", "one\u2028two\r\nthree\x85four\x00five"),
    Passage("rtl", "مرحبا 👩‍👩‍👧‍👦", metadata={"n": {"x": 1.5}}),
    Passage("lone \ud800", "a lone \udfff surrogate"),
]


@pytest.fixture
def saved(tmp_path, words):
    FaissIndex.build(HARD, encoder=words).save(tmp_path / "ix")
    return tmp_path / "ix"


def test_everything_comes_back(saved, words):
    index = FaissIndex.load(saved, encoder=words)
    assert index.passages == tuple(HARD) and index.width == 64
    fresh = FaissIndex.build(HARD, encoder=words)
    assert index.search(["king surrogate"], 3) == fresh.search(["king surrogate"], 3)
    assert sorted(path.name for path in saved.iterdir()) == [
        "index.faiss",
        "manifest.json",
        "passages.jsonl",
    ]


def test_the_manifest_says_what_is_there(saved):
    manifest = json.loads((saved / "manifest.json").read_text())
    assert manifest["encoder"] == {"name": "words", "width": 64, "settings": None}
    assert (manifest["format"], manifest["metric"], manifest["count"]) == (1, "inner_product", 4)


def test_a_loaded_index_grows_and_is_saved_over_itself(saved, words):
    index = FaissIndex.load(saved, encoder=words)
    index.add([Passage("new", "ocean ocean"), HARD[0]])
    for _ in range(3):
        index.save(saved)
        again = FaissIndex.load(str(saved), encoder=words)
        assert again.passages == (*HARD, Passage("new", "ocean ocean"))
        assert again.search(["ocean"], 1)[0][0].id == "new"
        assert len(list(saved.iterdir())) == 3


def test_an_empty_index_can_be_saved(tmp_path, words):
    FaissIndex(words).save(tmp_path)
    index = FaissIndex.load(tmp_path, encoder=words)
    assert len(index) == 0 and index.add(passages("rome")) == 1
    with pytest.raises(InputError, match="width"):
        FaissIndex.load(tmp_path, encoder=WordEncoder(width=32))


@pytest.mark.parametrize("name", ["index.faiss", "passages.jsonl"])
def test_a_changed_or_missing_file_is_named(saved, words, name):
    path = saved / name
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    with pytest.raises(ChecksumError, match=name):
        FaissIndex.load(saved, encoder=words)
    path.unlink()
    with pytest.raises(ModelLoadError, match=name):
        FaissIndex.load(saved, encoder=words)


def about_encoder(**fields):
    return lambda manifest: {**manifest, "encoder": {**manifest["encoder"], **fields}}


@pytest.mark.parametrize(
    "change",
    [
        lambda m: {**m, "format": 99},
        lambda m: {**m, "metric": "l2"},
        lambda m: {**m, "count": 5},
        lambda m: {**m, "count": 4.0},
        lambda m: {**m, "count": True},
        lambda m: {**m, "files": {**m["files"], "index": {"name": "../x", "sha256": ""}}},
        lambda m: {**m, "encoder": {"name": "words"}},
        about_encoder(width=65),
        about_encoder(width=64.0),
        about_encoder(name=7),
        about_encoder(name=["words"]),
        about_encoder(settings=[1]),
        about_encoder(settings="xy"),
        lambda m: [m],
        lambda m: {"format": 1},
        lambda m: None,
        "",
        "{",
    ],
)
def test_a_manifest_that_does_not_fit_is_refused_and_can_be_saved_over(saved, words, change):
    path = saved / "manifest.json"
    text = change if isinstance(change, str) else json.dumps(change(json.loads(path.read_text())))
    path.write_text(text)
    with pytest.raises(ModelLoadError, match=r"manifest\.json"):
        FaissIndex.load(saved, encoder=words)
    FaissIndex.build(HARD[:1], encoder=words).save(saved)
    assert len(FaissIndex.load(saved, encoder=words)) == 1


def test_places_that_hold_no_index_are_named(tmp_path, words):
    with pytest.raises(ModelLoadError, match="manifest.json is missing"):
        FaissIndex.load(tmp_path, encoder=words)
    (tmp_path / "file").write_text("x")
    with pytest.raises(ModelLoadError, match="file"):
        FaissIndex.load(tmp_path / "file", encoder=words)
    with pytest.raises(InputError, match="folder"):
        FaissIndex(words).save(tmp_path / "file")


@pytest.mark.parametrize(
    "other", [WordEncoder("words", salt="x"), WordEncoder("other", width=65), None]
)
def test_another_encoder_or_none_for_ones_own_is_refused(saved, other):
    with pytest.raises(InputError, match="the encoder this index was built with, 'words'"):
        FaissIndex.load(saved, encoder=other)


def test_the_same_encoder_by_another_name_is_taken(saved):
    assert len(FaissIndex.load(saved, encoder=WordEncoder("renamed")).search(["king"])[0]) == 4


def test_an_encoder_by_name_is_loaded_at_the_first_search(tmp_path, bert):
    options = {"device": "cpu", "pooling": "first", "normalize": True}
    index = FaissIndex.build(HARD, encoder=Encoder(bert, **options))
    index.save(tmp_path)
    again = FaissIndex.load(tmp_path)
    assert again.search(["king of rome"]) == index.search(["king of rome"])
    assert again.encoder.settings == index.encoder.settings
    for wrong in (Encoder(bert, device="cpu"), Encoder(bert, pooling="first", device="cpu")):
        with pytest.raises(InputError, match="other vectors"):
            FaissIndex.load(tmp_path, encoder=wrong)
    half = Encoder(bert, dtype="bfloat16", **options)
    near, exact = FaissIndex.load(tmp_path, encoder=half), index
    scores = [
        {p.id: p.metadata["retrieval_score"] for p in found.search(["king of rome"])[0]}
        for found in (near, exact)
    ]
    assert scores[0] == pytest.approx(scores[1], abs=0.05)


def test_a_checkpoint_trained_further_is_refused_at_the_first_search(tmp_path, write_bert):
    folder = tmp_path / "model"
    folder.mkdir()
    FaissIndex.build(HARD, encoder=Encoder(write_bert(folder), device="cpu")).save(tmp_path / "ix")
    write_bert(folder, seed=1)
    index = FaissIndex.load(tmp_path / "ix")
    with pytest.raises(InputError, match="other vectors"):
        index.search(["king"])
    with pytest.raises(InputError, match="other vectors"):
        index.add([Passage("new", "rome")])


def test_a_failed_save_leaves_the_older_index(saved, words):
    class Hostile:
        def __repr__(self):
            raise OSError("disk full")

    bad = FaissIndex.build([Passage("bad", "x")], encoder=words)
    bad.passages[0].metadata["m"] = Hostile()
    before = {path.name: path.read_bytes() for path in saved.iterdir()}
    with pytest.raises(OSError, match="disk full"):
        bad.save(saved)
    assert FaissIndex.load(saved, encoder=words).passages == tuple(HARD)
    assert before.keys() <= {path.name for path in saved.iterdir()}
    assert not list(saved.glob("*.tmp")) and not list(saved.glob(".*"))


KILLED = """
import os, sys
from retrieval_fakes import WordEncoder, passages
from fitrag_integrations.retrieval import FaissIndex

folder, words = sys.argv[1], WordEncoder()
old, new = (FaissIndex.build(passages(*t), encoder=words) for t in (["rome"], ["king", "film"]))
old.save(folder)
seen = 0
for step in range(1, 100):
    child = os.fork()
    if not child:
        left = step
        def stop(event, args):
            global left
            if event in ("open", "os.rename", "os.remove"):
                left -= 1
                if not left:
                    os._exit(9)
        sys.addaudithook(stop)
        new.save(folder)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    found = len(FaissIndex.load(folder, encoder=words))
    assert found in (1, 2) and (code or found == 2), (step, code, found)
    if found == 2:
        old.save(folder)
    if not code:
        break
names = sorted(os.listdir(folder))
print(step, len(names))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_kill_at_any_step_leaves_a_whole_index(tmp_path):
    root = Path(fitrag_integrations.__file__).parents[1]
    paths = os.pathsep.join([str(root), str(Path(__file__).parent)])
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path / "ix")],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
    )
    assert not done.returncode, done.stderr
    steps, files = map(int, done.stdout.split())
    assert steps > 8 and files == 3


def test_two_who_loaded_the_same_index_lose_nothing_of_each_other(saved, words):
    one, other = (FaissIndex.load(saved, encoder=words) for _ in "12")
    one.add([Passage("one", "ocean one")])
    other.add([Passage("other", "ocean other")])
    one.save(saved)
    with pytest.raises(InputError, match="changed since.*load it anew"):
        other.save(saved)
    assert len(FaissIndex.load(saved, encoder=words)) == 5
    one.add([Passage("more", "ocean more")])
    one.save(saved)
    other.save(saved.parent / "elsewhere")
    assert len(FaissIndex.load(saved, encoder=words)) == 6


def test_a_folder_that_another_process_writes_to_is_refused(saved, words):
    index = FaissIndex.load(saved, encoder=words)
    before = {path.name: path.read_bytes() for path in saved.iterdir()}
    handle = os.open(saved, os.O_RDONLY)
    try:
        lock(handle, saved)  # as the other one does
        with pytest.raises(InputError, match="no other run is writing"):
            index.save(saved)
    finally:
        os.close(handle)
    assert {path.name: path.read_bytes() for path in saved.iterdir()} == before
    index.save(saved)


def resaved(folder, **parts):
    """Put other bytes under the manifest's digests, as an attacker would."""
    manifest = json.loads((folder / "manifest.json").read_text())
    for part, data in parts.items():
        (folder / manifest["files"][part]["name"]).write_bytes(data)
        manifest["files"][part]["sha256"] = hashlib.sha256(data).hexdigest()
    (folder / "manifest.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize("kind", ["Flat", "IDMap,Flat", "IVF1,Flat", "HNSW4", "PQ8x4", "SQ8"])
def test_only_the_kind_of_index_that_is_written_here_is_read(saved, words, kind):
    faiss = pytest.importorskip("faiss")
    metric = faiss.METRIC_L2 if kind == "Flat" else faiss.METRIC_INNER_PRODUCT
    index = faiss.index_factory(64, kind, metric)
    rng = np.random.default_rng(0)
    index.train(rng.random((300, 64), np.float32))
    vectors = rng.random((4, 64), np.float32)
    if "IDMap" in kind:
        index.add_with_ids(vectors, np.arange(4))
    else:
        index.add(vectors)
    resaved(saved, index=faiss.serialize_index(index).tobytes())
    with pytest.raises(ModelLoadError, match="no flat index|has .* bytes"):
        FaissIndex.load(saved, encoder=words)


def test_no_flipped_bit_of_its_head_is_believed(saved, words):
    path = saved / "index.faiss"
    data = path.read_bytes()
    for at in range(16 * 8):  # its kind, width and count
        flipped = bytearray(data)
        flipped[at // 8] ^= 1 << at % 8
        resaved(saved, index=bytes(flipped))
        with pytest.raises(ModelLoadError):
            FaissIndex.load(saved, encoder=words)
    for cut in (0, 10, 40, len(data) - 1):
        resaved(saved, index=data[:cut])
        with pytest.raises(ModelLoadError):
            FaissIndex.load(saved, encoder=words)


def eight_bits(faiss, index):
    made = faiss.IndexScalarQuantizer(64, faiss.ScalarQuantizer.QT_8bit, index.metric_type)
    rows = index.reconstruct_n(0, index.ntotal)
    made.train(rows)
    made.add(rows)
    return made


@pytest.mark.parametrize(
    "change",
    [lambda faiss, index: setattr(index, "metric_type", faiss.METRIC_L2), eight_bits],
    ids=["another metric", "eight bits"],
)
@pytest.mark.parametrize("mapped", [False, True])
def test_an_index_that_would_fail_or_find_nothing_is_refused(tmp_path, words, change, mapped):
    faiss = pytest.importorskip("faiss")
    forty = passages(*[f"w{i} a" for i in range(40)])
    FaissIndex.build(forty, encoder=words, kind="fp16").save(tmp_path)
    index = faiss.read_index(str(tmp_path / "index.faiss"))
    changed = change(faiss, index) or index
    resaved(tmp_path, index=faiss.serialize_index(changed).tobytes())
    with pytest.raises(ModelLoadError, match=r"manifest\.json"):
        FaissIndex.load(tmp_path, encoder=words, memory_map=mapped)


@pytest.mark.parametrize("kind", ["flat", "fp16"])
@pytest.mark.parametrize("row", [0, 30])
def test_vectors_that_are_no_numbers_are_refused(tmp_path, words, kind, row):
    FaissIndex.build(passages(*[f"w{i} a" for i in range(40)]), encoder=words, kind=kind).save(
        tmp_path
    )
    data = bytearray((tmp_path / "index.faiss").read_bytes())
    size = 4 * 64 if kind == "flat" else 2 * 64
    start = len(data) - size * (40 - row)
    data[start : start + size] = b"\xff" * size
    resaved(tmp_path, index=bytes(data))
    try:
        found = FaissIndex.load(tmp_path, encoder=words).search(["a w1"], 40)[0]
    except (InputError, ModelLoadError):
        return
    assert row and not any(math.isnan(one.metadata["retrieval_score"]) for one in found)


@pytest.mark.parametrize("saves", [1, 2])
@pytest.mark.parametrize("opened", range(1, 6))
def test_an_index_is_loaded_while_another_is_saved_in_its_place(tmp_path, words, opened, saves):
    FaissIndex.build(passages(*"ab"), encoder=words).save(tmp_path)
    left = opened

    def meanwhile(event, arguments):  # before a reading's first, second ... file is opened
        nonlocal left
        name = str(arguments[0]) if event == "open" else ""
        if left and name.startswith(str(tmp_path)):
            left -= 1
            for turn in range(saves if not left else 0):
                FaissIndex.build(passages(*f"c{turn}"), encoder=words).save(tmp_path)

    sys.addaudithook(meanwhile)
    found = FaissIndex.load(tmp_path, encoder=words)
    last = ("a", "b") if left else ("c", str(saves - 1))
    assert tuple(one.text for one in found.passages) == last
    assert found.search([last[1]])[0][0].text == last[1]
    left = 0
