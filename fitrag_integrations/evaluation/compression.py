"""Measure the answers and tokens that a compression keeps (FIT-RAG, section 4.4.2).

An answer is kept if the text that a prompt would show contains it as whole tokens. Tokens are
counted on the same text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

import numpy as np

from fitrag_integrations.evaluation.answers import contains_answer
from fitrag_integrations.methods.prompts import render_excerpts
from fitrag_integrations.text.spans import merge_spans
from fitrag_integrations.text.tokens import TokenCounter, approximate_tokens
from fitrag_integrations.types import Excerpt, Passage
from fitrag_integrations.values.excerpt import grouped

THERE, KEPT, SHARE = "answer in the passages", "answer kept", "share of tokens"
DEPTHS = (1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 50, 100)
CUTS = 12  # thresholds between the lowest score and the highest


@dataclass(frozen=True, slots=True)
class Compressed:
    """Passages of a question in the retriever's order, and the excerpts kept of them.

    Args:
        question: The question.
        answers: Gold answers.
        passages: Passages in the retriever's order.
        excerpts: Excerpts that compression kept.
    """

    question: str
    answers: tuple[str, ...]
    passages: tuple[Passage, ...]
    excerpts: tuple[Excerpt, ...]

    @property
    def whole(self) -> list[Excerpt]:
        """Return every passage as an excerpt of its whole text."""
        return [Excerpt.whole(passage) for passage in self.passages]

    def holds(self, excerpts: Sequence[Excerpt]) -> bool:
        """Return whether the titles and texts of the excerpts contain a gold answer.

        Adjacent excerpts of a passage are joined first, and each joined text is searched with its
        title.

        Args:
            excerpts: Excerpts to search.
        """
        texts = (
            f"{passage.title} {passage.text[start:end]}"
            for passage, own in grouped(excerpts, attrgetter("passage")).items()
            for start, end in merge_spans(passage.text, [at for one in own for at in one.spans])
        )
        return any(contains_answer(text, self.answers) for text in texts)


def kept_curves(
    rows: Sequence[Compressed], count_tokens: TokenCounter = approximate_tokens
) -> dict[str, list[list[float]]]:
    """Compute the fractions of tokens and answers kept, as curves over the cutoff.

    Args:
        rows: Passages and the excerpts kept of them. Rows whose passages contain no answer are left
            out.
        count_tokens: Counter of tokens.

    Returns:
        Curves by name: `first excerpts` takes the best few of each question, `above a score` all
        excerpts that reach it, and `first passages` the retriever's, uncompressed. Empty where no
        passages hold an answer, and without curves by score where all are equal.
    """
    asked = [row for row in rows if row.holds(row.whole)]
    if not asked:
        return {}
    whole = [tokens_of(row.whole, count_tokens) for row in asked]

    def point(kept: Sequence[Sequence[Excerpt]]) -> list[float]:
        tokens = [tokens_of(k, count_tokens) / w for k, w in zip(kept, whole, strict=True)]
        held = [row.holds(k) for row, k in zip(asked, kept, strict=True)]
        return [float(np.mean(tokens)), float(np.mean(held))]

    def firsts(ordered: Sequence[Sequence[Excerpt]]) -> list[list[float]]:
        deepest = max(map(len, ordered))
        depths = [*(depth for depth in DEPTHS if depth < deepest), deepest]
        return [point([each[:k] for each in ordered]) for k in depths]

    curves = {"first passages": firsts([row.whole for row in asked])}
    scores = sorted({excerpt.score for row in asked for excerpt in row.excerpts})
    if len(scores) < 2:
        return curves
    ordered = [sorted(row.excerpts, key=lambda one: -one.score) for row in asked]  # ties stay
    curves["first excerpts"] = firsts(ordered)
    cuts = np.unique(np.quantile(scores, np.linspace(1, 0, CUTS), method="nearest"))[::-1]
    curves["above a score"] = [
        point([[e for e in each if e.score >= cut] for each in ordered]) for cut in cuts
    ]
    return curves


def tokens_of(excerpts: Sequence[Excerpt], count_tokens: TokenCounter = approximate_tokens) -> int:
    """Count the tokens of excerpts as a prompt shows them.

    Args:
        excerpts: Excerpts.
        count_tokens: Counter of tokens.
    """
    return count_tokens(render_excerpts(excerpts)) if excerpts else 0
