"""ITER-RETGEN (Shao et al., Findings of EMNLP 2023, arXiv:2305.15294).

Round t retrieves with the question and the text generated in round t - 1, and generates again from
all retrieved passages together. Simplified: the prompt has no worked examples, and the rounds end
early if a generation repeats the last one, since all later ones would too. Left out: distilling a
reranker into the retriever (the paper's section on adapting retrieval).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fitrag_integrations.core.checks import Count
from fitrag_integrations.flow import Flow
from fitrag_integrations.methods.prompts import READ_STEPS, STEPS
from fitrag_integrations.methods.writing import Generating, Rounds, expanded_query, reasoned, update
from fitrag_integrations.ports import Ports
from fitrag_integrations.types import Context


@dataclass(frozen=True, kw_only=True)
class IterRetgen(Generating):
    """ITER-RETGEN: retrieve with the last generation, and generate again.

    A round whose generation or retrieval fails is the last, and the answer is the text of the round
    before. `details["rounds"]` has the query, the passages' ids and the generation of each.

    Args:
        rounds: Maximum number of rounds; they end early if a generation repeats.
        k: Passages of each round.
        accumulate: Also read the passages of earlier rounds.
        answer_tokens: Maximum tokens of the answer; a longer one is cut, with a note.
        count_tokens: Counts the tokens of a text; None estimates them.
        on_error: "degrade" continues with a note if a call fails, "raise" raises the error.
    """

    rounds: Count = 3
    k: Count = 5
    accumulate: bool = False

    def __call__(self, question: str, ports: Ports) -> Flow[Context]:
        """Return the flow that ends in the context for one question, its answer in `draft`.

        The excerpts are the passages of the last round. The flow raises `InputError` for a blank
        question, and what the first retrieval raises.
        """
        work, written = Rounds(self, question, ports, "iterretgen"), ""
        done: list[dict[str, Any]] = []
        while len(done) < self.rounds:
            query = expanded_query(question, written)
            if done and query == done[-1]["query"]:
                break  # the last generation again: so would be all further ones
            found = yield from work.retrieve(query, self.k, first=not done)
            if done and not found:
                break
            before = work.passages if self.accumulate else []
            work.passages = [*before, *update(found, before)]
            text = yield from work.write(work.prompt(READ_STEPS if work.passages else STEPS))
            ids = [passage.id for passage in work.passages]
            done.append({"query": query, "passages": ids, "generation": text})
            if not text:
                break
            written = text
        work.queries = [one["query"] for one in done[1:]]
        answer, notes = reasoned(written)
        work.notes += notes
        return work.ended(answer, {"rounds": done, "reasoning": written})
