"""Rows answered elsewhere are those answered here."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from command_fakes import passages, read, write
from ray_process import SCORER

from fitrag_integrations.commands import MapRows
from fitrag_integrations.core.extras import installed
from fitrag_integrations.errors import InputError

needs_ray = pytest.mark.skipif(
    not all(map(installed, ("ray", "pyarrow", "pandas"))), reason="the extra ray is not installed"
)


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ray")
    rows = [
        {
            "id": i,
            "question": f"who {i} ?",
            "note": [0.1 * i, "é"],
            "passages": passages("x" * (i % 9 + 1)),
        }
        for i in range(100)
    ]
    return write(
        folder / "in.jsonl", [*rows[:60], b'{"bad', {"id": 60, "question": "no"}, *rows[61:]]
    )


@pytest.fixture(scope="module")
def told(given):
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("ray_process.py")), str(given.parent)],
        timeout=300,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads((given.parent / "told.json").read_text())


@needs_ray
@pytest.mark.slow
def test_rows_answered_by_workers(told, given):
    whole = given.with_name("here.jsonl").read_bytes()
    for what, name in (("died once", "once"), ("cut", "cut")):
        (code, said), (_, here) = told[what], told["here"]
        assert code == 0 and "101 rows" in said
        assert "2 error rows" in said and "2 error rows" in here
        assert given.with_name(f"{name}.jsonl").read_bytes() == whole
    code, said = told["dies always"]  # a lot that ends every worker ends the run
    assert code == 2 and "--engine ray" in said and "what is written stays" in said
    assert whole.startswith(given.with_name("always.jsonl").read_bytes())
    assert 40 not in [row.get("id") for row in read(given.with_name("always.jsonl"))]
    code, said = told["no model"]
    assert code == 2 and "fitrag: none: model.json is missing" in said
    assert [row.pop("error") for row in told["mapped"]] == [None] * 20
    assert told["mapped"] == read(given.with_name("here.jsonl"))[:20]


@needs_ray
@pytest.mark.slow
def test_a_killed_run_is_continued_without_ray(given, fitrag, tmp_path):
    (tmp_path / "scorer.py").write_text(SCORER)
    (tmp_path / "slowly").touch()
    made, model = tmp_path / "out.jsonl", ["--model", tmp_path / "scorer.py"]
    words = ["score", given, made, *model, "--engine", "ray", "--workers", "2"]
    script = "from fitrag_integrations.cli import main; main()"
    env = {**os.environ, "RAY_worker_niceness": "0"}
    run = subprocess.Popen([sys.executable, "-c", script, *map(str, words)], env=env)
    while run.poll() is None and not (made.exists() and made.stat().st_size):
        time.sleep(0.05)
    os.kill(run.pid, signal.SIGKILL)
    run.wait()
    assert 0 < len(read(made)) < 101
    (tmp_path / "slowly").unlink()
    assert fitrag("score", given, made, *model)[0] == 0
    assert fitrag("score", given, tmp_path / "here.jsonl", *model)[0] == 0
    assert made.read_bytes() == (tmp_path / "here.jsonl").read_bytes()


def init(**how):
    raise Exception("The current node timed out during startup.")


CLUSTER = SimpleNamespace(is_initialized=lambda: False, init=init)  # that does not start


@pytest.mark.parametrize(
    ("engine", "modules", "said"),
    [
        ("ray", {"ray": None}, "fitrag-integrations[ray]"),
        ("ray", {"ray": CLUSTER}, "fitrag: --engine ray: The current node timed out"),
    ],
)
def test_what_cannot_run_is_told(given, fitrag, tmp_path, monkeypatch, engine, modules, said):
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    code, _, err = fitrag("score", given, tmp_path / "out.jsonl", "--engine", engine)
    assert code == 2 and said in err


def test_rows_that_fail_are_told_in_their_place(scorer):
    rows = [
        {"id": 1, "question": "who", "passages": passages("a"), "error": None},
        {"id": 2, "question": "who", "passages": None},
    ]
    good, bad = MapRows("score")(rows)
    assert good["error"] is None and len(good["scores"]) == 1
    assert "passages` must be" in bad["error"] and bad["scores"] == [] and bad["id"] == 2
    assert list(good) == [*rows[0], "scores"]


@pytest.mark.parametrize(
    "verb, options, said",
    [("label", {}, "verb` must be"), ("score", {"wait": 1}, "option` must be")],
)
def test_a_verb_that_is_none_is_refused(verb, options, said):
    with pytest.raises(InputError, match=said):
        MapRows(verb, **options)
