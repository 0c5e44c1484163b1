"""FIT-RAG's inference (FIT-RAG, section 4.1, Algorithm 1): retrieve, score, decide, reduce.

The language model that answers is left to the caller, who gets a ``Context`` to prompt it with.
The reranker and the token reducer are flows of their own, in ``reducer``.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, fields, replace
from functools import cached_property, partial

from fitrag_integrations.core.checks import Count, can, check_is, check_text
from fitrag_integrations.defaults import DEFAULTS
from fitrag_integrations.flow import Flow
from fitrag_integrations.methods.fitrag.reducer import (
    Reducing,
    TokenReducer,
    compress,
    rerank,
    score_port,
)
from fitrag_integrations.methods.fitrag.scoring import Scoring
from fitrag_integrations.methods.ik.decider import Decider
from fitrag_integrations.ports import Gate, Ports, Recognizer, Scorer
from fitrag_integrations.text.asked import asked_note
from fitrag_integrations.types import BiLabelScore, Context, RetrievalDecision
from fitrag_integrations.values.selected import Selection
from fitrag_integrations.values.windows import by_score, usable

__all__ = ["FitRag", "compress", "rerank", "score_port", "usable"]


@dataclass(frozen=True)
class FitRag(Reducing):
    """FIT-RAG's Algorithm 1: retrieve, score, decide, rerank, reduce.

    What is left open is settled by ``fitrag_integrations.defaults``; ``TokenReducer`` describes how
    passages are reduced.

    Args:
        scorer: Object with ``score(pairs)``; None is the bundled one.
        gate: A ``Recognizer``, called with the scores of all retrieved passages as in the paper; or
            a ``Gate`` or ``Decider``, called before anything is retrieved: a question whose
            ``p_known`` is above the gate's ``threshold`` (0.5 where it has none) is not retrieved
            for. None always retrieves.
        top_n: Passages that the reranker keeps.
        window: Sentences in a window; None is one for a scorer that judges sentences, else three.
        stride: Sentences from the start of one window to the next, at most ``window``.
        weight: Weight of ``llm_prefer`` against ``has_answer``, in [0, 1].
        max_tokens: Budget of prompt tokens of the excerpts; None is no limit.
        count_tokens: Counts the tokens of a text; None estimates them.
        detector: Decides when the excerpts are enough; None is the bundled one where it fits the
            scorer and the windows, False keeps all.
        split: Returns the [start, end) of the sentences of a text; None is the built-in one.
        per_passage: Maximum number of windows kept of a passage; None is no limit.
        max_share: Fraction of the passages' tokens kept at most, in (0, 1]; None keeps all.
        min_tokens: Tokens that ``max_share`` always allows.
        min_score: Lowest score kept, in [0, 2], or any number with ``logits``; None keeps all.
        scoring: "one_pass" judges windows from one reading of their passage, "windows" reads each
            as a text of its own, as in the paper; None is what the scorer can do.
        logits: Add logits instead of probabilities.
        deduplicate: Keep equal texts, and text that chunks of one source share, once.
        max_passages: Maximum number of passages read, in the order given; None is no limit.
        max_sentences: Maximum number of sentences read, of all passages; None is no limit.

    Raises:
        InputError: If an option is out of range.
        ThresholdMismatchError: If gate or detector were fitted for another scorer.

    Example:
        >>> FitRag(top_n=5, max_tokens=800).top_n
        5
    """

    scorer: Scorer | None = None
    _: KW_ONLY
    gate: Gate | Recognizer | Decider | None = None
    top_n: Count = DEFAULTS.top_n

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self._settled, self._decider
        for fitted in (self.gate, self.detector):
            if can(fitted, "check_scorer"):
                fitted.check_scorer(self._settled[1].scorer)  # type: ignore[union-attr]

    def __call__(self, question: str, ports: Ports) -> Flow[Context]:
        """Return the flow that ends in the context for one question.

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
        selection, (reducer, scoring) = Selection(), self._settled
        passages, asked, dropped = reducer.readable(found, scoring.about(question), selection)
        notes, cut = (*asked_note(question), *dropped), partial(reducer.cut, ends=asked.ends)
        graded, windows_of = yield from asked.passages(passages, cut)
        selection.scored(graded)

        # does the model know it without them? (section 4.3)
        if isinstance(self.gate, Recognizer) and graded:
            labels = [check_is("labels", one.labels, BiLabelScore) for one in graded]
            verdict = yield from self.gate.decide(question, labels)
            decision = check_is("decision", verdict, RetrievalDecision)
            context = replace(context, decision=decision, notes=notes)
            if not decision.retrieve:
                selection.drop(graded, "decision", decision.why)
                return replace(context, selection=selection.rows(()))

        # rerank (section 4.4.1), and reduce to sub-documents (section 4.4.2)
        chosen = selection.first(by_score(graded), self.top_n, "top_n")
        windows = yield from windows_of(chosen)
        reduced = yield from reducer.chosen(windows, asked, selection)
        details = {
            "scored": len(graded),
            "reranked": len(chosen),
            "weight": self.weight,
            "max_tokens": self.max_tokens,
            "tokens_in": reduced.tokens_in,
            "tokens_out": reduced.tokens_out,
        }
        notes += reduced.notes
        rows = selection.rows(reduced.kept)
        return replace(context, excerpts=reduced.kept, notes=notes, details=details, selection=rows)

    @property
    def reducer(self) -> TokenReducer:
        """The token reducer in use."""
        return self._settled[0]

    @cached_property
    def _settled(self) -> tuple[TokenReducer, Scoring]:
        given = {spec.name: getattr(self, spec.name) for spec in fields(Reducing)}
        return TokenReducer(**given).settled(score_port(self.scorer))

    @cached_property
    def _decider(self) -> Decider | None:
        """Return what decides before anything is retrieved."""
        if self.gate is None or isinstance(self.gate, Decider):
            return self.gate
        return None if isinstance(self.gate, Recognizer) else Decider(self.gate)
