"""SKR-kNN (Wang et al., Findings of EMNLP 2023, arXiv:2310.05002): ask the nearest questions.

The questions of a bank nearest to a new one vote on whether it is known. Simplified: a question of
our bank was answered correctly without retrieval or was not, where the paper compares answering
with and without and drops those that come out the same; and the plain share of known ones is
compared with a threshold, where the authors' code also weighs how many of each kind there are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import Annotated

from fitrag_integrations.core.checks import Count, Share
from fitrag_integrations.errors import PortError
from fitrag_integrations.methods.baselines.gated import Gating
from fitrag_integrations.methods.fitrag.recognizer import Bank, check_bank
from fitrag_integrations.methods.ik.decider import OnError
from fitrag_integrations.methods.ik.method import IKnow
from fitrag_integrations.ports import Method


@dataclass(frozen=True)
class NeighbourGate:
    """Gate by the fraction of the `k` nearest questions of a bank that were known (SKR-kNN).

    A question without any neighbour has a `PortError` in the place of its number.
    """

    bank: Bank
    k: int = 10
    draft_tokens: int = field(init=False, default=0)

    def p_known(self, questions: Sequence[str], drafts: Sequence[str]) -> list[float | PortError]:
        """Return the share of each question, in [0, 1]; drafts are not looked at."""
        return [_share(known) for known in self.bank.neighbours(list(questions), self.k)]

    async def ap_known(
        self, questions: Sequence[str], drafts: Sequence[str]
    ) -> list[float | PortError]:
        """Async version of `p_known`."""
        twin = getattr(self.bank, "aneighbours", None)
        if twin is None:
            return await asyncio.to_thread(self.p_known, questions, drafts)
        return [_share(known) for known in await twin(list(questions), self.k)]


@dataclass(frozen=True)
class SkrKnn(Gating):
    """Retrieve unless more than `threshold` of the `k` nearest questions were known.

    `bank` is a `QuestionBank` or any object with `neighbours(questions, k)`, which tells for each
    question which of its k nearest were known. What is not known goes on with `method`, None for
    direct retrieval. A bank that fails ends in retrieval, or raises with `on_error` "raise".
    """

    bank: Annotated[Bank, check_bank]
    _: KW_ONLY
    k: Count = 10
    threshold: Share = 0.5
    method: Method | None = None
    on_error: OnError = "retrieve"

    @cached_property
    def inner(self) -> IKnow:
        """The method with the neighbours as its gate."""
        gate, given = NeighbourGate(self.bank, self.k), self.threshold
        return IKnow(gate, threshold=given, method=self.method, on_error=self.on_error)

    def details(self) -> dict[str, object]:
        """Return how many neighbours vote."""
        return {"k": self.k}


def _share(known: Sequence[bool]) -> float | PortError:
    if not len(known):
        return PortError("the bank gave no neighbour to vote")
    return sum(map(bool, known)) / len(known)
