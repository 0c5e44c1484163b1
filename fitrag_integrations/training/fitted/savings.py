"""Compare what excerpts and the retriever's first passages keep of the answers, by tokens.

Both are run at many budgets, the same for every question, which gives two curves of answers kept by
tokens used. The curves are compared at one level: how many tokens does each need to keep that
fraction of the answers? Every setting runs over the same questions, for which `run_over` retrieves
and `ScoredOnce` scores each text once.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fitrag_integrations.core.extras import installed
from fitrag_integrations.core.progress import chunks
from fitrag_integrations.evaluation.compression import Compressed, tokens_of
from fitrag_integrations.evaluation.outcomes import Interval, Places
from fitrag_integrations.evaluation.plots import Plot
from fitrag_integrations.evaluation.table import Draws, bootstrap, share_interval
from fitrag_integrations.flow import Traced, run_many
from fitrag_integrations.ports import Method, Ports
from fitrag_integrations.types import Context, Excerpt, Passage

BUDGETS = (25, 50, 75, 100, 150, 200, 300, 400, 600, 800, 1200, 1600, 2400)
"""Tokens that each question may cost; after them comes what all passages cost."""
LEVEL = 0.9
"""Fraction of the answers at which the two ways are compared, fixed before anything is measured."""
LEAST_SAVED = 0.1
"""Fraction of the tokens that has to be saved, with 95 % confidence, to be worth it."""
LEAST_ANSWERS = 20
"""Answers below which nothing is concluded."""
EXCERPTS, FIRST = "FIT-RAG's excerpts", "retriever's first passages"
WORTH, PERHAPS, OPEN, NO, FEW = "worth it", "perhaps", "not sure", "no", "too few answers"


@dataclass(frozen=True, eq=False)
class Curve:
    """Answers kept and tokens used by each question at each budget.

    Attributes:
        kept: 1.0 if the answer is kept. Shape: (questions, budgets).
        tokens: Tokens of what a prompt shows. Shape: (questions, budgets).
    """

    kept: NDArray[np.float64]
    tokens: NDArray[np.float64]

    @classmethod
    def of(
        cls,
        rows: Sequence[Compressed],
        shown: Sequence[Sequence[Sequence[Excerpt]]],
        holds: Callable[[Compressed, Sequence[Excerpt]], bool] = Compressed.holds,
    ) -> Curve:
        """Compute the curve from the excerpts shown for each row (outer) at each budget (inner).

        Args:
            rows: Compressed rows.
            shown: Excerpts of each row at each budget.
            holds: Whether excerpts keep a row's answer.
        """
        kept = [[float(holds(row, e)) for e in each] for row, each in zip(rows, shown, strict=True)]
        cost = [[float(tokens_of(e)) for e in each] for each in shown]
        return cls(np.array(kept), np.array(cost))

    def at(self, places: Places | slice = slice(None)) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return mean tokens and fraction kept by budget, starting at (0, 0).

        The fraction is the minimum over all larger budgets, so that it never falls: an answer that
        a larger budget loses again does not count.
        """
        kept, tokens = self.kept[places].mean(0), self.tokens[places].mean(0)
        lowest = np.minimum.accumulate(kept[::-1])[::-1]
        return np.concatenate([[0.0], np.maximum.accumulate(tokens)]), np.append(0.0, lowest)

    def needed(self, level: float, places: Places | slice = slice(None)) -> float:
        """Return the mean number of tokens that keeps a fraction of the answers, interpolated.

        Args:
            level: Fraction of the answers, in [0, 1].
            places: Questions to use. Defaults to all.
        """
        tokens, kept = self.at(places)
        above = int(np.argmax(kept >= level - 1e-9))  # of budgets; the first one is not enough
        if kept[above] < level - 1e-9:
            return float(tokens[-1])
        if not above:
            return 0.0
        step = (level - kept[above - 1]) / (kept[above] - kept[above - 1])
        return float(tokens[above - 1] + step * (tokens[above] - tokens[above - 1]))

    def kept_by(self, tokens: float, places: Places | slice = slice(None)) -> float:
        """Return the fraction of the answers, in [0, 1], kept at a number of tokens.

        Args:
            tokens: Mean number of tokens per question.
            places: Questions to use. Defaults to all.
        """
        return float(np.interp(tokens, *self.at(places)))


@dataclass(frozen=True, slots=True)
class Saving:
    """Tokens that each way needs to keep a fraction of the answers.

    Attributes:
        level: Fraction of the answers.
        excerpts: Mean tokens a question of the excerpts.
        first: Mean tokens a question of the retriever's first passages.
        bounds: 95 % interval of `saved`, by a bootstrap over the questions.
    """

    level: float
    excerpts: float
    first: float
    bounds: Interval | None

    @property
    def saved(self) -> float:
        """Return the fraction of the tokens that the excerpts save; negative if they need more."""
        return 1 - self.excerpts / self.first if self.first else 0.0


