"""Imports go one way, and the package root loads nothing heavy."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import fitrag_integrations

ROOT = Path(fitrag_integrations.__file__).parent
BASE = {"types", "flow", "errors"}  # and every underscore module beside them
VALUES = BASE | {"ports"}
ADAPTERS = {"langchain", "llama_index"}
ALLOWED = {
    **dict.fromkeys(BASE, BASE),
    "ports": BASE,
    "methods": VALUES,
    "models": VALUES | {"embedded"},
    "retrieval": VALUES | {"models", "embedded"},
    "web": VALUES,
    "evaluation": VALUES | {"methods"},
    "training": VALUES | {"models", "evaluation", "embedded"},
    "langchain": VALUES | {"methods"},
    "llama_index": VALUES | {"methods"},
}
ABOVE = {"cli", "commands"}  # they may import anything, and nothing but the cli imports them
FRAMEWORKS = {
    "langchain_core": "langchain",
    "langchain": "langchain",
    "langchain_classic": "langchain",
    "langgraph": "langchain",
    "llama_index": "llama_index",
}
TORCH = {"torch", "transformers", "peft", "safetensors"}
MODULES = sorted(ROOT.rglob("*.py"))


def part_of(path):
    """Name the part a file belongs to; the underscore modules beside ``types`` are of the base."""
    name = path.relative_to(ROOT).parts[0].removesuffix(".py")
    return "types" if name.startswith("_") and name != "__init__" else name


def imported(path):
    """Give every module a file imports, at any depth, relative ones made absolute."""
    package = ["fitrag_integrations", *path.relative_to(ROOT).parts[:-1]]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


def own_parts(path):
    """Name the parts of this package a file imports from."""
    for module in imported(path):
        names = module.split(".")
        if names[0] == "fitrag_integrations" and len(names) > 1:
            is_part = (ROOT / names[1]).is_dir() or (ROOT / f"{names[1]}.py").is_file()
            if is_part:
                yield "types" if names[1].startswith("_") else names[1]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_one_way(path):
    part, parts = part_of(path), set(own_parts(path))
    if part in ALLOWED:
        assert parts <= ALLOWED[part] | {part}
    if part != "cli":
        assert not parts & ABOVE - {part}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_frameworks_and_torch_stay_where_they_belong(path):
    part = part_of(path)
    tops = {module.partition(".")[0] for module in imported(path)} - {"fitrag_integrations"}
    if part not in {"models", "training", "retrieval", "evaluation", *ABOVE}:
        assert not tops & TORCH
    homes = {FRAMEWORKS[top] for top in tops if top in FRAMEWORKS}
    assert homes <= ({part} if part in ADAPTERS else set()) or part in {"testing", *ABOVE}


def loaded_by(statement):
    script = f"{statement}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT.parent
    )
    return {module.partition(".")[0] for module in done.stdout.split()}


@pytest.mark.parametrize(
    "statement",
    [
        "import fitrag_integrations",
        "from fitrag_integrations.methods import FitRag; FitRag()",
        "from fitrag_integrations.methods import IKnow; IKnow()",
        "from fitrag_integrations.methods import Crag; Crag()",
        "from fitrag_integrations.methods import SlimPLM; SlimPLM()",
        "from fitrag_integrations.methods import ITRG; ITRG()",
        "from fitrag_integrations.methods.baselines import Flare, Replug, Targ; Flare(); Targ()",
        "from fitrag_integrations.retrieval import read_corpus",
    ],
)
def test_light_imports_stay_light(statement):
    heavy = TORCH | set(FRAMEWORKS) | {"syntok", "numpy", "tiktoken"}
    assert not loaded_by(statement) & heavy


def test_the_commands_help_loads_no_torch_and_no_framework():
    help = "from fitrag_integrations.cli import main; import sys; sys.argv = ['fitrag', '--help']"
    loaded = loaded_by(f"{help}\ntry:\n    main()\nexcept SystemExit:\n    pass")
    assert "typer" in loaded
    assert not loaded & (TORCH | set(FRAMEWORKS))
