"""Cut passages into knowledge strips (CRAG, section 4.4 and appendix B.3): pure functions.

A passage of one or two sentences is a strip; a longer one is cut into strips of a few sentences
each, without overlap. Of a web page, whose paragraphs are parted by blank lines, no strip spans
two paragraphs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise

from fitrag_integrations.core.checks import check_whole
from fitrag_integrations.methods.crag.actions import SENTENCES
from fitrag_integrations.text.layout import units_of
from fitrag_integrations.text.sentences import SentenceSplitter, split_sentences
from fitrag_integrations.types import Excerpt, Passage
from fitrag_integrations.values.passage import is_web

SHORT = 2
"""A text of at most so many sentences is one strip."""
_GAP = re.compile(r"\n[^\S\n]*\n\s*|\Z")


def strips(
    passage: Passage, *, sentences: int = SENTENCES, split: SentenceSplitter | None = None
) -> list[Excerpt]:
    """Cut a passage into strips of at most ``sentences`` sentences.

    In the order of the text, scores 0. The sentences are shared out evenly, so that no strip is
    left with a stray one: seven become 2, 2 and 3. A heading counts as part of the sentence under
    it. A blank passage gives none.
    """
    most = check_whole("sentences", sentences, low=1)
    splitter = split_sentences if split is None else split
    cut: list[Excerpt] = []
    for start, end in paragraphs(passage.text) if is_web(passage) else [(0, len(passage.text))]:
        text = passage.text[start:end]
        spans = [span for span, _ in units_of(text, splitter(text))]
        for first, after in _shares(len(spans), most):
            place = start + spans[first][0], start + spans[after - 1][1]
            cut.append(Excerpt(passage, *place))
    return cut


def paragraphs(text: str) -> Iterator[tuple[int, int]]:
    """Return [start, end) of each paragraph, without the blanks around it."""
    at = 0
    for gap in _GAP.finditer(text):
        piece = text[at : gap.start()]
        if piece.strip():
            yield at + len(piece) - len(piece.lstrip()), at + len(piece.rstrip())
        at = gap.end()


def distinct(excerpts: Iterable[Excerpt]) -> list[Excerpt]:
    """Leave out excerpts that repeat an earlier one but for case and blanks."""
    once: dict[str, Excerpt] = {}
    for excerpt in excerpts:
        once.setdefault(" ".join(excerpt.text.split()).casefold(), excerpt)
    return list(once.values())


def _shares(count: int, most: int) -> Iterable[tuple[int, int]]:
    """Share ``count`` sentences out over as few strips as hold them."""
    strips = 1 if count <= SHORT else -(-count // most)
    return pairwise(i * count // strips for i in range(strips + 1)) if count else ()
