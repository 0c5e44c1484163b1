"""A disk that is full: one line that names the file, and no file left half written."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import fitrag_integrations

resource = pytest.importorskip("resource")
ROOM = 6 << 10  # bytes that a file may have
VERBS = {
    "index": ("index", "corpus.jsonl", "{out}/index"),
    "try": ("try", "corpus.jsonl", "--out", "{out}/page.html", "--count", "4"),
    "score": ("score", "rows.jsonl", "{out}/out.jsonl"),
    "rerank": ("evaluate", "rerank", "rows.jsonl", "--out", "{out}/result.json"),
    "train": ("train", "reader", "reading.jsonl", "--out", "{out}/reader", "--steps", "1"),
}


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    """Files to read, on a disk that has room."""
    folder = tmp_path_factory.mktemp("given")
    texts = [f"Ann wrote part {i} of the book in {1900 + i}." for i in range(40)]
    scores = [{"has_answer": 0.9, "llm_prefer": 0.8}]
    files = {
        "corpus.jsonl": [{"id": str(i), "title": f"T{i}", "text": t} for i, t in enumerate(texts)],
        "rows.jsonl": [
            {
                "question": f"who wrote part {i}?",
                "answers": ["Ann"],
                "passages": [{"title": "T", "text": text}],
                "scores": scores,
            }
            for i, text in enumerate(texts)
        ],
        "reading.jsonl": [
            {
                "question": f"who wrote part {i}?",
                "answers": ["Ann"],
                "passage": {"title": "T", "text": text},
                "answer_start": 0,
            }
            for i, text in enumerate(texts)
        ],
    }
    for name, rows in files.items():
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def limited():
    resource.setrlimit(resource.RLIMIT_FSIZE, (ROOM, ROOM))


def run(verb, given, out, before=None):
    command = [word.format(out=out) for word in VERBS[verb]]
    root = str(Path(fitrag_integrations.__file__).parents[1])
    cache = {"XDG_CACHE_HOME": str(given / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, "-m", "fitrag_integrations.cli", *command],
        cwd=given,
        capture_output=True,
        text=True,
        preexec_fn=before,
        env={**os.environ, "PYTHONPATH": root, **cache},
    )


def refused(done, words):
    assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr[-2000:]
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("fitrag: ") and "could not be written" in last and words in last
    return last


@pytest.mark.parametrize("verb", VERBS)
def test_a_file_that_may_not_grow_is_one_line(tmp_path, given, verb):
    last = refused(run(verb, given, tmp_path, limited), "File too large")
    assert str(tmp_path) in last and (verb in ("index", "train") or " bytes)" in last)
    files = [each for each in tmp_path.rglob("*") if each.is_file()]
    assert not [each for each in files if "partial" in each.name or each.suffix == ".tmp"]
    assert not {"page.html", "result.json", "index.faiss"} & {each.name for each in files}


@pytest.fixture
def small(tmp_path):
    """Mount a disk of 64 kB, where that is allowed."""
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    try:
        mounted = subprocess.run(command, capture_output=True).returncode == 0
    except OSError:
        mounted = False
    if not mounted:
        pytest.skip("no disk may be mounted here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.parametrize("verb", ["score", "train"])
def test_a_full_disk_is_one_line_and_the_run_continues_elsewhere(small, given, verb):
    (small / "filler").write_bytes(b"x" * (52 << 10))
    last = refused(run(verb, given, small), "No space left on device")
    assert str(small) in last
    if verb == "score":
        (small / "filler").unlink()
        done = run(verb, given, small)
        assert done.returncode == 0 and "40 rows" in done.stderr
