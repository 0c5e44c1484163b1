"""Citations: ask a model for passage numbers, and map its numbers to places in the sources.

A prompt of this package numbers its passages (`1. Title: text`), several excerpts of one passage
under one number. `with_citations` adds to a prompt the sentence that asks for those numbers,
`cite` reads them out of an answer, and `highlight` shows the cited words in the whole of their
source.
"""

from __future__ import annotations

import math
import re
from bisect import bisect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, ClassVar

from fitrag_integrations.core.checks import Checked, check_many, check_text
from fitrag_integrations.core.record import Record
from fitrag_integrations.core.show import (
    block,
    card,
    folded,
    lines_html,
    marked,
    shortened,
    visible,
)
from fitrag_integrations.errors import InputError
from fitrag_integrations.text.spans import merge_spans
from fitrag_integrations.types import Context, Excerpt, Passage
from fitrag_integrations.values.excerpt import by_number, by_origin, excerpts_html
from fitrag_integrations.values.passage import LEAD, PLACE, named, origin_of
from fitrag_integrations.values.prompt import (
    ELLIPSIS,
    RETRIEVAL,
    PromptTemplate,
)
from fitrag_integrations.values.windows import merge

CITE_RULE = (
    "After each statement, name the passages it rests on by their numbers in square brackets, such "
    "as [1] or [2, 3]. Use no number that is not listed.\n"
)

_NUMBER = r"\d{1,18}(?:\s{0,2}[-–—]\s{0,2}\d{1,18})?"
_WORD = r"(?:(?:passages?|sources?|documents?|docs?|refs?|nos?\.?)\s{0,2})?[#^]?"
_MARK = re.compile(
    rf"[\[【［]\s{{0,2}}{_WORD}({_NUMBER}(?:\s{{0,2}}(?:,|;|，|、|&|and)\s{{0,2}}{_NUMBER})*)"
    r"\s{0,2}(?:†[^\]】］]{0,200})?[\]】］]",
    re.IGNORECASE,
)
_CODE = re.compile(
    r"^ {0,3}(?P<fence>```+|~~~+)(?! ?(?:markdown|md|text)\b)[^\n]*$.*?(?:^ {0,3}(?P=fence)|\Z)"
    r"|(?<!`)(?P<ticks>`+)(?!`)[^\n]*?(?<!`)(?P=ticks)(?!`)",
    re.DOTALL | re.MULTILINE,
)
# What stands before a mark without a blank, within its word; many scripts write no blanks.
_GLUED = re.compile(r"[^\s\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]+\Z")
_LIKE_CODE = re.compile(
    r"[_`\[\]{}=$\\]|[a-z0-9]\(|->|::|[^\W\d]{2}\.\w|\w\.[^\W\d]{2}", re.IGNORECASE
)
_RANGE = re.compile(r"(\d+)(?:\s*[-–—]\s*(\d+))?")


@dataclass(frozen=True, slots=True)
class Span(Record):
    """A cited place in a source.

    Args:
        passage_id: Id of the text that the offsets count in.
        start: First character.
        end: Character after the last.
        text: The characters [start, end).
        title: Title of the passage.
        source: File or address of the text, from its metadata; may be blank.
    """

    passage_id: str
    start: int
    end: int
    text: str
    title: str = ""
    source: str = ""

    @classmethod
    def of(cls, excerpt: Excerpt) -> Span:
        """Return the place of `excerpt` in the source of its passage."""
        passage = excerpt.passage
        name, begin = origin_of(passage)
        places = (begin + excerpt.start, begin + excerpt.end)
        return cls(name, *places, excerpt.text, passage.title, passage.source)

    def __str__(self) -> str:
        """Return the place and its first words in one line."""
        name = self.title or self.source or self.passage_id
        return f"{name} [{self.start}:{self.end}]: {shortened(self.text)}"


@dataclass(frozen=True, slots=True)
class Citation(Record, Checked):
    """A number that an answer cites, the excerpts it refers to, and its places in the answer.

    Args:
        number: The number.
        excerpts: Excerpts that the prompt showed under it, in the order of the passage; adjacent
            ones are joined.
        places: [start, end) of the marks in the answer.
    """

    _nested: ClassVar = {"excerpts": Excerpt}

    number: int
    excerpts: Annotated[tuple[Excerpt, ...], partial(check_many, kind=Excerpt)]
    places: Annotated[  # which JSON has as lists
        tuple[tuple[int, int], ...],
        lambda _, places: tuple((start, end) for start, end in places),
    ] = ()

    @property
    def spans(self) -> tuple[Span, ...]:
        """Return the places cited, as plain values."""
        return tuple(map(Span.of, self.excerpts))

    def __str__(self) -> str:
        """Return number and places in one line."""
        return f"[{self.number}] " + "; ".join(map(str, self.spans))

    def _repr_html_(self) -> str:
        """Show the source whole with the cited words marked; all of it is escaped."""
        return card(str(self), excerpts_html(self.excerpts))


