"""Output of a query rewriter (SlimPLM, section 3.3), and the two grammars it is written in.

The paper prints `<Claim> ... <Query> ...`; the released weights write `<Claim(...)>
<NeedSearch(True)> <Query(...)>`, after the same for the questions in the question.
`methods.slimplm.claims` parses them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar, TypeAlias

from fitrag_integrations.core.checks import Checked, Strings, Text, check_many
from fitrag_integrations.core.record import Record
from fitrag_integrations.errors import refuse_if

GRAMMARS = ("paper", "released")


@dataclass(frozen=True, slots=True)
class Lead(Record, Checked):
    """Claim, or question within the question, with the query that verifies it.

    `search` is the rewriter's own verdict on searching, None if it has none.
    """

    text: Text
    query: Text = ""
    search: bool | None = None

    @property
    def wanted(self) -> bool:
        """Whether there is a query, and the rewriter did not mark it as unnecessary."""
        return bool(self.query.strip()) and self.search is not False


ManyLeads: TypeAlias = Annotated[tuple[Lead, ...], partial(check_many, kind=Lead)]


@dataclass(frozen=True, slots=True)
class Leads(Record, Checked):
    """Everything that a rewriter wrote about a question and its heuristic answer, in order.

    `grammar` is the form that was parsed: paper, released, json, lines, or empty if nothing could
    be parsed. `repairs` are sentences on what was fixed or left out.
    """

    _nested: ClassVar = {"questions": Lead, "claims": Lead}

    questions: ManyLeads = ()
    claims: ManyLeads = ()
    grammar: Text = ""
    repairs: Strings = ()


def render(leads: Leads, grammar: str) -> str:
    """Render leads in a rewriter's output format, which is also the training target.

    The paper's form has no place for `search`: a lead that needs none has an empty query there.
    """
    refuse_if(grammar not in GRAMMARS, "grammar", grammar, " or ".join(GRAMMARS))
    if grammar == "paper":
        return " ".join((*_paper("Question", leads.questions), *_paper("Claim", leads.claims)))
    questions = " ".join(("<Questions>", *_released("Question", leads.questions), "</Questions>"))
    claims = " ".join(("<Claims>", *_released("Claim", leads.claims), "</Claims>"))
    return f"{questions} {claims}"


def _paper(name: str, leads: Iterable[Lead]) -> Iterator[str]:
    for lead in leads:
        yield f"<{name}> {lead.text} <Query> {lead.query}".strip()


def _released(name: str, leads: Iterable[Lead]) -> Iterator[str]:
    for lead in leads:
        needed = bool(lead.query) if lead.search is None else lead.search
        yield f"<{name}({lead.text})> <NeedSearch({needed})> <Query({lead.query})>"


_PAPER = (
    "<SYS> You are a helpful assistant. Your task is to parse user input into structured "
    "formats and accomplish the task according to the heuristic answer. </SYS>\n"
    "Heuristic answer: {draft}\n"
    "Question: {question}\n"
)
RELEASED_PROMPT = (
    "[INST] <<SYS>>\nYou are a helpful assistant. Your task is to parse user input into "
    "structured formats according to the coarse answer. Current datatime is 2023-12-20 9:47:28"
    " <</SYS>>\n Course answer: (({draft}))\nQuestion: (({question})) [/INST]"
)
"""The prompt of the released judge, and of the released rewriter."""
JUDGE_PAPER = _PAPER + "Retrieval Necessity Judgment Output:\n"
REWRITE_PAPER = _PAPER + "Query Rewrite Output:\n"
_VERDICT = re.compile(r"\bknown(?:\s*[(:=])?\s*(true|false)\b(?!\s*/)", re.IGNORECASE)
_BARE = re.compile(r"[\s(<\[\"']*(true|false)\b(?!\s*/)", re.IGNORECASE)


def read_verdict(text: str) -> bool | None:
    """Return the first verdict in a text, or None, which means that retrieval is needed.

    A reply that begins with a bare True or False counts as one, since the prompt may end in
    `Known (`; the form itself, `Known (True / False)`, is no verdict. Never raises.
    """
    found = _VERDICT.search(text) or _BARE.match(text)
    return None if found is None else found[1].lower() == "true"
