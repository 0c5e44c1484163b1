"""What the demo measures, over all its questions, by the figures of `fitrag evaluate`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from fitrag_integrations.commands.demo.stacks import Worked
from fitrag_integrations.evaluation.answers import contains_answer
from fitrag_integrations.evaluation.figures.compress import KEPT, Compressed, compress_rows
from fitrag_integrations.evaluation.figures.figure import Change, Figure
from fitrag_integrations.evaluation.figures.summaries import Draws, difference, mean_figure
from fitrag_integrations.evaluation.ranking import recall_at
from fitrag_integrations.text.tokens import approximate_tokens
from fitrag_integrations.training.fitted.savings import cost_of

HELD, FIRST = "the answer is in the prompt", "the answer is in the first passage"
RIGHT, SILENT = "the answer given is right", "no answer where there is none"
COST = "tokens of the prompt's passages"
RECALLS = ("recall_1_before", "recall_1_after", "recall_5_before", "recall_5_after")
TOKENS = ("tokens_before", "tokens_after")
Figures = dict[str, Figure]


@dataclass(frozen=True, slots=True)
class Compared:
    """Mean of `values` for the first passages and for FIT-RAG, over the same questions.

    Fractions are in [0, 1]. `change` is FIT-RAG less the first passages, with a 95 % interval by
    the bootstrap over questions.
    """

    plain: float
    fitrag: float
    change: Change
    questions: int

    def to_dict(self) -> dict[str, object]:
        """Return plain values."""
        bounds = self.change.bounds
        return {
            "first_passages": self.plain,
            "fitrag": self.fitrag,
            "difference": self.change.value,
            "interval": None if bounds is None else list(bounds),
            "questions": self.questions,
        }


def compared(
    plain: Sequence[Worked], fitrag: Sequence[Worked], *, extractive: bool
) -> dict[str, Compared]:
    """Compare the first passages, cut to a budget, with FIT-RAG on the same questions and budget.

    An answer counts where it stands in a passage that is known to hold it.
    """
    pairs = list(zip(plain, fitrag, strict=True))
    asked = [pair for pair in pairs if pair[0].question.answerable]
    others = [pair for pair in pairs if not pair[0].question.answerable] if extractive else []

    def right(each: Worked) -> float:
        return float(is_right(each, extractive=extractive))

    def first(each: Worked) -> float:
        order = [one.passage for one in each.ranked] or each.found
        return float(bool(order) and order[0].id in each.question.passage_ids)

    kinds: dict[str, tuple[list[tuple[Worked, Worked]], Callable[[Worked], float]]] = {
        HELD: (asked, lambda each: float(each.question.is_held_by(each.kept))),
        FIRST: (asked, first),
        RIGHT: (asked, right),
        SILENT: (others, right),
        COST: (pairs, lambda each: float(cost_of(each.kept))),
    }
    found = {}
    for name, (rows, value) in kinds.items():
        if rows:
            before, after = [value(one) for one, _ in rows], [value(other) for _, other in rows]
            change = difference(before, after, Draws(), test=False)
            found[name] = Compared(fmean(before), fmean(after), change, len(rows))
    return found


def figures(worked: Sequence[Worked], seconds: float, *, extractive: bool) -> Figures:
    """Measure a pipeline that took `seconds` for all questions.

    Shares are in [0, 1]; tokens and milliseconds are those of a question. Recall counts a passage
    known to hold the answer, over the answerable questions. `kept` is the share of questions whose
    answer the compressor kept, of those where it was given one. Recall, tokens and `kept` leave out
    the questions that were not retrieved for.
    """
    values = [_values(each, extractive) for each in worked]
    found = {
        name: _mean(values, name)
        for name in ("accuracy", "answerable", "unanswerable", *RECALLS, *TOKENS, "kept")
    }
    before, after = (found[name].value or 0.0 for name in TOKENS)
    found["saved"] = Figure("saved", 1 - after / before if before else 0.0)
    return {**found, "milliseconds": Figure("milliseconds", 1000 * seconds / max(1, len(worked)))}


def gate_figures(worked: Sequence[Worked], again: Sequence[Worked], threshold: float) -> Figures:
    """Compare a pipeline behind a gate with `again`, its skipped questions retrieved for.

    `skipped` is the share of questions that were not retrieved for; `right_skipped` is how many of
    these were right, `right_if_retrieved` how many of the same would have been, and
    `right_retrieved` how many of the others. None where there are no such questions. `tokens` is
    what the prompts of all questions took, `tokens_if_retrieved` what they would have taken.
    """
    passed = {each.question for each in worked if each.skipped}
    again = [each for each in again if each.question in passed]
    values = [{"right_if_retrieved": _right(each)} for each in again]
    for each in worked:
        way = "right_skipped" if each.skipped else "right_retrieved"
        values.append({"skipped": float(each.skipped), way: _right(each), "tokens": _cost(each)})
    others = [each for each in worked if not each.skipped]
    values += [{"tokens_if_retrieved": _cost(each)} for each in (*others, *again)]
    found = {name: _mean(values, name) for name in ("skipped", "tokens", "tokens_if_retrieved")}
    for name in ("right_skipped", "right_if_retrieved", "right_retrieved"):
        found[name] = _mean(values, name, None)
    return {"threshold": Figure("threshold", threshold), **found}


def is_right(each: Worked, *, extractive: bool) -> bool:
    """Check whether an answer is right: whether a gold answer stands in it.

    A reader is right on an unanswerable question if it abstains; a language model may know it.
    """
    if extractive and not each.question.answerable and not each.skipped:
        return not each.answer
    return contains_answer(each.answer, each.question.answers)


def recalls(each: Worked) -> dict[str, float]:
    """Return R@1 and R@5 of a question, before and after the reranker."""
    ranked = [excerpt.passage for excerpt in each.ranked]
    held = [[p.id in each.question.passage_ids for p in some] for some in (each.found, ranked)]
    values = [recall_at(labels, k) for k in (1, 5) for labels in held]
    return dict(zip(RECALLS, values, strict=True))


def _values(each: Worked, extractive: bool) -> dict[str, float]:
    right, answerable = float(is_right(each, extractive=extractive)), each.question.answerable
    values = {"accuracy": right, "answerable" if answerable else "unanswerable": right}
    if each.skipped:
        return values
    row = Compressed(each.question.text, each.question.answers, each.compressed, each.kept)
    measured: Mapping[str, float] = compress_rows([row])[0]["values"]
    values |= dict(zip(TOKENS, (measured["tokens_in"], measured["tokens_out"]), strict=True))
    kept = {"kept": measured[KEPT]} if KEPT in measured else {}
    return values | recalls(each) | kept if answerable else values


def _right(each: Worked) -> float:
    return float(is_right(each, extractive=True))


def _cost(each: Worked) -> float:
    return float(approximate_tokens(each.prompt))


def _mean(values: Sequence[dict[str, float]], name: str, nothing: float | None = 0.0) -> Figure:
    found = mean_figure([{"values": each} for each in values], name, Draws())
    return found or Figure(name, nothing)