@dataclass(frozen=True, slots=True)
class Cited(Record, Checked):
    """An answer with its citations, in the order of their first use.

    Args:
        answer: The answer.
        citations: The numbers it cites, with their excerpts.
        unknown: Cited numbers that the prompt did not show, in order and each once.
        shown: Number of numbers that the prompt showed.
        copied: Numbers in marks that the answer copied from a passage with the words before them;
            they are the passage's own and cite nothing.
    """

    _nested: ClassVar = {"citations": Citation}

    answer: str
    citations: Annotated[tuple[Citation, ...], partial(check_many, kind=Citation)]
    unknown: Annotated[tuple[int, ...], partial(check_many, kind=int)] = ()
    shown: int = 0
    copied: Annotated[tuple[int, ...], partial(check_many, kind=int)] = ()

    @property
    def uncited(self) -> tuple[int, ...]:
        """Return the numbers shown that the answer does not cite."""
        cited = {citation.number for citation in self.citations}
        return tuple(n for n in range(1, self.shown + 1) if n not in cited)

    def __str__(self) -> str:
        """Return in one line what is cited, and which numbers are unknown."""
        wrong = f", unknown {_listed(self.unknown)}" if self.unknown else ""
        numbers = _listed(citation.number for citation in self.citations) or "nothing"
        return f"{shortened(self.answer)} -> cites {numbers} of {self.shown}{wrong}"

    def explain(self) -> str:
        """Return answer, citations, unknown numbers and uncited passages, one per line."""
        return "\n".join([f"answer: {self.answer}", *map(str, self.citations), *self._unresolved()])

    def _unresolved(self) -> Iterator[str]:
        if self.unknown:
            yield f"unknown: {_listed(self.unknown)} of {self.shown} shown"
        if self.copied:
            yield f"copied from a passage: {_listed(self.copied)}"
        if self.uncited:
            yield f"not cited: {_listed(self.uncited)}"

    def _repr_html_(self) -> str:
        """Show the answer, its marks marked, over the sources it cites; all of it is escaped."""
        places = [place for citation in self.citations for place in citation.places]
        sources = [
            folded(f"[{one.number}] {named(one.excerpts[0].passage)}", excerpts_html(one.excerpts))
            for one in self.citations
        ]
        answer = block(marked(self.answer, merge_spans(self.answer, places)))
        return card(str(self), answer, *sources, lines_html(self._unresolved()))


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(f"[{number}]" for number in numbers)


def with_citations(template: PromptTemplate = RETRIEVAL) -> PromptTemplate:
    """Return a template that also asks for citations, named `<name>_cited`."""
    name, text = f"{template.name}_cited", CITE_RULE + template.text
    return replace(template, name=name, text=text, reply="")


RETRIEVAL_CITED = with_citations()


def cite(shown: Context | Iterable[Excerpt], answer: str, *, by_source: bool = False) -> Cited:
    """Return the citations of an answer, given the context of its prompt.

    Marks are numbers in square brackets: `[1]`, `[2, 3]`, `[1-3]`, `[1][2]`, `[Source 4]`. Numbers
    in code, or directly after text that looks like code, are not marks. A mark that was copied from
    a passage together with the two words before it belongs to the passage and is not a citation.

    Args:
        shown: The context whose prompt was answered, or its excerpts.
        answer: The answer.
        by_source: Whether all pieces of one source share a number. By default each passage has its
            own, as in `Context.prompt`.
    """
    check_text("answer", answer)
    excerpts = check_many("shown", shown.excerpts if isinstance(shown, Context) else shown, Excerpt)
    groups = by_origin(excerpts) if by_source else by_number(excerpts)
    own = {key for one in excerpts for _, key in _marks(one.text) if key[1:]}
    places: dict[int, list[tuple[int, int]]] = {}
    copied: dict[int, None] = {}
    for mark, key in _marks(answer):
        for number in _numbers(mark[1], len(groups)):
            if key in own:
                copied[number] = None
            else:
                places.setdefault(number, []).append(mark.span())
    known = {number: found for number, found in places.items() if 1 <= number <= len(groups)}
    citations = tuple(
        Citation(number, tuple(merge(groups[number - 1])), tuple(found))
        for number, found in known.items()
    )
    unknown = tuple(number for number in places if number not in known)
    return Cited(answer, citations, unknown, len(groups), tuple(copied))


