"""SlimPLM's steps before retrieval: the heuristic answer, claims and queries, and their filter.

Each is a flow (SlimPLM, sections 3.1 and 3.3). What fails is told and, unless `strict`, ends in
more retrieval rather than in an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import Any

from fitrag_integrations.core.checks import Checked, can, check_text
from fitrag_integrations.core.show import error_line
from fitrag_integrations.errors import InputError
from fitrag_integrations.flow import Flow, Port
from fitrag_integrations.flow.ask import attempt
from fitrag_integrations.methods.slimplm.claims import parse_claims
from fitrag_integrations.methods.slimplm.judge import NecessityCheck, Verdict
from fitrag_integrations.methods.slimplm.prompts import PROXY, REWRITE_PAPER, REWRITES
from fitrag_integrations.ports import Ports, pair_port, port_of
from fitrag_integrations.text.tokens import TokenCounter
from fitrag_integrations.types import Context, Draft
from fitrag_integrations.values.prompt import Asked, PromptTemplate, cut_note
from fitrag_integrations.values.slimplm import Lead, Leads

ANSWER_TOKENS = 512  # three times the median of what Llama-2 wrote
REWRITE_TOKENS = 512
NO_REWRITER = "no rewriter and no generate port were given"
UNREAD = "the rewriter wrote no claim and no query that could be read"
ALL_KNOWN = "the claim filter and the rewriter left no query"


@dataclass(frozen=True, slots=True)
class Heuristic:
    """A proxy's answer; `failed` is the reason if it is empty."""

    text: str = ""
    written: str = ""
    failed: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Followed:
    """Queries to retrieve for, none if only the question is left, and how they were found."""

    queries: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    leads: Leads = field(default_factory=Leads)
    claims: tuple[Lead, ...] = ()  # those with a query
    verdicts: tuple[Verdict, ...] = ()  # one for each of these, or none
    written: str = ""

    @property
    def all_known(self) -> bool:
        """Whether the rewriting was read, and the judge or the rewriter left no query."""
        return bool(self.leads.grammar) and not self.queries

    def details(self) -> dict[str, object]:
        """Return what the rewriter wrote, and what the judge said of each claim with a query."""
        verdicts = [each.details() for each in self.verdicts] or [{}] * len(self.claims)
        return {
            "grammar": self.leads.grammar,
            "questions": [lead.to_dict() for lead in self.leads.questions],
            "claims": [lead.to_dict() for lead in self.leads.claims],
            "verdicts": [
                {"claim": claim.text, "query": claim.query, "known": None, "p_known": None} | each
                for claim, each in zip(self.claims, verdicts, strict=True)
            ],
        }


def proxy_port(proxy: object) -> Port[str, Draft | str]:
    """Build the port of a proxy, by the first it has of `answer`, `draft` and `generate`.

    The first two are asked with questions, everything else with `PROXY`.
    """
    verb = next((verb for verb in ("answer", "draft") if can(proxy, verb)), "generate")
    return port_of("draft", proxy, verb, argument="proxy")


def heuristic_answer(question: str, proxy: object, *, most: int, strict: bool) -> Flow[Heuristic]:
    """Return the flow that ends in the proxy's answer, of which the first `most` characters
    count.
    """
    plainly = can(proxy, "answer") or can(proxy, "draft")
    item = Asked(question if plainly else PROXY.render(Context(question)), tokens=ANSWER_TOKENS)

    def answered() -> Flow[str]:
        (answer,) = yield from proxy_port(proxy).ask([item])
        written = answer.text if isinstance(answer, Draft) else answer
        return check_text("heuristic answer", written, blank=False)

    written, error = yield from attempt(answered(), strict=strict)
    if written is None:
        return Heuristic(failed=failure("proxy", error))
    text = written.strip()
    cut = (f"the heuristic answer was cut off after {most} of {len(text)} characters",)
    notes = cut if len(text) > most else cut_note(written, "heuristic answer")
    return Heuristic(text[:most], text, notes=notes)


