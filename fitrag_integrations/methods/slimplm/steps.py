"""SlimPLM's steps before retrieval: the heuristic answer, claims and queries, and their filter.

Each is a flow (SlimPLM, sections 3.1 and 3.3). Unless `strict`, a failure becomes a note and leads
to more retrieval instead of an error.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import Any

from fitrag_integrations.core.checks import Checked, can, check_number, check_one, check_text
from fitrag_integrations.core.show import error_line
from fitrag_integrations.flow import Flow, Port
from fitrag_integrations.flow.ask import attempt
from fitrag_integrations.methods.prompts import PROXY, REWRITE_PAPER
from fitrag_integrations.methods.slimplm.claims import REWRITES, parse_claims
from fitrag_integrations.methods.slimplm.judge import NecessityCheck, Verdict
from fitrag_integrations.ports import Ports, pair_port, port_of
from fitrag_integrations.text.cleaning import has_text
from fitrag_integrations.text.replies import strip_thoughts
from fitrag_integrations.types import Context, Draft, Excerpt, Passage
from fitrag_integrations.values.excerpt import unique
from fitrag_integrations.values.prompt import LimitedPrompt, PromptTemplate, cut_note
from fitrag_integrations.values.selected import Selection
from fitrag_integrations.values.slimplm import Lead, Leads
from fitrag_integrations.values.windows import apart, same_text, usable

RRF_K = 60  # the paper's


def fuse(
    rankings: Sequence[Sequence[Passage]], *, rrf_k: float = RRF_K, deduplicate: bool = True
) -> list[Excerpt]:
    """Fuse lists of passages, each best first, into one of whole excerpts, best first.

    A passage scores the sum of `1 / (rrf_k + rank)` over the lists it is in, ranks from 1. Equal
    passages count once in each list, at their best rank, and the first is kept. Blank passages
    occupy a rank and are left out. Ties are ordered by best rank, then by list.

    Args:
        rankings: Lists of passages.
        rrf_k: Smoothing constant, at least 0.
        deduplicate: Whether passages are equal if their texts are, except for blanks; otherwise
            titles and texts must be equal.
    """
    smoothing = check_number("rrf_k", rrf_k, low=0.0)
    found: dict[tuple[str, str], tuple[float, tuple[int, int], Passage]] = {}
    for place, ranking in enumerate(rankings):
        ranks: dict[tuple[str, str], tuple[int, Passage]] = {}  # the best of each with text
        for rank, passage in enumerate(ranking, start=1):
            key = ("", same_text(passage.text)) if deduplicate else (passage.title, passage.text)
            if has_text(passage.text):
                ranks.setdefault(key, (rank, passage))
        for key, (rank, passage) in ranks.items():
            score, best, kept = found.get(key, (0.0, (rank, place), passage))
            found[key] = score + 1.0 / (smoothing + rank), min(best, (rank, place)), kept
    order = sorted(found.values(), key=lambda one: (-one[0], one[1]))
    return [Excerpt.whole(passage, score=score) for score, _, passage in order]


def usable_fused(
    rankings: Sequence[Sequence[Passage]],
    *,
    selection: Selection,
    rrf_k: float = RRF_K,
    deduplicate: bool = True,
) -> tuple[list[Excerpt], tuple[str, ...]]:
    """Fuse lists, and drop what a better passage already shows.

    Overlapping chunks of one source lose the text that a better chunk shows.

    Args:
        rankings: Lists of passages, each best first.
        selection: Records what is dropped.
        rrf_k: As in `fuse`.
        deduplicate: As in `fuse`; without it, overlaps stay.

    Returns:
        Excerpts, best first, and notes on blank passages or an empty result.
    """
    every = [passage for ranking in rankings for passage in ranking]
    usable(every, deduplicate=deduplicate, selection=selection)
    fused = fuse(rankings, rrf_k=rrf_k, deduplicate=deduplicate)
    if deduplicate:
        fused = apart(fused, selection=selection)
    blank = sum(not has_text(passage.text) for passage in every)
    notes = [f"{blank} of {len(every)} passages left out: no text"] if blank else []
    if not fused:
        notes.append("nothing to refer to: no passage with text was retrieved")
    return fused, tuple(notes)


ANSWER_TOKENS = 512  # three times the median of what Llama-2 wrote
REWRITE_TOKENS = 512
_QUESTION = re.compile(r"^\W{0,3}question:", re.IGNORECASE | re.MULTILINE)
NO_REWRITER = "no rewriter and no generate port were given"
UNREAD = "the rewriter wrote no claim and no query that could be read"
ALL_KNOWN = "the claim filter and the rewriter left no query"


@dataclass(frozen=True, slots=True)
class Heuristic:
    """Answer of a proxy; `failed` is the reason if it is empty."""

    text: str = ""
    written: str = ""
    failed: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Followed:
    """Queries to retrieve for, empty if only the question is left, with their origin."""

    queries: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    leads: Leads = field(default_factory=Leads)
    claims: tuple[Lead, ...] = ()  # those with a query
    verdicts: tuple[Verdict, ...] = ()  # one for each of these, or none
    written: str = ""

    def details(self) -> dict[str, object]:
        """Return the rewriter's output, and the verdict on each claim with a query."""
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
    """Build the port of a proxy from the first of `answer`, `draft` and `generate` that it has.

    The first two are called with questions, anything else with the prompt `PROXY`.
    """
    verb = next((verb for verb in ("answer", "draft") if can(proxy, verb)), "generate")
    return port_of("draft", proxy, verb, argument="proxy")


