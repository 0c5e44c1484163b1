"""Read a corpus: a folder of text files, one such file, or JSON Lines.

A text file is split at sentence ends into passages of about 120 words, which is inside any
encoder's input. Rows of JSON Lines are passages already and stay whole.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fitrag_integrations.core.checks import check_callable, check_text, check_whole
from fitrag_integrations.core.jsonl import parse, read_lines
from fitrag_integrations.errors import InputError
from fitrag_integrations.text.sentences import SentenceSplitter, split_sentences
from fitrag_integrations.types import Passage

TEXTS = (".md", ".txt")
ROWS = (".jsonl", ".jsonl.gz")
TABLES = (".tsv", ".tsv.gz")
COLUMNS = ("id", "text", "title")  # DPR's psgs_w100.tsv
_KILT_MARK = re.compile(r"^(?:BULLET::::|Section::::)[\s.]*")
ON_BAD = ("raise", "yield")
CHARACTERS_A_WORD = 8  # so that a text without blanks is split too
_FENCED = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#{1,6}[ \t]+(\S.*)$", re.MULTILINE)


def read_corpus(
    path: str | Path,
    *,
    split: SentenceSplitter | None = None,
    max_words: int = 120,
    on_bad: str = "raise",
) -> Iterator[Any]:
    """Read the passages of a folder or file, one after the other.

    A folder gives its .txt and .md files at any depth, sorted by name, in UTF-8. Passage n of a
    file has the id "relative/path#n", the first Markdown heading or else the file's name as its
    title, and in its metadata `start` and `end`, which count the file's characters.

    A .jsonl or .jsonl.gz row is an object with `text`, and `id`, `title` and `source` where it has
    them; other fields become metadata. A row without an id is "file.jsonl#line". A page of KILT's
    knowledge source, whose `text` is a list of paragraphs, is cut into passages with the ids
    "page#n". A .tsv or .tsv.gz has DPR's columns id, text and title, and a line for each passage.

    Passages are whole sentences of at most `max_words` words; `split` goes from a text to the
    [start, end) of its sentences. What cannot be read raises `InputError` naming the file and the
    line; with `on_bad="yield"` that error comes in the passage's place.
    """
    root = Path(path).expanduser()
    if on_bad not in ON_BAD:
        raise InputError.of("on_bad", given=on_bad, allowed=" or ".join(map(repr, ON_BAD)))
    check_callable("split", split)
    words = check_whole("max_words", max_words, low=1)
    found = _read(root, _files(root), split, words)
    return found if on_bad == "yield" else _raising(found)


def _files(root: Path) -> list[Path]:
    allowed = f"a folder with {' or '.join(TEXTS)} files, or a file ending in "
    allowed += ", ".join((*TEXTS, *ROWS, *TABLES))
    if root.is_file() and root.name.lower().endswith((*TEXTS, *ROWS, *TABLES)):
        return [root]
    inside = [file for file in root.rglob("*") if file.suffix.lower() in TEXTS and file.is_file()]
    if not inside:
        raise InputError.of("path", given=str(root), allowed=allowed)
    return sorted(inside, key=lambda file: file.relative_to(root).as_posix())


def _read(
    root: Path, files: Sequence[Path], split: SentenceSplitter | None, max_words: int
) -> Iterator[Passage | InputError]:
    for file in files:
        if file.name.lower().endswith(ROWS):
            yield from _read_rows(file, split or split_sentences, max_words)
        elif file.name.lower().endswith(TABLES):
            yield from _read_table(file)
        else:
            name = file.name if file == root else file.relative_to(root).as_posix()
            yield from _passages(file, name, split or split_sentences, max_words)


def _passages(
    file: Path, name: str, split: SentenceSplitter, max_words: int
) -> Iterator[Passage | InputError]:
    try:
        text = file.read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        yield InputError(f"{file}: not a UTF-8 text: {error}")
        return
    title = _title(text, file)
    for n, (start, end) in enumerate(_spans(text, split(text), max_words)):
        where = {"start": start, "end": end}
        yield Passage(f"{name}#{n}", text[start:end], title, source=name, metadata=where)


def _title(text: str, file: Path) -> str:
    heading = None
    if file.suffix.lower() == ".md":
        heading = _HEADING.search(_FENCED.sub("", text))  # a comment in code is no heading
    return _without_closing(heading[1].rstrip()) if heading else file.stem


def _without_closing(heading: str) -> str:
    """Take the closing signs from `A heading ##`; those of `C#` belong to the word."""
    words = heading.rstrip("#")
    return words.rstrip() if words[-1:].isspace() else heading


def _spans(
    text: str, sentences: Sequence[tuple[int, int]], max_words: int
) -> Iterator[tuple[int, int]]:
    """Join sentences as long as they are at most `max_words` together."""
    begin = last = words = 0
    for start, end in sentences:
        count = len(text[start:end].split())
        too_long = end - begin > max_words * CHARACTERS_A_WORD
        if words and (words + count > max_words or too_long):
            yield begin, last
            words = 0
        begin, last, words = (begin if words else start), end, words + count
    if words:
        yield begin, last


def _raising(found: Iterator[Passage | InputError]) -> Iterator[Passage]:
    for item in found:
        if isinstance(item, InputError):
            raise item
        yield item


def _read_table(file: Path) -> Iterator[Passage | InputError]:
    """Read DPR's table line by line: it has 21 million of them."""
    rows = csv.reader((line.decode("utf-8") for line in read_lines(str(file))), delimiter="\t")
    try:
        head = tuple(next(rows, ()))
        if set(head) != set(COLUMNS):
            allowed = f"the columns {', '.join(COLUMNS)}"
            raise InputError.of("columns", given=", ".join(head), allowed=allowed)
        for row in rows:
            if len(row) == len(head):
                yield _passage(dict(zip(head, row, strict=True)), file.name, rows.line_num)
            else:
                allowed = f"{len(head)} columns"
                error = InputError.of(f"line {rows.line_num}", given=len(row), allowed=allowed)
                yield InputError(f"{file}, {error}")
    except (OSError, InputError, UnicodeDecodeError, csv.Error) as error:
        yield InputError(f"{file}, line {rows.line_num}: {error}")