@dataclass(frozen=True)
class Rewriter(Checked):
    """Generator of claims and queries, with their parser.

    `model` None is the caller's language model, asked by instruction; a model that has
    `rewrite(questions, drafts)` brings its own prompt; any other continues `prompt`, a template or
    the name of one: paper (the default), released, or instruct.
    """

    model: object = None
    _: KW_ONLY
    prompt: PromptTemplate | str | None = None

    def __post_init__(self) -> None:
        _ = self.template, self.port(Ports())

    @cached_property
    def template(self) -> PromptTemplate:
        """The prompt in use."""
        given = self.prompt
        if given is None:
            return REWRITES["instruct"] if self.model is None else REWRITE_PAPER
        if isinstance(given, PromptTemplate):
            return given
        if not isinstance(given, str) or given not in REWRITES:
            allowed = f"a PromptTemplate, or one of {', '.join(REWRITES)}"
            raise InputError.of("rewriter_prompt", given=given, allowed=allowed)
        return REWRITES[given]

    def port(self, ports: Ports) -> Port[Any, str]:
        """Return the port that is asked; falsy where there is no model at all."""
        if self.model is None:
            return ports.generate
        if can(self.model, "rewrite"):
            return pair_port("rewrite", self.model, "rewrite")
        return port_of("rewrite", self.model, "generate", argument="rewriter")

    def __call__(self, question: str, draft: str, ports: Ports) -> Flow[tuple[Leads, str]]:
        """Return the flow that ends in the leads, and in the text they were read from."""
        item: object = (question, draft)
        if not can(self.model, "rewrite"):
            prompt = self.template.render(Context(question, draft=draft))
            item = Asked(prompt, tokens=REWRITE_TOKENS)
        (text,) = yield from self.port(ports).ask([item])
        return parse_claims(check_text("rewriting", text)), text


def follow(
    question: str,
    draft: str,
    rewriter: Rewriter,
    judge: NecessityCheck | None,
    ports: Ports,
    *,
    strict: bool,
) -> Flow[Followed]:
    """Turn a heuristic answer into queries: the question's own parts, then the unknown claims.

    Without a `judge` no claim is left out.
    """
    if not rewriter.port(ports):
        return Followed(notes=(NO_REWRITER,))
    read, error = yield from attempt(rewriter(question, draft, ports), strict=strict)
    if read is None:
        return Followed(notes=(failure("rewriter", error),))
    leads, written = read
    if not leads.grammar:
        return Followed(notes=(UNREAD,), written=written)
    notes = [f"rewriting: {repair}" for repair in leads.repairs]
    notes += cut_note(written, "rewriting")
    claims = tuple(lead for lead in leads.claims if lead.wanted)
    verdicts: Sequence[Verdict] = ()
    if judge is not None:  # the claim stands for the answer, its query for the question
        pairs = [(lead.query, lead.text) for lead in claims]
        judged, error = yield from attempt(judge(pairs), strict=strict)
        verdicts = judged or ()
        if judged is None:
            notes.append(f"{failure('judge', error)}: no claim was left out")
    known = {id(claims[at]) for at, each in enumerate(verdicts) if not each.decision.retrieve}
    asked = [lead.query for lead in leads.questions if lead.wanted]
    asked += [claim.query for claim in claims if id(claim) not in known]
    queries = different(asked)
    if not queries:
        notes.append(ALL_KNOWN)
    return Followed(queries, tuple(notes), leads, claims, tuple(verdicts), written)


def different(queries: Sequence[str]) -> tuple[str, ...]:
    """Keep the first of queries that differ in nothing but case and blanks."""
    once: dict[str, str] = {}
    for query in queries:
        once.setdefault(" ".join(query.casefold().split()), query)
    return tuple(once.values())


def failure(who: str, error: Exception | None) -> str:
    """Return who failed, and how."""
    return f"the {who} failed ({error_line(error)})" if error else ""


def tokens_written(
    heuristic: Heuristic, followed: Followed, verdicts: Sequence[Verdict], count: TokenCounter
) -> dict[str, int]:
    """Count what each model wrote; a gate, which writes nothing, one token a verdict."""
    return {
        "proxy": count(heuristic.written),
        "rewrite": count(followed.written),
        "judge": sum(count(each.written) if each.written else 1 for each in verdicts),
    }
