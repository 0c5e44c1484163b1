"""Self-RAG's decision rule (Asai et al., ICLR 2024, arXiv:2310.11511, section 3.3).

For a model that was trained to write reflection tokens. It answers once without passages, and how
likely [Retrieval] was against [No Retrieval] says whether to retrieve; then it answers once for
each passage, and the best-scored answer stands. As in the authors' short-form runs, an answer is
one segment. Left out: long answers by a beam search over segments. The share is one of
probabilities, as the paper has it; the released short-form code divides log-probabilities, which
turns the comparison around. What the reflections are worth is in `_reflections`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace

from fitrag_integrations.core.checks import Count, Share, check_number, check_text
from fitrag_integrations.core.show import shortened
from fitrag_integrations.flow import Flow
from fitrag_integrations.methods.baselines._reflections import (
    Item,
    Reflection,
    check_reflection,
    reflect_port,
    relevance,
    retrieval_share,
    support,
    utility,
)
from fitrag_integrations.methods.writing import NO_ANSWER, Generating
from fitrag_integrations.ports import Ports
from fitrag_integrations.types import Context, Excerpt, Passage, RetrievalDecision
from fitrag_integrations.values.selected import Selection
from fitrag_integrations.values.windows import by_score, usable


@dataclass(frozen=True)
class SelfRag(Generating):
    """Let a model with reflection tokens decide, answer per passage, and choose.

    `model` is an object with `reflect(items)`, or a callable; see `Reflector`. The caller's
    language model is not asked. Retrieval follows where the share of [Retrieval] is above
    `threshold`, or cannot be told. The first `k` passages are answered from; an answer scores
    `weights`, those of relevance, support and utility, times these, plus its mean probability.
    """

    model: object
    _: KW_ONLY
    threshold: Share = 0.2
    k: Count = 5
    weights: tuple[float, float, float] = (1.0, 1.0, 0.5)

    def __post_init__(self) -> None:
        super().__post_init__()
        reflect_port(self.model)
        given = tuple(check_number("weights", weight, low=0.0) for weight in self.weights)
        relevant, supported, useful = given  # a model scores its passages on these three
        object.__setattr__(self, "weights", (relevant, supported, useful))

    def __call__(self, question: str, ports: Ports) -> Flow[Context]:
        """Return the flow that ends in the context for one question, its answer in `draft`.

        The excerpts are best first. `details["passages"]` tells of each its three numbers and its
        answer. The flow raises `InputError` for a blank question, and what the retrieval raises.
        """
        check_text("question", question, blank=False)
        ((first,), notes) = yield from self._reflected([(question, None)])
        decision = self._decided(first)
        context = Context(question, decision=decision, method="selfrag", notes=notes)
        if not decision.retrieve:
            return self.answered(context, first.text)
        (found,) = yield from ports.retrieve.ask([question])
        selection = Selection()
        passages, more = usable(found, selection=selection)
        wholes = list(map(Excerpt.whole, passages))
        selection.drop(wholes[self.k :], "k", f"k={self.k}")
        rows = selection.rows(wholes[: self.k])
        context = replace(context, notes=(*notes, *more), selection=rows)
        return (yield from self._chosen(context, passages[: self.k], first))

    def _chosen(
        self, context: Context, passages: Sequence[Passage], first: Reflection
    ) -> Flow[Context]:
        """Answer from each passage, and choose the best answer that is not blank."""
        items: list[Item] = [(context.question, passage) for passage in passages]
        made, notes = yield from self._reflected(items)
        scores = [self._score(one) for one in made]
        excerpts = [Excerpt.whole(p, score=s) for p, s in zip(passages, scores, strict=True)]
        best = max(zip(scores, made, strict=True), key=_written, default=(0.0, first))[1]
        if not best.text:
            notes, best = (*notes, "no passage gave an answer: the one without them stands"), first
        details = {
            "passages": [_passage_details(e, r) for e, r in zip(excerpts, made, strict=True)]
        }
        context = replace(context, excerpts=tuple(by_score(excerpts)), details=details)
        return self.answered(context, best.text, notes)

    def _reflected(self, items: Sequence[Item]) -> Flow[tuple[list[Reflection], tuple[str, ...]]]:
        """Generate an answer for each item; a failed call returns blank reflections and a note."""
        port = reflect_port(self.model)
        whole, failed = yield from self.asked(port, items, NO_ANSWER, check_reflection)
        if failed:
            return [Reflection()] * len(items), failed
        replies = [self.read(one.clean, "answer") for one in whole]
        notes = tuple(dict.fromkeys(note for reply in replies for note in reply.notes))
        pairs = zip(whole, replies, strict=True)
        return [replace(one, text=reply.text) for one, reply in pairs], notes

    def _decided(self, first: Reflection) -> RetrievalDecision:
        share = retrieval_share(first)
        if share is None:
            return RetrievalDecision(True, why="the model wrote no retrieval token: retrieving")
        retrieve = share > self.threshold
        sign = ">" if retrieve else "<="
        why = f"[Retrieval] has a share of {share:.3f} {sign} {self.threshold:g}"
        return RetrievalDecision(retrieve, 1.0 - share, why=why)

    def _score(self, made: Reflection) -> float:
        parts = (relevance(made), support(made), utility(made))
        return made.likelihood + sum(w * x for w, x in zip(self.weights, parts, strict=True))


def _written(scored: tuple[float, Reflection]) -> tuple[bool, float]:
    return bool(scored[1].text), scored[0]


def _passage_details(excerpt: Excerpt, made: Reflection) -> dict[str, object]:
    return {
        "passage": excerpt.passage.id,
        "answer": shortened(made.text),
        "score": excerpt.score,
        "relevance": relevance(made),
        "support": support(made),
        "utility": utility(made),
    }
