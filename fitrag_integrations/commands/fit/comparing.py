"""Compare FIT-RAG's excerpts with the retriever's first passages, each at the same budgets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from fitrag_integrations.commands.engine.batch import Advance
from fitrag_integrations.core.record import Row
from fitrag_integrations.evaluation.answers import is_correct
from fitrag_integrations.evaluation.compression import KEPT, THERE, Compressed, tokens_of
from fitrag_integrations.evaluation.measures import compressed
from fitrag_integrations.evaluation.rows import question_id
from fitrag_integrations.evaluation.table import Draws, Measured
from fitrag_integrations.methods import FitRag
from fitrag_integrations.ports import Scorer
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
    Found,
    Savings,
    SentencesScoredOnce,
    budgets_for,
    first_passages,
    run_over,
    verdict,
)
from fitrag_integrations.types import Context, Excerpt

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
Bar = Callable[[str, int], AbstractContextManager[Advance]]
Shown = list[list[Sequence[Excerpt]]]  # the excerpts of each question at each budget


@dataclass(frozen=True, eq=False)
class Trial:
    """Outcome of a trial.

    Attributes:
        rows: Questions with their passages and the excerpts that the compressor keeps by default.
        judged: The same as rows of a `Table`.
        savings: Curves over the questions whose answer stands in the passages; None without any.
        failed: Errors of questions that could not be compressed.
    """

    rows: list[Compressed]
    judged: list[Measured]
    savings: Savings | None
    failed: list[str]


def compare(
    asked: Sequence[Asked],
    found: Found,
    scorer: Scorer,
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
    ours: Shown = [[] for _ in rows]
    plain: Shown = [[] for _ in rows]
    with bar("cutting to budgets", len(budgets)) as advance:
        for budget in budgets:
            cut = _contexts(FitRag(once, max_tokens=budget), asked, found)[0] if budget else {}
            for row, own, first in zip(rows, ours, plain, strict=True):
                own.append(cut[row.question].excerpts if budget else ())
                first.append(first_passages(row, budget))
            advance(1)
    holds = Compressed.holds if oracle is None else _answers(rows, [ours, plain], oracle)
    there = [at for at, row in enumerate(rows) if holds(row, row.whole)]
    savings = None
    if there:
        some = [rows[at] for at in there]
        savings = Savings(
            Curve.of(some, [ours[at] for at in there], holds),
            Curve.of(some, [plain[at] for at in there], holds),
            np.array([float(holds(row, row.excerpts)) for row in some]),
            np.array([float(tokens_of(row.excerpts)) for row in some]),
            draws,
        )
    return Trial(rows, _judged(rows, there, savings), savings, failed)


def _contexts(
    method: FitRag, asked: Sequence[Asked], found: Found
) -> tuple[dict[str, Context], list[str]]:
    """Run a method over all questions; return contexts by question, and errors."""
    texts = [one.question for one in asked]
    traces = list(zip(texts, run_over(method, texts, found, AT_ONCE), strict=True))
    made = {question: traced.value for question, traced in traces if traced.error is None}
    return made, [f"{question}: {t.error}" for question, t in traces if t.error is not None]


def _answers(
    rows: Sequence[Compressed], shown: Sequence[Shown], oracle: Oracle
) -> Callable[[Compressed, Sequence[Excerpt]], bool]:
    """Generate the answers to all contexts with a language model, in one batch."""
    wanted = {
        (row.question, tuple(excerpts)): row
        for row, *own in zip(rows, *shown, strict=True)
        for excerpts in (row.whole, row.excerpts, *chain(*own))
    }
    answers = oracle.answers([Context(question, excerpts) for question, excerpts in wanted])
    right = {
        key: answer is not None and is_correct(answer, row.answers)
        for (key, row), answer in zip(wanted.items(), answers, strict=True)
    }
    return lambda row, excerpts: right[row.question, tuple(excerpts)]


def _judged(
    rows: Sequence[Compressed], there: Sequence[int], savings: Savings | None
) -> list[Measured]:
    """Judge each question, and say from which cost on either way keeps its answer."""
    judged = []
    place = {at: n for n, at in enumerate(there)}
    for at, row in enumerate(rows):
        values = {**compressed(row), THERE: float(at in place), KEPT: None}
        if at in place and savings is not None:
            values[KEPT] = float(savings.default_kept[place[at]])
            for name, curve in ((EXCERPTS, savings.ours), (FIRST, savings.plain)):
                values[f"tokens that keep it, {name}"] = curve.needed(1.0, np.array([place[at]]))
        kept = " … ".join(each.text for each in row.excerpts)
        shown = {"question": row.question, "answers": list(row.answers), "kept": kept}
        judged.append(Measured(question_id(shown), values, shown=shown))
    return judged


def proof(trial: Trial, *, unsure: str = "", skipped: float | None, price: float | None) -> Row:
    """Return the figures of a trial; all but `questions` are over those with an answer to keep.

    Args:
        trial: What came of it.
        unsure: Why the questions are not to be trusted; blank if they are.
        skipped: Fraction of questions that the language model knows by itself; None without one.
        price: Price of a million prompt tokens.

    Returns:
        `questions` that were asked, and `there`, those whose answer stands in the retrieved
        passages; mean tokens of all passages (`tokens_in`) and of the excerpts that `FitRag()`
        keeps by default (`tokens_out`); the fraction of answers `kept` by them, with the lower end
        `low` of its interval, and by first passages of as many tokens (`plain`); `gain_low`, the
        lower end of the interval of the difference; `skipped`; `price`; `saving`, the tokens that
        either way needs to keep a fraction of the answers; and the `verdict`.
    """
    savings = trial.savings
    found: dict[str, object] = {
        "questions": len(trial.rows),
        "there": 0,
        "tokens_in": 0.0,
        "tokens_out": 0.0,
        **dict.fromkeys(("kept", "low", "plain", "gain_low")),
        "skipped": skipped,
        "price": price,
        "saving": None,
        "verdict": FEW,
    }
    if savings is not None:
        saving, (kept, sure, plain, gain) = savings.at(), savings.default()
        found |= {
            "there": len(savings.ours.kept),
            "tokens_in": float(savings.plain.tokens[:, -1].mean()),
            "tokens_out": float(savings.default_tokens.mean()),
            "kept": kept,
            "low": None if sure is None else sure[0],
            "plain": plain,
            "gain_low": None if gain is None else gain[0],
            "saving": {
                **asdict(saving),
                "bounds": list(saving.bounds or (None, None)),
                "saved": saving.saved,
            },
            "verdict": verdict(savings, saving, sure_questions=not unsure),
        }
    return {**found, "worth it": found["verdict"] == WORTH}


def sentence(found: Row, unsure: str = "") -> str:
    """Return what is to be gained by the figures of `proof`, or that nothing is, and why."""
    saving = found["saving"]
    if saving is None:
        return (
            f"No answer stands in what was retrieved for the {found['questions']} questions: "
            "nothing can be said; look at the corpus and the questions first."
        )
    low, high = saving["bounds"]
    sure = "" if found["low"] is None else f" (at least {found['low']:.0%})"
    within = "" if low is None else f" [{low:.0%}, {high:.0%}]"
    why = {
        PERHAPS: f" ({unsure})",
        OPEN: f"; a saving below {LEAST_SAVED:.0%} cannot be ruled out",
        NO: f"; a saving of {LEAST_SAVED:.0%} is ruled out",
        FEW: f"; it takes {LEAST_ANSWERS} answers at least",
    }.get(found["verdict"], "")
    text = (
        f"{HEADS[found['verdict']]}: keeping {saving['level']:.0%} of {found['there']} answers "
        f"takes {saving['excerpts']:.0f} tokens a question with excerpts, and "
        f"{saving['first']:.0f} with the retriever's first passages: a saving of "
        f"{saving['saved']:.0%}{within}{why}. By default, FitRag() keeps {found['kept']:.0%}"
        f"{sure} in {found['tokens_out']:.0f} of {found['tokens_in']:.0f} "
        f"tokens, where first passages of {found['tokens_out']:.0f} tokens keep "
        f"{found['plain']:.0%}."
    )
    if found["skipped"] is not None:
        text += f" Retrieval can be skipped for {found['skipped']:.0%}."
    if found["price"] is not None:
        money = 1000 * (saving["first"] - saving["excerpts"]) * found["price"] / 1e6
        text += f" The saving is {money:.2f} in money per 1,000 questions."
    return text
