"""Read a corpus as passages: a folder of files of several kinds, or one such file.

A text is split at sentence ends into passages of about 120 words, which is inside any encoder's
input. Rows of JSON Lines are passages already and stay whole.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from fitrag_integrations.core.checks import (
    check_callable,
    check_is,
    check_one,
    check_text,
    check_whole,
)
from fitrag_integrations.core.files import read_file
from fitrag_integrations.core.jsonl import loads, parse
from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import InputError, raise_if, refuse_if
from fitrag_integrations.retrieval.corpus.extract import Extractor
from fitrag_integrations.retrieval.corpus.files import (
    ARRAYS,
    KINDS,
    MOST_LINE,
    ROWS,
    TABLES,
    FileNote,
    corpus_files,
    lines_of,
    text_of,
)
from fitrag_integrations.text.sentences import SentenceSplitter, split_sentences
from fitrag_integrations.types import Passage

_KILT_MARK = re.compile(r"^(?:BULLET::::|Section::::)[\s.]*")
ON_BAD = ("raise", "yield")
_QUOTED = re.compile(r'"(?:[^"]|"")*"')
LINES_NOTED = 20  # of a file; the others are counted
CHARACTERS_A_WORD = 8  # so that a text without blanks is split too
_FENCED = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#{1,6}[ \t]+(\S.*)$", re.MULTILINE)


def read_corpus(
    path: str | Path,
    *,
    split: SentenceSplitter | None = None,
    max_words: int = 120,
    on_bad: str = "raise",
    notes: list[FileNote] | None = None,
) -> Iterator[Any]:
    """Read the passages of a folder or file, one after the other.

    Of a folder, files are read at any depth, sorted by name: text (.txt, .md, .markdown, .rst),
    HTML (extra `web`), PDF (extra `pdf`), JSON Lines, JSON arrays and tables. Passage n of a text
    has the id "relative/path#n", the first Markdown heading or else the file's name as its title,
    and in its metadata `start` and `end`, which count the characters of the file's text.

    A .jsonl or .jsonl.gz row is an object with `text`, and `id`, `title` and `source` where it has
    them; other fields become metadata. A row without an id is "file.jsonl#line". A page of KILT's
    knowledge source, whose `text` is a list of paragraphs, is cut into passages with the ids
    "page#n". A .json file is an array of such rows, or of texts; one without any has no passages. A
    .csv or .tsv file, also gzipped, has a passage a row, and a first row with the names of the
    columns, one of them `text`; DPR's psgs_w100.tsv is such a file.

    Args:
        path: Folder or file.
        split: Function from a text to the [start, end) of its sentences.
        max_words: Maximum words of a passage cut from a text; passages are whole sentences.
        on_bad: "raise" an `InputError` for the first file or line that cannot be read, or "yield"
            such errors in place of the passages and continue. A text that is not UTF-8 counts as
            bad with "raise"; with "yield" it is read in the encoding that charset-normalizer finds,
            or cp1252.
        notes: List to append a `FileNote` to for each file and line that is left out, whatever the
            reason, and each text whose encoding was guessed.

    Raises:
        InputError: If the path has no file of these kinds, or an option is out of range.
    """
    root = Path(path).expanduser()
    check_one("on_bad", on_bad, ON_BAD)
    check_callable("split", split)
    words = check_whole("max_words", max_words, low=1)
    noted = [] if notes is None else notes
    files = corpus_files(root, noted.append)
    others = f"; left out there: {'; '.join(map(str, noted[:3]))}" if noted else ""
    allowed = f"a file ending in {', '.join(KINDS)}, or a folder with some{others}"
    refuse_if(not files, "path", str(root), allowed)
    return _passages(files, split or split_sentences, words, on_bad == "raise", noted)


def read_passages(path: str | Path, notes: list[FileNote]) -> list[Passage]:
    """Read every readable passage of a corpus; each id is unique.

    Args:
        path: Folder or file.
        notes: List to append a `FileNote` to for each file and line that is left out.

    Raises:
        InputError: If no passage can be read.
    """
    found: list[Passage] = []
    known: set[str] = set()
    for item in read_corpus(path, on_bad="yield", notes=notes):
        if isinstance(item, Passage):
            if item.id in known:
                item = replace(item, id=f"{item.source}#{item.id}#{len(found)}")
            known.add(item.id)
            found.append(item)
    reasons = "; ".join(map(str, notes[:3])) or "all blank"
    allowed = f"a file with text in it, or a folder with one; this has none ({reasons})"
    refuse_if(not found, "corpus", str(path), allowed)
    return found


def _passages(
    files: Sequence[tuple[str, Path]],
    split: SentenceSplitter,
    max_words: int,
    strict: bool,
    notes: list[FileNote],
) -> Iterator[Passage | InputError]:
    """Read files one after the other; `strict` raises where something cannot be read."""
    with closing(Extractor()) as extractor:
        for name, file in files:
            count = bad_lines = 0
            for item in _of_file(name, file, split, max_words, extractor):
                if isinstance(item, Passage):
                    count += 1
                    yield item
                    continue
                bad_lines += item.line is not None
                if item.line is None or bad_lines <= LINES_NOTED:
                    notes.append(item)
                if not item.is_read or (strict and item.is_bad):
                    where = f"{file}" if item.line is None else f"{file}, line {item.line}"
                    error = InputError(f"{where}: {item.reason}")
                    if strict:
                        raise error
                    yield error
            if bad_lines > LINES_NOTED:
                more = bad_lines - LINES_NOTED
                notes.append(FileNote(name, f"{more} more lines that cannot be read"))
            elif not count and not (notes and notes[-1].file == name):
                notes.append(FileNote(name, "no text in it", is_bad=False))


def _of_file(
    name: str, file: Path, split: SentenceSplitter, max_words: int, extractor: Extractor
) -> Iterator[Passage | FileNote]:
    for endings, read in ((ROWS, _rows), (TABLES, _table), (ARRAYS, _array)):
        if file.name.lower().endswith(endings):
            yield from read(file, name, split, max_words)
            return
    try:
        text, guessed = text_of(file, extractor)
    except (OSError, ValueError) as error:
        yield FileNote(name, str(error))
        return
    if guessed:
        yield FileNote(name, guessed, is_read=True)
    yield from _cut(text, split, max_words, name, _title(text, file), name)


def _title(text: str, file: Path) -> str:
    is_marked = file.suffix.lower() == ".md"  # where a comment in code is no heading
    heading = _HEADING.search(_FENCED.sub("", text)) if is_marked else None
    if heading is None:
        return file.stem
    words = heading[1].rstrip().rstrip("#")  # closing marks, but not those of `C#`
    return words.rstrip() if words[-1:].isspace() else heading[1].rstrip()


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


def _cut(
    text: str, split: SentenceSplitter, max_words: int, page: str, title: str, source: str
) -> Iterator[Passage]:
    """Cut a text into passages with the ids "page#n"."""
    for n, (start, end) in enumerate(_spans(text, split(text), max_words)):
        yield Passage(f"{page}#{n}", text[start:end], title, source, {"start": start, "end": end})


def _table(file: Path, name: str, *_: object) -> Iterator[Passage | FileNote]:
    """Read a table row by row: DPR's has 21 million of them.

    Only a .csv has rows of several lines. Nothing is read of a row with an error in it.
    """
    by_comma = ".csv" in file.suffixes[-2:]
    csv.field_size_limit(max(MOST_LINE, csv.field_size_limit()))
    lines, at, ended, quoted = lines_of(file, name), 0, False, False

    def text() -> str | None:
        nonlocal at, ended, quoted
        number, line = (at, None) if ended else next(lines, (at, None))
        if line is None:
            ended = True
            return None
        at = number
        if isinstance(line, FileNote):  # nobody knows whether a quoted cell begins in it
            ended = by_comma
            raise ValueError(f"{line.reason}{'; the rest is not read' * by_comma}")
        quoted ^= line.count(b'"') % 2 == 1
        return line.decode("utf-8-sig" if at == 1 else "utf-8")

    whole = iter(text, None)  # goes on after an error, which a generator would not
    rows = csv.reader(whole) if by_comma else map(_tabbed, whole)
    head: tuple[str, ...] = ()
    count, longest = 0, (0, 0)
    while True:
        first, quoted, row = at + 1, False, None
        try:
            row = next(rows)
            if at > first:
                raise_if(ended and quoted, ValueError, "a quote in it is never closed")
                count, longest = count + 1, max(longest, (at - first, first))
            if not head:
                head = tuple(row)
                refuse_if("text" not in head, "columns", ", ".join(head), "one named text")
            elif by_comma and not row:
                continue
            elif len(row) != len(head):
                raise InputError.of("columns", given=len(row), allowed=str(len(head)))
            else:
                yield _passage(dict(zip(head, row, strict=True)), file.name, at)
        except StopIteration:
            break
        except (ValueError, csv.Error) as error:
            while row is None and by_comma and quoted and not ended:  # the cell that was begun
                with suppress(ValueError):
                    text()
            rest = f"; nothing is read of lines {first} to {at}" if at > first else ""
            yield FileNote(name, f"{error}{rest}", first)
            if "text" not in head:
                return
    if count:
        where = f"the longest in lines {longest[1]} to {sum(longest)}"
        said = f"{count} {'rows' if count > 1 else 'row'} of several lines, {where}"
        yield FileNote(name, said, is_read=True, is_bad=False)


def _tabbed(line: str) -> list[str]:
    """Cut a line at its tabs; a cell that is quoted as a whole, as DPR's are, loses its quotes."""
    cells = line.rstrip("\r\n").split("\t")
    return [one[1:-1].replace('""', '"') if _QUOTED.fullmatch(one) else one for one in cells]


