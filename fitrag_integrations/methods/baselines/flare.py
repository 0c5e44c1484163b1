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
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Protocol, runtime_checkable

from fitrag_integrations.core.checks import Count, Share, check_is
from fitrag_integrations.errors import PortError, raise_if
from fitrag_integrations.flow import Flow, Port
from fitrag_integrations.methods.prompts import PLAIN
from fitrag_integrations.methods.writing import Generating, Rounds
from fitrag_integrations.ports import Ports, pair_port
from fitrag_integrations.text.sentences import split_sentences
from fitrag_integrations.types import Context
from fitrag_integrations.values.decision import Continuation
from fitrag_integrations.values.prompt import PromptTemplate

SENTENCES = PromptTemplate(
    "sentences",
    "Answer the question in a few short sentences; the passages below may help.\n"
    "Passages:\n{passages}\nQuestion: {question}\nAnswer:",
    one_line=True,
)


@runtime_checkable
class Continuer(Protocol):
    """Language model that continues answers and returns token probabilities (FLARE, section 3.2).

    An async twin `acontinue_with_logprobs` is optional.

    A beginning is the text of the answer so far, blank at first.
    """

    def continue_with_logprobs(
        self, prompts: Sequence[str], beginnings: Sequence[str], /
    ) -> Sequence[Continuation]:
        """Continue answers that have been begun.

        Args:
            prompts: The prompts.
            beginnings: Text of the answer to each prompt so far.

        Returns:
            One continuation for each.
        """


def continue_port(model: object) -> Port[tuple[str, str], Continuation]:
    """Build the port of a continuer; its items are (prompt, beginning) pairs."""
    allowed = (
        "a model with token probabilities: an object with 'continue_with_logprobs', such as "
        "models.Continuer(LocalGenerator.from_pretrained(...))"
    )
    return pair_port("continue", model, "continue_with_logprobs", argument="model", allowed=allowed)


def measured(written: object) -> Continuation:
    """Require a continuation with its token probabilities."""
    found = check_is("continuation", written, Continuation)
    wrong = "the model returned no token probabilities, which this method requires"
    raise_if(found.text.strip() and not found.tokens, PortError, wrong)
    return found


@dataclass(frozen=True)
class Flare(Generating):
    """FLARE: write sentence by sentence, and retrieve for a sentence with an unlikely token.

    After the last retrieval the rest is used unchanged, with a note if it is doubtful. If the model
    writes nothing, the query is the question itself. The caller's language model is not called.

    Args:
        model: Object with `continue_with_logprobs`, such as `models.Continuer`.
        threshold: A sentence with a token below this probability triggers a retrieval.
        mask: Tokens below this probability are left out of the query.
        rounds: Maximum number of retrievals.
        k: Passages of each retrieval.
        answer_tokens: Maximum tokens of the answer; a longer one is cut, with a note.
        count_tokens: Counts the tokens of a text; None estimates them.
        on_error: "degrade" continues with a note if a call fails, "raise" raises the error.
    """

    model: object
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
        blank question, and `PortError` where the model returns no token probabilities.
        """
        work, sentences, doubted = Rounds(self, question, ports, "flare"), list[str](), False
        for at in range(self.rounds + 1):
            # write on, and look ahead for the first doubtful sentence (section 3.2); the first one
            # after a retrieval is that sentence written again, and is taken over
            item = work.prompt(SENTENCES if work.passages else PLAIN), " ".join(sentences)
            written, failed = yield from self.asked(
                self._port, [item], "the language model did not go on", lambda one: one
            )
            work.notes += failed
            ahead, query = Continuation("") if failed else measured(written[0]), ""
            for n, (start, end) in enumerate(split_sentences(ahead.text)):
                tokens, sentence = ahead.probabilities(start, end), ahead.text[start:end].strip()
                doubtful = any(chance < self.threshold for _, chance in tokens)
                if doubtful and at < self.rounds and not (n == 0 and work.queries):
                    query = masked(tokens, self.mask) or question
                    break
                doubted |= doubtful and n > 0
                if sentence in sentences:
                    work.notes.append("the model repeated itself: the answer ends there")
                    break
                sentences.append(sentence)

            # retrieve for it, without its unlikely tokens (section 3.2.2)
            if not query:
                break
            work.queries.append(query)
            work.passages = (yield from work.retrieve(query, self.k)) or work.passages
        if doubted:
            work.notes.append(f"the model doubted more after {self.rounds} retrievals")
        if not (sentences or work.passages):  # without an answer, then at least passages
            work.passages = yield from work.retrieve(question, self.k)
        reply = self.read(" ".join(sentences), "answer")
        work.notes += reply.notes
        details = {"retrievals": len(work.queries), "sentences": len(sentences)}
        return work.ended(reply.text, details)

    @cached_property
    def _port(self) -> Port[tuple[str, str], Continuation]:
        return continue_port(self.model)


def masked(tokens: Sequence[tuple[str, float]], mask: float) -> str:
    """Return a sentence without its unlikely tokens (section 3.2.2).

    Args:
        tokens: Tokens with their probabilities.
        mask: Minimum probability of a token that stays.
    """
    return " ".join("".join(text if chance >= mask else " " for text, chance in tokens).split())
