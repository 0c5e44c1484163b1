"""Cut passages into excerpts, and choose, merge and order them: all pure functions.

Sub-documents are FIT-RAG's (section 4.4.2): windows of three sentences, one sentence apart.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import accumulate

from fitrag_integrations.core.checks import check_many, check_whole
from fitrag_integrations.core.html import merge_spans
from fitrag_integrations.text.sentences import SentenceSplitter, split_sentences
from fitrag_integrations.values.excerpt import Excerpt
from fitrag_integrations.values.passage import Passage


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
        placed = deque(sorted(enumerate(group), key=lambda each: _span(each[1])))
        for start, end in merge_spans(passage.text, map(_span, group)):
            parts = []
            while placed and placed[0][1].start <= end:
                parts.append(placed.popleft())
            _, best = min(parts, key=lambda each: (-each[1].score, each[0]))
            lead = {(a, min(b, start)) for _, one in parts for a, b in one.lead if a < start}
            spans = tuple(merge_spans(passage.text, lead)) if lead else ()
            merged.append(replace(best, start=start, end=end, lead=spans))
    return merged


def fit(
    excerpts: Sequence[Excerpt],
    *,
    max_tokens: int | None,
    cost: Callable[[Sequence[Excerpt]], int],
) -> list[Excerpt]:
    """Return the longest prefix that costs at most ``max_tokens``.

    ``cost`` counts the very text that a prompt shows; ``methods.budget`` fills what is left.

    Where adding an excerpt can lower the count (a tokenizer that merges across the seam, a gap
    that closes) there may be several prefixes that fit and are too long with the next excerpt;
    one of them is kept. It never costs more than ``max_tokens``, because it was itself counted.
    """
    if max_tokens is None or not excerpts:
        return list(excerpts)
    most = check_whole("max_tokens", max_tokens, low=1)
    if (whole := cost(excerpts)) <= most:
        return list(excerpts)
    lengths = list(accumulate(one.end - one.start for one in excerpts))
    guess = bisect_right(lengths, lengths[-1] * most // whole)  # as many characters a token
    fits = lambda length: cost(excerpts[:length]) <= most  # noqa: E731
    return list(excerpts[: _longest(guess, len(excerpts), fits)])


def _longest(guess: int, high: int, fits: Callable[[int], bool]) -> int:
    """Find a length below ``high`` that fits while the next does not, around a guess.

    Each look renders and counts a whole prefix, so the steps double.
    """
    low, at, step = 0, guess, 1  # low fits, high does not
    while high - low > 1:
        if not low < at < high:
            at = (low + high) // 2
        if fits(at):
            low, at = at, at + step
        else:
            high, at = at, at - step
        step *= 2
    return low


def with_text(passages: Sequence[Passage]) -> list[Passage]:
    """Leave out passages whose text is blank: there is nothing to score, and scorers refuse it."""
    return [one for one in passages if one.text and not one.text.isspace()]


def usable(found: object) -> tuple[list[Passage], tuple[str, ...]]:
    """Leave out of what was ``found`` blank passages and repeated ones; note how many, or if all.

    A passage repeats another when title and text are the same; equal ids alone do not count.
    """
    passages = check_many("retrieved", found, Passage)
    readable = with_text(passages)
    once: dict[tuple[str, str], Passage] = {}
    for passage in readable:
        once.setdefault((passage.title, passage.text), passage)
    notes = []
    if blank := len(passages) - len(readable):
        notes.append(f"{blank} of {len(passages)} passages left out: no text")
    if repeated := len(readable) - len(once):
        notes.append(f"{repeated} of {len(passages)} passages left out: repeated")
    if not once:
        notes.append("nothing to refer to: no passage with text was retrieved")
    return list(once.values()), tuple(notes)


def at_least(min_score: float | None, excerpts: Sequence[Excerpt]) -> list[Excerpt]:
    """Leave out excerpts that score below ``min_score``, where there is one."""
    return [one for one in excerpts if min_score is None or one.score >= min_score]


def _span(excerpt: Excerpt) -> tuple[int, int]:
    return excerpt.start, excerpt.end


def _by_passage(excerpts: Iterable[Excerpt]) -> dict[Passage, list[Excerpt]]:
    groups: dict[Passage, list[Excerpt]] = {}
    for excerpt in excerpts:
        groups.setdefault(excerpt.passage, []).append(excerpt)
    return groups
