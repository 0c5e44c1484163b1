"""REFEED (Yu et al., 2023, arXiv:2305.14002): answer, retrieve with the answer, answer again.

The answer written without help is appended to the question for the retrieval, and shown to the
language model with the passages to be refined. The paper's two additions are options: several
first answers (`samples`, of which only a language model that samples gives different ones), and
the ensemble, which keeps the more likely of the answers before and after (`model`). Simplified: the
passages of several queries are taken in turns, since the paper does not say how they are merged.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from itertools import zip_longest

from fitrag_integrations.core.checks import Count, check_text
from fitrag_integrations.flow import Flow
from fitrag_integrations.methods.baselines._prompts import PLAIN, READ, REFINE
from fitrag_integrations.methods.baselines.flare import continue_port, measured
from fitrag_integrations.methods.writing import NO_ANSWER, Generating, Reply, expanded_query
from fitrag_integrations.ports import Ports
from fitrag_integrations.types import Context, Excerpt, Passage
from fitrag_integrations.values.selected import Selection
from fitrag_integrations.values.windows import usable


@dataclass(frozen=True)
class Refeed(Generating):
    """Answer, retrieve for question and answer together, and refine from the first `k` passages.

    `samples` first answers are asked for in one call; a retrieval is made for each different one,
    and the first is refined. `model`, an object with `continue_with_logprobs`, turns the ensemble
    on: it then writes both answers in place of the caller's language model, and the one of higher
    mean log-probability stands. A question without a first answer is retrieved for by itself.
    """

    _: KW_ONLY
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
        check_text("question", question, blank=False)
        context = Context(question, method="refeed")
        prompts = [context.prompt(PLAIN)] * self.samples
        first, sureness = yield from self._written(prompts, ports)
        answers = list(dict.fromkeys(reply.text for reply in first if reply.text))
        before = answers[0] if answers else ""
        queries = [expanded_query(question, answer) for answer in answers] or [question]
        found = yield from ports.retrieve.ask(queries)
        selection = Selection()
        passages, notes = usable(in_turns(found), selection=selection)
        wholes = tuple(map(Excerpt.whole, passages))
        selection.drop(wholes[self.k :], "k", f"k={self.k}")
        context = replace(
            context,
            excerpts=wholes[: self.k],
            selection=selection.rows(wholes[: self.k]),
            queries=tuple(query for query in queries if query != question),
            draft=before or None,
            notes=(*first[0].notes, *notes),
        )
        return (yield from self._refined(context, ports, sureness[0]))

    def _refined(self, context: Context, ports: Ports, sure: float) -> Flow[Context]:
        """Refine the first answer, and choose."""
        before = context.draft or ""
        prompt = context.prompt(REFINE if before else READ)
        (after,), (surer,) = yield from self._written([prompt], ports)
        answer = after.text or before
        details: dict[str, object] = {"before": before, "after": after.text}
        if self.model is not None and before and after.text:
            details |= {"logprob_before": sure, "logprob_after": surer}
            answer = before if sure > surer else after.text
        kept = ("the first answer stands",) if before and not after.text else ()
        context = replace(context, details=details)
        return self.answered(context, answer, (*after.notes, *kept))

    def _written(
        self, prompts: Sequence[str], ports: Ports
    ) -> Flow[tuple[list[Reply], list[float]]]:
        """Write answers, with their mean log-probabilities where a model tells them."""
        if self.model is None:
            replies = yield from self.write_all(prompts, ports, "answer")
            return replies, [-math.inf] * len(prompts)
        port, items = continue_port(self.model), [(prompt, "") for prompt in prompts]
        made, failed = yield from self.asked(port, items, NO_ANSWER, lambda one: one)
        if failed:
            return [Reply("", failed)] * len(prompts), [-math.inf] * len(prompts)
        written = [measured(one) for one in made]
        means = [math.fsum(one.logprobs) / max(1, len(one.logprobs)) for one in written]
        return [self.read(one.text, "answer") for one in written], means


def in_turns(found: Sequence[Sequence[Passage]]) -> list[Passage]:
    """Interleave lists: the first of each, then the second of each, and so on."""
    rows = zip_longest(*found)
    return [passage for row in rows for passage in row if passage is not None]