def _marks(text: str) -> Iterator[tuple[re.Match[str], tuple[str, ...]]]:
    """Yield the marks of a text, each with the two words before it and its numbers.

    None is in code or behind what looks like code, such as `config.ports[2]`; marks that follow
    each other (`[1][2]`) are all marks or none.
    """
    code = [at for found in _CODE.finditer(text) for at in found.span()]
    end, is_mark = 0, True
    for mark in _MARK.finditer(text):
        before = text[max(0, mark.start() - 60) : mark.start()]
        if mark.start() != end:
            glued = _GLUED.search(text, max(mark.start() - 60, end * is_mark), mark.start())
            is_index = glued and (_LIKE_CODE.search(glued[0]) or mark[1] == "0")
            is_mark = not (is_index or bisect(code, mark.start()) % 2)
        end = mark.end()
        if is_mark:
            yield mark, (*re.findall(r"\w+", before.casefold())[-2:], mark[1])


def _numbers(mark: str, shown: int) -> Iterator[int]:
    """Yield the numbers of a mark; of a range, its ends and those between that were `shown`."""
    for found in _RANGE.finditer(mark):
        low, high = sorted((int(found[1]), int(found[2] or found[1])))
        yield from dict.fromkeys((low, *range(max(low, 1), min(high, shown) + 1), high))


def restored(
    passage: Passage, sources: Mapping[str, Passage], places: Iterable[tuple[str, int]] = ()
) -> Excerpt:
    """Return a passage's place in its source, or the whole passage if the place is unknown.

    A place counts only if the text contains the passage there.

    Args:
        passage: Passage.
        sources: Texts by name. The place where this package cut the passage is tried first.
        places: Further places to try: the name of a text, and where the passage begins in it.
    """
    given = passage.metadata.get("relevance_score")
    score = given if isinstance(given, int | float) and math.isfinite(given) else 0.0
    name, first, last, led = (passage.metadata.get(key, "") for key in (*PLACE, LEAD))
    if led and name in sources:
        found_at = re.finditer(r"(\d{1,18})-(\d{1,18})", str(led))
        spans = tuple((int(found[1]), int(found[2])) for found in found_at)
        with suppress(InputError):  # what was written there since is no place
            with_lead = Excerpt(sources[name], first, last, score, lead=spans)
            if with_lead.text == passage.text:
                return with_lead
    for name, start in (origin_of(passage), *places):
        source, end = sources.get(name), start + len(passage.text)
        if source is not None and source.text[start:end] == passage.text:
            return Excerpt(source, start, end, score)
    return Excerpt.whole(passage, score=score)


def highlight(
    what: Citation | Cited | Context | Excerpt | Iterable[Excerpt],
    *,
    html: bool = False,
    markers: tuple[str, str] = ("⟦", "⟧"),
) -> str:
    """Return the whole text of a source with the cited or kept parts marked.

    Characters that cannot be seen, such as terminal escapes, are named.

    Args:
        what: One citation or excerpt gives its source's text; several, an answer or a context give
            each source under a line with its number.
        html: Return escaped HTML with `<mark>`.
        markers: Marks before and after, in plain text.
    """
    if isinstance(what, Citation | Excerpt):
        group = what.excerpts if isinstance(what, Citation) else (what,)
        return excerpts_html(group) if html else _between(group, markers)
    parts: list[str] = []
    groups: Iterable[tuple[int, Sequence[Excerpt]]]
    if isinstance(what, Cited):
        groups = [(citation.number, citation.excerpts) for citation in what.citations]
    else:
        excerpts = what.excerpts if isinstance(what, Context) else what
        groups = enumerate(by_number(check_many("what", excerpts, Excerpt)), start=1)
    for number, own in groups:
        title = f"[{number}] {' '.join(named(own[0].passage).split())}"
        if html:
            parts.append(folded(title, excerpts_html(own), shown=True))
        else:  # only a title begins a line after the first
            lines = _between(own, markers).replace("\n", "\n  ")
            parts.append(f"{visible(title)}\n{lines}")
    return ("" if html else "\n\n").join(parts)


def _between(group: Sequence[Excerpt], markers: tuple[str, str]) -> str:
    texts = []
    for excerpts in by_number(group):
        text, parts, last = excerpts[0].passage.text, list[str](), 0
        for start, end in merge_spans(text, [span for one in excerpts for span in one.spans]):
            before, inside = visible(text[last:start]), visible(text[start:end])
            parts += [before, markers[0], inside, markers[1]]
            last = end
        texts.append("".join([*parts, visible(text[last:])]))
    return ELLIPSIS.join(texts)
