"""ITER-RETGEN (Shao et al., Findings of EMNLP 2023, arXiv:2305.15294).

Round t asks the retriever with the question and what was generated in round t - 1, and generates
anew from all that was retrieved, taken as a whole. Simplified: the prompt has no worked examples,
and the rounds end early where a generation repeats the last, since all that follows would too.
Left out: distilling a reranker into the retriever (the paper's section on adapting retrieval).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

from fitrag_integrations.core.checks import Count, check_text
from fitrag_integrations.flow import Flow
from fitrag_integrations.methods.baselines._prompts import READ_STEPS, STEPS
from fitrag_integrations.methods.writing import Generating, expanded_query, reasoned, update
from fitrag_integrations.ports import Ports
from fitrag_integrations.types import Context, Excerpt, Passage
from fitrag_integrations.values.selected import Selection


@dataclass(frozen=True)
class IterRetgen(Generating):
    """Retrieve and generate in turn, `rounds` times at most, `k` passages a round.

    A round reads the passages of its own retrieval; with `accumulate`, those of earlier rounds
    too. A round whose generation or retrieval fails is the last, and what the one before it wrote
    stands. `details["rounds"]` has the query, the passages' ids and the generation of each.
    """

    _: KW_ONLY
    rounds: Count = 3
    k: Count = 5
    accumulate: bool = False

    def __call__(self, question: str, ports: Ports) -> Flow[Context]:
        """Return the flow that ends in the context for one question, its answer in `draft`.

        The excerpts are the passages of the last round. The flow raises `InputError` for a blank
        question, and what the first retrieval raises.
        """
        check_text("question", question, blank=False)
        done: list[dict[str, Any]] = []
        notes: list[str] = []
        passages: list[Passage] = []
        written, selection = "", Selection()
        while len(done) < self.rounds:
            query = expanded_query(question, written)
            if done and query == done[-1]["query"]:
                break  # the last generation again: so would be all further ones
            found, more = yield from self.look_up(
                query, ports, first=not done, k=self.k, selection=selection
            )
            notes.extend(more)
            if done and not found:
                break
            passages = self._kept(passages, found)
            shown = Context(question, tuple(map(Excerpt.whole, passages)))
            prompt = shown.prompt(READ_STEPS if passages else STEPS)
            reply = yield from self.write(prompt, ports, "answer")
            notes.extend(reply.notes)
            ids = [passage.id for passage in passages]
            done.append({"query": query, "passages": ids, "generation": reply.text})
            if not reply.text:
                break
            written = reply.text
        context = self._context(question, passages, done, written, notes)
        return replace(context, selection=selection.rows(context.excerpts))

    def _kept(self, before: Sequence[Passage], found: Sequence[Passage]) -> list[Passage]:
        return [*before, *update(found, before)] if self.accumulate else list(found)

    def _context(
        self,
        question: str,
        passages: Sequence[Passage],
        done: Sequence[dict[str, Any]],
        written: str,
        notes: Sequence[str],
    ) -> Context:
        answer, more = reasoned(written)
        context = Context(
            question,
            tuple(map(Excerpt.whole, passages)),
            queries=tuple(one["query"] for one in done[1:]),
            method="iterretgen",
            details={"rounds": list(done), "reasoning": written},
        )
        return self.answered(context, answer, (*notes, *more))
