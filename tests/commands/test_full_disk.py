"""A machine that is short of something, or closed streams: one line, no traceback, no lie."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from command_fakes import write

import fitrag_integrations

resource = pytest.importorskip("resource")
ROOM = 6 << 10  # bytes that a file may have
VERBS = {
    "index": ("index", "corpus.jsonl", "{out}/index"),
    "try": ("try", "corpus.jsonl", "--out", "{out}/page.html", "--limit", "4"),
    "score": ("score", "rows.jsonl", "{out}/out.jsonl"),
    "rerank": ("evaluate", "rerank", "rows.jsonl", "--out", "{out}/result.json"),
    "train": ("train", "reader", "rows.jsonl", "--out", "{out}/reader", "--steps", "1"),
}


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    """Files to read, on a disk that has room."""
    folder = tmp_path_factory.mktemp("given")
    texts = [f"Ann wrote part {i} of the book in {1900 + i}." for i in range(40)]
    write(folder / "corpus.jsonl", [{"id": str(i), "text": text} for i, text in enumerate(texts)])
    rows = [
        {
            "question": f"who wrote part {i}?",
            "answers": ["Ann"],
            "passage": {"title": "T", "text": text},
            "passages": [{"title": "T", "text": text}],
            "scores": [{"has_answer": 0.9, "llm_prefer": 0.8}],
        }
        for i, text in enumerate(texts)
    ]
    write(folder / "rows.jsonl", rows)
    return folder


ONE_CHILD = """
import json, os, resource, sys
import torch, transformers
from fitrag_integrations.cli import main
import fitrag_integrations.commands.train.verbs
room, runs = json.loads(sys.argv[1])
for words, told in runs:
    if not (child := os.fork()):
        os.dup2(os.open(told, os.O_CREAT | os.O_WRONLY), 2)
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
        main(words)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def words_of(verb, out):
    return [word.format(out=out) for word in VERBS[verb]]


def command(words, given, before=None, program=("-m", "fitrag_integrations.cli"), **more):
    root = str(Path(fitrag_integrations.__file__).parents[1])
    cache = {"XDG_CACHE_HOME": str(given / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, *program, *words],
        cwd=given,
        capture_output=True,
        text=True,
        preexec_fn=before,
        env={**os.environ, "PYTHONPATH": root, **cache, **more},
    )


@pytest.fixture(scope="module")
def limited(given, tmp_path_factory):
    """Run every verb where files may not grow, all from one process that has loaded torch."""
    outs = {verb: tmp_path_factory.mktemp(verb) for verb in VERBS}
    told = {verb: tmp_path_factory.mktemp("told") / verb for verb in VERBS}
    runs = [(words_of(verb, outs[verb]), str(told[verb])) for verb in VERBS]
    made = command([json.dumps([ROOM, runs])], given, program=("-c", ONE_CHILD))
    codes = [int(line) for line in made.stdout.split() if line.isdecimal()]
    assert len(codes) == len(VERBS), made.stderr
    done = (
        subprocess.CompletedProcess(verb, code, stderr=told[verb].read_text())
        for verb, code in zip(VERBS, codes, strict=True)
    )
    return {verb: (each, outs[verb]) for verb, each in zip(VERBS, done, strict=True)}


def refused(done, words):
    assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr[-2000:]
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("fitrag: ") and "could not be written" in last and words in last
    return last


@pytest.mark.parametrize("verb", VERBS)
def test_a_file_that_may_not_grow_is_one_line(limited, verb):
    done, out = limited[verb]
    last = refused(done, "File too large")
    assert str(out) in last and (verb in ("index", "train") or " bytes)" in last)
    files = [each for each in out.rglob("*") if each.is_file()]
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


def test_a_full_disk_is_one_line_and_the_run_continues(small, given):
    (small / "filler").write_bytes(b"x" * (52 << 10))
    last = refused(command(words_of("score", small), given), "No space left on device")
    assert str(small) in last
    (small / "filler").unlink()
    done = command(words_of("score", small), given)
    assert done.returncode == 0 and "40 rows" in done.stderr


def forgetful():
    resource.setrlimit(resource.RLIMIT_AS, (250 << 20, 250 << 20))


STARVED = {
    "standard error closed": ("out.jsonl", lambda: os.close(2), 0, ""),
    "standard output closed": ("-", lambda: os.close(1), 2, "fitrag: standard output is closed"),
    "little memory": ("out.jsonl", forgetful, 2, "not enough memory"),
}


@pytest.mark.parametrize("what", STARVED)
def test_a_starved_run_says_so_in_one_line(tmp_path, given, what):
    target, before, code, said = STARVED[what]
    out = target if target == "-" else tmp_path / target
    done = command(["score", "rows.jsonl", str(out)], given, before, OMP_NUM_THREADS="1")
    assert done.returncode == code and said in done.stderr and "Traceback" not in done.stderr
    assert not done.stderr or done.stderr.splitlines()[-1].startswith("fitrag: ")
    rows = (tmp_path / "out.jsonl").read_text() if code == 0 else ""
    assert rows.count("\n") == 40 * (not code) and "error" not in rows
    assert code == 0 or not (tmp_path / "out.jsonl").exists()


@pytest.mark.parametrize("asked", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_models_load_prints_one_line(tmp_path, given, asked):
    script = (
        "import os, signal\nfrom fitrag_integrations import cli\n"
        "from fitrag_integrations.commands.engine import models\n"
        f"models.load_scorer = lambda options: os.kill(os.getpid(), {int(asked)})\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        f"cli.main(['score', 'rows.jsonl', {str(tmp_path / 'out.jsonl')!r}])"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=given, capture_output=True, text=True)
    assert done.returncode == 128 + asked
    assert done.stderr == "fitrag: asked to stop; the same command goes on\n"