def _read_rows(
    file: Path, split: SentenceSplitter, max_words: int
) -> Iterator[Passage | InputError]:
    """Read one passage a line; a line that holds none gives its error, blank lines nothing."""
    number = 0
    try:
        for number, line in enumerate(read_lines(str(file)), start=1):
            if line.strip():
                yield from _parsed(file, number, line, split, max_words)
    except (OSError, InputError) as error:  # a broken archive has no next line
        yield InputError(f"{file}, line {number + 1}: cannot be read: {error}")


def _parsed(
    file: Path, number: int, line: bytes, split: SentenceSplitter, max_words: int
) -> Iterator[Passage | InputError]:
    try:
        row = parse(line, first=number == 1)
        if isinstance(row.get("text"), list):
            yield from _page(row, file.name, split, max_words)
        else:
            yield _passage(row, file.name, number)
    except (ValueError, RecursionError) as error:
        yield InputError(f"{file}, line {number}: {error}")


def _page(
    row: Mapping[str, Any], name: str, split: SentenceSplitter, max_words: int
) -> Iterator[Passage]:
    """Cut a page of KILT's; its first paragraph is the title, headings and bullets lose a mark."""
    page = check_text("wikipedia_id", row.get("wikipedia_id", row.get("_id")), blank=False)
    title = check_text("wikipedia_title", row.get("wikipedia_title") or "")
    told = [check_text(f"text[{i}]", each) for i, each in enumerate(row["text"])]
    said = [_KILT_MARK.sub("", each).strip() for each in told]
    text = "\n".join(each for i, each in enumerate(said) if each and (i or each != title))
    for n, (start, end) in enumerate(_spans(text, split(text), max_words)):
        where = {"start": start, "end": end}
        yield Passage(f"{page}#{n}", text[start:end], title, source=name, metadata=where)


def _passage(row: dict[str, Any], name: str, number: int) -> Passage:
    text = check_text("text", row.pop("text", None), blank=False)
    given = row.pop("id", None)
    if isinstance(given, int) and not isinstance(given, bool):
        given = str(given)
    identity = f"{name}#{number}" if given is None else check_text("id", given, blank=False)
    title = check_text("title", row.pop("title", None) or "")
    source = row.pop("source") if isinstance(row.get("source"), str) else name
    nested = row.pop("metadata") if isinstance(row.get("metadata"), Mapping) else {}
    return Passage(identity, text, title, source, {**nested, **row})
