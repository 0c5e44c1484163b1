"""The command line itself: light, quiet about secrets, clear about what is wrong."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import typer

import fitrag_integrations
from fitrag_integrations import cli
from fitrag_integrations.commands import machine

HEAVY = {"torch", "transformers", "peft", "langchain_core", "llama_index", "faiss", "numpy"}


@pytest.mark.parametrize("arguments", [["--help"], ["score", "--help"], ["train", "--help"]])
def test_help_loads_nothing_heavy(arguments):
    script = (
        "import sys\nfrom fitrag_integrations.cli import main\n"
        f"try:\n    main({arguments!r})\nexcept SystemExit as ended:\n    assert not ended.code\n"
        "print('loaded:', *sorted({name.partition('.')[0] for name in sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Usage" in done.stdout
    assert not HEAVY & set(done.stdout.rpartition("loaded:")[2].split())


def test_every_verb_is_there(fitrag):
    code, out, _ = fitrag("--help")
    assert code == 0
    verbs = ["demo", "index", "answer", "score", "gate", "route", "compress", "read", "doctor"]
    verbs += ["train", "label", "calibrate", "evaluate"]
    assert all(f" {verb} " in out for verb in verbs)


def test_version(fitrag):
    assert fitrag("--version")[1].strip() == fitrag_integrations.__version__


def test_doctor_as_json_shows_no_key(fitrag, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "secret-one")
    monkeypatch.setenv("HF_TOKEN", "secret-two")
    code, out, _ = fitrag("doctor", "--json")
    found = json.loads(out)
    assert code == 0
    assert found["versions"]["fitrag-integrations"] == fitrag_integrations.__version__
    assert found["devices"]["cpu cores"] >= 1
    assert set(found) == {"versions", "devices", "faiss", "offline", "embedded models", "extras"}
    assert "secret" not in out


def test_doctor_looks_at_every_extra_with_a_feature():
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    (every,) = tomllib.loads(text)["project"]["optional-dependencies"]["all"]
    assert set(machine.EXTRAS) == set(every.partition("[")[2].rstrip("]").split(","))


def test_doctor_as_a_table(fitrag):
    code, out, _ = fitrag("doctor")
    assert code == 0 and "torch" in out and "extras" in out


def test_doctor_outlives_a_broken_package(fitrag, monkeypatch):
    def broken():
        raise OSError("libcudart.so.12 is missing")

    monkeypatch.setattr(machine, "_devices", broken)
    code, out, _ = fitrag("doctor", "--json")
    assert code == 0
    assert json.loads(out)["devices"] == {"problem": "OSError: libcudart.so.12 is missing"}


def test_a_command_from_elsewhere_loads_when_called(monkeypatch, capsys):
    group = typer.Typer()
    cli.later(group, "one", "somewhere.training:one", "Do one thing.")
    cli.later(group, "two", "somewhere.training:two", "Do another.")
    seen = []

    def one(given: str, steps: int = 3):
        seen.append((given, steps))

    def load(name):
        return type("Module", (), {"one": staticmethod(one)})

    monkeypatch.setattr(cli.importlib, "import_module", load)
    group(["one", "rows", "--steps", "5"], standalone_mode=False)
    assert seen == [("rows", 5)]
    group(["one", "--help"], standalone_mode=False)
    assert "--steps" in capsys.readouterr().out


def test_a_wrong_option_is_a_usage_error(fitrag):
    code, _, err = fitrag("score", "in.jsonl", "out.jsonl", "--nothing")
    assert code == 2 and "--nothing" in err


def test_a_chat_model_needs_provider_and_model(tmp_path, scorer, fitrag):
    (tmp_path / "in.jsonl").write_text("")
    code, _, err = fitrag("answer", tmp_path / "in.jsonl", tmp_path / "out.jsonl", "--llm", "gpt")
    assert code == 2 and "PROVIDER:MODEL" in err
