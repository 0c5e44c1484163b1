"""Citations: ask a model for the numbers of passages, and turn its numbers into places of sources.

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
from dataclasses import replace

from fitrag_integrations.core.checks import check_many, check_text
from fitrag_integrations.core.html import folded
from fitrag_integrations.errors import InputError
from fitrag_integrations.methods.answering import Citation, Cited
from fitrag_integrations.text.spans import merge_spans
from fitrag_integrations.types import Context, Excerpt, Passage
from fitrag_integrations.values.excerpt import by_number, excerpts_html, grouped
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
MARKERS = ("⟦", "⟧")

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
# The end of a word, in a script that writes blanks between words.
_WORDLY = re.compile(r"(?![\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff])\w")
_LEAD = re.compile(r"(\d{1,18})-(\d{1,18})")
_RANGE = re.compile(r"(\d+)(?:\s*[-–—]\s*(\d+))?")


def with_citations(template: PromptTemplate = RETRIEVAL) -> PromptTemplate:
    """Return a template that also asks for citations, named `<name>_cited`."""
    return replace(template, name=f"{template.name}_cited", text=CITE_RULE + template.text)


RETRIEVAL_CITED = with_citations()


def cite(shown: Context | Iterable[Excerpt], answer: str, *, by_source: bool = False) -> Cited:
    """Resolve the marks of an answer against what its prompt showed.

    Marks are numbers in square brackets: `[1]`, `[2, 3]`, `[1-3]`, `[1][2]`, `[Source 4]`.

    Args:
        shown: The context whose prompt was answered, or its excerpts.
        answer: The answer.
        by_source: Count one number for everything cut from one source, for excerpts that came back
            as pieces; False counts those of `Context.prompt`, one for each passage.
    """
    check_text("answer", answer)
    given = shown.excerpts if isinstance(shown, Context) else shown
    excerpts = check_many("shown", given, Excerpt)
    groups = by_number(excerpts)
    if by_source:
        sources = grouped(excerpts, lambda one: (origin_of(one.passage)[0], one.passage.title))
        groups = list(sources.values())
    places: dict[int, list[tuple[int, int]]] = {}
    for number, place in marks(answer, len(groups)):
        places.setdefault(number, []).append(place)
    known = {number: found for number, found in places.items() if 1 <= number <= len(groups)}
    citations = tuple(
        Citation(number, tuple(merge(groups[number - 1])), tuple(found))
        for number, found in known.items()
    )
    unknown = tuple(number for number in places if number not in known)
    return Cited(answer, citations, unknown, len(groups))


def marks(answer: str, shown: int) -> Iterator[tuple[int, tuple[int, int]]]:
    """Return each number cited with the place of its mark.

    Of a range, its ends and the numbers between them that were `shown`. Nothing in code is a mark,
    and none stands at the end of a word without a blank, as an index does (`ports[2]`), except in
    scripts that write none.
    """
    code = [at for found in _CODE.finditer(answer) for at in found.span()]
    index = -1  # where an index ends
    for mark in _MARK.finditer(answer):
        before = answer[mark.start() - 1 : mark.start()]
        if _WORDLY.match(before) or mark.start() == index:
            index = mark.end()
            continue
        if bisect(code, mark.start()) % 2:
            continue
        for found in _RANGE.finditer(mark[1]):
            first = int(found[1])
            last = int(found[2] or first)
            low, high = min(first, last), max(first, last)
            between = range(max(low, 1), min(high, shown) + 1)
            for number in dict.fromkeys((low, *between, high)):
                yield number, mark.span()


def restored(
    passage: Passage, sources: Mapping[str, Passage], places: Iterable[tuple[str, int]] = ()
) -> Excerpt:
    """Point at a passage in the source it was cut from, or at all of it where that is not known.

    Looked up among `sources` by name: where this package cut it, then `places`, each the name of a
    text and where in it the passage begins. Only a text that has the passage there is believed.
    """
    given = passage.metadata.get("relevance_score")
    score = given if isinstance(given, int | float) and math.isfinite(given) else 0.0
    name, first, last, led = (passage.metadata.get(key, "") for key in (*PLACE, LEAD))
    if led and name in sources:
        spans = tuple((int(found[1]), int(found[2])) for found in _LEAD.finditer(str(led)))
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
    markers: tuple[str, str] = MARKERS,
) -> str:
    """Return the whole text of a source with what is cited, or was kept, marked.

    Args:
        what: One citation or excerpt gives its source's text; several, an answer or a context give
            each source under a line with its number.
        html: Return escaped HTML with `<mark>`.
        markers: Marks before and after, where it is no HTML.
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
        title = f"[{number}] {named(own[0].passage)}"
        if html:
            parts.append(folded(title, excerpts_html(own), shown=True))
        else:
            parts.append(f"{title}\n{_between(own, markers)}")
    return ("" if html else "\n\n").join(parts)


def _between(group: Sequence[Excerpt], markers: tuple[str, str]) -> str:
    texts = []
    for excerpts in by_number(group):
        text, parts, last = excerpts[0].passage.text, list[str](), 0
        for start, end in merge_spans(text, [span for one in excerpts for span in one.spans]):
            parts += [text[last:start], markers[0], text[start:end], markers[1]]
            last = end
        texts.append("".join([*parts, text[last:]]))
    return ELLIPSIS.join(texts)
