"""Find the text that a piece is shown with: the lead of list items, table rows and code.

A lead is a heading, a lead-in line, the header row of a table, the item that a nested item belongs
to. Also here: blocks that are nothing but links or badges, which are worth little as a source.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from math import log
from typing import TypeAlias

from fitrag_integrations.text.blocks import (
    BLANK,
    CODE,
    HEADER,
    HEADING,
    ITEM,
    LINE,
    PROSE,
    ROW,
    Block,
    blocks_of,
)
from fitrag_integrations.text.cleaning import has_text
from fitrag_integrations.text.records import records_of
from fitrag_integrations.text.spans import Span, trimmed

Lead: TypeAlias = tuple[Span, ...]
LONG_LEAD = 240
"""Characters of the longest lead; a header row may have twice as many."""
FEW_LETTERS = 0.2
"""A block with at most this fraction of its visible letters outside links is a block of links."""

STEM = 5
"""Letters by which words of a question and of a text are compared."""
_COMMON_WORDS = """
a after an and are at be before by can do does for from has have how i if in into is it its long
many may mean means much must of off on or since that the there this to until use used uses using
was were what when where which who why will with you your
"""
_COMMON = {word[:STEM] for word in re.findall(r"\w+", _COMMON_WORDS)}
_WORD = re.compile(r"[^\W_]+")
_THOUSANDS = re.compile(r"(?<![\w,.-])\d{1,3}(?:,\d{3})+(?![\w,-])")
_JOINED = re.compile(r"[a-z0-9](?:[\w./-]*[a-z0-9])?")
_PARTED = re.compile(r"[^\w.]|_|(?<!\d)\.|\.(?!\d)")
_SMALL = re.compile(r"\d{1,2}|(?:1[5-9]|20)\d\d")
_NUMBER = re.compile(r"\d{3,}")
_BETWEEN = re.compile(r"[\s:=|#.\"'-]{1,3}")  # a word and the number that belongs to it
_FIELD = re.compile(r"(?:^|[|\t:=;]|,(?! ))[ \"'v]*(\d{1,4})[ \"']*(?=$|[|\t;,}\]])", re.MULTILINE)
_RUN_IN = re.compile(r"[•◦▪■►]\s|\(?\d{1,3}[.)]\s")
# What names or announces: hashes before or signs under a heading, a colon.
_COLON = re.compile(r"[^\W_][^\w\s]{0,4}?[:：]{1,2}[*_ ]*\Z")
_MARKED = re.compile(rf"\A\s{{0,3}}#|([^\w\s])\1\1\s*\Z|{_COLON.pattern}")
# What says nothing by itself: signs, and a directive or an admonition without its content.
_EMPTY = re.compile(
    r"[\W_]+|\.\. [\w:+-]+::\s*|(?:>\s*)?\[![A-Za-z]+\]\s*|:::+\s*\w*\s*|!!!\s*\w+\s*"
)
_TERM = re.compile(r"\s*\.\. [\w:+-]+::\s*\S")  # a directive that names something
_NAME = re.compile(
    r"[#=~^*\s]*`?[-/$@.]*\w[\w.:/@$()\[\]-]*`?(?:\s?[(=<\[,][^\n]{0,60})?[#=~^*\s-]*"
    r"|[^`]*`[^`\n]+`[^`]*"
)
_VALUE = re.compile(r"\W{0,3}[A-Za-z][\w ]{0,24}\W{0,3}:\W{0,3}\s.{1,60}", re.DOTALL)
_REVERSES = re.compile(
    r"\W*(?:But|However|Instead|Otherwise|Unless|Except|Nevertheless|Yet|Still|Aber|Jedoch"
    r"|Stattdessen|Sonst|Allerdings|Mais|Cependant|Sauf|Pero|Sin embargo)\b"
    r"|\W*(?:This|That|These|Those|It|They)\b.{0,160}\b(?:instead\b(?! of)|no longer\b)",
    re.DOTALL,
)
_CELL = re.compile(r"\s*\|?[^|\t\n]*?\w[^|\t\n]*?(?=\s*[|\t\n]|\s{2}|\Z)")
_REFERS = re.compile(r"\W*#\d+(?:\W+#\d+)*\W*")  # to an issue, after what was done
_ENDED = re.compile(r"[.!?…。！？;:\"'”’»)\]`*_|]\Z|\d")
_TORN = re.compile(r"[A-Za-z ,;'’-]+(?:\.|)", re.ASCII)  # words alone, of which a chunk may tear
JOINED, TORN = -1, -2  # roles of a sentence, beside kinds of blocks
MOST_JOINED = 600
"""Characters of two sentences that stay together."""
FEW_GAPS = 3  # between the words of a question that can name an entry
FEW_WORDS = 5  # of a sentence that a chunk tore
_RULE = re.compile(r"^[\W_]+$", re.MULTILINE)  # what parts the header row of a table from the rest
_LABEL = 60  # characters of a line without a stop that may be a lead-in
# What is linked or drawn: the first group is what a reader sees of it.
_LINKS = re.compile(
    r"\[!\[[^\]\n]{0,200}\]\([^()\s]{0,500}\)\s*\]\([^()\s]{0,500}\)"  # a badge
    r"|!\[[^\]\n]{0,200}\](?:\([^()\n]{0,500}\)|\[[^\]\n]{0,100}\])"  # an image
    r"|\[([^\[\]\n]{1,200})\](?:\([^()\n]{0,500}\)|\[[^\]\n]{0,100}\])"  # a link
    r"|`([^`<\n]{1,200})<[^<>\s]{1,500}>`__?"  # a link of reStructuredText
    r"|<a\s[^<>]{0,500}>([^<>]{0,200})</a>|</?[a-z][^<>]{0,500}>|<https?://[^<>\s]{1,500}>"
    r"|\.\. (?:\|[^|\n]{1,100}\| )?(?:image|figure)::[^\n]{0,500}"
    r"|^\s*:(?:target|alt|height|width|align|scale):[^\n]{0,500}|^\[[^\]\n]{1,100}\]:[^\n]{0,500}"
    r"|\|[^|\s]{1,60}\|(?=\s|\Z)|https?://[^\s<>\"'`]{1,500}",
    re.MULTILINE,
)
_DOTS = re.compile(r"(?:\.\s?){4,}\s*\d{1,4}\s*\Z")  # an entry in a table of contents
# A run of base64 or of hexadecimal digits, which have small letters or none, and what it is in.
_RUN = re.compile(r"(?:data:[\w/+.-]+;base64,|sha\d+[-:])?[A-Za-z0-9+/]{32,}=*")
_MIXED = re.compile(r"\d"), re.compile(r"[A-Z].*[a-z]|[a-z].*[A-Z]|\A[^G-Zg-z/+=]+\Z|:")
_SIGN = re.compile(r"[;{}()=]")
MINIFIED = 150
"""Characters of the shortest line of code without blanks that is a blob."""
_LETTER = re.compile(r"[^\W\d_]")
_LINE_OF_LINKS = re.compile(r"https?:|\[|!\[|\.\. |<a\s|<img\s|^\s*:(?:target|alt)|\|\w|`", re.M)


def units_of(text: str, spans: Iterable[Span]) -> list[tuple[Span, Lead | None]]:
    """Return the spans with their leads, each heading joined to what stands under it.

    What only names or announces answers nothing: a heading, a question, a line that ends in a colon
    belong to what follows, and are left out where nothing does, unless the text has nothing else.
    So are rulers, bare directives, and the few words of a sentence that a chunk tore. A sentence
    that takes back the one before ("However, ...") or refers it to an issue stays with it.
    """
    given = tuple(spans)
    units, above, opener = list[tuple[Span, Lead | None]](), list[Span](), Lead()
    for span, (lead, role) in zip(given, leads_of(text, given), strict=True):
        words = text[slice(*span)]
        if not has_text(words) or (_EMPTY.fullmatch(words) and len(given) > 1):
            continue
        if role == HEADING:
            above.append(span)
            if lead is None:  # it is shown with what it leads
                units += [(one, None) for one in above]
                opener = (*above,)
                above.clear()
        elif (
            (role == JOINED or _REFERS.fullmatch(words))
            and units
            and not above
            and span[1] - units[-1][0][0] <= MOST_JOINED
        ):
            units[-1] = (units[-1][0][0], span[1]), units[-1][1]
        elif role != TORN or len(given) == 1:
            start = above[0][0] if above else span[0]
            before = lead and tuple(one for one in lead if one[1] <= start)
            units.append(((start, span[1]), opener if before == () else before))
            opener = ()
            above.clear()
    marked = [span for span in above if _MARKED.search(text[slice(*span)])]
    last = [span for span in above if span not in marked or not units]
    return units + [(span, ()) for span in last or (given[:1] if not units else ())]


def under_heading(text: str) -> int:
    """Return where a text goes on after its headings; 0 where it has none, or nothing else."""
    rest = (one.start for one in blocks_of(text) if one.kind not in (HEADING, BLANK))
    return next(rest, 0)


@lru_cache(maxsize=2048)
def leads_of(text: str, spans: tuple[Span, ...]) -> tuple[tuple[Lead | None, int], ...]:
    """Return the lead of each span, and whether it is a HEADING, JOINED, TORN or else PROSE.

    A lead is spans of the text before it: of a list item its lead-in line or heading and the items
    it is nested in, of a table row the header row and what leads the table, of a block of code its
    lead-in line or heading, and of a further sentence of an item the first. Prose has none. None
    stands for a heading, a lead-in line or a table's header row over a line of signs that is the
    lead of others: it is shown with these.
    """
    if members := records_of(text, longest=0):
        starts = [one.start for one in members]
        own = (members[max(0, bisect(starts, start) - 1)].lead for start, _ in spans)
        above = zip(own, spans, strict=True)
        return tuple((tuple(s for s in lead if s[1] <= at), PROSE) for lead, (at, _) in above)
    walk = _Leads(text)
    leads = list(walk.of(spans))
    return tuple(
        (None if span in walk.openers else lead, walk.roles.get(span, PROSE))
        for span, lead in zip(spans, leads, strict=True)
    )


class _Leads:
    """Walk over the blocks of a text; knows what is open above the block it is at."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.heading: Span | None = None
        self.above: Block | None = None  # the last that is not blank
        self.last: Span = (0, 0)  # and the last span in it
        self.items: list[tuple[int, Lead, Span]] = []  # open ones: indent, lead, first sentence
        self.table: Lead | None = None
        self.columns: Span | None = None  # the header row, where a line of signs sets it off
        self.openers: set[Span] = set()  # headings and lead-in lines that lead something
        self.roles: dict[Span, int] = {}

    def of(self, spans: Sequence[Span]) -> Iterator[Lead]:
        at = 0
        for block in blocks_of(self.text):
            first = at
            while at < len(spans) and spans[at][0] < block.end:
                at += 1
            if block.kind == BLANK or first == at:
                yield from ((),) * (at - first)
                continue
            own = spans[first:at]
            lead = self._lead(block, own)
            self._note_roles(block, own)
            yield lead
            name = self._name(block, own[0])
            further = self._with(lead, name) if name else lead
            for start, _ in own[1:]:  # in a list run together, they are items too
                yield lead if _RUN_IN.match(self.text, start) else further
            self.above, self.last = block, own[-1]

    def _note_roles(self, block: Block, own: Sequence[Span]) -> None:
        """Note what of a block belongs to what follows or to what comes before."""
        words = [self.text[slice(*span)] for span in own]
        if block.kind == HEADING:
            self.roles |= {span: HEADING for span in own if span[1] <= block.end}
        if block.kind not in (PROSE, ITEM):
            return
        self.roles |= {
            span: JOINED
            for span, one in zip(own[1:], words[1:], strict=True)
            if _REVERSES.match(one)
        }
        asks = len(own) == 1 and words[0].endswith(("?", "？")) and not self.items
        if own[-1][1] - own[-1][0] <= LONG_LEAD and (_COLON.search(words[-1]) or asks):
            self.roles[own[-1]] = HEADING
        few = [len(one.split()) < FEW_WORDS and _TORN.fullmatch(one) for one in words]
        if len(own) > 1 and few[0] and words[0][0].islower() and not own[0][0]:
            self.roles[own[0]] = TORN
        at_end = own[-1][1] == len(self.text.rstrip())
        if len(own) > 1 and few[-1] and at_end and not _ENDED.search(words[-1]):
            self.roles[own[-1]] = TORN

    def _name(self, block: Block, first: Span) -> Span | None:
        """Return what names the further sentences of an item or a row."""
        if block.kind == ITEM:
            return first
        if block.kind == PROSE and self.above and self.roles.get(self.last) == HEADING:
            heads = self.above.kind == HEADING
            return None if heads and not _NAME.fullmatch(self.text, *self.last) else self.last
        if block.kind not in (ROW, LINE):
            return None
        cell = _CELL.match(self.text, *first)
        return cell.span() if cell else None

    def _lead(self, block: Block, own: Sequence[Span]) -> Lead:
        """Return the lead of a block, and note what the block opens and closes."""
        first = own[0]
        sibling: Lead | None = None
        while self.items and block.indent <= self.items[-1][0]:
            indent, lead, _ = self.items.pop()
            if block.kind == ITEM and indent == block.indent:
                sibling = lead
        if block.kind not in (HEADER, ROW, LINE):
            self.table = None
        if block.kind == HEADING:
            self.heading, self.items = first, []
            return ()
        if block.kind == PROSE:
            return self._chain() or self._under(block, own)
        if block.kind == CODE:
            return self._opened(code=True)
        if block.kind == ITEM:
            lead = self._opened() if sibling is None else sibling
            self.items.append((block.indent, lead, first))
            return lead
        if self.table is None or block.kind == HEADER:
            lead = self._opened()
            self.table = self._with(lead, first, 2 * LONG_LEAD) if block.kind == HEADER else lead
            ruled = self.table != lead and _RULE.search(self.text, block.start, block.end)
            self.columns = first if ruled else None
            return lead
        if self.columns is not None:
            self.openers.add(self.columns)
        return self.table

    def _under(self, block: Block, own: Sequence[Span]) -> Lead:
        """Return the heading of prose that needs it: of an option, or above a bare value."""
        if self.heading is None or self.above is None or self.above.kind == HEADING:
            return ()
        named = _NAME.fullmatch(self.text, *self.heading)
        value = _VALUE.fullmatch(self.text, own[0][0], own[-1][1])
        return self._with((), self.heading) if named or value else ()

    def _opened(self, *, code: bool = False) -> Lead:
        """Return what leads a list, a table or code that begins here."""
        lead = self._chain()
        if opener := self._intro() or (None if lead else self.heading):
            led = lead if opener in lead else self._with(lead, opener)
            if led != lead:
                self.openers.add(opener)
            return led
        if code and self.above and self.above.kind == PROSE:  # what announces it
            whole = self.above.start, self.last[1]
            return self._with(lead, trimmed(self.text, *whole)) or self._with(lead, self.last)
        return lead

    def _chain(self) -> Lead:
        """Return the innermost open item after its own lead."""
        if not self.items:
            return ()
        _, lead, first = self.items[-1]
        if _TERM.match(self.text, *first):
            self.openers.add(first)
        return self._with(lead, first)

    def _intro(self) -> Span | None:
        """Return the last sentence above, where it announces what follows."""
        if self.above is None or self.above.kind in (CODE, HEADER, ROW, LINE):
            return None
        words = self.text[slice(*self.last)].rstrip("*_ ")
        if _EMPTY.fullmatch(words):
            return None
        if _COLON.search(words) or self.above.kind == HEADING:
            return self.last
        label = self.above.kind == PROSE and len(words) < _LABEL and "\n" not in words
        alone = label and not self.text[self.above.start : self.last[0]].strip()
        return self.last if alone and words[-1:].isalnum() else None

    def _with(self, lead: Lead, span: Span, most: int = LONG_LEAD) -> Lead:
        return (*lead, span) if span[1] - span[0] <= most else lead


