"""FIT-RAG's inference (FIT-RAG, section 4.1, Algorithm 1): retrieve, score, decide, reduce.

The language model that answers is left to the caller, who gets a ``Context`` to prompt it with.
The reranker and the token reducer are flows of their own, in ``reducer``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Literal

from fitrag_integrations.core.checks import check_is, check_text, check_whole
from fitrag_integrations.flow import Flow
from fitrag_integrations.methods.fitrag.reducer import (
    Auto,
    TokenReducer,
    compress,
    rerank,
    score_port,
)
from fitrag_integrations.methods.fitrag.scoring import Scoring
from fitrag_integrations.methods.ik.decider import Decider
from fitrag_integrations.ports import Detector, Gate, Ports, Recognizer, Scorer
from fitrag_integrations.text.asked import asked_note
from fitrag_integrations.text.sentences import SentenceSplitter
from fitrag_integrations.text.tokens import CountTokens
from fitrag_integrations.types import BiLabelScore, Context, Excerpt, RetrievalDecision
from fitrag_integrations.values.prompt import render_excerpts
from fitrag_integrations.values.windows import by_score, usable

__all__ = ["FitRag", "compress", "rerank", "score_port", "usable"]


@dataclass(frozen=True)
class FitRag:
    """Run FIT-RAG's Algorithm 1 for a question.

    ``scorer`` None is the embedded one. ``gate`` may be a ``Recognizer``, asked with the scores of
    all retrieved passages as in the paper, or a ``Gate``, asked before anything is retrieved: a
    question whose ``p_known`` is above the gate's ``threshold`` (0.5 where it has none) is not
    retrieved for. A ``Decider`` is such a gate with a drafter or a threshold of its own. The
    reranker keeps ``top_n`` passages, which the token reducer reduces to their best sentences or
    windows: ``window``, ``stride``, ``max_tokens``, ``count_tokens``, ``detector``, ``split``,
    ``per_passage``, ``max_share``, ``min_score`` and ``scoring`` are those of ``TokenReducer``,
    and ``scoring="windows"`` is the paper's way. ``weight`` in [0, 1] and ``logits`` are those of
    ``BiLabelScore.combine`` in both.
    """

    scorer: Scorer | None = None
    _: KW_ONLY
    gate: Gate | Recognizer | Decider | None = None
    top_n: int = 10
    window: int | None = None
    stride: int = 1
    max_tokens: int | None = None
    count_tokens: CountTokens = None
    weight: float = 0.5
    detector: Detector | Literal[False] | None = None
    split: SentenceSplitter | None = None
    per_passage: int | Auto | None = "auto"
    max_share: float | Auto | None = "auto"
    min_score: float | None = None
    scoring: str | None = None
    logits: bool = False
    reducer: TokenReducer = field(init=False, repr=False, compare=False)
    _scoring: Scoring = field(init=False, repr=False, compare=False)
    _decider: Decider | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Tell of a wrong argument here rather than in the middle of a flow."""
        check_whole("top_n", self.top_n, low=1)
        given = TokenReducer(
            window=self.window,
            stride=self.stride,
            weight=self.weight,
            max_tokens=self.max_tokens,
            count_tokens=self.count_tokens,
            detector=self.detector,
            split=self.split,
            per_passage=self.per_passage,
            max_share=self.max_share,
            min_score=self.min_score,
            scoring=self.scoring,
            logits=self.logits,
        )
        reducer, scoring = given.settled(score_port(self.scorer))
        asked_first = None if isinstance(self.gate, Recognizer | Decider) else self.gate
        decider = Decider(asked_first) if asked_first is not None else self.gate
        for fitted in (self.gate, self.detector):
            if callable(check := getattr(fitted, "check_scorer", None)):
                check(getattr(self.scorer, "name", None))
        object.__setattr__(self, "count_tokens", given.count_tokens)
        object.__setattr__(self, "scoring", given.scoring)
        object.__setattr__(self, "reducer", reducer)
        object.__setattr__(self, "_scoring", scoring)
        object.__setattr__(self, "_decider", decider if isinstance(decider, Decider) else None)

    def __call__(self, question: str, ports: Ports) -> Flow[Context]:
        """Give the flow that ends in the context for one question.

        The flow raises ``InputError`` for a blank question. Without a usable passage the context
        is empty, and a note says so.
        """
        context = Context(check_text("question", question, blank=False), method="fitrag")
        if self._decider is not None:  # a gate, which decides before anything is retrieved
            decided = yield from self._decider(question)
            context = replace(context, decision=decided.decision, draft=decided.draft)
            if not decided.decision.retrieve:
                return context

        # retrieve, and score what was retrieved by both labels (section 4.2)
        (found,) = yield from ports.retrieve.ask([question])
        passages, dropped = usable(found)
        notes = (*asked_note(question), *dropped)
        context = replace(context, notes=notes)
        graded, windows_of = yield from self._scoring.passages(question, passages, self.reducer.cut)

        # does the model know it without them? (section 4.3)
        if isinstance(self.gate, Recognizer) and graded:
            labels = [check_is("labels", one.labels, BiLabelScore) for one in graded]
            decision = yield from self.gate.decide(question, labels)
            context = replace(context, decision=check_is("decision", decision, RetrievalDecision))
            if not decision.retrieve:
                return context

        # rerank (section 4.4.1), and reduce to sub-documents (section 4.4.2)
        chosen = by_score(graded)[: self.top_n]
        windows = yield from windows_of(chosen)
        reduced = yield from self.reducer.chosen(question, windows, self._scoring)
        details = self._details(graded, chosen, reduced.kept)
        return replace(
            context, excerpts=reduced.kept, notes=(*notes, *reduced.notes), details=details
        )

    def _details(
        self, graded: Sequence[Excerpt], chosen: Sequence[Excerpt], kept: Sequence[Excerpt]
    ) -> dict[str, Any]:
        count = self.reducer.counter
        return {
            "scored": len(graded),
            "reranked": len(chosen),
            "weight": float(self.weight),
            "max_tokens": self.max_tokens,
            "tokens_in": int(count(render_excerpts(chosen))),
            "tokens_out": int(count(render_excerpts(kept))),
        }
