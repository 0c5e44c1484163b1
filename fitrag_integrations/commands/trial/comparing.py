"""Compare FIT-RAG's excerpts with the retriever's first passages, each at the same budgets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fitrag_integrations.evaluation.figures.compress import KEPT, THERE, Compressed, compress_rows
from fitrag_integrations.evaluation.figures.summaries import Draws, Question
from fitrag_integrations.flow import run_many
from fitrag_integrations.methods import FitRag
from fitrag_integrations.ports import Ports
from fitrag_integrations.training.collecting import is_correct
from fitrag_integrations.training.fitted.once import SentencesScoredOnce
from fitrag_integrations.training.fitted.questions import Asked
from fitrag_integrations.training.fitted.savings import (
    EXCERPTS,
    FEW,
    FIRST,
    LEAST_ANSWERS,
    LEAST_SAVED,
    NO,
    OPEN,
    PERHAPS,
    WORTH,
    Curve,
    Saving,
    Savings,
    budgets_for,
    cost_of,
    first_passages,
    verdict,
)
from fitrag_integrations.types import Context, Excerpt, Passage

if TYPE_CHECKING:  # it loads torch
    from fitrag_integrations.training.fitted.oracle import Oracle

LLM_BUDGETS = (50, 100, 200, 400)
"""Budgets at which a language model is asked: each is a call a question in both ways."""
AT_ONCE = 50  # questions whose passages are held in memory together
HEADS = {
    WORTH: "Worth it",
    PERHAPS: "May be worth it",
    OPEN: "Not sure",
    NO: "Not worth it",
    FEW: "Too few answers to say",
}
Bar = Callable[[str, int], AbstractContextManager[Callable[[int], None]]]
Found = Mapping[str, Sequence[Passage]]


@dataclass(frozen=True, eq=False)
class Trial:
    """Outcome of a trial.

    Attributes:
        rows: Questions with their passages and the excerpts that the compressor keeps by default.
        judged: The same as rows of a `Result`.
        savings: Curves over the questions whose answer stands in the passages; None without any.
        failed: Errors of questions that could not be compressed.
    """

    rows: list[Compressed]
    judged: list[Question]
    savings: Savings | None
    failed: list[str]


def compare(
    asked: Sequence[Asked],
    found: Found,
    scorer: Any,
    oracle: Oracle | None = None,
    *,
    draws: Draws,
    bar: Bar,
) -> Trial:
    """Compress each question's passages at many budgets, and judge what is kept.

    Passages and sentences are scored once, whatever the number of budgets. Without an `oracle` an
    answer is kept where it stands in what a prompt shows, with one where its model gives it. `bar`
    opens a progress bar by its label and total.
    """
    once = SentencesScoredOnce(scorer)
    with bar("scoring passages", sum(len(found[one.question]) for one in asked)) as once.advance:
        default, failed = _contexts(FitRag(once), asked, found)
    rows = [
        Compressed(one.question, one.answers, tuple(found[one.question]), context.excerpts)
        for one in asked
        if (context := default.get(one.question)) is not None
    ]
    if not rows:
        return Trial([], [], None, failed)
    once.advance = None
    budgets = budgets_for(rows) if oracle is None else [0, *budgets_for(rows, LLM_BUDGETS)]
    kept: list[tuple[list[Sequence[Excerpt]], list[Sequence[Excerpt]]]] = []
    with bar("cutting to budgets", len(budgets)) as advance:
        for budget in budgets:
            cut = FitRag(once, max_tokens=budget) if budget else None
            contexts = {} if cut is None else _contexts(cut, asked, found)[0]
            own = [contexts[row.question] if contexts else Context(row.question) for row in rows]
            plainly: list[Sequence[Excerpt]] = [first_passages(row, budget) for row in rows]
            kept.append(([context.excerpts for context in own], plainly))
            advance(1)
    ours, plain = ([[each[way][at] for each in kept] for at in range(len(rows))] for way in (0, 1))
    holds = Compressed.holds if oracle is None else _answers(rows, [ours, plain], oracle)
    there = [at for at, row in enumerate(rows) if holds(row, row.whole)]
    savings = None
    if there:
        some = [rows[at] for at in there]
        savings = Savings(
            Curve.of(some, [ours[at] for at in there], holds),
            Curve.of(some, [plain[at] for at in there], holds),
            np.array([float(holds(row, row.excerpts)) for row in some]),
            np.array([float(cost_of(row.excerpts)) for row in some]),
            draws,
        )
    return Trial(rows, _judged(rows, there, savings), savings, failed)


def _contexts(
    method: FitRag, asked: Sequence[Asked], found: Found
) -> tuple[dict[str, Context], list[str]]:
    """Run a method over all questions; return contexts by question, and errors."""
    ports = Ports(retrieve=lambda queries: [found[query] for query in queries])
    made: dict[str, Context] = {}
    failed = []
    for start in range(0, len(asked), AT_ONCE):
        some = asked[start : start + AT_ONCE]
        for one, traced in zip(
            some, run_many(method(one.question, ports) for one in some), strict=True
        ):
            if traced.error is None:
                made[one.question] = traced.value
            else:
                failed.append(f"{one.question}: {traced.error}")
    return made, failed


def _answers(
    rows: Sequence[Compressed], shown: Sequence[Sequence[Sequence[Any]]], oracle: Oracle
) -> Callable[[Compressed, Sequence[Excerpt]], bool]:
    """Generate the answers to all contexts with a language model, in one batch."""
    wanted = {
        (row.question, tuple(excerpts)): row
        for at, row in enumerate(rows)
        for excerpts in (row.whole, row.excerpts, *(e for way in shown for e in way[at]))
    }
    answers = oracle.answers([Context(question, excerpts) for question, excerpts in wanted])
    right = {
        key: answer is not None and is_correct(answer, row.answers)
        for (key, row), answer in zip(wanted.items(), answers, strict=True)
    }
    return lambda row, excerpts: right[row.question, tuple(excerpts)]


def _judged(
    rows: Sequence[Compressed], there: Sequence[int], savings: Savings | None
) -> list[Question]:
    """Judge each question, and say from which cost on either way keeps its answer."""
    judged: list[Question] = []
    place = {at: n for n, at in enumerate(there)}
    for at, question in enumerate(compress_rows(rows)):
        values = {n: v for n, v in question["values"].items() if n not in (THERE, KEPT)}
        values = {THERE: float(at in place), **values}
        if at in place and savings is not None:
            values[KEPT] = float(savings.default_kept[place[at]])
            for name, curve in ((EXCERPTS, savings.ours), (FIRST, savings.plain)):
                one = np.array([place[at]])
                values[f"tokens that keep it, {name}"] = curve.needed(1.0, one)
        judged.append({**question, "values": values})
    return judged


@dataclass(frozen=True)
class Proof:
    """Figures that a trial comes to; all but `questions` are over those with an answer to keep.

    Attributes:
        questions: Questions that were asked.
        there: Questions whose answer stands in the retrieved passages.
        tokens_in: Mean tokens of all retrieved passages.
        tokens_out: Mean tokens of the excerpts that `FitRag()` keeps by default.
        kept: Fraction of answers that it keeps; `low` is the lower end of its interval.
        plain: Fraction that first passages of as many tokens on average keep.
        gain_low: Lower end of the 95 % interval of the difference of the two.
        skipped: Fraction of questions that the language model knows by itself; None without one.
        price: Price of a million prompt tokens.
        saving: Tokens needed by either way to keep a fraction of the answers.
        verdict: "worth it", "perhaps", "not sure", "no" or "too few answers".
    """

    questions: int
    there: int
    tokens_in: float
    tokens_out: float
    kept: float | None
    low: float | None
    plain: float | None
    gain_low: float | None
    skipped: float | None
    price: float | None
    saving: Saving | None
    verdict: str

    @classmethod
    def of(
        cls, trial: Trial, *, unsure: str = "", skipped: float | None, price: float | None
    ) -> Proof:
        """Compute the figures; `unsure` says why the questions are not to be trusted, if so."""
        if trial.savings is None:
            nothing = (None, None, None, None, skipped, price, None, FEW)
            return cls(len(trial.rows), 0, 0.0, 0.0, *nothing)
        savings, saving = trial.savings, trial.savings.at()
        kept, (low, _), plain, gain = savings.default()
        return cls(
            len(trial.rows),
            len(savings.ours.kept),
            float(savings.plain.tokens[:, -1].mean()),
            float(savings.default_tokens.mean()),
            kept,
            low,
            plain,
            None if gain is None else gain[0],
            skipped,
            price,
            saving,
            verdict(savings, saving, sure_questions=not unsure),
        )

    def sentence(self, unsure: str = "") -> str:
        """Return what is to be gained here, or that nothing is, and why that is not sure."""
        if self.saving is None:
            return (
                f"No answer stands in what was retrieved for the {self.questions} questions: "
                "nothing can be said; look at the corpus and the questions first."
            )
        saving, bounds = self.saving, self.saving.bounds
        within = "" if bounds is None else f" [{bounds[0]:.0%}, {bounds[1]:.0%}]"
        why = {
            PERHAPS: f" ({unsure})",
            OPEN: f"; a saving below {LEAST_SAVED:.0%} cannot be ruled out",
            NO: f"; a saving of {LEAST_SAVED:.0%} is ruled out",
            FEW: f"; it takes {LEAST_ANSWERS} answers at least",
        }.get(self.verdict, "")
        text = (
            f"{HEADS[self.verdict]}: keeping {saving.level:.0%} of {self.there} answers takes "
            f"{saving.excerpts:.0f} tokens a question with excerpts, and {saving.first:.0f} with "
            f"the retriever's first passages: a saving of {saving.saved:.0%}{within}{why}. By "
            f"default, FitRag() keeps {self.kept or 0:.0%} (at least {self.low or 0:.0%}) in "
            f"{self.tokens_out:.0f} of {self.tokens_in:.0f} tokens, where first passages of "
            f"{self.tokens_out:.0f} tokens keep {self.plain or 0:.0%}."
        )
        if self.skipped is not None:
            text += f" Retrieval can be skipped for {self.skipped:.0%}."
        if self.price is not None:
            money = 1000 * (saving.first - saving.excerpts) * self.price / 1e6
            text += f" The saving is {money:.2f} in money per 1,000 questions."
        return text

    def to_dict(self) -> dict[str, Any]:
        """Return all figures as plain values, with `worth it` as the verdict's short form."""
        rest = replace(self, saving=None)
        values = {**asdict(rest), "worth it": self.verdict == WORTH}
        if self.saving is not None:
            bounds = self.saving.bounds or (None, None)
            values["saving"] = {**asdict(self.saving), "bounds": list(bounds)}
            values["saving"]["saved"] = self.saving.saved
        return values
