"""Run the code of README and docs page by page; check names and arguments of code that cannot run.

The Python blocks of a page are executed in order, share their names, and run in a temporary folder.
A comment before a block changes this::

    <!-- not run: needs the model hub -->    compile it, and check names and arguments
    <!-- run -->                             run a block of `fitrag` commands too
    <!-- output -->                          compare it with what the previous block printed

Every `fitrag` command shown must exist, with its options.
"""

import ast
import asyncio
import importlib
import inspect
import re
import shlex
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from textwrap import dedent

import pytest
from typer.testing import CliRunner

from fitrag_integrations.cli import app
from fitrag_integrations.methods import defaults

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(
    r"^(?: *<!-- (?P<mark>[^\n]*?) -->\n+)?"
    r"^(?P<pad> *)```(?P<language>\w+)[^\n]*\n(?P<source>.*?)^(?P=pad)```$",
    re.MULTILINE | re.DOTALL,
)
SHELLS = {"sh", "bash", "console", "shell"}
WIDE = {"COLUMNS": "300", "TERMINAL_WIDTH": "300", "NO_COLOR": "1", "TERM": "dumb"}


@dataclass(frozen=True)
class Block:
    """A fenced block, and the line of its first source line."""

    page: Path
    line: int
    language: str
    source: str
    mark: str

    @property
    def runs(self):
        if self.language == "python":
            return not self.mark.startswith("not run")
        return self.language in SHELLS and self.mark == "run"

    def compiled(self):
        tree = ast.parse(self.source)
        ast.increment_lineno(tree, self.line - 1)
        return compile(tree, str(self.page), "exec")


@cache
def blocks_of(page):
    text = page.read_text(encoding="utf-8")
    return [
        Block(
            page,
            text.count("\n", 0, found.start("source")) + 1,
            found["language"],
            dedent(found["source"]),
            found["mark"] or "",
        )
        for found in BLOCK.finditer(text)
    ]


def label(page):
    return page.relative_to(ROOT).as_posix()


def commands(block):
    """Yield the words of each `fitrag` command of a shell block."""
    for line in block.source.replace("\\\n", " ").splitlines():
        words = shlex.split(line.strip().removeprefix("$ "), comments=True)
        if words and words[0] == "fitrag":
            yield words[1:]


def run_shell(block):
    for words in commands(block):
        done = CliRunner().invoke(app, words, env=WIDE)
        assert done.exit_code == 0, f"{' '.join(words)}: {done.output}{done.exception!r}"


RUNNING = [page for page in PAGES if any(block.runs for block in blocks_of(page))]


@pytest.fixture
def closed_loop():
    """Event loop of the main thread: LlamaIndex's memory makes one and leaves it open."""
    with asyncio.Runner() as runner:
        asyncio.set_event_loop(runner.get_loop())
        yield
    asyncio.set_event_loop(None)


@pytest.mark.filterwarnings("ignore:The function `loads` is in beta")  # of langchain-core
@pytest.mark.usefixtures("closed_loop")
@pytest.mark.parametrize("page", RUNNING, ids=label)
def test_a_page_runs_from_top_to_bottom(page, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("FITRAG_CPU_DTYPE", "int8")  # as for a reader; other tests take float32
    monkeypatch.setattr(defaults, "_loaded", {})
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "document"}
    for block in blocks_of(page):
        if block.mark == "output":
            assert capsys.readouterr().out == block.source, block
        capsys.readouterr()
        if block.runs and block.language == "python":
            exec(block.compiled(), names)
        elif block.runs:
            run_shell(block)


@pytest.mark.parametrize("page", PAGES, ids=label)
def test_what_is_not_run_says_why_and_compiles(page):
    for block in blocks_of(page):
        if block.language == "python":
            block.compiled()
        if block.mark.startswith("not run"):
            assert len(block.mark.removeprefix("not run:").split()) > 1, block


@pytest.mark.parametrize("page", PAGES, ids=label)
def test_names_and_arguments_of_this_package_are_as_shown(page):
    known = {}
    for block in blocks_of(page):
        if block.language == "python":
            tree = ast.parse(block.source)
            known |= imported(tree)
            check_calls(tree, known)


def imported(tree):
    """Resolve every import from this package; only public names may be shown."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("fitrag_"):
            module = importlib.import_module(node.module)
            for alias in node.names:
                if alias.name in getattr(module, "__all__", [alias.name]):
                    found[alias.asname or alias.name] = getattr(module, alias.name)
                else:
                    raise AssertionError(f"{node.module}.{alias.name} is not public")
    return found


def check_calls(tree, known):
    """Check attributes of imported names, and the keywords of calls."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            owner = known.get(node.value.id)
            assert owner is None or hasattr(owner, node.attr), ast.unparse(node)
        if isinstance(node, ast.Call) and (target := resolved(node.func, known)) is not None:
            taken = inspect.signature(target).parameters.values()
            names = {parameter.name for parameter in taken}
            open_ended = any(parameter.kind is parameter.VAR_KEYWORD for parameter in taken)
            given = {word.arg for word in node.keywords if word.arg}
            assert open_ended or given <= names, f"{ast.unparse(node)}: not {given - names}"


def resolved(function, known):
    if isinstance(function, ast.Name):
        return known.get(function.id)
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
        return getattr(known.get(function.value.id), function.attr, None)
    return None


@cache
def helped(path):
    """Return the help of a command, or None if it does not exist."""
    done = CliRunner().invoke(app, [*path, "--help"], env=WIDE)
    return done.output if done.exit_code == 0 else None


def verb_of(words):
    """Split the words of a command into the verb and its arguments."""
    for length in (2, 1):
        verb = tuple(words[:length])
        plain = all(re.fullmatch(r"[a-z-]+", word) and word[0] != "-" for word in verb)
        if plain and len(verb) == length and is_verb(verb):
            return verb, words[length:]
    raise AssertionError(f"no command: fitrag {' '.join(words)}")


def is_verb(verb):
    listed = helped(verb[:-1]) or ""
    return bool(re.search(rf"^\W*{re.escape(verb[-1])}\s", listed, re.MULTILINE)) and (
        len(verb) == 1 or "COMMAND" in listed
    )


SHOWN = [
    pytest.param(words, id=f"{label(page)}:{' '.join(words[:2])}")
    for page in PAGES
    for block in blocks_of(page)
    if block.language in SHELLS
    for words in commands(block)
    if words[:1] != ["COMMAND"]
]


@pytest.mark.parametrize("words", SHOWN)
def test_commands_and_options_exist(words):
    verb, arguments = verb_of([word for word in words if word != "..."])
    text = helped(verb)
    assert text is not None
    options = [word.partition("=")[0] for word in arguments if re.match(r"--?[a-z]", word)]
    missing = [option for option in options if not re.search(rf"{option}(?![\w-])", text)]
    assert missing == []


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/architecture.md"])
def test_the_files_that_contributors_are_pointed_to_exist(page):
    named = re.findall(r"`([\w/]+\.(?:py|md))`", (ROOT / page).read_text(encoding="utf-8"))
    roots = (ROOT, ROOT / "fitrag_integrations")
    assert named
    assert [path for path in named if not any((root / path).exists() for root in roots)] == []
