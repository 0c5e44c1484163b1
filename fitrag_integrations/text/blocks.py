"""Split a text into blocks of lines: paragraphs, headings, list items, table rows, code.

Markdown, reStructuredText, man pages and text made from HTML are read as far as they show where
something ends; nothing is removed or rendered. ``leads`` finds what a block is shown with.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

WRAPPED = 50
"""A line of at least so many columns counts as wrapped prose: it runs on into the next."""
PROSE, HEADING, ITEM, HEADER, ROW, CODE, BLANK, LINE = range(8)
"""Kinds of blocks. A `HEADER` is the row that names the columns of a table. A `LINE` is a record of
values parted by commas or semicolons, of a log, or of a chat."""
LOOK = 8  # lines by which indented text is taken for code

_ITEM = re.compile(
    r"\s*(?:[-*+•‣◦▪▫●○■□►✓✔✗–—]\s|\(?\d{1,3}[.)]\s|\(?[a-zA-Z]\)\s|\(?[ivxlcIVXLC]+\)\s"
    r"|\d{1,2}(?:\.\d{1,2})+\.?\s+[A-ZÀ-Þ]|[(（]?[一二三四五六七八九十]{1,3}[)）、]|[①-⑳]"
    r"|:[A-Za-z][^:\n]{0,80}:(?:\s|\Z))"  # the last is a field, such as `:param x: its width`
    r"|\s*\.\. (?!code|source|parsed|prompt|doctest|testcode|ipython|math)[\w:+-]+::\s*\S"
    r"|\s{2,}\*{0,2}[A-Za-z_][\w.]{0,40}(?:\s\([^()\n]{1,80}\))?:\s+\S"  # ... under `Args:`
)
_OPTION = re.compile(r"\s*--?[A-Za-z?]")
_SPACED = re.compile(r"\S(?:\s{2,}|\t)\S")
_ROW = re.compile(r"\s*\||[^|]*\S\s\|\s\S|[^\t]*\S\t+\S")
_CELL = re.compile(r"\S+(?: \S+)*")
_LINE_OF_SIGNS = re.compile(r"[\W_]+\Z")  # what underlines a heading, or parts the rows of a table
_QUOTED = re.compile(r'"[^"\n]*"')
_STAMPED = re.compile(  # a line that begins with a time, as those of logs and chats do
    r"\[?(?:[A-Z][a-z]{2,8},? )?(?:\d{4}-\d\d-\d\d[T ]|\d{1,2}[./-]\d{1,2}[./-](?:\d{2,4})?,? |"
    r"\d{1,2} [A-Z][a-z]{2} )?\d{1,2}:\d\d\S*\s"
)
_SEPARATOR = re.compile(r"[\s|:+-]+\Z")
_GRID = re.compile(r"\s*\+(?:[-=]+\+)+\s*\Z")
_SIMPLE = re.compile(r"\s*={2,}(?:\s+={2,})+\s*\Z")
_HASHES = re.compile(r"\s{0,3}#{1,6}\s")
_UNDERLINE = re.compile(r"\s*([-=~^\"'`#*+:._])\1{2,}\s*\Z")
_CAPITALS = re.compile(r"[A-Z][A-Z0-9 ,/&()-]{2,60}\s*\Z")
_BOLD = re.compile(r"\s{0,3}(\*\*|__)[^*_\n]{1,80}\1\s*\Z")
_FENCE = re.compile(r"\s{0,12}(`{3,}(?=[^`]*\Z)|~{3,})")
_DIRECTIVE = re.compile(
    r"\s*\.\. (?:code|code-block|sourcecode|parsed-literal|literalinclude|prompt|doctest|testcode"
    r"|ipython|math)::"
)
_PROMPT = re.compile(r"\s*(?:>>>\s|\$ [a-z./])")
_CODE_LINE = re.compile(
    r"[={}<>;$\\@\[\]]|\w\(|\)\Z|--?\w|\w/\w|\w_\w"
    r"|\s*(?:#|import |from |def |class |pip |git |sudo )"
)
_STOPS = tuple(".!?;,:…。！？：")
_WIDE = re.compile(r"[\u1100-\u11ff\u2e80-\ua4cf\uac00-\ud7af\uf900-\ufaff\uff00-\uff60]")


class Block(NamedTuple):
    """Block of lines: `[start, end)` in the text, its kind, and the columns it is indented by."""

    start: int
    end: int
    kind: int
    indent: int


def blocks_of(text: str) -> Iterator[Block]:
    """Yield the blocks of a text in order; together they are the whole text."""
    reader = _Reader(text.splitlines(keepends=True))
    start = first = 0
    for after, kind in reader.blocks():
        end = start + sum(map(len, reader.lines[first:after]))
        yield Block(start, end, kind, max(0, reader.indents[first]))
        start, first = end, after


def is_table(text: str) -> bool:
    """Check whether rows of tables are at least half of a text."""
    parted = any(mark in text for mark in ("|", "\t", "  "))  # most texts need no closer look
    blocks = blocks_of(text) if parted else ()
    rows = sum(block.end - block.start for block in blocks if block.kind in (HEADER, ROW))
    return 2 * rows >= max(1, len(text))


class _Reader:
    """Reader of lines; every method that reads a kind returns the line after it, 0 for none.

    None looks at more lines than it takes, but for a number of lines that is fixed.
    """

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines
        self.indents = [_indent(line) for line in lines]  # -1 where a line is blank
        self.fences = dict(_fences(lines))
        self.records = dict(_records(lines))
        self.wrapped = set(_wrapped(lines, self.indents))
        self.above = -1  # the first line of the last block that is not blank
        self.above_last = -1  # and its last

    def blocks(self) -> Iterator[tuple[int, int]]:
        """Yield the line after each block, and its kind."""
        at = 0
        while at < len(self.lines):
            found = list(self._read(at))
            if found[0][1] != BLANK:
                first = found[-2][0] if len(found) > 1 else at
                self.above, self.above_last = first, found[-1][0] - 1
            yield from found
            at = found[-1][0]

    def _read(self, at: int) -> Iterator[tuple[int, int]]:
        if self.indents[at] < 0:
            yield at + 1, BLANK
        elif after := self.fences.get(at, 0) or self._code(at):
            yield after, CODE
        elif at in self.records:
            yield from self._lines(at)
        elif rows := self._grid(at) or self._simple(at) or self._rows(at) or self._aligned(at):
            yield from rows
        elif after := self._heading(at):
            yield after, HEADING
        elif self._is_item(at) or self._is_term(at):
            yield self._item(at), ITEM
        else:
            yield self._paragraph(at), PROSE

    def _code(self, at: int) -> int:
        """Read a directive with its code, a session at a prompt, or indented code."""
        line, indent = self.lines[at], self.indents[at]
        if _DIRECTIVE.match(line):
            return self._indented(at + 1, indent + 1) or at + 1
        if _PROMPT.match(line):
            while at < len(self.lines) and self.indents[at] >= 0 and at not in self.fences:
                at += 1
            return at
        if self.above < 0 or at == 0 or self.indents[at - 1] >= 0:
            return 0
        opener, base = self.lines[self.above_last].rstrip(), self.indents[self.above]
        if opener.endswith("::") and not opener.lstrip().startswith(".. "):
            return self._indented(at, indent) if indent > base else 0
        if indent < base + 4 or self._is_item(at):
            return 0
        some = [one.strip() for one in self.lines[at : at + LOOK] if _indent(one) >= indent]
        code = sum(_CODE_LINE.search(one) is not None for one in some)
        prose = sum(one.endswith((".", "!", "?")) for one in some)
        opened = opener.endswith((":", "："))
        if prose <= (0 if opened else code / 3) and (opened or code > len(some) / 2):
            return self._indented(at, indent)
        return 0

    def _indented(self, at: int, indent: int) -> int:
        """Read lines indented by so much at least, blank ones between them too; 0 for none."""
        after = 0
        while at < len(self.lines) and not -1 < self.indents[at] < indent:
            at += 1
            after = at if self.indents[at - 1] >= 0 else after
        return after

    def _grid(self, at: int) -> list[tuple[int, int]]:
        """Read a grid table: the lines from one border to the next are a row."""
        if not _GRID.match(self.lines[at]):
            return []
        rows, last, marked = list[int](), at + 1, 0
        while last < len(self.lines) and self.lines[last].lstrip()[:1] in ("|", "+"):
            last += 1
            if _GRID.match(self.lines[last - 1]):
                rows.append(last)
                marked = marked or (len(rows) if "=" in self.lines[last - 1] else 0)
        if not rows:
            return []
        rows[-1] = last
        return self._kinds(at, rows, headed=marked > 0)

    def _simple(self, at: int) -> list[tuple[int, int]]:
        """Read a simple table: columns under borders of ``====  ====``."""
        if not _SIMPLE.match(self.lines[at]):
            return []
        borders = list[int]()
        last = at + 1
        while last < len(self.lines) and len(borders) < 2:
            if self.indents[last] < 0 and (borders or last == at + 1):
                break
            if _SIMPLE.match(self.lines[last]):
                borders.append(last)
            last += 1
        if not borders:
            return []
        begin = borders[0] if len(borders) > 1 or last - 1 > borders[0] else at
        ends = [borders[0] + 1] if begin != at else []
        for row in range(begin + 1, last):
            border = _SIMPLE.match(self.lines[row])
            if row > begin + 1 and self.indents[row] <= self.indents[at] and not border:
                ends.append(row)
        return self._kinds(at, sorted({*ends, last}), headed=begin != at)

    def _rows(self, at: int) -> list[tuple[int, int]]:
        """Read lines of cells parted by pipes or tabs, each with a line of signs below it."""
        rows, last, marked = list[int](), at, False
        while last < len(self.lines) and self._is_row(last):
            last += 1
            if _LINE_OF_SIGNS.match(self._line(last)) and self.indents[last] >= 0:
                marked |= not rows and _SEPARATOR.match(self.lines[last]) is not None
                last += 1
            rows.append(last)
        return self._kinds(at, rows, headed=marked)

    def _lines(self, at: int) -> Iterator[tuple[int, int]]:
        """Read records of a line each; of separated values the first line may be the header."""
        ends = range(at + 1, self.records[at] + 1)
        ((_, kind), *_) = self._kinds(at, ends, headed=False)
        yield ends[0], HEADER if kind == HEADER else LINE
        yield from ((end, LINE) for end in ends[1:])

    def _is_row(self, at: int) -> bool:
        return (
            at not in self.fences
            and _ROW.match(self.lines[at]) is not None
            and not (_ITEM.match(self.lines[at]) or _HASHES.match(self.lines[at]))
        )

    def _aligned(self, at: int) -> list[tuple[int, int]]:
        """Read three lines or more whose cells stand in columns, two blanks or more apart."""
        second = [_second(line) for line in self.lines[at : at + 3]]
        starts, ends = {start for start, _ in second}, {end for _, end in second}
        if len(second) < 3 or -1 in starts or (len(starts) > 1 and len(ends) > 1):
            return []
        if any(self._is_item(row) or row in self.fences for row in range(at, at + 3)):
            return []
        last = at + 3
        while last < len(self.lines) and _second(self.lines[last])[0] >= 0:
            last += 1
        return self._kinds(at, list(range(at + 1, last + 1)), headed=False)

    def _kinds(self, at: int, ends: Sequence[int], *, headed: bool) -> list[tuple[int, int]]:
        """Return the rows with their kinds; of three or more the first may be the header."""
        first = "".join(self.lines[at : ends[0]]) if ends else ""
        guessed = len(ends) > 2 and not any(map(str.isdigit, first))
        kind = HEADER if headed or guessed else ROW
        return [(end, ROW if n else kind) for n, end in enumerate(ends)]

    def _heading(self, at: int) -> int:
        line, following = self.lines[at], self._line(at + 1)
        if _HASHES.match(line):
            return at + 1
        if under := _UNDERLINE.match(self._line(at + 2)):
            over = _UNDERLINE.match(line)
            if over and over[1] == under[1] and not _LINE_OF_SIGNS.match(following):
                return at + 3
        if _LINE_OF_SIGNS.match(line):
            return 0
        if _UNDERLINE.match(following) and not _stopped(line) and not self._is_item(at):
            return at + 2
        if _CAPITALS.match(line) and (not following.strip() or _indent(following) > 0):
            return at + 1
        return at + 1 if _BOLD.match(line) else 0

    def _is_item(self, at: int) -> bool:
        line = self.lines[at]
        if _OPTION.match(line):  # not a line of prose that begins with one
            return _SPACED.search(line.strip()) is not None or (
                len(line) < WRAPPED and _indent(self._line(at + 1)) > self.indents[at]
            )
        return _ITEM.match(line) is not None and not _LINE_OF_SIGNS.match(line)

    def _is_term(self, at: int) -> bool:
        """Return whether a line is a term over its definition, which is indented or has a colon."""
        line, following, third = self.lines[at], self._line(at + 1), self._line(at + 2)
        if not following.strip() or len(line) > WRAPPED or at + 1 in self.fences:
            return False
        if following.lstrip().startswith(": ") and not _stopped(line):
            return True
        if _indent(following) < self.indents[at] + 2 or self._is_item(at + 1):
            return False
        if _stopped(line.rstrip().removesuffix(":")) or _LINE_OF_SIGNS.match(line):
            return False
        outdented = third.strip() and _indent(third) <= self.indents[at]
        return not self._is_row(at + 1) and not (outdented and not _breaks(following, third))

    def _item(self, at: int) -> int:
        """Join the lines of an item: those indented below it, and those that run on."""
        indent, after = self.indents[at], at + 1
        while after < len(self.lines) and self.indents[after] >= 0 and not self._opens(after):
            colon = after == at + 1 and self.lines[after].lstrip().startswith(": ")
            below = colon or self.indents[after] > indent
            if not below and self._ends(after - 1):
                break
            after += 1
        return after

    def _paragraph(self, at: int) -> int:
        after = at + 1
        while after < len(self.lines) and self.indents[after] >= 0:
            signs = after not in self.fences and _LINE_OF_SIGNS.match(self.lines[after])
            if self._ends(after - 1) or (self._opens(after) and not signs):
                break
            after += 1
        return after

    def _ends(self, at: int) -> bool:
        """Return whether a paragraph ends with a line, which another follows."""
        return at not in self.wrapped and _breaks(self.lines[at], self.lines[at + 1])

    def _opens(self, at: int) -> bool:
        """Return whether a line can only be the first of a block."""
        line = self.lines[at]
        return (
            at in self.fences
            or at in self.records
            or self._is_item(at)
            or self._is_row(at)
            or _HASHES.match(line) is not None
            or _DIRECTIVE.match(line) is not None
        )

    def _line(self, at: int) -> str:
        return self.lines[at] if at < len(self.lines) else ""


def _indent(line: str) -> int:
    """Count the columns before the first word, -1 where there is none."""
    body = line.lstrip()
    return len(line[: len(line) - len(body)].expandtabs(4)) if body else -1


def _second(line: str) -> tuple[int, int]:
    """Return the columns where the second cell of a line begins and ends; -1 where it has none."""
    cells = list(_CELL.finditer(line)) if len(line) < 200 else []
    return cells[1].span() if 1 < len(cells) < 12 else (-1, -1)


def _stopped(line: str) -> bool:
    return line.rstrip().endswith(_STOPS)


def _breaks(line: str, following: str) -> bool:
    """Return whether a paragraph ends between two of its lines."""
    if _LINE_OF_SIGNS.match(following):
        return False
    if _LINE_OF_SIGNS.match(line):
        return True
    columns = len(body := line.strip())
    if WRAPPED / 2 <= columns < WRAPPED:
        columns += len(_WIDE.findall(body))  # an ideograph takes two
    return columns < WRAPPED and not following.lstrip()[:1].islower()


def _wrapped(lines: Sequence[str], indents: Sequence[int]) -> Iterator[int]:
    """Yield the lines of paragraphs that were wrapped, also at a narrow width.

    There nearly every line is too full for the next word, and some go on in lower case.
    """
    for indent, run in groupby(range(len(lines)), indents.__getitem__):
        rows = [(at, lines[at].split()) for at in run]
        if indent < 0 or len(rows) < 3:
            continue
        sizes = {at: len(lines[at].strip()) for at, _ in rows}
        width = max(sizes.values())
        full = [at for (at, _), (_, words) in pairwise(rows) if sizes[at] + len(words[0]) >= width]
        lower = sum(words[0][0].islower() for _, words in rows[1:])
        if len(full) >= 0.8 * (len(rows) - 1) and 3 * lower >= len(rows) - 1:
            yield from full


def _records(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield where three or more lines with the same mark begin, and the line after them."""
    at = 0
    for mark, some in groupby(lines, _mark):
        after = at + len(list(some))
        if mark and after - at >= 3:
            yield at, after
        at = after


def _mark(line: str) -> tuple[str, int] | None:
    """Return what makes a line a record: its sign between values and their number, or a time."""
    if _STAMPED.match(line):
        return ":", 0
    bare = _QUOTED.sub("", line) if '"' in line else line
    for sign in ";,":
        count = bare.count(sign)
        if count > 1 and bare.count(f"{sign} ") <= count // 3:
            return sign, count
    return None


def _fences(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield the first line of each fenced block of code, and the line after it.

    A fence that nothing closes is an ordinary line: in a text that was cut out of another, it may
    be the end of a block whose beginning is not here.
    """
    opened, mark = -1, ""
    for at, line in enumerate(lines):
        found = _FENCE.match(line)
        if not found:
            continue
        fence, info = found[1], line[found.end() :].strip()
        if opened >= 0 and not info and fence.startswith(mark):
            yield opened, at + 1
            opened = -1
        elif opened < 0 or (info and fence[0] == mark[0]):
            opened, mark = at, fence
