"""The matrix of what the package supports: pythons, oldest and newest dependencies, each extra.

``nox`` runs what the machine has the interpreters for; ``nox -s core-3.12`` one of them. Each
session runs the tests that need only what it installs; the full suite is ``make test``.
"""

from pathlib import Path

import nox

nox.options.error_on_missing_interpreters = False
nox.options.reuse_venv = "yes"

# What pyproject.toml allows at the least; "newest" is whatever the index gives today.
OLDEST = ["langchain-core==1.4.0", "llama-index-core==0.14.0", "transformers==5.0.0"]
# What they say of a pydantic that is newer than they are, when they are imported.
OF_THE_OLDEST = ["-W", "ignore::pydantic.warnings.UnsupportedFieldAttributeWarning"]
# One version, as the newest is built for CUDA; which build of it comes is the index's to say.
PINNED = Path(__file__).with_name("constraints.txt").read_text(encoding="utf-8").splitlines()
TORCH = next(line for line in PINNED if line.startswith("torch=="))
EXTRAS = ["langchain", "llama-index", "faiss", "web", "remote", "serve", "evaluate", "train"]
CORE = [
    "tests/core",
    "tests/text",
    "tests/values",
    "tests/flow",
    "tests/methods",
    "tests/contracts",
]
FRAMEWORKS = ["tests/adapters"]


def install(session, *, extras, pins=()):
    """Install the package with extras, the pinned torch where one needs it, and what tests."""
    torch = [TORCH] if {"offline", "train"} & set(extras) else []
    tools = ["pytest", "pytest-asyncio", "pytest-socket", "hypothesis"]
    session.install(f".[{','.join(extras)}]" if extras else ".", *torch, *tools, *pins)


def run(session, folders, *options):
    """Run folders of tests against the installed package."""
    session.run("pytest", "-q", "-p", "no:cacheprovider", *options, *folders, *session.posargs)


@nox.session(python=["3.11", "3.12", "3.13"])
def core(session):
    """Without any extra: types, flows, methods, contracts, over the embedded models."""
    install(session, extras=[])
    run(session, CORE)


@nox.session(python="3.11")
@nox.parametrize("versions", ["oldest", "pinned", "newest"])
def frameworks(session, versions):
    """Both adapters against the oldest, the pinned and the newest frameworks."""
    pins = {"oldest": OLDEST, "pinned": ["-c", "constraints.txt"], "newest": ["--upgrade"]}
    extras = ["agents", "evaluate", "faiss", "langchain", "llama-index", "offline", "remote", "web"]
    install(session, extras=extras, pins=[*pins[versions], "langchain-classic", "langchain-tests"])
    run(session, FRAMEWORKS, *(OF_THE_OLDEST if versions == "oldest" else ()))


@nox.session(python="3.11")
@nox.parametrize("extra", EXTRAS)
def imports(session, extra):
    """One extra at a time: everything imports, and what is missing is named by its extra."""
    install(session, extras=[extra])
    run(session, ["tests/test_imports.py", "tests/test_public_names.py"])


@nox.session(python="3.11")
def scale_out(session):
    """Rows answered by workers of Ray on this machine, with some of them killed."""
    install(session, extras=["offline", "ray", "serve"])
    run(session, ["tests/commands/engine/test_scale_out.py"])
