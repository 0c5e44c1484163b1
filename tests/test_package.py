"""What is packaged is what the code and the documents say."""

import ast
import importlib
import re
import subprocess
import sys
import tomllib
from email.parser import HeaderParser
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path
from zipfile import ZipFile

import pytest
import yaml
from hatchling.builders.wheel import WheelBuilder
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import fitrag_integrations

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "fitrag_integrations"
PROJECT_FILE = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PROJECT_FILE["project"]
EXTRAS = PROJECT["optional-dependencies"]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@cache
def nodes():
    """Give each module of the package with its nodes, parsed once where a test asks."""
    paths = sorted(PACKAGE.rglob("*.py"))
    return [(path, list(ast.walk(ast.parse(path.read_text("utf-8"))))) for path in paths]


def requirements(*extras):
    """Give what the package needs with these extras, its own extras resolved."""
    texts = PROJECT["dependencies"] + [text for extra in extras for text in EXTRAS[extra]]
    for requirement in map(Requirement, texts):
        if requirement.name == PROJECT["name"]:
            yield from requirements(*requirement.extras)
        else:
            yield requirement


def names(*extras):
    return {canonicalize_name(requirement.name) for requirement in requirements(*extras)}


def pins():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    found = [Requirement(line) for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(pin.name): str(pin.specifier) for pin in found}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    (path,) = WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])
    with ZipFile(path) as archive:
        (metadata,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
        read = HeaderParser().parsestr(archive.read(metadata).decode())
        return archive.namelist(), read, Path(path).stat().st_size


def test_one_version_everywhere(wheel):
    own = fitrag_integrations.__version__
    assert wheel[1]["Version"] == own
    assert f"\n## [{own}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"\nversion: {own}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_the_wheel_holds_the_package_and_nothing_else(wheel):
    tracked = {
        path.relative_to(ROOT).as_posix()
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    shipped = {name for name in wheel[0] if ".dist-info/" not in name}
    assert "fitrag_integrations/py.typed" in shipped
    assert shipped == tracked
    rest = {name.partition(".dist-info/")[2] for name in wheel[0]} - {""}
    assert {"licenses/LICENSE", "licenses/NOTICE", "entry_points.txt"} <= rest


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="this is no checkout of git's")
def test_what_lies_at_the_top_is_what_a_source_archive_holds():
    """A page that a command wrote there was once committed with the rest."""
    done = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    top = {line.partition("/")[0] for line in done.stdout.splitlines()}
    wanted = PROJECT_FILE["tool"]["hatch"]["build"]["targets"]["sdist"]["only-include"]
    assert {name for name in top if not name.startswith(".")} == {*wanted}


def test_the_wheel_is_small_enough_to_ship(wheel):
    assert wheel[2] <= 46_500_000  # 11 of them the embeddings, which need no second package


def test_listings_name_what_there_is():
    listed = yaml.safe_load((ROOT / "docs/listing/langchain.yaml").read_text(encoding="utf-8"))
    rows = [row for section in listed["python"].values() for row in section]
    langchain = importlib.import_module("fitrag_integrations.langchain")
    assert {row["name"] for row in rows} <= set(langchain.__all__)
    assert {row["pypi"] for row in rows} == {PROJECT["name"]}
    assert all(len(section) == 1 for section in listed["python"].values())
    for path in ("docs/listing/langchain.yaml", "docs/listing/README.md", "pyproject.toml"):
        text = (ROOT / path).read_text(encoding="utf-8")
        assert not re.search(r"//[\w.-]*\b(example|pypi|pythonhosted)\b", text), path


@pytest.mark.parametrize("path", sorted((ROOT / ".github").rglob("*.yml")), ids=lambda p: p.name)
def test_forms_and_workflows_can_be_read(path):
    found = yaml.safe_load(path.read_text(encoding="utf-8"))
    if path.parent.name == "workflows":
        steps = [step for job in found["jobs"].values() for step in job["steps"]]
        used = [step["uses"] for step in steps if "uses" in step]
        assert used and all(re.fullmatch(r"[\w./-]+@v\d+(\.\d+)*", use) for use in used)
        assert found["permissions"] == {"contents": "read"}


def test_console_scripts_can_be_called():
    for target in PROJECT["scripts"].values():
        module, _, name = target.partition(":")
        assert callable(getattr(importlib.import_module(module), name))


def extras_asked_for():
    """Give the extras named where an optional module is asked for, as far as they are literals."""
    for path, found in nodes():
        for node in found:
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "require_extra":
                (extra,) = [word.value for word in node.keywords if word.arg == "extra"]
                if isinstance(extra, ast.Constant):
                    yield path.relative_to(PACKAGE).as_posix(), extra.value


def test_every_extra_named_in_an_error_exists():
    asked = list(extras_asked_for())
    assert asked
    assert [(path, extra) for path, extra in asked if extra not in EXTRAS] == []


def imported_tops():
    for path, found in nodes():
        for node in found:
            if isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                modules = [node.module]
            else:
                continue
            yield from ((path, module.partition(".")[0]) for module in modules)


def test_every_import_is_a_declared_dependency():
    users = names(*(set(EXTRAS) - {"dev", "docs", "notebook"}))
    homes = packages_distributions()
    own = sys.stdlib_module_names | {"fitrag_integrations"}
    undeclared = {
        (path.relative_to(PACKAGE).as_posix(), top)
        for path, top in imported_tops()
        if top not in own and top in homes and not {*map(canonicalize_name, homes[top])} & users
    }
    assert undeclared == set()


def test_the_two_faiss_builds_never_come_together():
    assert names("faiss") & {"faiss-cpu"}
    for extra in EXTRAS:
        builds = {name for name in names(extra) if name.startswith("faiss-")}
        assert len(builds) <= 1
    assert names("all") & {"faiss-cpu"}


def test_constraints_hold_one_exact_version_of_all_that_make_installs():
    pinned = pins()
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    extras = re.search(r"^EXTRAS := (.+)$", makefile, re.MULTILINE)[1].split(",")
    for requirement in requirements(*extras):
        pin = pinned[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(pin.removeprefix("=="), prereleases=True)
    for pin in pinned.values():
        assert re.fullmatch(r"==[^,*+]+", pin)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_relative_links_lead_somewhere(path):
    text = path.read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)#]+)", text) if "://" not in link]
    made = ("reference/",)  # with the site, whose strict build checks links and anchors once more
    dead = [link for link in links if not (path.parent / link).exists()]
    assert [link for link in dead if not link.startswith(made)] == []


def test_each_test_file_has_a_name_of_its_own():
    """Two of one name, without packages around them, cannot be collected in one run."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))