def _rows(
    file: Path, name: str, split: SentenceSplitter, max_words: int
) -> Iterator[Passage | FileNote]:
    """Read one passage a line; a line that holds none gives its note, blank lines nothing."""
    for number, line in lines_of(file, name):
        if isinstance(line, FileNote):
            yield line
        elif line.strip():
            try:
                row = parse(line, first=number == 1)
                if isinstance(row.get("text"), list):
                    yield from _page(row, file.name, split, max_words)
                else:
                    yield _passage(row, file.name, number)
            except (ValueError, RecursionError) as error:
                yield FileNote(name, str(error), number)


def _array(file: Path, name: str, *_: object) -> Iterator[Passage | FileNote]:
    """Read one passage for each text or object of an array; other JSON is no part of a corpus."""
    try:
        found = loads(read_file(file).decode("utf-8-sig"))
    except (OSError, ValueError) as error:
        yield FileNote(name, f"no JSON: {error}")
        return
    rows = found if isinstance(found, list) else []
    if any(isinstance(row, str) or isinstance(row, dict) and "text" in row for row in rows):
        for number, row in enumerate(rows, start=1):
            try:
                row = {"text": row} if isinstance(row, str) else row
                yield _passage(dict(check_is("row", row, dict, "a text or object")), name, number)
            except ValueError as error:
                yield FileNote(name, str(error), number)


def _page(row: Row, name: str, split: SentenceSplitter, max_words: int) -> Iterator[Passage]:
    """Cut a page of KILT's; its first paragraph is the title, headings and bullets lose a mark."""
    page = check_text("wikipedia_id", row.get("wikipedia_id", row.get("_id")), blank=False)
    title = check_text("wikipedia_title", row.get("wikipedia_title") or "")
    texts = [check_text(f"text[{i}]", each) for i, each in enumerate(row["text"])]
    said = [_KILT_MARK.sub("", each).strip() for each in texts]
    text = "\n".join(each for i, each in enumerate(said) if each and (i or each != title))
    yield from _cut(text, split, max_words, page, title, name)


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
