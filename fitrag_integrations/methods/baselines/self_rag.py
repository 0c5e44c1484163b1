"""Self-RAG's decision rule (Asai et al., ICLR 2024, arXiv:2310.11511, section 3.3).

For a model that was trained to write reflection tokens. It answers once without passages, and how
likely [Retrieval] was against [No Retrieval] says whether to retrieve; then it answers once for
each passage, and the best-scored answer stands. As in the authors' short-form runs, an answer is
one segment. Left out: long answers by a beam search over segments. The share is one of
probabilities, as the paper has it; the released short-form code divides log-probabilities, which
turns the comparison around.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from typing import Annotated, Protocol, TypeAlias, runtime_checkable

from fitrag_integrations.core.checks import (
    Checked,
    Count,
    Share,
    Text,
    check_is,
    check_number,
    check_text,
)
from fitrag_integrations.core.record import Record, check_mapping
from fitrag_integrations.core.show import shortened
from fitrag_integrations.flow import Flow, Port
from fitrag_integrations.methods.writing import NO_ANSWER, Generating, Rounds
from fitrag_integrations.ports import Ports, port_of
from fitrag_integrations.types import Context, Excerpt, Passage, RetrievalDecision
from fitrag_integrations.values.windows import by_score

Item: TypeAlias = tuple[str, Passage | None]  # a question, and the passage to answer it from
WORTH: Mapping[str, Mapping[str, float]] = {
    "relevance": {"[Relevant]": 1.0, "[Irrelevant]": 0.0},
    "support": {
        "[Fully supported]": 1.0,
        "[Partially supported]": 0.5,
        "[No support / Contradictory]": 0.0,
    },
    "utility": {f"[Utility:{n}]": (n - 3) / 2 for n in range(1, 6)},
}
"""What the tokens of a kind are worth: in [0, 1], utility in [-1, 1]."""
_MARKS = re.compile(
    r"\[(?:No Retrieval|Retrieval|Continue to Use Evidence|Relevant|Irrelevant|Fully supported"
    r"|Partially supported|No support / Contradictory|Utility:[1-5])\]|</?paragraph>|</s>"
)


def check_tokens(field: str, given: object) -> dict[str, float]:
    """Return probabilities by the names of tokens.

    Args:
        field: Name of the field in errors.
        given: Mapping of names to probabilities in [0, 1].

    Raises:
        InputError: If a probability is out of range.
    """
    return {
        check_text(field, name): check_number(f"{field}[{name!r}]", chance, low=0.0, high=1.0)
        for name, chance in check_mapping(field, given).items()
    }


@dataclass(frozen=True, slots=True)
class Reflection(Record, Checked):
    """Answer with the probability of each reflection token that was written.

    Args:
        text: The answer.
        tokens: Probability in [0, 1] of each token as the model spells it, such as "[Retrieval]" or
            "[Utility:5]"; kinds that were not written are missing.
        logprob: Mean log-probability of the tokens of the text; None if unknown.
    """

    text: Text = ""
    tokens: Annotated[Mapping[str, float], check_tokens] = field(default_factory=dict, hash=False)
    logprob: Annotated[float, partial(check_number, high=0.0)] | None = None

    @property
    def clean(self) -> str:
        """Return the text without reflection tokens."""
        return " ".join(_MARKS.sub(" ", self.text).split())


@runtime_checkable
class Reflector(Protocol):
    """Model that answers questions, with or without a passage, with reflection tokens.

    An async version, `areflect`, is optional.
    """

    def reflect(self, items: Sequence[Item], /) -> Sequence[Reflection]:
        """Return one reflection per item, a question and its passage or None, in order."""


def reflect_port(model: object) -> Port[Item, Reflection]:
    """Build the port of a reflector."""
    return port_of("reflect", model, "reflect", argument="model")


def retrieval_share(made: Reflection) -> float | None:
    """Return P([Retrieval]) / (P([Retrieval]) + P([No Retrieval])); None if both are missing."""
    yes = made.tokens.get("[Retrieval]", 0.0)
    both = yes + made.tokens.get("[No Retrieval]", 0.0)
    return yes / both if both else None


def critique(made: Reflection) -> dict[str, float]:
    """Return the scores of relevance, support and utility, each a weighted mean over its tokens."""
    means = {}
    for kind, worth in WORTH.items():
        chances = {name: made.tokens.get(name, 0.0) for name in worth}
        total = math.fsum(chances.values())
        worths = math.fsum(worth[name] * chances[name] for name in worth)
        means[kind] = worths / total if total else 0.0
    return means


@dataclass(frozen=True)
class SelfRag(Generating):
    """Self-RAG: a model with reflection tokens decides, answers per passage, and chooses.

    An answer scores the weighted sum of relevance, support and utility, plus its mean probability.
    The caller's language model is not called.

    Args:
        model: Object with `reflect(items)`, or a callable; see `Reflector`.
        threshold: Retrieve above this probability of [Retrieval] against [No Retrieval], or if
            neither was written.
        k: Passages to answer from, one answer each.
        weights: Weights of relevance, support and utility.
        answer_tokens: Maximum tokens of the answer; a longer one is cut, with a note.
        count_tokens: Counts the tokens of a text; None estimates them.
        on_error: "degrade" continues with a note if a call fails, "raise" raises the error.
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

        The excerpts are best first. `details["passages"]` lists for each its three numbers and its
        answer. The flow raises `InputError` for a blank question, and what the retrieval raises.
        """
        work = Rounds(self, question, ports, "selfrag")
        (first,) = yield from self._reflected([(question, None)], work)
        share = retrieval_share(first)
        why = "the model wrote no retrieval token: retrieving"
        decision = RetrievalDecision(True, why=why)
        if share is not None:
            sign = ">" if share > self.threshold else "<="
            why = f"[Retrieval] has a share of {share:.3f} {sign} {self.threshold:g}"
            decision = RetrievalDecision(share > self.threshold, 1.0 - share, why=why)
        if not decision.retrieve:
            return work.ended(first.text, decision=decision)
        (found,) = yield from ports.retrieve.ask([question])

        # answer from each passage, and choose the best answer that is not blank
        passages = work.keep(found, self.k)
        made = yield from self._reflected([(question, passage) for passage in passages], work)
        parts, excerpts = [critique(one) for one in made], list[Excerpt]()
        for passage, one, part in zip(passages, made, parts, strict=True):
            weighted = sum(w * x for w, x in zip(self.weights, part.values(), strict=True))
            likelihood = 0.0 if one.logprob is None else math.exp(one.logprob)
            excerpts.append(Excerpt.whole(passage, score=likelihood + weighted))
        ranked = sorted(zip(excerpts, made, strict=True), key=lambda each: -each[0].score)
        best = next((one for _, one in ranked if one.text), first)
        if best is first and (made or not first.text):
            work.notes.append("no passage gave an answer: the one without them stands")
        rows = [
            {
                "passage": excerpt.passage.id,
                "answer": shortened(answer.text),
                "score": excerpt.score,
                **part,
            }
            for excerpt, answer, part in zip(excerpts, made, parts, strict=True)
        ]
        return work.ended(
            best.text, {"passages": rows}, excerpts=by_score(excerpts), decision=decision
        )

    def _reflected(self, items: Sequence[Item], work: Rounds) -> Flow[list[Reflection]]:
        """Generate an answer for each item; a failed call returns blank reflections and a note."""
        port = reflect_port(self.model)
        check = partial(check_is, "reflection", kind=Reflection)
        whole, failed = yield from self.asked(port, items, NO_ANSWER, check)
        if failed:
            work.notes += failed
            return [Reflection()] * len(items)
        replies = [self.read(one.clean, "answer") for one in whole]
        work.notes += dict.fromkeys(note for reply in replies for note in reply.notes)
        pairs = zip(whole, replies, strict=True)
        return [replace(one, text=reply.text) for one, reply in pairs]
