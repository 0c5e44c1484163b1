"""Read a corpus as people have it: a folder of files of several kinds."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from fitrag_integrations.core.extras import require_extra
from fitrag_integrations.errors import InputError
from fitrag_integrations.types import Passage

PAGES, PAPERS, ROWS = (".html", ".htm"), (".pdf",), (".jsonl", ".jsonl.gz")


def passages_in(corpus: Path) -> list[Passage]:
    """Read text, Markdown, HTML and PDF files and JSON Lines, of a folder at any depth.

    HTML takes the extra `web`, PDF the extra `pdf`. Raises `InputError` where there is nothing.
    """
    if not corpus.exists():
        raise InputError.of("corpus", given=str(corpus), allowed="a file or folder that is there")
    root = corpus if corpus.is_dir() else corpus.parent
    files = sorted(corpus.rglob("*")) if corpus.is_dir() else [corpus]
    found = [
        passage
        for file in files
        if file.is_file()
        for passage in _passages(file, file.relative_to(root).as_posix())
    ]
    if not found:
        allowed = "a .txt, .md, .html, .pdf or .jsonl file, or a folder with some"
        raise InputError.of("corpus", given=str(corpus), allowed=allowed)
    return found


def _passages(file: Path, name: str) -> Iterator[Passage]:
    """Read one file; its passages bear its name below the corpus, so that none hides another."""
    from fitrag_integrations.retrieval import read_corpus

    with tempfile.TemporaryDirectory() as folder:
        text = _as_text(file, Path(folder))
        for number, passage in enumerate([] if text is None else read_corpus(text)):
            yield replace(passage, id=f"{name}#{number}", source=name)


def _as_text(file: Path, folder: Path) -> Path | None:
    """Give a file that can be read as it is, or a text of it; None for what is something else."""
    name = file.name.lower()
    if name.endswith((".txt", ".md", *ROWS)):
        return file
    if not name.endswith((*PAGES, *PAPERS)):
        return None
    text = _page(file) if name.endswith(PAGES) else _paper(file)
    if not text.strip():
        return None
    written = folder / f"{file.name}.txt"
    written.write_text(text, encoding="utf-8")
    return written


def _page(file: Path) -> str:
    trafilatura = require_extra("trafilatura", extra="web", feature="fitrag try with HTML")
    return str(trafilatura.extract(file.read_bytes(), include_comments=False) or "")


def _paper(file: Path) -> str:
    pypdf = require_extra("pypdf", extra="pdf", feature="fitrag try with PDF")
    return "\n\n".join(page.extract_text() for page in pypdf.PdfReader(file).pages)
