"""Compare many settings over the same questions: retrieve, and score each text, once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fitrag_integrations.core.progress import chunks
from fitrag_integrations.flow import Traced, run_many
from fitrag_integrations.ports import Method, Ports
from fitrag_integrations.types import Context, Passage

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
