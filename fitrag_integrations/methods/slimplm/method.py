"""SlimPLM: a small proxy model tells when to retrieve, and what for (SlimPLM, section 3).

The proxy writes a heuristic answer; a judge says from it whether the question is known; if not, a
rewriter turns it into claims and queries, and the same judge leaves out what is known of those. The
language model that answers is left to the caller.

Left out: the paper's reranker (E5 over BM25), which is the retriever's affair. How the lists of
several queries become one the paper does not say; here it is by reciprocal rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Literal

from fitrag_integrations.core.checks import (
    check_is,
    check_many,
    check_number,
    check_text,
    check_whole,
)
from fitrag_integrations.errors import InputError
from fitrag_integrations.flow import Flow
from fitrag_integrations.methods.budget import Budget
from fitrag_integrations.methods.defaults import EMBEDDED_GENERATOR
from fitrag_integrations.methods.ik.decider import OnError
from fitrag_integrations.methods.slimplm.fusion import RRF_K, usable_fused
from fitrag_integrations.methods.slimplm.judge import Judging, Verdict
from fitrag_integrations.methods.slimplm.steps import (
    Followed,
    Heuristic,
    Rewriter,
    different,
    failure,
    follow,
    followed_up,
    heuristic_answer,
    proxy_port,
    tokens_written,
)
from fitrag_integrations.ports import Ports
from fitrag_integrations.text.tokens import CountTokens, counter_for, counter_or_none
from fitrag_integrations.types import Context, Excerpt, Passage, RetrievalDecision
from fitrag_integrations.values.prompt import PromptTemplate

ALONE = "the question itself is retrieved for"
NOTHING_UNKNOWN = "all that the claims and queries ask is known: nothing is retrieved"
NOT_JUDGED = "the question was not judged: every question is retrieved for"


WhenAllKnown = Literal["skip", "retrieve"]


@dataclass(frozen=True)
class SlimPLM:
    """Retrieve what a slim proxy model's answer shows to be missing.

    `proxy` is an object with `answer(questions)`, a `Drafter`, or anything that continues prompts;
    None is the judge's own `drafter`, else the embedded model. `judge`, `threshold` and
    `allow_other_model` are those of `Judging`, `rewriter` and `rewriter_prompt` those of
    `Rewriter`. All queries, at most `max_queries`, are retrieved for in one ask; their lists, of
    the first `per_query` passages each, are fused with `rrf_k`, and the best `k` passages are kept
    whole, as far as they fit `max_tokens`, as `count_tokens` counts (None estimates). None is no
    limit. Of the heuristic answer the first `max_draft` characters count. `with_question` retrieves
    for the question as well. Where the filter leaves no query nothing is retrieved, as in section
    3.1; with `when_all_known` "retrieve" the question itself is retrieved for.

    The ablations of the paper's Table 2: `judge_question=False` (w/o QJ) retrieves for every
    question, `rewrite=False` (w/o QR) for nothing but the question, `filter=False` (w/o QF) for
    every claim. With `on_error` "retrieve" what fails before retrieval ends in more retrieval and
    a note; "raise" raises it.
    """

    proxy: Any = None
    judge: Any = None
    _: KW_ONLY
    rewriter: Any = None
    rewriter_prompt: PromptTemplate | str | None = None
    threshold: float | None = None
    k: int | None = 5
    per_query: int | None = None
    rrf_k: float = RRF_K
    max_queries: int | None = 16
    max_tokens: int | None = None
    count_tokens: CountTokens = None
    max_draft: int = 4000
    with_question: bool = False
    judge_question: bool = True
    rewrite: bool = True
    filter: bool = True
    when_all_known: WhenAllKnown = "skip"
    on_error: OnError = "retrieve"
    allow_other_model: bool = False

    def __post_init__(self) -> None:
        """Tell of a wrong argument here rather than in the middle of a flow."""
        for name in ("with_question", "judge_question", "rewrite", "filter"):
            check_is(name, getattr(self, name), bool)
        for name in ("k", "per_query", "max_queries", "max_tokens", "max_draft"):
            if getattr(self, name) is not None or name == "max_draft":
                check_whole(name, getattr(self, name), low=1)
        check_number("rrf_k", self.rrf_k, low=0.0)
        object.__setattr__(self, "count_tokens", counter_or_none(self.count_tokens))
        if self.when_all_known not in ("skip", "retrieve"):
            allowed = "'skip' or 'retrieve'"
            raise InputError.of("when_all_known", given=self.when_all_known, allowed=allowed)
        if self.on_error not in ("retrieve", "raise"):
            raise InputError.of("on_error", given=self.on_error, allowed="'retrieve' or 'raise'")
        _ = self.judging, self._rewriter
        if self.proxy is not None:
            proxy_port(self.proxy)

    @property
    def judging(self) -> Judging:
        """Give the judge with this method's threshold."""
        return Judging(
            self.judge, threshold=self.threshold, allow_other_model=self.allow_other_model
        )

    def __call__(self, question: str, ports: Ports) -> Flow[Context]:
        """Give the flow that ends in the context for one question.

        A known one ends without excerpts. Excerpts are whole passages, best first. Raises
        `InputError` for a blank question, and `ThresholdMismatchError` where the judge's threshold
        was fitted for another model than the proxy's, at any `on_error`.
        """
        check_text("question", question, blank=False)

        # the heuristic answer, and whether it shows the question to be known (sections 3.1, 3.2)
        heuristic = yield from self._heuristic(question)
        decision, verdicts = yield from self._decided(question, heuristic)
        notes = (*heuristic.notes, *self.judging.reads(heuristic.text, self._count))

        # claims and queries, and which of them are known (section 3.3)
        followed, queries = Followed(), tuple[str, ...]()
        if decision.retrieve:
            followed = yield from self._followed(question, heuristic, ports)
            queries, more = self._asked(question, followed)
            verdicts, notes = (*verdicts, *followed.verdicts), (*notes, *more)
            if not queries:
                decision = replace(decision, retrieve=False, why=NOTHING_UNKNOWN)

        # retrieve for what is left, and fuse the lists
        found = (yield from ports.retrieve.ask(queries)) if queries else []
        kept, left = (yield from self._fused(question, found)) if queries else ((), ())
        details = {
            "threshold": decision.threshold,
            **followed_up(followed),
            "retrieved": {query: len(some) for query, some in zip(queries, found, strict=True)},
            "tokens": tokens_written(heuristic, followed, verdicts, self._count),
            **self._without(),
        }
        return Context(
            question,
            kept,
            queries=tuple(query for query in queries if query != question),
            decision=decision,
            draft=heuristic.text or None,
            notes=(*notes, *left),
            method="slimplm",
            details=details,
        )

    @property
    def _rewriter(self) -> Rewriter:
        return Rewriter(self.rewriter, prompt=self.rewriter_prompt)

    @property
    def _strict(self) -> bool:
        return self.on_error == "raise"

    def _proxy(self) -> Any:
        if self.proxy is not None:
            return self.proxy
        own = None if self.judge is None else getattr(self.judge, "drafter", None)
        return EMBEDDED_GENERATOR if own is None else own

    def _heuristic(self, question: str) -> Flow[Heuristic]:
        """Ask the proxy, unless nobody is going to read its answer."""
        if not (self.judge_question or self.rewrite):
            return Heuristic()
        proxy = self._proxy()
        if self.judge_question or self.filter:
            self.judging.check_model(proxy)
        return (
            yield from heuristic_answer(question, proxy, most=self.max_draft, strict=self._strict)
        )

    def _decided(
        self, question: str, heuristic: Heuristic
    ) -> Flow[tuple[RetrievalDecision, tuple[Verdict, ...]]]:
        if heuristic.failed:
            return RetrievalDecision(True, why=f"{heuristic.failed}: retrieving"), ()
        if not self.judge_question:
            return RetrievalDecision(True, why=NOT_JUDGED), ()
        try:
            (verdict,) = yield from self.judging([(question, heuristic.text)])
        except Exception as error:
            if self._strict:
                raise
            return RetrievalDecision(True, why=f"{failure('judge', error)}: retrieving"), ()
        return verdict.decision, (verdict,)

    def _followed(self, question: str, heuristic: Heuristic, ports: Ports) -> Flow[Followed]:
        if heuristic.failed:
            return Followed(notes=(heuristic.failed,))
        if not self.rewrite:
            return Followed()
        judging = self.judging if self.filter else None
        return (
            yield from follow(
                question, heuristic.text, self._rewriter, judging, ports, strict=self._strict
            )
        )

    def _asked(self, question: str, followed: Followed) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Give what is retrieved for: nothing where all is known, the question where who knows."""
        if followed.all_known and self.when_all_known == "skip" and not self.with_question:
            return (), followed.notes
        if not followed.queries:
            notes = [*followed.notes[:-1], *(f"{note}: {ALONE}" for note in followed.notes[-1:])]
            return (question,), tuple(notes)
        own = (question,) if self.with_question else ()
        queries = different((*own, *followed.queries))
        kept = queries[: self.max_queries]
        if len(kept) == len(queries):
            return kept, followed.notes
        count = f"{len(queries) - len(kept)} of {len(queries)}"
        note = f"{count} queries left out by max_queries={self.max_queries}"
        return kept, (*followed.notes, note)

    def _fused(
        self, question: str, found: Sequence[Any]
    ) -> Flow[tuple[tuple[Excerpt, ...], tuple[str, ...]]]:
        lists = [check_many("retrieved", some, Passage)[: self.per_query] for some in found]
        fused, notes = usable_fused(lists, rrf_k=self.rrf_k)
        limit = f"max_tokens={self.max_tokens}"
        budget = Budget(self.max_tokens, None, limit, self._count)
        fitted = yield from budget.fitted(fused[: self.k])
        return tuple(fitted.kept), (*notes, *fitted.notes)

    def _count(self, text: str) -> int:
        return counter_for(self.count_tokens)(text)

    def _without(self) -> dict[str, list[str]]:
        steps = ("judge_question", "rewrite", "filter")
        off = [name for name in steps if not getattr(self, name)]
        return {"without": off} if off else {}