def identifiers(text: str, *, asked: bool = False) -> frozenset[str]:
    """Return the words that may name one thing: with a digit, such as tx4241 or 3.12.1, with an
    underscore, or behind two dashes.

    However a word is spelled apart, it is the same: TX-4241, tx4241 and TX 4241; 12,500 and 12500.
    Years and numbers below 100 name nothing in prose by themselves, but with the word before them
    ("version 9"), or as all that a cell or a field has.

    Args:
        text: A question or a text.
        asked: Whether it is a question: then any number may name a cell, and numbers inside longer
            words are not returned.
    """
    plain = _THOUSANDS.sub(lambda number: number[0].replace(",", ""), text.casefold())
    found, before, cells = set[str](), ("", 0), {*_FIELD.findall(plain)}
    for word in _JOINED.finditer(plain):
        key = _PARTED.sub("", word[0])
        if (
            "_" in word[0]
            or plain[max(0, word.start() - 2) : word.start()] == "--"
            or (any(map(str.isdigit, key)) and (asked or key in cells or not _SMALL.fullmatch(key)))
        ):
            found.update((key, *(() if asked else _NUMBER.findall(key))))
        named = before[0].isalpha() and before[0][:STEM] not in _COMMON
        if named and key[0].isdigit() and _BETWEEN.fullmatch(plain, before[1], word.start()):
            found.add(before[0] + key)
        before = key, word.end()
    return frozenset(found)


