"""Cut passages into excerpts, and choose, merge and order them: all pure functions.

Sub-documents are FIT-RAG's (section 4.4.2): windows of three sentences, one sentence apart.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right, insort
from collections import Counter, deque
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from html import unescape
from operator import attrgetter

from fitrag_integrations.core.checks import check_many, check_whole
from fitrag_integrations.core.record import remade
from fitrag_integrations.text.cleaning import has_text
from fitrag_integrations.text.layout import is_blob, is_links, units_of
from fitrag_integrations.text.sentences import SentenceSplitter, split_sentences
from fitrag_integrations.text.spans import merge_spans
from fitrag_integrations.values.excerpt import SPAN, Excerpt, grouped, place
from fitrag_integrations.values.passage import Passage, named
from fitrag_integrations.values.selected import Selection

_TAGS = re.compile(r"</?[a-z][^<>]{0,200}>|^[ \t>]*>", re.IGNORECASE | re.MULTILINE)
# A word, with the sign of a number and what is joined inside; a sign that compares or measures.
_TOKEN = re.compile(
    r"(?:(?<![^\s(])[-+−](?=\d))?[^\W_]+(?:[\w.,:'’/@-]*[^\W_])?(?:\+\+|\#)?"
    r"|[<>≤≥≠≈±%$€£°](?!>)|(?<![=<>!])!?={1,2}(?!=)"
)


def windows(
    passage: Passage, *, size: int = 3, stride: int = 1, split: SentenceSplitter | None = None
) -> list[Excerpt]:
    """Slide a window of ``size`` sentences over a passage, ``stride`` sentences at a time.

    Windows are in the order of the text, with score 0. The last window always reaches the last
    sentence. A passage of fewer sentences has one window, a blank passage none. The lead of a
    window of a list, a table or code is what ``units_of`` finds before it, except the passage's own
    title. Text that only introduces other text is not a window, and no window ends with it. A
    heading counts as part of the sentence under it.
    """
    size = check_whole("size", size, low=1)
    stride = check_whole("stride", stride, low=1, high=size)
    units = units_of(passage.text, (split_sentences if split is None else split)(passage.text))
    if not units:
        return []
    firsts = list(range(0, max(len(units) - size, 0), stride)) + [max(len(units) - size, 0)]
    spans, leads = zip(*units, strict=True)
    title, made = _words(passage.title), []
    for first in firsts:
        after = min(first + size, len(spans))
        while after > first and leads[after - 1] is None:
            after -= 1
        if after == first:
            continue
        start, end = spans[first][0], spans[after - 1][1]
        before = {span for lead in leads[first:after] for span in lead or () if span[1] <= start}
        lead = tuple(s for s in sorted(before) if _words(passage.text[slice(*s)]) != title)
        made.append(Excerpt(passage, start, end, lead=lead))
    return made


def by_score(excerpts: Iterable[Excerpt]) -> list[Excerpt]:
    """Sort by score, best first, with ``only_links`` last; ties keep their order."""
    return sorted(excerpts, key=lambda excerpt: (only_links(excerpt), -excerpt.score))


def only_links(excerpt: Excerpt) -> bool:
    """Check whether an excerpt is only badges, navigation or links, of a passage that has more."""
    text, start, end = excerpt.passage.text, excerpt.start, excerpt.end
    return end - start < len(text) and is_links(text[start:end]) and not is_links(text)


def merge(excerpts: Iterable[Excerpt]) -> list[Excerpt]:
    """Join overlapping and adjacent excerpts of one passage, in document order.

    A joined excerpt takes the score and the labels of the best of its parts.
    """
    merged: list[Excerpt] = []
    for passage, group in grouped(excerpts, attrgetter("passage")).items():
        placed = deque(sorted(enumerate(group), key=lambda each: SPAN(each[1])))
        for start, end in merge_spans(passage.text, map(SPAN, group)):
            parts = []
            while placed and placed[0][1].start <= end:
                parts.append(placed.popleft())
            _, best = min(parts, key=lambda each: (-each[1].score, each[0]))
            lead = {(a, min(b, start)) for _, one in parts for a, b in one.lead if a < start}
            spans = tuple(merge_spans(passage.text, lead)) if lead else ()
            merged.append(replace(best, start=start, end=end, lead=spans))
    return merged


def same_text(text: str) -> str:
    """Return the part of a text that its copies share: words, and signs that change the meaning.

    Case, punctuation, emphasis and tags are ignored.
    """
    words = _TOKEN.findall(_TAGS.sub(" ", unescape(text.replace("\\", ""))).casefold())
    return " ".join(words) or " ".join(text.split())


def copied(passage: Passage, text: str | None = None) -> tuple[str, str]:
    """Return a key that is equal for copies of a passage, or of a text in it: text and title.

    The same text in another file, or on another page, is a copy.
    """
    title = getattr(passage.title, "own", passage.title)
    return same_text(passage.text if text is None else text), same_text(title)


def usable(
    found: object,
    *,
    deduplicate: bool = True,
    scored: bool = False,
    k: int | None = None,
    selection: Selection | None = None,
) -> tuple[list[Passage], tuple[str, ...]]:
    """Return the distinct passages with text, and notes on what was left out.

    Args:
        found: Passages, in the order of retrieval.
        deduplicate: Leave out copies: passages with the same words and title as an earlier one,
            whatever their ids.
        scored: Whether `best_copies` follows, so that scores decide which copy stays. Then only
            repeats of the same passage are left out.
        k: Maximum number of passages returned; None for no limit.
        selection: Records what is left out.
    """
    passages = check_many("retrieved", found, Passage)
    selection = selection or Selection()
    first = selection.add(passages)
    kept, once, blank = list[Passage](), dict[Hashable, Passage](), 0
    for at, passage in enumerate(passages, first):
        if not has_text(passage.text):
            selection.drop_at(at, "blank", "no text")
            blank += 1
            continue
        key: Hashable = passage if scored else copied(passage)
        if deduplicate and key in once:
            selection.drop_at(at, "duplicate", f"same text as {named(once[key])}")
        else:
            once[key] = passage
            kept.append(passage)
    notes = []
    if blank:
        notes.append(f"{blank} of {len(passages)} passages left out: no text")
    if repeated := len(passages) - blank - len(kept):
        notes.append(f"{repeated} of {len(passages)} passages left out: repeated")
    if not kept:
        notes.append("nothing to refer to: no passage with text was retrieved")
    if k is not None:
        selection.drop(map(Excerpt.whole, kept[k:]), "k", f"k={k}")
    return kept[:k], tuple(notes)


def best_copies(
    excerpts: Sequence[Excerpt], *, what: str = "passages", of: int = 0, selection: Selection
) -> tuple[list[Excerpt], tuple[str, ...]]:
    """Keep the best-scored of excerpts with equal text and title; of ties the first.

    Args:
        excerpts: Scored passages or parts of them, in any order, which is kept.
        what: Noun for them in the note.
        of: Number of them before any was left out, for the note; 0 is the number given.
        selection: Records what is dropped.

    Returns:
        The excerpts kept, and a note on the others.
    """
    keys = [copied(one.passage, one.text) for one in excerpts]
    best: dict[Hashable, Excerpt] = {}
    for key, one in zip(keys, excerpts, strict=True):
        if key not in best or one.score > best[key].score:
            best[key] = one
    stays = [best[key] for key in keys]
    for one, other in zip(excerpts, stays, strict=True):
        same = named(other.passage) if what == "passages" else place(other)
        selection.drop([one] * (one is not other), "duplicate", f"same text as {same}")
    kept = [one for one, other in zip(excerpts, stays, strict=True) if one is other]
    left = len(excerpts) - len(kept)
    return kept, (f"{left} of {of or len(excerpts)} {what} left out: repeated",) * bool(left)


def bounded(
    passages: Sequence[Passage],
    *,
    max_passages: int | None,
    max_sentences: int | None,
    selection: Selection | None = None,
) -> tuple[list[Passage], dict[Passage, int], tuple[str, ...]]:
    """Limit what one call reads to the first passages and the first sentences of all of them.

    Args:
        passages: Passages with text, in the order of retrieval.
        max_passages: Maximum number of passages; None is no limit.
        max_sentences: Maximum number of their sentences together; None is no limit. Texts short
            enough to be within the limit at ten characters a sentence are not split to count.
        selection: Records what is left out.

    Returns:
        The passages to read, the end of what to read of a passage that is cut, and notes.
    """
    selection, notes = selection or Selection(), list[str]()
    kept = list(passages[:max_passages])
    if left := passages[len(kept) :]:
        limit = f"the limit of {max_passages:,} passages"
        selection.drop(map(Excerpt.whole, left), "max_passages", limit)
        notes.append(f"{len(left)} of {len(passages)} passages left out by {limit}")
    if max_sentences is None or sum(len(one.text) for one in kept) <= 10 * max_sentences:
        return kept, {}, tuple(notes)
    room, limit = max_sentences, f"the limit of {max_sentences:,} sentences"
    for at, one in enumerate(kept):
        spans = split_sentences(one.text) if room else []
        if len(spans) <= room and room:
            room -= len(spans)
            continue
        rest, ends = kept[at + (room > 0) :], {one: spans[room - 1][1]} if room else {}
        selection.drop(map(Excerpt.whole, rest), "max_sentences", limit)
        for passage, end in ends.items():
            selection.drop([Excerpt(passage, end, len(passage.text))], "max_sentences", limit)
        cut = f"passage {at + 1} read in part" if ends else ""
        out = f"{len(rest)} of {len(passages)} passages left out" if rest else ""
        notes.append(f"{' and '.join(filter(None, (cut, out)))} by {limit}")
        return kept[: len(kept) - len(rest)], ends, tuple(notes)
    return kept, {}, tuple(notes)


def apart(
    ordered: Iterable[Excerpt],
    *,
    per_passage: int | None = None,
    deduplicate: bool = True,
    trim: bool = True,
    selection: Selection | None = None,
) -> list[Excerpt]:
    """Keep the excerpts whose text is not shown by a better one, best first.

    An excerpt that overlaps a better one of its passage is dropped, and so is a blob of data.

    Args:
        ordered: Excerpts, best first.
        per_passage: Maximum number of excerpts of a passage; None is no limit.
        deduplicate: Also drop copies of a better one (`copied`), and show sentences that chunks of
            one source share (`Passage.origin`) once: of two excerpts that overlap in the source,
            one that holds the other stays, at the better score; else the worse loses the sentences
            that the better one shows whole.
        trim: Whether excerpts may be shortened, and blobs dropped. Otherwise only excerpts that are
            shown whole elsewhere are dropped.
        selection: Records what is dropped.
    """
    selection, shown = selection or Selection(), _Shown()
    texts: dict[Hashable, Excerpt] = {}
    counts: Counter[int] = Counter()
    for number, one in enumerate(ordered):
        own, text = id(one.passage), copied(one.passage, one.text) if deduplicate else number
        if trim and is_blob(one.passage.text[one.start : one.end]):
            selection.drop([one], "blob", "data, no words")
            continue
        if per_passage is not None and counts[own] >= per_passage:
            selection.drop([one], "per_passage", f"per_passage={per_passage}")
            continue
        origin = (one.passage.origin if deduplicate else None) or (own, 0)
        over = shown.over(one, origin)
        if not all(_agree(one, origin[1], *each) for each in over):
            origin = own, 0  # the offsets do not count in one text
            over = shown.over(one, origin)
        span = origin[1] + one.start, origin[1] + one.end
        held = [e for e in over if span[0] <= e[1] and e[2] <= span[1] and e[1:3] != span]
        if (copy := texts.get(text)) and not any(copy is each[0] for each in held):
            selection.drop([one], "duplicate", f"same text as {place(copy)}")
            continue
        if same := next((other for other, *_ in over if other.passage is one.passage), None):
            selection.drop([one], "per_passage", f"overlaps {place(same)}")
            continue
        part = _without(one, origin[1], [e for e in over if e not in held], trim=trim)
        if part is None:
            selection.drop([one], "duplicate", f"part of {place(over[0][0])}")
            continue
        span = origin[1] + part.start, origin[1] + part.end
        held = [each for each in held if span[0] <= each[1] and each[2] <= span[1]]
        for other, _, _, n in held:
            shown.remove(origin[0], n)
            counts[id(other.passage)] -= 1
            if other.score > part.score:
                part = remade(part, score=other.score, labels=other.labels)
            selection.drop([other], "duplicate", f"part of {place(part)}")
        number = min(number, *(n for *_, n in held), number)  # noqa: PLW2901 - it takes their place
        texts[text] = part
        counts[own] += 1
        shown.add(part, origin, number)
    return shown.excerpts


class _Shown:
    """Excerpts by their place in the text that they were cut from, which several may share."""

    def __init__(self) -> None:
        self._kept: dict[int, tuple[Excerpt, int, int, int]] = {}  # with [start, end) and number
        self._starts: dict[Hashable, list[tuple[int, int]]] = {}  # and number, in order
        self._longest = 0

    @property
    def excerpts(self) -> list[Excerpt]:
        return [self._kept[number][0] for number in sorted(self._kept)]

    def over(
        self, one: Excerpt, origin: tuple[Hashable, int]
    ) -> list[tuple[Excerpt, int, int, int]]:
        """Return what shares a character with an excerpt, in order."""
        starts, base = self._starts.get(origin[0], []), origin[1]
        first = bisect_right(starts, (base + one.start - self._longest, 0))
        near = (self._kept[n] for _, n in starts[first : bisect_left(starts, (base + one.end, 0))])
        return [each for each in near if each[2] > base + one.start]

    def add(self, one: Excerpt, origin: tuple[Hashable, int], number: int) -> None:
        start, end = origin[1] + one.start, origin[1] + one.end
        self._kept[number] = one, start, end, number
        self._longest = max(self._longest, end - start)
        insort(self._starts.setdefault(origin[0], []), (start, number))

    def remove(self, key: Hashable, number: int) -> None:
        self._starts[key].remove((self._kept.pop(number)[1], number))


def _agree(one: Excerpt, base: int, other: Excerpt, start: int, end: int, _: int) -> bool:
    """Check that two excerpts have the same text where they are said to overlap."""
    first, last, shift = max(base + one.start, start), min(base + one.end, end), start - other.start
    here = one.passage.text[first - base : last - base]
    return here == other.passage.text[first - shift : last - shift]


def _without(
    one: Excerpt, base: int, over: Sequence[tuple[Excerpt, int, int, int]], *, trim: bool
) -> Excerpt | None:
    """Return an excerpt without the sentences at its ends that others show whole, None without any.

    No sentence is torn: one that is shown in part stays whole.
    """
    if not over:
        return one
    spans = deque(split_sentences(one.body) if trim else [(0, one.end - one.start)])
    base += one.start

    def seen(at: tuple[int, int]) -> bool:
        return any(a <= base + at[0] and base + at[1] <= b for _, a, b, _ in over)

    whole = len(spans)
    while spans and seen(spans[0]):
        spans.popleft()
    while spans and seen(spans[-1]):
        spans.pop()
    if len(spans) == whole:
        return one
    if not any(sign.isalnum() for span in spans for sign in one.body[slice(*span)]):
        return None
    return replace(one, start=one.start + spans[0][0], end=one.start + spans[-1][1])


def at_least(min_score: float, excerpts: Sequence[Excerpt], selection: Selection) -> list[Excerpt]:
    """Leave out excerpts that score below ``min_score``, and record them."""
    selection.drop(
        [one for one in excerpts if one.score < min_score], "min_score", f"min_score={min_score:g}"
    )
    return [one for one in excerpts if one.score >= min_score]


def _words(heading: str) -> str:
    return heading.strip("#=-~*_ \t\n").casefold()
