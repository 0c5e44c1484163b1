"""Read a corpus and questions as people have them, and make questions where there are none."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fitrag_integrations.core.extras import require_extra
from fitrag_integrations.core.jsonl import read_jsonl
from fitrag_integrations.errors import InputError
from fitrag_integrations.text.sentences import split_sentences
from fitrag_integrations.types import Passage

PAGES, PAPERS, ROWS = (".html", ".htm"), (".pdf",), (".jsonl", ".jsonl.gz")
GAP = "what"
FEWEST_WORDS = 8  # of a sentence that a question is made of
_FACT = re.compile(r"(?<=[a-z,;] )(?:\d[\d.,]*\d|[A-Z][\w'-]+(?: [A-Z][\w'-]+)*)(?=[ ,.;])")


@dataclass(frozen=True, slots=True)
class Asked:
    """Hold a question and its answers, none where nobody knows them."""

    question: str
    answers: tuple[str, ...] = ()


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


def questions_in(file: Path, count: int) -> list[Asked]:
    """Read questions: rows of question and maybe answers or answer, or a text with one a line."""
    if not file.is_file():
        raise InputError.of("questions", given=str(file), allowed="a file that is there")
    if file.name.lower().endswith(ROWS):
        asked = [_asked(row, f"{file}, row {n}") for n, row in enumerate(read_jsonl(file), 1)]
    else:
        lines = file.read_text(encoding="utf-8-sig").splitlines()
        asked = [Asked(line.strip()) for line in lines if line.strip()]
    if not asked:
        raise InputError.of("questions", given=str(file), allowed="at least one question")
    return spread(asked, count)


def _asked(row: dict[str, Any], place: str) -> Asked:
    question = row.get("question")
    if not isinstance(question, str) or not question.strip():
        raise InputError.of(f"{place}: question", given=question, allowed="a text")
    given = row.get("answers", row.get("answer"))
    answers = [given] if isinstance(given, str) else given or []
    if not isinstance(answers, list) or not all(isinstance(each, str) for each in answers):
        raise InputError.of(f"{place}: answers", given=given, allowed="a text or a list of texts")
    return Asked(question, tuple(answers))


def questions_from(passages: Sequence[Passage], count: int) -> list[Asked]:
    """Make questions of sentences in which a name or a number is left out; it is the answer."""
    made = [asked for asked in map(_question_from, passages) if asked is not None]
    return spread(made, count)


def _question_from(passage: Passage) -> Asked | None:
    for start, end in split_sentences(passage.text):
        sentence = " ".join(passage.text[start:end].split())
        found = _FACT.search(sentence)
        if found is not None and len(sentence.split()) >= FEWEST_WORDS:
            question = f"{sentence[: found.start()]}{GAP}{sentence[found.end() :]}"
            return Asked(question.rstrip(".;, ") + "?", (found[0],))
    return None


def spread(items: Sequence[Any], count: int) -> list[Any]:
    """Pick `count` items at even distances; all where there are fewer."""
    count = min(count, len(items))
    return [items[i * len(items) // count] for i in range(count)]
