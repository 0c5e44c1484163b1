"""Hooks of mkdocs that add pages from outside ``docs/``.

Adds the model cards, the pages at the root of the repository, and a reference page for each public
package, from its ``__all__``. Rewrites links between these pages from paths in the repository to
paths in the site. Rejects a site that loads anything from another host.
"""

import importlib
import pkgutil
import posixpath
import re
from pathlib import Path
from typing import Any

import griffe
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
PACKAGE = "fitrag_integrations"
CARDS = ROOT / PACKAGE / "embedded"
PAGES = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "README.md": "readme.md",
    "SECURITY.md": "security.md",
}
# a package without __all__ is shown module by module
MODELS = ("", "methods", "methods.baselines", "models", "langchain", "llama_index", "retrieval")
PARTS = (*MODELS, "web", "evaluation", "training.asking_llm", "training.collecting")
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)#\s:]+)((?:#[^)\s]*)?)\)")
FETCHED = re.compile(
    r"<(?:script|img|iframe|source)[^>]+src=[\"']?(?:https?:)?//"
    r"|<link[^>]+rel=[\"']?(?:stylesheet|preconnect|icon|preload)[^>]*href=[\"']?(?:https?:)?//"
    r"|url\([\"']?(?:https?:)?//|@import\s+[\"'](?:https?:)?//"
)


def origins() -> dict[str, str]:
    """Return the path in the repository of each page outside ``docs/``, by its place."""
    cards = {f"models/{card.parent.name}.md": card for card in sorted(CARDS.glob("*/README.md"))}
    added = {place: card.relative_to(ROOT).as_posix() for place, card in cards.items()}
    return added | {place: page for page, place in PAGES.items()}


def on_files(files: Files, config: Any) -> Files:
    """Add the pages from outside ``docs/``."""
    for place, path in origins().items():
        files.append(File.generated(config, place, abs_src_path=str(ROOT / path)))
    for place, text in reference().items():
        files.append(File.generated(config, place, content=text))
    return files


def reference() -> dict[str, str]:
    """Return the reference pages and their index, by path in the site."""
    pages, listed = {}, []
    for part in PARTS:
        name = f"{PACKAGE}.{part}".rstrip(".")
        module = importlib.import_module(name)
        first = (module.__doc__ or "").strip().splitlines()[0]
        place = f"{part.replace('.', '-') or 'core'}.md"
        pages[f"reference/{place}"] = f"# {name}\n\n{first}\n\n{members(name, module)}"
        listed.append(f"- [`{name}`]({place}): {first}\n")
    intro = "# Reference\n\nNames that are not listed here may change without notice.\n\n"
    cards = "".join(f"- [{place[7:-3]}](../{place})\n" for place in origins() if "models/" in place)
    pages["reference/index.md"] = f"{intro}{''.join(listed)}\n## Bundled models\n\n{cards}"
    return pages


def members(name: str, module: Any) -> str:
    """Return a page's entries: the names of ``__all__``, else its modules, else the module."""
    if public := getattr(module, "__all__", None):
        found = [f"{name}.{each}" for each in public if each != "__version__"]
    elif hasattr(module, "__path__"):
        inside = pkgutil.iter_modules(module.__path__, f"{name}.")
        found = [each.name for each in inside if "._" not in each.name]
    else:
        found = [name]
    return "\n\n".join(f"::: {each}" for each in found)


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Turn links to paths of the repository into links between pages.

    A link to a file without a page becomes plain text.
    """
    places = {path: place for place, path in origins().items()}
    here = origins().get(page.file.src_uri, f"docs/{page.file.src_uri}")
    start = posixpath.dirname(page.file.src_uri) or "."

    def moved(found: re.Match[str]) -> str:
        image, words, link, anchor = found.groups()
        target = posixpath.normpath(posixpath.join(posixpath.dirname(here), link))
        place = places.get(target, target.removeprefix("docs/"))
        if files.get_file_from_path(place) is not None:
            return f"{image}[{words}]({posixpath.relpath(place, start)}{anchor})"
        return words if (ROOT / target).exists() and here in places else found[0]

    return LINK.sub(moved, markdown)


def on_post_build(config: Any) -> None:
    """Reject a site that loads anything from another host."""
    for path in sorted(Path(config["site_dir"]).rglob("*")):
        if path.suffix in {".html", ".css"}:
            found = FETCHED.search(path.read_text(encoding="utf-8"))
            if found:
                raise PluginError(f"{path}: loads {found[0]}; bundle it in docs/assets instead")


class LiteralBlocks(griffe.Extension):
    """Extension of griffe that removes ``::`` before indented blocks."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Remove the colons from one docstring."""
        if obj.docstring is not None:
            text = re.sub(r"(?m)^::\n", "", obj.docstring.value)
            obj.docstring.value = re.sub(r"(?m)::$", ":", text)