@dataclass(frozen=True, eq=False)
class Savings:
    """Curves of excerpts and of first passages, over the questions whose passages have the answer.

    Attributes:
        ours: Curve of the excerpts.
        plain: Curve of the first passages.
        default_kept: 1.0 if the compressor keeps the answer by default. Shape: (questions,).
        default_tokens: Tokens that it shows. Shape: (questions,).
        draws: Draws of the bootstrap.
    """

    ours: Curve
    plain: Curve
    default_kept: NDArray[np.float64]
    default_tokens: NDArray[np.float64]
    draws: Draws

    def at(self, level: float = LEVEL) -> Saving:
        """Compare at a fraction of the answers, or at the highest that both ways keep."""
        both = min(level, self.ours.at()[1][-1], self.plain.at()[1][-1])

        def saved(places: Places) -> float | None:
            first = self.plain.needed(both, places)
            return 1 - self.ours.needed(both, places) / first if first else None

        bounds = bootstrap(saved, len(self.ours.kept), **asdict(self.draws))
        return Saving(float(both), self.ours.needed(both), self.plain.needed(both), bounds)

    def default(self) -> tuple[float, Interval | None, float, Interval | None]:
        """Return the answers kept by default, and by first passages at the same mean cost.

        The first interval is Wilson's, None without SciPy; the second is that of the difference.
        """

        def more(places: Places) -> float:
            cost = float(self.default_tokens[places].mean())
            return float(self.default_kept[places].mean() - self.plain.kept_by(cost, places))

        kept, cost = float(self.default_kept.mean()), float(self.default_tokens.mean())
        bounds = bootstrap(more, len(self.default_kept), **asdict(self.draws))
        sure = share_interval(self.default_kept) if installed("scipy") else None
        return kept, sure, self.plain.kept_by(cost), bounds

    def plot(self, saving: Saving) -> Plot:
        """Plot both curves, the level of the comparison, and the default."""
        series = {
            name: [
                [float(each.tokens[:, at].mean()), float(each.kept[:, at].mean())]
                for at in range(each.kept.shape[1])
            ]
            for name, each in ((EXCERPTS, self.ours), (FIRST, self.plain))
        }
        default = [float(self.default_tokens.mean()), float(self.default_kept.mean())]
        return Plot(
            "answers kept by tokens",
            "mean tokens a question",
            "fraction of answers kept",
            series,
            levels={f"{saving.level:.0%} of the answers": saving.level},
            marks={"FitRag() by default": default},
        )


def verdict(savings: Savings, saving: Saving, *, sure_questions: bool) -> str:
    """Return whether the saving is worth it; at most "perhaps" if the questions were generated.

    Args:
        savings: Both curves.
        saving: The saving at one level.
        sure_questions: Whether the questions come from people.
    """
    if len(savings.ours.kept) < LEAST_ANSWERS or saving.bounds is None:
        return FEW
    if saving.bounds[0] >= LEAST_SAVED:
        return WORTH if sure_questions else PERHAPS
    return NO if saving.bounds[1] < LEAST_SAVED else OPEN


def budgets_for(rows: Sequence[Compressed], budgets: Sequence[int] = BUDGETS) -> list[int]:
    """Return the budgets below the cost of the longest row, and that cost.

    Args:
        rows: Compressed questions.
        budgets: Budgets in tokens, rising.
    """
    most = max(tokens_of(row.whole) for row in rows)
    return [*(budget for budget in budgets if budget < most), most]


def first_passages(row: Compressed, budget: int) -> list[Excerpt]:
    """Return the retriever's first passages within a budget, the last one truncated.

    Args:
        row: Compressed question.
        budget: Maximum number of tokens.
    """
    kept: list[Excerpt] = []
    for whole in row.whole:
        if tokens_of([*kept, whole]) <= budget:
            kept.append(whole)
            continue

        def cost(end: int, whole: Excerpt = whole) -> int:
            return tokens_of([*kept, Excerpt(whole.passage, 0, end)])

        end = bisect_right(range(1, len(whole.text) + 1), budget, key=cost)
        return [*kept, Excerpt(whole.passage, 0, end)] if end else kept
    return kept


BLOCK = 16  # items of one call of the scorer, those of about one length together

Found = Mapping[str, Sequence[Passage]]  # by question


def run_over(
    method: Method, questions: Sequence[str], found: Found, at_once: int
) -> Iterator[Traced[Context]]:
    """Run a method over passages that were retrieved before.

    Args:
        method: Method to run.
        questions: Questions.
        found: Passages by question.
        at_once: Questions in lock step.
    """
    ports = Ports(retrieve=lambda queries: [found[query] for query in queries])
    for some in chunks(questions, at_once):
        yield from run_many(method(question, ports) for question in some)


@dataclass(eq=False)
class ScoredOnce:
    """Scorer that caches the scores of another one.

    Args:
        scorer: Scorer of items that are not cached.
        advance: Function that is called with the number of items scored, after each block.
    """

    scorer: Any
    advance: Callable[[int], None] | None = None
    _known: dict[Any, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Return the scorer's name."""
        return str(self.scorer.name)

    def score(self, pairs: Sequence[Any]) -> list[Any]:
        """Score pairs of question and passage."""
        keys = [(question, one.title, one.text) for question, one in pairs]
        return self._all(keys, pairs, self.scorer.score)

    def _all(self, keys: Sequence[Any], items: Sequence[Any], call: Any) -> list[Any]:
        new = {key: item for key, item in zip(keys, items, strict=True) if key not in self._known}
        order = sorted(new, key=lambda key: len(key[2]))
        for block in chunks(order, BLOCK):
            self._known |= zip(block, call([new[key] for key in block]), strict=True)
            if self.advance is not None:
                self.advance(len(block))
        return [self._known[key] for key in keys]


class SentencesScoredOnce(ScoredOnce):
    """Caching scorer that also scores sentences from one reading of their passage."""

    def score_sentences(self, items: Sequence[Any]) -> list[Any]:
        """Score passages and their spans."""
        keys = [(q, one.title, one.text, tuple(spans)) for q, one, spans in items]
        return self._all(keys, items, self.scorer.score_sentences)