def named_exactly(question: str, texts: Sequence[str]) -> list[float]:
    """Return for each text how distinctive the question's identifiers in it are, in [0, 1].

    It is 1 if no other text has the identifier, lower the more texts do, and 0 if all or none do.
    A question of several words, as an entry of an FAQ has it word for word, is one of them.
    """
    asked, total = identifiers(question, asked=True), max(2, len(texts))
    whole = " ".join(question.casefold().split()).rstrip(" ?!.")
    said = {whole} if whole.count(" ") >= FEW_GAPS else set[str]()
    held = [
        (asked and asked & identifiers(text)) | {one for one in said if one in text.casefold()}
        for text in texts
    ]
    counts = Counter(word for words in held for word in words)
    rare = {word: log(total / count) / log(total) for word, count in counts.items()}
    return [max((rare[word] for word in words), default=0.0) for words in held]


def named_by(question: str, texts: Sequence[str]) -> list[int]:
    """Return the indices of texts with a word of the question that at most half of them have.

    Words count by their first letters. Short ones count where the text writes them with a digit or
    a capital, and English words without a meaning of their own never do.
    """
    asked = {word[:STEM].casefold() for word in _WORD.findall(question)} - _COMMON
    found = [
        {w[:STEM].casefold() for w in _WORD.findall(text) if len(w) >= STEM - 1 or not w.islower()}
        & asked
        for text in texts
    ]
    counts = Counter(word for words in found for word in words)
    most = max(1, len(texts) // 2)
    return [at for at, words in enumerate(found) if any(counts[word] <= most for word in words)]


@lru_cache(maxsize=256)
def is_links(text: str) -> bool:
    """Check whether a text is only links, badges or entries of a table of contents."""
    if _DOTS.search(text[-40:]):
        return True
    if not _LINE_OF_LINKS.search(text):
        return False
    outside = _LINKS.sub(" ", text)
    inside = "".join(
        filter(None, (group for found in _LINKS.finditer(text) for group in found.groups()))
    )
    if len(outside) == len(text) and not inside:
        return False
    rest, linked = len(_LETTER.findall(outside)), len(_LETTER.findall(inside))
    return rest <= FEW_LETTERS * (rest + linked)


@lru_cache(maxsize=256)
def is_blob(text: str) -> bool:
    """Check whether a text is data without words: base64, hashes, minified code."""
    runs = [run for run in _RUN.findall(text) if all(kind.search(run) for kind in _MIXED)]
    if runs:
        words = len(_WORD.findall(text)) - sum(len(_WORD.findall(run)) for run in runs)
        return words <= max(1, sum(map(len, runs)) // 80)
    line = text.strip()
    dense = len(line) >= MINIFIED and text.isascii() and 25 * len(line.split()) < len(line)
    return dense and len(_SIGN.findall(line)) > max(len(line) / 12, 4 * line.count('":'))
