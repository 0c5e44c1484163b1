"""SlimPLM: a small proxy model decides when to retrieve, and what for (SlimPLM, section 3).

The proxy writes a heuristic answer, and a judge decides from it whether the question is known. If
not, a rewriter turns the answer into claims and queries, and the same judge leaves out the known
ones. The caller prompts the language model that answers.

Left out: the paper's reranker (E5 over BM25), which belongs to the retriever. The paper does not
specify how the lists of several queries are merged; here it is by reciprocal rank fusion.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property, partial
from typing import Annotated, Literal

from fitrag_integrations.core.checks import (
    Checked,
    Count,
    Share,
    check_many,
    check_number,
    check_text,
    trait,
)
from fitrag_integrations.errors import refuse_if
from fitrag_integrations.flow import Flow
from fitrag_integrations.flow.ask import attempt
from fitrag_integrations.methods.budget import Budget, Counting
from fitrag_integrations.methods.ik.decider import OnError
from fitrag_integrations.methods.ik.gates import is_local, own_gate
from fitrag_integrations.methods.slimplm.judge import NecessityCheck, Verdict
from fitrag_integrations.methods.slimplm.steps import (
    RRF_K,
    Followed,
    Heuristic,
    Rewriter,
    different,
    failure,
    follow,
    heuristic_answer,
    proxy_port,
    usable_fused,
)
from fitrag_integrations.ports import Ports
from fitrag_integrations.text.tokens import CountTokens
from fitrag_integrations.types import Context, Excerpt, Passage, RetrievalDecision
from fitrag_integrations.values.prompt import PromptTemplate
from fitrag_integrations.values.selected import Selection

ALONE = "the question itself is retrieved for"
NOTHING_UNKNOWN = "all that the claims and queries ask is known: nothing is retrieved"
NOT_JUDGED = "the question was not judged: every question is retrieved for"


@dataclass(frozen=True)
class SlimPLM(Counting, Checked):
    """Method that retrieves only what a slim proxy model's answer shows to be missing.

    Nothing is retrieved if the filter leaves no query, as in section 3.1. ``judge_question``,
    ``rewrite`` and ``filter`` set to False are the ablations of the paper's Table 2 (w/o QJ, QR,
    QF).

    Args:
        proxy: Writes the heuristic answer: an object with `answer(questions)`, a `Drafter`, or
            anything that continues prompts; None is the judge's own `drafter`, else the caller's
            language model.
        judge: Judges whether question and claims are known, as in `NecessityCheck`; None asks the
            caller's language model for Yes or No, and judges a local one by how likely its draft
            and the claims are to it (`own_gate`).
        rewriter: Writes claims and queries, as in `Rewriter`; None is the caller's language model.
        rewriter_prompt: A template or the name of one: paper, released or instruct.
        threshold: Threshold of a judge that is a gate, in [0, 1]; None is its own, or 0.5.
        k: Maximum number of passages kept, whole; None is no limit.
        per_query: Maximum number of passages per query; None is no limit.
        rrf_k: Constant of reciprocal rank fusion.
        max_queries: Maximum number of queries, retrieved in one call; None is no limit.
        max_tokens: Token budget of the passages kept; None is no limit.
        count_tokens: Counts the tokens of a text; None estimates them.
        max_draft: Maximum characters of the heuristic answer; the rest is ignored.
        with_question: Retrieve for the question as well.
        judge_question: False retrieves for every question.
        rewrite: False retrieves for the question only.
        filter: False retrieves for every claim.
        when_all_known: "retrieve" retrieves for the question itself if the filter leaves no query;
            "skip" retrieves nothing.
        on_error: "retrieve" continues with more retrieval, and a note, if an earlier step fails;
            "raise" raises the error.
        allow_other_model: Accept a threshold that was fitted for another model.
        deduplicate: Keep equal texts, and text that chunks of one source share, once.

    Raises:
        InputError: If an argument is of the wrong kind or out of range.

    Example:
        >>> SlimPLM(k=3, max_queries=4).k
        3
    """

    proxy: object = None
    judge: object = None
    _: KW_ONLY
    rewriter: object = None
    rewriter_prompt: PromptTemplate | str | None = None
    threshold: Share | None = None
    k: Count | None = 5
    per_query: Count | None = None
    rrf_k: Annotated[float, partial(check_number, low=0.0)] = RRF_K
    max_queries: Count | None = 16
    max_tokens: Count | None = None
    count_tokens: CountTokens = None
    max_draft: Count = 4000
    with_question: bool = False
    judge_question: bool = True
    rewrite: bool = True
    filter: bool = True
    when_all_known: Literal["skip", "retrieve"] = "skip"
    on_error: OnError = "retrieve"
    allow_other_model: bool = False
    deduplicate: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self._judge, self._rewriter  # which check what is given
        if self.proxy is not None:
            proxy_port(self.proxy)

    def __call__(self, question: str, ports: Ports) -> Flow[Context]:
        """Return the flow that ends in the context for one question.

        A known one ends without excerpts. Excerpts are whole passages, best first. Raises
        `InputError` for a blank question or a missing model, and `ThresholdMismatchError` where the
        judge's threshold was fitted for another model than the proxy's, at any `on_error`.
        """
        check_text("question", question, blank=False)
        strict = self.on_error == "raise"

        # the proxy's heuristic answer (section 3.1), unless it would not be used
        heuristic, judge = Heuristic(), None
        if self.judge_question or self.rewrite:
            proxy, judge = self._models(ports)
            writing = heuristic_answer(question, proxy, most=self.max_draft, strict=strict)
            heuristic = yield from writing

        # the judge: does it show the question to be known? (section 3.2)
        decision, failed = RetrievalDecision(True, why=NOT_JUDGED), heuristic.failed
        verdicts = list[Verdict]()
        if self.judge_question and judge and not failed:
            # a local model without a trained judge is judged by its own draft, not by its word
            judging = judge([(question, "" if judge.is_own else heuristic.text)])
            judged, error = yield from attempt(judging, strict=strict)
            verdicts, failed = judged or [], failure("judge", error)
        if failed:
            decision = RetrievalDecision(True, why=f"{failed}: retrieving")
        elif verdicts:
            decision = verdicts[0].decision
        notes = (*heuristic.notes, *(failed,) * bool(failed and not heuristic.failed))
        if judge:
            notes = (*notes, *judge.reads(heuristic.text, self.counter))

        # the rewriter's claims and queries, and which of them are known (section 3.3)
        followed, queries = Followed(), tuple[str, ...]()
        if decision.retrieve:
            followed = Followed(notes=(heuristic.failed,) * bool(heuristic.failed))
            if self.rewrite and not heuristic.failed:
                parts = self._rewriter, judge if self.filter else None, ports
                followed = yield from follow(question, heuristic.text, *parts, strict=strict)
            queries, more = self._asked(question, followed)
            verdicts, notes = [*verdicts, *followed.verdicts], (*notes, *more)
            if not queries:
                decision = replace(decision, retrieve=False, why=NOTHING_UNKNOWN)

        # retrieve for what is left, and fuse the lists
        found = (yield from ports.retrieve.ask(queries)) if queries else []
        selection = Selection()
        kept, left = (yield from self._fused(found, selection)) if queries else ((), ())
        details = {
            "threshold": decision.threshold,
            **followed.details(),
            "retrieved": {query: len(some) for query, some in zip(queries, found, strict=True)},
            "tokens": {  # a gate writes one a verdict
                "proxy": self.counter(heuristic.written),
                "rewrite": self.counter(followed.written),
                "judge": sum(self.counter(one.written) if one.written else 1 for one in verdicts),
            },
        }
        steps = ("judge_question", "rewrite", "filter")
        if off := [name for name in steps if not getattr(self, name)]:
            details["without"] = off
        return Context(
            question,
            kept,
            queries=tuple(query for query in queries if query != question),
            decision=decision,
            draft=heuristic.text or None,
            notes=(*notes, *left),
            method="slimplm",
            details=details,
            selection=selection.rows(kept),
        )

    @cached_property
    def _judge(self) -> NecessityCheck | None:
        if self.judge is None:
            return None
        return NecessityCheck(
            self.judge, threshold=self.threshold, allow_other_model=self.allow_other_model
        )

    @cached_property
    def _rewriter(self) -> Rewriter:
        return Rewriter(self.rewriter, prompt=self.rewriter_prompt)

    def _models(self, ports: Ports) -> tuple[object, NecessityCheck | None]:
        """Return who writes the heuristic answer, and who judges: the caller's, where not given."""
        proxy = trait(self.judge, "drafter", object) if self.proxy is None else self.proxy
        judged = self.judge_question or self.filter
        refuse_if(
            not ports.generate and (proxy is None or (judged and self.judge is None)),
            "SlimPLM asks a language model where it has no proxy or no judge: pass `llm=` "
            "(`--llm`), or `proxy=` and `judge=`.",
        )
        proxy = ports.generate if proxy is None else proxy
        judge = self._judge
        if judge is None:
            local = is_local(ports.generate.owner)
            own = own_gate(ports.generate) if local else ports.generate
            judge = NecessityCheck(own, instructed=not local, is_own=local)
        if judged:
            judge.check_model(proxy)
        return proxy, judge if judged else None

    def _asked(self, question: str, followed: Followed) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return what is retrieved for: nothing where all is known, the question where who
        knows.
        """
        if not followed.queries:
            skips = self.when_all_known == "skip" and not self.with_question
            if followed.leads.grammar and skips:  # read, and nothing of it is unknown
                return (), followed.notes
            notes = [*followed.notes[:-1], *(f"{note}: {ALONE}" for note in followed.notes[-1:])]
            return (question,), tuple(notes)
        queries = different(((question,) * self.with_question) + followed.queries)
        kept = queries[: self.max_queries]
        note = (
            f"{len(queries) - len(kept)} of {len(queries)} queries left out "
            f"by max_queries={self.max_queries}"
        )
        return kept, (*followed.notes, *(note,) * (len(kept) < len(queries)))

    def _fused(
        self, found: Sequence[object], selection: Selection
    ) -> Flow[tuple[tuple[Excerpt, ...], tuple[str, ...]]]:
        lists = [check_many("retrieved", some, Passage)[: self.per_query] for some in found]
        fused, notes = usable_fused(
            lists, rrf_k=self.rrf_k, deduplicate=self.deduplicate, selection=selection
        )
        fused = selection.first(fused, self.k, "k")
        budget = Budget(self.max_tokens, None, f"max_tokens={self.max_tokens}", self.counter)
        fitted = yield from budget.fitted(fused)
        selection.drop(fitted.left, "budget", f"over {budget.limit}")
        return tuple(fitted.kept), (*notes, *fitted.notes)
