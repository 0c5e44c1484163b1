"""Imports go one way, and the package root loads nothing heavy."""

import ast
import importlib
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

import fitrag_integrations
from fitrag_integrations.core.extras import installed

ROOT = Path(fitrag_integrations.__file__).parent
VALUES = {"errors", "defaults", "core", "text", "types", "values", "flow", "ports"}
ADAPTERS = {"langchain", "llama_index"}
# Each room of the house with the rooms it may know; "embedded" is data.
ALLOWED = {
    "errors": set(),
    "defaults": {"errors"},
    "core": {"errors"},
    "text": {"errors", "core"},
    "types": {"values"},
    "values": {"errors", "defaults", "core", "text"},
    "flow": {"errors", "core", "text", "types", "values"},
    "ports": VALUES,
    "models": VALUES | {"embedded"},
    "methods": VALUES | {"models", "retrieval"},
    "retrieval": VALUES | {"models", "embedded"},
    "web": VALUES,
    "evaluation": VALUES | {"methods"},
    "langchain": VALUES | {"methods", "retrieval"},
    "llama_index": VALUES | {"methods", "retrieval"},
    "training": VALUES | {"methods", "models", "evaluation", "retrieval", "embedded"},
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
    """Name the room a file belongs to."""
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def module_of(path):
    """Name the module a file is imported as."""
    return ".".join(["fitrag_integrations", *path.relative_to(ROOT).with_suffix("").parts])


@cache
def nodes(path):
    """Give all nodes of a file, which is parsed once for every test."""
    return list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


def imported(path):
    """Give every module a file imports, at any depth, relative ones made absolute."""
    package = ["fitrag_integrations", *path.relative_to(ROOT).parts[:-1]]
    for node in nodes(path):
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
                yield names[1]


def test_imports_go_one_way():
    for path in MODULES:
        part, parts = part_of(path), set(own_parts(path))
        if part in ALLOWED:
            assert parts <= ALLOWED[part] | {part}, path
        if part != "cli":
            assert not parts & ABOVE - {part}, path


def test_no_arrow_between_rooms_is_hidden_in_a_string():
    """What a module loads by name is in its own room; `ports.WRITERS` is the one door."""
    rooms = {f"fitrag_integrations.{room}" for room in ALLOWED}
    for path in (path for path in MODULES if part_of(path) not in {"ports", *ABOVE}):
        others = rooms - {f"fitrag_integrations.{part_of(path)}"}
        values = [node.value for node in nodes(path) if isinstance(node, ast.Constant)]
        texts = [value for value in values if isinstance(value, str)]
        named = {text for text in texts if text.split(" ")[0].startswith("fitrag_integrations.")}
        assert not {text for text in named if ".".join(text.split(".")[:2]) in others}, path


def circles(graph):
    """Give each group of modules that import one another, by Tarjan's strong components."""
    order, low, path, found = {}, {}, [], []

    def visit(module):
        order[module] = low[module] = len(order)
        path.append(module)
        for other in graph[module]:
            if other not in order:
                visit(other)
                low[module] = min(low[module], low[other])
            elif other in path:
                low[module] = min(low[module], order[other])
        if low[module] == order[module]:
            group = path[path.index(module) :]
            del path[path.index(module) :]
            if len(group) > 1:
                found.append(sorted(group))

    for module in graph:
        if module not in order:
            visit(module)
    return found


def folders(graph):
    """Return the same graph of folders; a module at the top, such as ``ports``, is one itself."""
    home = {name: name.rpartition(".")[0] if name.count(".") > 1 else name for name in graph}
    found = {folder: set() for folder in home.values()}
    for name, others in graph.items():
        found[home[name]] |= {home[other] for other in others} - {home[name]}
    return found


def test_neither_modules_nor_folders_import_one_another():
    """Imports inside functions count too; the doors, ``__init__``, only pass names on."""
    files = {module_of(path): path for path in MODULES if path.name != "__init__.py"}
    graph = {name: set(imported(path)) & set(files) - {name} for name, path in files.items()}
    assert circles(graph) == []
    assert circles(folders(graph)) == []
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == [["b", "c"]]


def test_frameworks_and_torch_stay_where_they_belong():
    for path in MODULES:
        part = part_of(path)
        tops = {module.partition(".")[0] for module in imported(path)} - {"fitrag_integrations"}
        if part not in {"models", "training", "retrieval", "evaluation", *ABOVE}:
            assert not tops & TORCH, path
        homes = {FRAMEWORKS[top] for top in tops if top in FRAMEWORKS}
        assert homes <= ({part} if part in ADAPTERS else set()) or part in ABOVE, path


def test_every_module_imports_but_for_an_extra_that_is_not_installed():
    for path in MODULES:
        try:
            importlib.import_module(module_of(path).removesuffix(".__init__"))
        except ImportError as error:
            assert not installed(error.name), f"{module_of(path)}: {error}"


def test_the_house_stays_small_enough_to_look_at():
    """At most 25 things below the package, and twelve files in a folder but the baselines."""
    top = {path.relative_to(ROOT).parts[0] for path in MODULES} - {"__init__.py"}
    assert len(top) <= 25
    folders = Counter(path.parent.relative_to(ROOT).as_posix() for path in MODULES)
    full = {name for name, files in folders.items() if files > 12}
    assert full <= {"methods/baselines"}


def loaded_by(statement, before=""):
    """Run a statement in a new process; gives the modules it loads, each by its first name."""
    script = f"import sys\n{before}\ntheirs = {{*sys.modules}}\n{statement}\n"
    done = subprocess.run(
        [sys.executable, "-c", f"{script}print(*({{*sys.modules}} - theirs))"],
        **{"capture_output": True, "text": True, "check": True, "cwd": ROOT.parent},
    )
    return {module.partition(".")[0] for module in done.stdout.split()}


ALL_HEAVY = TORCH | set(FRAMEWORKS) | {"syntok", "numpy", "tiktoken"}
METHODS_MADE = """
from fitrag_integrations.methods import ITRG, Crag, FitRag, IKnow, SlimPLM, method_from
from fitrag_integrations.methods.baselines import Flare, Replug, Targ
FitRag(), IKnow(), Crag(), SlimPLM(), ITRG()
method_from("slimplm")
"""
REMOTE_MADE = """
from fitrag_integrations.models import RemoteGenerator, RemoteIK
RemoteIK("http://127.0.0.1:1/v1", "lm")
"""
SEARCHED = """
from fitrag_integrations.web import WebSearch
search = WebSearch.from_tool(lambda query: ["Otters hold hands."])
assert search.search(["q"])[0][0].text == "Otters hold hands."
"""
DROP_INS_MADE = """
from fitrag_integrations.langchain import CorrectiveRetriever, CorrectiveRouter
from fitrag_integrations.langchain import KnowledgeRefiner, KnowledgeRouter
KnowledgeRouter(llm=str.upper, unknown=str.lower)
CorrectiveRouter(correct=str.upper, incorrect=str.lower)
CorrectiveRetriever(base=str.split); KnowledgeRefiner()
"""
MIDDLEWARE_MADE = """
from fitrag_integrations.langchain import *
RetrievalGateMiddleware(llm=str.upper, tools="search")
"""
BELOW_LANGCHAIN = {"torch", "transformers", "faiss", "llama_index", "langchain_classic", "tiktoken"}
CLIENTS = {"httpx", "googleapiclient", "trafilatura"}


def every_name(of):
    return f"import fitrag_integrations.{of} as ours; [getattr(ours, n) for n in ours.__all__]"


# What is run, what it may not load, and what has to be there, imported before.
LIGHT = {
    "the package": ("import fitrag_integrations", ALL_HEAVY, ""),
    "plain functions": ("from fitrag_integrations import compress, rerank", ALL_HEAVY, ""),
    "methods": (METHODS_MADE, ALL_HEAVY, ""),
    "corpus": ("from fitrag_integrations.retrieval import read_corpus", ALL_HEAVY, ""),
    "retrieval": ("import fitrag_integrations.retrieval", ALL_HEAVY, ""),
    "names of retrieval": (every_name("retrieval"), {"torch", "faiss", "transformers"}, ""),
    "remote models": (REMOTE_MADE, {"torch"}, "httpx"),
    "a search by a function": (SEARCHED, CLIENTS | {"torch", "langchain_core"}, ""),
    "langchain": ("import fitrag_integrations.langchain", ALL_HEAVY, ""),
    "llama_index": ("import fitrag_integrations.llama_index", ALL_HEAVY, ""),
    # older cores import transformers themselves
    "drop-ins of langchain": (
        DROP_INS_MADE,
        BELOW_LANGCHAIN,
        "langchain_core.language_models.base",
    ),
    "every name of langchain": (MIDDLEWARE_MADE, BELOW_LANGCHAIN, "langchain.agents"),
    "drop-ins of llama_index": (
        every_name("llama_index"),
        {"torch", "langchain_core", "faiss"},
        "llama_index.core",
    ),
}


@pytest.mark.parametrize("name", LIGHT)
def test_light_imports_stay_light(name):
    statement, heavy, needed = LIGHT[name]
    if needed and not installed(needed.partition(".")[0]):
        pytest.skip(f"needs {needed}")
    assert not loaded_by(statement, f"import {needed}" if needed else "") & heavy


def test_drop_ins_import_without_reading_their_source():
    """Descriptions of fields that pydantic reads from docstrings cost half of the import time."""
    script = (
        "import linecache\nfrom fitrag_integrations.langchain import FitRagRetriever\n"
        "print(*(name for name in linecache.cache if 'fitrag_integrations' in name))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT.parent
    )
    assert not done.stdout.strip()
