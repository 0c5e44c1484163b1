"""FLARE (Jiang et al., EMNLP 2023, arXiv:2305.06983): look ahead, retrieve where the model doubts.

The model writes on; the first sentence with a token less likely than `threshold` is not taken over
but, without its tokens less likely than `mask`, becomes a query, and the sentence is written again
with what was retrieved. This is the paper's FLARE with masked queries, in its 2WikiMultihopQA
settings (0.8 and 0.4). Simplified: the sentences after one that is accepted are read from the same
continuation, which greedy decoding would only repeat; the passages of the last retrieval stay in
the prompt until the next; no worked examples. Left out: queries written by a language model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import Protocol, runtime_checkable

from fitrag_integrations.core.checks import Count, Share, check_is, check_text
from fitrag_integrations.errors import PortError
from fitrag_integrations.flow import Flow, Port
from fitrag_integrations.methods.baselines._prompts import PLAIN, SENTENCES
from fitrag_integrations.methods.defaults import EMBEDDED_MODEL
from fitrag_integrations.methods.writing import Generating
from fitrag_integrations.ports import Ports, pair_port
from fitrag_integrations.text.sentences import split_sentences
from fitrag_integrations.types import Context, Excerpt, Passage
from fitrag_integrations.values.decision import Continuation
from fitrag_integrations.values.selected import Selection


@runtime_checkable
class Continuer(Protocol):
    """Go on with answers that were begun (FLARE, section 3.2).

    An async twin `acontinue_with_logprobs` is optional.

    A beginning is what was written of the answer to its prompt so far, blank at first.
    """

    def continue_with_logprobs(
        self, prompts: Sequence[str], beginnings: Sequence[str], /
    ) -> Sequence[Continuation]:
        """Go on with each of `beginnings`, answers to the `prompts`; one continuation each."""
        ...


CONTINUES = (
    "a model that tells token probabilities: an object with 'continue_with_logprobs', such as "
    "models.Continuer(LocalGenerator.from_pretrained(...))"
)


def continue_port(model: object) -> Port[tuple[str, str], Continuation]:
    """Build the port of a continuer, whose items are (prompt, beginning) pairs."""
    verb = "continue_with_logprobs"
    return pair_port("continue", model, verb, argument="model", allowed=CONTINUES)


def measured(written: object) -> Continuation:
    """Require a continuation with its token probabilities."""
    found = check_is("continuation", written, Continuation)
    if found.text.strip() and not found.tokens:
        raise PortError("the model told no token probabilities, which this method needs")
    return found


Tokens = list[tuple[str, float]]
STOPPED = "the language model did not go on"


@dataclass
class _Work:
    """Keep what one question has come to."""

    passages: list[Passage] = field(default_factory=list)
    sentences: list[str] = field(default_factory=list)
    queries: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    selection: Selection = field(default_factory=Selection)

    @property
    def answer(self) -> str:
        return " ".join(self.sentences)

    def take(self, sentence: str) -> bool:
        """Append a sentence; a repeated one ends the answer."""
        if sentence in self.sentences:
            self.notes.append("the model repeated itself: the answer ends there")
            return False
        self.sentences.append(sentence)
        return True


@dataclass(frozen=True)
class Flare(Generating):
    """Write sentence by sentence, with at most `rounds` retrievals of `k` passages.

    A sentence with a token less likely than `threshold` is looked up, without its tokens less
    likely than `mask`.

    `model` must tell token probabilities: an object with `continue_with_logprobs`, such as
    `models.Continuer`; None is the embedded one. The caller's language model is not asked. After
    the last retrieval the rest is taken over as it is, with a note where it is doubtful. Where the
    model writes nothing, the question itself is retrieved for.
    """

    model: object = None
    _: KW_ONLY
    threshold: Share = 0.8
    mask: Share = 0.4
    rounds: Count = 3
    k: Count = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self._port

    def __call__(self, question: str, ports: Ports) -> Flow[Context]:
        """Return the flow that ends in the context for one question, its answer in `draft`.

        The excerpts are the passages of the last retrieval. The flow raises `InputError` for a
        blank question, and `PortError` where the model tells no token probabilities.
        """
        check_text("question", question, blank=False)
        work = _Work()
        for at in range(self.rounds + 1):
            query = yield from self._ahead(question, work, last=at == self.rounds)
            if not query:
                break
            work.queries.append(query)
            found, notes = yield from self.look_up(query, ports, k=self.k, selection=work.selection)
            work.notes.extend(notes)
            work.passages = found or work.passages
        if not (work.sentences or work.passages):  # without an answer, then at least passages
            found, notes = yield from self.look_up(
                question, ports, k=self.k, selection=work.selection
            )
            work.notes.extend(notes)
            work.passages = found
        excerpts = tuple(map(Excerpt.whole, work.passages))
        details = {"retrievals": len(work.queries), "sentences": len(work.sentences)}
        queries = tuple(work.queries)
        context = Context(
            question,
            excerpts,
            queries=queries,
            method="flare",
            details=details,
            selection=work.selection.rows(excerpts),
        )
        reply = self.read(work.answer, "answer")
        return self.answered(context, reply.text, (*work.notes, *reply.notes))

    def _ahead(self, question: str, work: _Work, *, last: bool) -> Flow[str]:
        """Write on, and give the query for the first doubtful sentence, blank where all is said.

        The first sentence after a retrieval is the one written again, and is taken over.
        """
        shown = Context(question, tuple(map(Excerpt.whole, work.passages)))
        prompt = shown.prompt(SENTENCES if work.passages else PLAIN)
        written = yield from self._written(prompt, work)
        doubted = False
        for at, (start, end) in enumerate(split_sentences(written.text)):
            tokens = written.probabilities(start, end)
            doubtful = any(chance < self.threshold for _, chance in tokens)
            if doubtful and not last and not (at == 0 and work.queries):
                return masked(tokens, self.mask) or question
            doubted |= doubtful and last and at > 0
            if not work.take(written.text[start:end].strip()):
                return ""
        if doubted:
            work.notes.append(f"the model doubted more after {self.rounds} retrievals")
        return ""

    def _written(self, prompt: str, work: _Work) -> Flow[Continuation]:
        """Continue the answer; a failed call returns nothing and a note."""
        item = (prompt, work.answer)
        written, failed = yield from self.asked(self._port, [item], STOPPED, lambda one: one)
        work.notes.extend(failed)
        return Continuation("") if failed else measured(written[0])

    @cached_property
    def _port(self) -> Port[tuple[str, str], Continuation]:
        return continue_port(EMBEDDED_MODEL if self.model is None else self.model)


def masked(tokens: Tokens, mask: float) -> str:
    """Write a sentence without its tokens less likely than `mask` (section 3.2.2)."""
    return " ".join("".join(text if chance >= mask else " " for text, chance in tokens).split())
