"""Cut passages into excerpts, and choose, merge and order them: all pure functions.

Sub-documents are FIT-RAG's (section 4.4.2): windows of three sentences, one sentence apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from fitrag_integrations._checks import check_whole
from fitrag_integrations._prompting import merge_spans, render_excerpts
from fitrag_integrations.methods.sentences import split_sentences
from fitrag_integrations.ports import SentenceSplitter, TokenCounter
from fitrag_integrations.types import Excerpt, Passage


def windows(
    passage: Passage, *, size: int = 3, stride: int = 1, split: SentenceSplitter | None = None
) -> list[Excerpt]:
    """Slide a window of ``size`` sentences over a passage, ``stride`` sentences at a time.

    In the order of the text, scores 0. The last window always reaches the last sentence; a
    passage of fewer sentences gives one window, a blank one none.
    """
    size = check_whole("size", size, low=1)
    stride = check_whole("stride", stride, low=1, high=size)
    spans = (split_sentences if split is None else split)(passage.text)
    if not spans:
        return []
    firsts = list(range(0, max(len(spans) - size, 0), stride)) + [max(len(spans) - size, 0)]
    return [
        Excerpt(passage, spans[first][0], spans[min(first + size, len(spans)) - 1][1])
        for first in firsts
    ]


def best_per_passage(excerpts: Iterable[Excerpt]) -> list[Excerpt]:
    """Keep the best-scored excerpt of each passage, the first of equals.

    Passages in the order they first appear.
    """
    best: dict[Passage, Excerpt] = {}
    for excerpt in excerpts:
        kept = best.get(excerpt.passage)
        if kept is None or excerpt.score > kept.score:
            best[excerpt.passage] = excerpt
    return list(best.values())


def by_score(excerpts: Iterable[Excerpt]) -> list[Excerpt]:
    """Sort by score, best first; equals keep their order."""
    return sorted(excerpts, key=lambda excerpt: -excerpt.score)


def in_document_order(excerpts: Iterable[Excerpt]) -> list[Excerpt]:
    """Sort by place: passages as they first appear, each one's excerpts by offset."""
    groups = _by_passage(excerpts)
    return [excerpt for group in groups.values() for excerpt in sorted(group, key=_span)]


def merge(excerpts: Iterable[Excerpt]) -> list[Excerpt]:
    """Join overlapping and adjacent excerpts of one passage, in document order.

    A joined excerpt takes the score and the labels of the best of its parts.
    """
    merged: list[Excerpt] = []
    for passage, group in _by_passage(excerpts).items():
        for start, end in merge_spans(passage.text, map(_span, group)):
            parts = [part for part in group if start <= part.start and part.end <= end]
            merged.append(replace(by_score(parts)[0], start=start, end=end))
    return merged


def fit(
    excerpts: Sequence[Excerpt], *, max_tokens: int | None, count_tokens: TokenCounter
) -> list[Excerpt]:
    """Keep the longest prefix whose rendered text costs at most ``max_tokens``.

    Counted on the very text a prompt shows, numbers and titles included. An excerpt that is too
    long even alone is passed over, so that it does not shut out those behind it.
    """
    if max_tokens is None:
        return list(excerpts)
    max_tokens = check_whole("max_tokens", max_tokens, low=1)
    kept: list[Excerpt] = []
    for excerpt in excerpts:
        if count_tokens(render_excerpts([excerpt])) > max_tokens:
            continue
        if count_tokens(render_excerpts([*kept, excerpt])) > max_tokens:
            break
        kept.append(excerpt)
    return kept


def _span(excerpt: Excerpt) -> tuple[int, int]:
    return excerpt.start, excerpt.end


def _by_passage(excerpts: Iterable[Excerpt]) -> dict[Passage, list[Excerpt]]:
    groups: dict[Passage, list[Excerpt]] = {}
    for excerpt in excerpts:
        groups.setdefault(excerpt.passage, []).append(excerpt)
    return groups