def heuristic_answer(question: str, proxy: object, *, most: int, strict: bool) -> Flow[Heuristic]:
    """Return the flow that ends in the proxy's answer.

    Args:
        question: Question.
        proxy: Proxy model, as in `proxy_port`.
        most: Maximum characters of the answer; a longer one is truncated, with a note.
        strict: Whether a failure raises; otherwise the result has it as `failed`.
    """
    plainly = can(proxy, "answer") or can(proxy, "draft")
    item = LimitedPrompt(
        question if plainly else PROXY.render(Context(question)), tokens=ANSWER_TOKENS
    )

    def answered() -> Flow[str]:
        (answer,) = yield from proxy_port(proxy).ask([item])
        written = answer.text if isinstance(answer, Draft) else answer
        check_text(
            "heuristic answer", answer_in(check_text("heuristic answer", written)), blank=False
        )
        return written

    written, error = yield from attempt(answered(), strict=strict)
    if written is None:
        return Heuristic(failed=failure("proxy", error))
    text = answer_in(written)
    cut = (f"the heuristic answer was cut off after {most} of {len(text)} characters",)
    notes = cut if len(text) > most else cut_note(written, "heuristic answer")
    return Heuristic(text[:most], text, notes=notes)


def answer_in(written: str) -> str:
    """Return a heuristic answer without thoughts, and without a question that was made up."""
    return _QUESTION.split(strip_thoughts(written), 1)[0].strip()


@dataclass(frozen=True)
class Rewriter(Checked):
    """Generator of claims and queries, with their parser.

    Args:
        model: Model that writes them; one with `rewrite(questions, drafts)` has its own prompt.
            Defaults to the caller's language model, with an instruction prompt.
        prompt: Template that any other model continues, or its name: paper (the default), released,
            or instruct.
    """

    model: object = None
    _: KW_ONLY
    prompt: PromptTemplate | str | None = None

    def __post_init__(self) -> None:
        _ = self.template, self.port(Ports())

    @cached_property
    def template(self) -> PromptTemplate:
        """Return the prompt in use."""
        given = self.prompt
        if given is None:
            return REWRITES["instruct"] if self.model is None else REWRITE_PAPER
        if isinstance(given, PromptTemplate):
            return given
        return REWRITES[str(check_one("rewriter_prompt", given, REWRITES))]

    def port(self, ports: Ports) -> Port[Any, str]:
        """Return the port to call; falsy if there is no model at all."""
        if self.model is None:
            return ports.generate
        if can(self.model, "rewrite"):
            return pair_port("rewrite", self.model, "rewrite")
        return port_of("rewrite", self.model, "generate", argument="rewriter")

    def __call__(self, question: str, draft: str, ports: Ports) -> Flow[tuple[Leads, str]]:
        """Return the flow that ends in the leads, and in the text they were parsed from."""
        item: object = (question, draft)
        if not can(self.model, "rewrite"):
            prompt = self.template.render(Context(question, draft=draft))
            item = LimitedPrompt(prompt, tokens=REWRITE_TOKENS)
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
    """Return the flow that makes queries of a heuristic answer.

    The queries are the parts of the question, then those of the unknown claims.

    Args:
        question: Question.
        draft: Heuristic answer.
        rewriter: Rewriter that finds the parts and the claims.
        judge: Judge of the claims; None keeps all claims.
        ports: Ports of the question.
        strict: Whether a failure raises; otherwise it becomes a note.
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
    """Keep the first of several queries that differ only in case and blanks."""
    return tuple(unique(queries, lambda query: " ".join(query.casefold().split())))


def failure(who: str, error: Exception | None) -> str:
    """Return a sentence with the failed step and the error.

    Args:
        who: Name of the step.
        error: Error; None returns a blank text.
    """
    return f"the {who} failed ({error_line(error)})" if error else ""
