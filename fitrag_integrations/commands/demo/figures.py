"""What the demo measures, over all its questions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from fitrag_integrations.commands.demo.data import Worked
from fitrag_integrations.evaluation.answers import contains_answer
from fitrag_integrations.methods.prompts import render_excerpts
from fitrag_integrations.text.tokens import approximate_tokens
from fitrag_integrations.types import Excerpt


@dataclass(frozen=True, slots=True)
class Figures:
    """Hold one pipeline's figures: shares in [0, 1], tokens and milliseconds a question.

    Recall counts a passage known to hold the answer, over the answerable questions. `kept` is the
    share of questions whose answer the compressor kept, of those where it was given one. Recall,
    tokens and `kept` leave out the questions that were not retrieved for.
    """

    accuracy: float
    answerable: float
    unanswerable: float
    recall_1_before: float
    recall_1_after: float
    recall_5_before: float
    recall_5_after: float
    tokens_before: float
    tokens_after: float
    saved: float
    kept: float
    milliseconds: float


def figures(worked: Sequence[Worked], seconds: float, *, extractive: bool) -> Figures:
    """Measure a pipeline that took `seconds` for all questions."""
    asked = [each for each in worked if each.question.answerable]
    others = [each for each in worked if not each.question.answerable]

    def right(each: Worked) -> bool:
        return is_right(each, extractive=extractive)

    shown = [each for each in worked if not each.skipped]
    found = [each for each in shown if each.question.answerable]
    before = _mean(shown, lambda each: tokens(map(_whole, each.compressed)))
    after = _mean(shown, lambda each: tokens(each.kept))
    held = [each for each in found if _holds(each, map(_whole, each.compressed))]
    return Figures(
        accuracy=_mean(worked, right),
        answerable=_mean(asked, right),
        unanswerable=_mean(others, right),
        recall_1_before=_mean(found, lambda each: found_within(each, 1)),
        recall_1_after=_mean(found, lambda each: ranked_within(each, 1)),
        recall_5_before=_mean(found, lambda each: found_within(each, 5)),
        recall_5_after=_mean(found, lambda each: ranked_within(each, 5)),
        tokens_before=before,
        tokens_after=after,
        saved=1 - after / before if before else 0.0,
        kept=_mean(held, lambda each: _holds(each, each.kept)),
        milliseconds=1000 * seconds / max(1, len(worked)),
    )


def is_right(each: Worked, *, extractive: bool) -> bool:
    """Say whether an answer is right.

    It is where a gold answer stands in it. A reader is right on an unanswerable question if it
    abstains; a language model may know it all the same.
    """
    if extractive and not each.question.answerable and not each.skipped:
        return not each.answer
    return contains_answer(each.answer, each.question.answers)


def found_within(each: Worked, depth: int) -> bool:
    """Say whether retrieval put a passage with the answer among the first `depth`."""
    return any(passage.id in each.question.passage_ids for passage in each.found[:depth])


def ranked_within(each: Worked, depth: int) -> bool:
    """Say the same of the reranker."""
    first = each.ranked[:depth]
    return any(excerpt.passage.id in each.question.passage_ids for excerpt in first)


def tokens(excerpts: Iterable[Excerpt]) -> int:
    """Count what excerpts cost in a prompt, by estimate."""
    return approximate_tokens(render_excerpts(list(excerpts)))


def _holds(each: Worked, excerpts: Iterable[Excerpt]) -> bool:
    shown = (f"{excerpt.passage.title} {excerpt.text}" for excerpt in excerpts)
    return any(contains_answer(text, each.question.answers) for text in shown)


def _whole(excerpt: Excerpt) -> Excerpt:
    return Excerpt.whole(excerpt.passage)


def _mean(items: Sequence[Worked], value: Callable[[Worked], float]) -> float:
    return sum(map(value, items)) / len(items) if items else 0.0
