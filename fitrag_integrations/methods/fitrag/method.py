"""FIT-RAG's inference (FIT-RAG, section 4.1, Algorithm 1): retrieve, score, decide, reduce.

The language model that answers is left to the caller, who gets a ``Context`` to prompt it with.
The reranker and the token reducer are flows of their own, in ``reducer``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial

from fitrag_integrations.core.checks import can, check_is, check_many, check_text
from fitrag_integrations.flow import Flow
from fitrag_integrations.methods.fitrag.reducer import ReducerOptions, reduce
from fitrag_integrations.methods.ik.decider import Decider
from fitrag_integrations.ports import Gate, Ports, Recognizer
from fitrag_integrations.text.question import asked_note
from fitrag_integrations.types import BiLabelScore, Context, Passage, RetrievalDecision


@dataclass(frozen=True, kw_only=True)
class FitRag(ReducerOptions):
    """FIT-RAG's Algorithm 1: retrieve, score, decide, rerank, reduce.

    The other options are those of `ReducerOptions`, which describes how passages are reduced.

    Args:
        gate: A ``Recognizer``, called with the scores of all retrieved passages as in the paper; or
            a ``Gate`` or ``Decider``, called before anything is retrieved: a question whose
            ``p_known`` is above the gate's ``threshold`` (0.5 where it has none) is not retrieved
            for. None always retrieves.

    Raises:
        InputError: If an option is out of range.
        ThresholdMismatchError: If gate or detector were fitted for another scorer.

    Example:
        >>> FitRag(top_n=5, max_tokens=800).top_n
        5
    """

    gate: Gate | Recognizer | Decider | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self._decider
        if can(self.gate, "check_scorer"):
            self.gate.check_scorer(self.resolved.scoring.scorer)  # type: ignore[union-attr]

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
        resolved = self.resolved
        reading = resolved.read(question, check_many("retrieved", found, Passage))
        asked, selection = reading.asked, reading.asked.selection
        cut = partial(resolved.cut, ends=asked.ends)
        wholes, windows_of = yield from asked.passages(reading.passages, cut)
        graded = reading.once(wholes)

        # does the model know it without them? (section 4.3)
        if isinstance(self.gate, Recognizer) and graded:
            labels = [check_is("labels", one.labels, BiLabelScore) for one in graded]
            verdict = yield from self.gate.decide(question, labels)
            decision = check_is("decision", verdict, RetrievalDecision)
            context = replace(context, decision=decision)
            if not decision.retrieve:
                selection.drop(graded, "decision", decision.why)
                notes = (*asked_note(question), *reading.notes)
                return replace(context, notes=notes, selection=selection.rows(()))

        # rerank (section 4.4.1), and reduce to sub-documents (section 4.4.2)
        chosen = selection.first(reading.ranked(graded), self.top_n, "top_n")
        windows = yield from windows_of(chosen)
        reduced = yield from reduce(windows, resolved, reading)
        details = {
            "scored": len(wholes),
            "reranked": len(chosen),
            "weight": self.weight,
            "max_tokens": self.max_tokens,
            "tokens_in": reduced.tokens_in,
            "tokens_out": reduced.tokens_out,
        }
        return replace(
            context,
            excerpts=reduced.kept,
            notes=(*asked_note(question), *reading.notes, *selection.refused()),
            details=details,
            selection=selection.rows(reduced.kept),
        )

    @cached_property
    def _decider(self) -> Decider | None:
        """Return what decides before anything is retrieved."""
        if self.gate is None or isinstance(self.gate, Decider):
            return self.gate
        return None if isinstance(self.gate, Recognizer) else Decider(self.gate)
