"""REFEED (Yu et al., 2023, arXiv:2305.14002): answer, retrieve with the answer, answer again.

The answer written without passages is appended to the question for the retrieval, and is shown to
the language model together with the passages, to be refined. The paper's two additions are options:
several first answers (`samples`, which differ only if the language model samples), and the
ensemble, which keeps the more likely of the answers before and after (`model`). Simplified: the
passages of several queries are taken in turns, since the paper does not say how they are merged.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from fitrag_integrations.core.checks import Count
from fitrag_integrations.flow import Flow
from fitrag_integrations.methods.baselines.flare import continue_port, measured
from fitrag_integrations.methods.prompts import PLAIN, READ
from fitrag_integrations.methods.writing import (
    NO_ANSWER,
    Generated,
    Generating,
    Rounds,
    expanded_query,
)
from fitrag_integrations.ports import Ports
from fitrag_integrations.types import Context, Passage
from fitrag_integrations.values.prompt import PromptTemplate

REFINE = PromptTemplate(
    "refine",
    "An earlier answer to the question was written without looking anything up, and may be wrong. "
    "Check it against the passages below and give the right answer, as briefly as you can.\n"
    "Passages:\n{passages}\nQuestion: {question}\nEarlier answer: {draft}\nAnswer:",
    one_line=True,
    reply="",
)


@dataclass(frozen=True, kw_only=True)
class Refeed(Generating):
    """REFEED: answer, retrieve with the question and the answer, and refine the answer.

    Without a first answer, the query is the question alone.

    Args:
        k: Passages that the refined answer reads.
        samples: First answers, generated in one call; each distinct one is used for a retrieval,
            and the first is refined.
        model: Object with `continue_with_logprobs`, which turns the ensemble on: it writes both
            answers in place of the caller's language model, and the one of higher mean
            log-probability is used. None is no ensemble.
        answer_tokens: Maximum tokens of the answer; a longer one is cut, with a note.
        count_tokens: Counts the tokens of a text; None estimates them.
        on_error: "degrade" continues with a note if a call fails, "raise" raises the error.
    """

    k: Count = 10
    samples: Count = 1
    model: object = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.model is not None:
            continue_port(self.model)

    def __call__(self, question: str, ports: Ports) -> Flow[Context]:
        """Return the flow that ends in the context for one question, its answer in `draft`.

        `details["before"]` and `details["after"]` are the two answers. The flow raises
        `InputError` for a blank question, and what the retrieval raises.
        """
        work = Rounds(self, question, ports, "refeed")
        first, (sure, *_) = yield from self._written([work.prompt(PLAIN)] * self.samples, ports)
        work.notes += first[0].notes
        answers = list(dict.fromkeys(reply.text for reply in first if reply.text))
        work.queries = [expanded_query(question, answer) for answer in answers]

        found = yield from ports.retrieve.ask(work.queries or [question])
        work.keep(in_turns(found), self.k)

        before = answers[0] if answers else ""
        prompt = work.prompt(REFINE if before else READ, draft=before or None)
        (reply,), (surer,) = yield from self._written([prompt], ports)
        work.notes += reply.notes
        after = reply.text
        if before and not after:
            work.notes.append("the first answer stands")
        details: dict[str, object] = {"before": before, "after": after}
        ensemble = self.model is not None and before and after
        if ensemble:
            details |= {"logprob_before": sure, "logprob_after": surer}
        answer = before if ensemble and sure > surer else after or before
        return work.ended(answer, details)

    def _written(
        self, prompts: Sequence[str], ports: Ports
    ) -> Flow[tuple[list[Generated], list[float]]]:
        """Write answers, with their mean log-probabilities where a model reports them."""
        if self.model is None:
            replies = yield from self.write_all(prompts, ports, "answer")
            return replies, [-math.inf] * len(prompts)
        port, items = continue_port(self.model), [(prompt, "") for prompt in prompts]
        made, failed = yield from self.asked(port, items, NO_ANSWER, lambda one: one)
        if failed:
            return [Generated("", failed)] * len(prompts), [-math.inf] * len(prompts)
        written = [measured(one) for one in made]
        means = [math.fsum(one.logprobs) / max(1, len(one.logprobs)) for one in written]
        return [self.read(one.text, "answer") for one in written], means


def in_turns(found: Sequence[Sequence[Passage]]) -> list[Passage]:
    """Interleave lists: the first of each, then the second of each, and so on."""
    return [passage for row in zip_longest(*found) for passage in row if passage is not None]
