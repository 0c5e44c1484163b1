"""The contract of a compressor: fewer words of the same passages, and nothing that is not there."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from fitrag_integrations.testing.batches import (
    ODD_PASSAGES,
    PASSAGES,
    QUESTIONS,
    Check,
    promise,
    tried,
)
from fitrag_integrations.types import Excerpt, Passage

Compress: TypeAlias = Callable[[str, Sequence[Passage]], Sequence[Excerpt]]


def compressor_checks(make: Callable[[], Compress]) -> list[Check]:
    """Return the checks of a call ``(question, passages) -> excerpts``, which ``make`` builds.

    Every excerpt is a stretch of a passage that was given, none overlap, none is blank, all of them
    are no longer than what was given; the passages stay as they were.
    """
    promises = [keeps_only_what_was_given, sends_no_word_twice, takes_nothing, takes_odd_texts]
    promises += [changes_no_passage, repeats_itself]
    return [Check(each.__name__, partial(tried, each, make)) for each in promises]


def keeps_only_what_was_given(compress: Compress) -> None:
    for question in QUESTIONS:
        for excerpt in compress(question, PASSAGES):
            promise(excerpt.passage.id in {p.id for p in PASSAGES}, f"nobody gave {excerpt}")
            source = next(p for p in PASSAGES if p.id == excerpt.passage.id)
            promise(
                source.text[excerpt.start : excerpt.end] == excerpt.body, f"{excerpt} is not there"
            )
            promise(bool(excerpt.body.strip()), "an excerpt is blank")


def sends_no_word_twice(compress: Compress) -> None:
    for question in QUESTIONS:
        kept = sorted((e.passage.id, e.start, e.end) for e in compress(question, PASSAGES))
        for (one, _, end), (other, start, _) in zip(kept, kept[1:], strict=False):
            promise(one != other or end <= start, f"two excerpts of {one!r} overlap at {start}")


def takes_nothing(compress: Compress) -> None:
    promise(list(compress(QUESTIONS[0], [])) == [], "no passages must give no excerpts")


def takes_odd_texts(compress: Compress) -> None:
    for passage in ODD_PASSAGES:
        for excerpt in compress(QUESTIONS[0], [passage]):
            promise(
                excerpt.body in passage.text, f"{passage.id}: {excerpt.body[:60]!r} is not there"
            )


def changes_no_passage(compress: Compress) -> None:
    given = copy.deepcopy(list(PASSAGES))
    compress(QUESTIONS[0], given)
    promise(given == list(PASSAGES), "the passages given were changed")


def repeats_itself(compress: Compress) -> None:
    first, again = (
        [(one.passage.id, one.start, one.end) for one in compress(QUESTIONS[0], PASSAGES)]
        for _ in range(2)
    )
    promise(first == again, f"the same question kept {first}, then {again}")
