"""FIT-RAG (arXiv 2403.14374): retrieve, score, decide, rerank, reduce (Algorithms 1 and 3).

`reduction` is everything after retrieval. The components of both frameworks, the plain functions,
the commands and the service all run it. The caller prompts the language model that answers with the
resulting ``Context``. Algorithm 3 as printed contradicts its text and Figure 5; this follows the
text: the whole prefix of sub-documents is kept, not only the last one, and everything is kept if no
prefix is sufficient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Self, TypeAlias

from fitrag_integrations.core.checks import can, check_is, check_many, check_text
from fitrag_integrations.flow import Flow
from fitrag_integrations.methods.budget import Budget
from fitrag_integrations.methods.defaults import EMBEDDED_SCORER, script_note
from fitrag_integrations.methods.fitrag.options import FitRagOptions, Plan, RankingOptions
from fitrag_integrations.methods.fitrag.ranking import falling, ranked, worth_of
from fitrag_integrations.methods.fitrag.scoring import Scoring, sufficient
from fitrag_integrations.methods.ik.decider import Decider
from fitrag_integrations.ports import Gate, Ports, Recognizer, model_name
from fitrag_integrations.text.question import asked_note
from fitrag_integrations.types import BiLabelScore, Context, Excerpt, Passage, RetrievalDecision
from fitrag_integrations.values.prompt import render_excerpts
from fitrag_integrations.values.selected import Selection
from fitrag_integrations.values.windows import (
    apart,
    at_least,
    best_copies,
    bounded,
    by_score,
    merge,
    only_links,
    usable,
)

Recognize: TypeAlias = Callable[[Sequence[BiLabelScore]], Flow[RetrievalDecision]]
MAX_PASSAGES, MAX_SENTENCES = 1000, 5000
"""What one question reads at most, so that the bundled scorer needs about a minute on one core."""


def reduction(
    plan: Plan, question: str, passages: Sequence[Passage], recognize: Recognize | None = None
) -> Flow[Context]:
    """Return the flow that reduces passages to the best of them or of their sentences.

    Args:
        plan: Settled options of scoring, ranking and reduction.
        question: The question; not blank.
        passages: Retrieved passages, in the retriever's order.
        recognize: Decides from the labels of all passages whether they are needed; None if they
            always are.
    """
    check_text("question", question, blank=False)
    found, selection = check_many("passages", passages, Passage), Selection()
    context = Context(question, method="compress" if plan.window else "rerank")

    # what is read: passages with text, each once, and of them what one call can read
    given, notes = usable(found, deduplicate=plan.deduplicate, scored=True, selection=selection)
    given, ends, more = bounded(
        given, max_passages=MAX_PASSAGES, max_sentences=MAX_SENTENCES, selection=selection
    )
    foreign = script_note(plan.port, EMBEDDED_SCORER, question, given)
    notes = (*asked_note(question), *notes, *more, *foreign, *plan.notes)

    def ended(kept: Sequence[Excerpt], **more: Any) -> Context:
        told, rows = (*notes, *selection.refused()), selection.rows(kept)
        return replace(context, excerpts=tuple(kept), notes=told, selection=rows, **more)

    # both labels of every passage (section 4.2)
    scoring = Scoring(plan, question, ends, selection)
    spared = recognize is None and (plan.top_n is None or len(given) <= plan.top_n)
    wholes, windows_of = yield from scoring.passages(given, spared=spared)
    scored, labels = len(wholes), [one.labels for one in wholes if one.labels is not None]
    judge: Any = plan.port.owner
    if labels and not foreign and can(judge, "answerable"):
        context = replace(context, answerable=judge.answerable(labels))
    if plan.deduplicate:
        wholes, more = best_copies(wholes, of=len(found), selection=selection)
        notes += more

    # does the model know it without them? (section 4.3)
    if recognize is not None and wholes:
        labels = [check_is("labels", one.labels, BiLabelScore) for one in wholes]
        decision = check_is("decision", (yield from recognize(labels)), RetrievalDecision)
        context = replace(context, decision=decision)
        if not decision.retrieve:
            selection.scored(wholes)
            selection.drop(wholes, "decision", decision.why)
            return ended(())

    # the reranker (section 4.4.1)
    order = ranked(question, wholes, plan.prior)
    selection.scored(order)
    if not plan.window:
        order = apart(order, trim=False, selection=selection) if plan.deduplicate else order
        order = at_least(plan.min_score, order, selection)
    chosen = selection.first(order, plan.top_n, "top_n")
    if left := len(order) - len(chosen):
        notes += (f"{left} of {len(order)} passages left out by top_n={plan.top_n}",)
    details = {**plan.details(), "scored": scored, "reranked": len(chosen)}
    if not plan.window:
        return ended(chosen, details=details)

    # sub-documents (section 4.4.2): of each passage the best windows, each text once
    if windows_of:
        windows = [window for one in chosen for window in windows_of.get(id(one.passage), ())]
    else:
        cut = [window for one in chosen for window in scoring.cut(one.passage)]
        windows = yield from scoring.windows(cut)
    copies = selection.counts["duplicate"]
    worth = worth_of(windows, plan.prior, chosen, question if foreign else "")
    best = apart(
        sorted(windows, key=lambda one: (-worth(one), -one.score)),
        per_passage=plan.per_passage,
        deduplicate=plan.deduplicate,
        selection=selection,
    )
    if copies := selection.counts["duplicate"] - copies:
        notes += (f"{copies} of {len(windows)} excerpts left out: repeated",)
    able = at_least(plan.min_score, best, selection)
    if low := len(best) - len(able):
        reached = f"min_score={plan.min_score:g}"
        nothing = f"nothing to refer to: no excerpt reaches {reached}"
        notes += (f"{low} of {len(best)} excerpts left out by {reached}" if able else nothing,)

    # the sub-document filter (Algorithm 3): is this prefix enough?
    enough = able
    if plan.detector is not None:
        enough, more = yield from sufficient(able, plan.detector)
        notes += more
        selection.drop(able[len(enough) :], "detector", "those before it are enough")

    # the budget, and windows that touch joined
    def joined(kept: Sequence[Excerpt]) -> list[Excerpt]:
        return by_score(kept if plan.per_passage == 1 else merge(kept))

    tokens_in = plan.counter(render_excerpts(list(map(Excerpt.whole, found)), merged=False))
    budget = replace(_budget(plan, tokens_in, windows, joined), value=worth)
    fitted = yield from budget.fitted(enough, scoring.windows)
    selection.drop(fitted.left, "budget", f"over {budget.limit}")
    notes += fitted.notes
    if links := sum(map(only_links, fitted.kept)):
        notes += (f"{links} of {len(fitted.kept)} excerpts kept are only links or badges",)
    kept = falling(joined(fitted.kept))
    return ended(kept, details={**details, "tokens_in": tokens_in, "tokens_out": budget.cost(kept)})


def _budget(
    plan: Plan,
    tokens_in: int,
    windows: Sequence[Excerpt],
    joined: Callable[[Sequence[Excerpt]], list[Excerpt]],
) -> Budget:
    """Return the bound on tokens, and on the fraction of them that is kept."""
    budget = Budget(plan.max_tokens, count=plan.counter, arrange=joined)
    share, limit = None, f"max_tokens={plan.max_tokens}"
    if plan.max_share is not None:
        whole = [Excerpt.whole(one) for one in dict.fromkeys(each.passage for each in windows)]
        of = budget.cost(whole) if plan.of_chosen else tokens_in
        share = max(plan.least, int(plan.max_share * of))
        if plan.max_tokens is None or share < plan.max_tokens:
            limit = f"max_share={plan.max_share:g}"
    return replace(budget, share=share, limit=limit)


@dataclass(frozen=True)
class Reranking(RankingOptions):
    """Reranker of whole passages by the two labels (FIT-RAG, sections 4.2 and 4.4.1)."""

    def context(self, question: str, passages: Sequence[Passage]) -> Flow[Context]:
        """Return the flow that ends in the best passages, best first.

        Args:
            question: Question.
            passages: Passages, in the retriever's order.
        """
        return reduction(self.plan, question, passages)


@dataclass(frozen=True, kw_only=True)
class TokenReducer(FitRagOptions):
    """Reducer of passages that reranks them and keeps a few excerpts (FIT-RAG, section 4.4).

    It is `FitRag` without gate and retrieval: for the same passages both keep the same excerpts.
    The options are those of `FitRagOptions`.

    Example:
        >>> TokenReducer(max_tokens=800).plan.window
        1
    """

    def context(self, question: str, passages: Sequence[Passage]) -> Flow[Context]:
        """Return the flow that ends in the excerpts kept.

        Args:
            question: Question.
            passages: Passages, in the retriever's order.
        """
        return reduction(self.plan, question, passages)


@dataclass(frozen=True, kw_only=True)
class FitRag(FitRagOptions):
    """FIT-RAG's Algorithm 1: retrieve, score, decide, rerank, reduce.

    The other options are those of `FitRagOptions`, which describes how passages are reduced.

    Args:
        gate: A ``Recognizer``, called with the scores of all retrieved passages as in the paper; or
            a ``Gate`` or ``Decider``, called before anything is retrieved: a question whose
            ``p_known`` is above the gate's ``threshold`` (0.5 if it has none) needs no retrieval.
            None always retrieves.

    Raises:
        InputError: If an option is out of range.
        ThresholdMismatchError: If the gate or the detector was fitted for another scorer.

    Example:
        >>> FitRag(top_n=5, max_tokens=800).top_n
        5
    """

    gate: Gate | Recognizer | Decider | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self._decider
        if can(self.gate, "check_scorer"):
            self.gate.check_scorer(model_name(self.plan.port))  # type: ignore[union-attr]

    @classmethod
    def as_published(cls, scorer: Any = None, **options: Any) -> Self:
        """Build the method of the paper: windows of three sentences, one of a passage, a detector.

        Windows start one sentence apart and are scored as separate texts. The order is by the sum
        of the labels alone.

        Args:
            scorer: Object with ``score(pairs)``; None is the bundled one.
            **options: Other options, such as ``gate``; they override the preset.
        """
        return cls(scorer, **{"window": 3, "prior": 0.0, **options})

    @cached_property
    def one_each(self) -> FitRag:
        """Return a copy of the method for a caller who takes one piece of each of k passages.

        Options that would return fewer apply only if they are set.
        """
        share = None if self.max_share == "auto" else self.max_share
        detector = False if self.detector is None else self.detector
        made = replace(self, max_share=share, detector=detector)
        vars(made)["plan"] = replace(made.plan, per_passage=1)
        return made

    def __call__(self, question: str, ports: Ports) -> Flow[Context]:
        """Return the flow that ends in the context for one question.

        The flow raises ``InputError`` for a blank question. Without a usable passage the context
        is empty, and a note says so.
        """
        before = Context(check_text("question", question, blank=False), method="fitrag")
        if self._decider is not None:  # a gate, which decides before anything is retrieved
            decided = yield from self._decider(question)
            before = replace(before, decision=decided.decision, draft=decided.draft)
            if not decided.decision.retrieve:
                return before
        (found,) = yield from ports.retrieve.ask([question])
        passages = check_many("retrieved", found, Passage)
        recognize = None
        if isinstance(self.gate, Recognizer):  # which decides by what was retrieved
            recognize = partial(self.gate.decide, question)
        context = yield from reduction(self.plan, question, passages, recognize)
        decision = context.decision or before.decision
        return replace(context, method="fitrag", decision=decision, draft=before.draft)

    @cached_property
    def _decider(self) -> Decider | None:
        """Return what decides before anything is retrieved."""
        if self.gate is None or isinstance(self.gate, Decider):
            return self.gate
        return None if isinstance(self.gate, Recognizer) else Decider(self.gate)
