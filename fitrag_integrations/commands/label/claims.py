"""`fitrag label claims`: a large model takes answers apart, for a small one to learn it from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, TypeAlias

from fitrag_integrations.commands.engine.batch import Verb
from fitrag_integrations.commands.engine.progress import run_plan
from fitrag_integrations.commands.engine.rows import question_of
from fitrag_integrations.commands.label.asked import SERVED_TOKENS, RowsPlan, load_llm
from fitrag_integrations.core.option import Argument, Option
from fitrag_integrations.errors import PortError
from fitrag_integrations.flow import Flow
from fitrag_integrations.methods.slimplm.steps import UNREAD, Rewriter, heuristic_answer
from fitrag_integrations.ports import Ports

ADDS = ("draft", "questions", "claims", "grammar", "repairs", "llm")
Fields: TypeAlias = dict[str, object]
MOST_DRAFT = 4000  # characters


@dataclass(frozen=True)
class LabelClaims(RowsPlan):
    """Split heuristic answers into claims and queries (SlimPLM, section 3.3).

    Reads question and draft, the heuristic answer; where a row has none the model writes it. Adds
    draft, questions and claims, each with text, query and search, the grammar they were read in,
    repairs, and llm. What cannot be read becomes an error row. The key of a server is read from
    OPENAI_API_KEY.
    """

    source: Annotated[str, Argument("Rows of question and draft: .jsonl, .jsonl.gz, or -.")]
    prompt: Annotated[str, Option("instruct, paper or released.")] = "instruct"
    max_new_tokens: Annotated[int, Option("Longest rewriting.", min=1)] = 512

    def run(self) -> None:
        """Label the rows."""
        Rewriter(prompt=self.prompt)  # tells of a wrong name before any loading
        run_plan("label claims", self)

    def verb(self) -> Verb[Fields]:
        """Load who takes them apart."""
        longest = self.max_new_tokens
        served = self.server.generator(self.llm, max_new_tokens=longest, draft_tokens=SERVED_TOKENS)
        if served is not None:
            return claims_verb(served, self.prompt, name=self.llm)
        model = load_llm(self.llm, self.hardware, max_new_tokens=longest, stop=("\n\n",))
        return claims_verb(model, self.prompt, name=model.name)


def claims_verb(model: object, prompt: str = "instruct", *, name: str) -> Verb[Fields]:
    """Split each answer with a model; it writes missing answers."""
    rewriter = Rewriter(model, prompt=prompt)

    def flow(row: Mapping[str, object]) -> Flow[Fields]:
        question, draft = question_of(row), row.get("draft")
        if not isinstance(draft, str) or not draft.strip():
            heuristic = yield from heuristic_answer(question, model, most=MOST_DRAFT, strict=True)
            draft = heuristic.text
        leads, written = yield from rewriter(question, draft, Ports())
        if not leads.grammar:
            raise PortError(f"{UNREAD}: {written[:80]!r}")
        return {"draft": draft, **leads.to_dict(), "llm": name}

    return Verb(flow, lambda traced: traced.value, ADDS, dict.fromkeys(ADDS))
