"""Compare what FIT-RAG keeps of passages with all of them, and with cutting them short."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fitrag_integrations.evaluation.figures.compress import KEPT, THERE, Compressed
from fitrag_integrations.evaluation.figures.intervals import share_interval
from fitrag_integrations.evaluation.figures.summaries import Draws, Question, column, difference
from fitrag_integrations.methods.prompts import render_excerpts
from fitrag_integrations.text.tokens import approximate_tokens
from fitrag_integrations.training.collecting import is_correct
from fitrag_integrations.types import Context, Excerpt

if TYPE_CHECKING:  # it loads torch
    from fitrag_integrations.training.fitted.oracle import Oracle

PLAIN = "answer kept by fewer passages"
LEAST_SAVED = 0.1  # of the tokens, for it to be worth the while


@dataclass(frozen=True, slots=True)
class Proof:
    """Hold what a trial came to.

    `kept` and `plain` are the shares of answers that stand in FIT-RAG's excerpts, and in the
    retriever's first passages cut to as many tokens; both of those that stood in the passages at
    all, `there` of `questions`. `low` is the lower end of the interval of `kept`, `gain_low` that
    of their difference. `skipped` is the share that the gate would not retrieve for.
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

    @property
    def saved(self) -> float:
        """Give the share of tokens saved."""
        return 1 - self.tokens_out / self.tokens_in if self.tokens_in else 0.0

    @property
    def is_worth_it(self) -> bool:
        """Say whether more answers are kept than by cutting short, surely, for fewer tokens."""
        return self.saved >= LEAST_SAVED and self.gain_low is not None and self.gain_low > 0


def with_plain(questions: Sequence[Question], rows: Sequence[Compressed]) -> list[Question]:
    """Add whether an answer stands in the first passages, cut to the tokens of the excerpts."""
    return [
        {**question, "values": {**question["values"], **_plain_value(question, row)}}
        for question, row in zip(questions, rows, strict=True)
    ]


def _plain_value(question: Question, row: Compressed) -> dict[str, float]:
    if not question["values"][THERE]:
        return {}
    return {PLAIN: float(row.holds(cut_short(row, int(question["values"]["tokens_out"]))))}


def with_answers(
    questions: Sequence[Question], rows: Sequence[Compressed], oracle: Oracle
) -> list[Question]:
    """Say instead what a language model answers from all, from the excerpts, and from the cut."""
    budgets = [int(question["values"]["tokens_out"]) for question in questions]
    shown = {
        THERE: [row.whole for row in rows],
        KEPT: [list(row.excerpts) for row in rows],
        PLAIN: [cut_short(row, budget) for row, budget in zip(rows, budgets, strict=True)],
    }
    right = {
        name: _right(
            rows, [Context(r.question, tuple(e)) for r, e in zip(rows, each, strict=True)], oracle
        )
        for name, each in shown.items()
    }
    judged: list[Question] = []
    for at, question in enumerate(questions):
        own = {name: right[name][at] for name in (shown if right[THERE][at] else [THERE])}
        others = {n: v for n, v in question["values"].items() if n not in shown}
        judged.append({**question, "values": {**others, **own}})
    return judged


def _right(rows: Sequence[Compressed], contexts: list[Context], oracle: Oracle) -> list[float]:
    answers = oracle.answers(contexts)
    return [
        float(answer is not None and is_correct(answer, row.answers))
        for row, answer in zip(rows, answers, strict=True)
    ]


def cut_short(row: Compressed, budget: int) -> list[Excerpt]:
    """Take the retriever's first passages as far as `budget` tokens go, the last one cut."""
    kept: list[Excerpt] = []
    for whole in row.whole:
        left = budget - (approximate_tokens(render_excerpts(kept)) if kept else 0)
        cost = approximate_tokens(render_excerpts([whole]))
        if cost > left:
            end = max(0, len(whole.text) * left // cost)
            return [*kept, Excerpt(whole.passage, 0, end)] if end else kept
        kept.append(whole)
    return kept


def proof_of(
    questions: Sequence[Question], draws: Draws, skipped: float | None, price: float | None
) -> Proof:
    """Average the questions; `price` is that of a million prompt tokens."""
    kept, plain = column(questions, KEPT), column(questions, PLAIN)
    low = share_interval(sum(kept), len(kept))[0] if kept else None
    gain = difference(plain, kept, draws).bounds if kept else None
    return Proof(
        len(questions),
        len(kept),
        _mean(column(questions, "tokens_in")) or 0.0,
        _mean(column(questions, "tokens_out")) or 0.0,
        _mean(kept),
        low,
        _mean(plain),
        None if gain is None else gain[0],
        skipped,
        price,
    )


def sentence(proof: Proof) -> str:
    """Say in a few clauses what is to be gained here, or that nothing is."""
    if not proof.there:
        return (
            f"No answer stands in what was retrieved for the {proof.questions} questions: "
            "nothing can be said; look at the corpus and the questions first."
        )
    parts = [
        f"{proof.tokens_in:.0f} -> {proof.tokens_out:.0f} tokens a question "
        f"({proof.saved:.0%} saved)",
        f"{proof.kept:.0%} of {proof.there} answers kept (at least {proof.low or 0:.0%}), "
        f"where the first passages cut to as many tokens keep {proof.plain:.0%}",
    ]
    if proof.skipped is not None:
        parts.append(f"retrieval can be skipped for {proof.skipped:.0%}")
    thousand = 1000 * (proof.tokens_in - proof.tokens_out)
    money = "" if proof.price is None else f", {thousand * proof.price / 1e6:.2f} in money"
    parts.append(f"{thousand:,.0f} tokens saved per 1,000 questions{money}")
    head = "Worth it" if proof.is_worth_it else "Nothing to gain here that is sure"
    return f"{head}: {'; '.join(parts)}."


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
