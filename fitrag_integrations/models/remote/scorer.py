"""Score pairs through a rerank server that is already there; nothing here needs torch.

TEI, Cohere, Jina, Voyage, vLLM, llama.cpp and Infinity are spoken to, each in its own fields and
within its own limits.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from fitrag_integrations.core.checks import check_many, check_number, check_text
from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import InputError, PortError
from fitrag_integrations.models.remote.client import OpenAIClient, Refused, finish
from fitrag_integrations.models.remote.dialects import (
    DIALECTS,
    number,
    request,
    results,
    spans,
)
from fitrag_integrations.types import BiLabelScore, Excerpt, Passage

Pair = tuple[str, Passage]
ONE_TO_BLAME = {400, 413, 422, 500}  # a status by which one document may fail its whole request
PAYLOAD = 1_500_000  # bytes of texts in a request; the smallest limit known is 2,000,000
SURE = 1e-6  # a probability this near to 0 or 1 has no finite logit to speak of


class RemoteScorer:
    """Score (question, passage) pairs by a served reranker, in the place of FIT-RAG's scorer (4.2).

    `url` is the server's, with or without the dialect's path; `dialect` one of `tei`, `cohere`,
    `jina`, `voyage`, `vllm-score`, `llamacpp` and `infinity`; `model` the served name, which TEI
    does without; `api_key` a string or an object with `get_secret_value`. A relevance becomes
    `has_answer`, in [0, 1], as the logistic function of `scale` times its logit plus `shift`,
    fitted on labelled rows where they are not 1 and 0; `llm_prefer` is None, since no reranker
    knows it. `raw` says that the server answers with logits, where it does otherwise than its
    dialect. `timeout` is in seconds and for one try, `max_retries` further tries of a request,
    `concurrency` requests open at once, `most` documents in one.

    Scores are matched by the server's `index`. A request that is refused for its content is asked
    in halves, so that one document fails alone: its item is a `PortError` in the place of a score.
    """

    def __init__(
        self,
        url: str,
        *,
        dialect: str,
        model: str = "",
        api_key: object = None,
        scale: float = 1.0,
        shift: float = 0.0,
        raw: bool | None = None,
        timeout: float = 60.0,
        max_retries: int = 4,
        concurrency: int = 8,
        most: int | None = None,
    ) -> None:
        if dialect not in DIALECTS:
            raise InputError.of("dialect", given=dialect, allowed=", ".join(DIALECTS))
        known = DIALECTS[dialect]
        self._dialect = known if raw is None else replace(known, raw=bool(raw))
        if most is not None:
            most = int(check_number("most", most, low=1, high=known.most))
            self._dialect = replace(self._dialect, most=most)
        self._model = check_text("model", model)
        if known.needs_model and not model:
            raise InputError.of("model", given=model, allowed=f"a name, which {dialect} needs")
        self._scale = check_number("scale", scale, low=1e-6)
        self._shift = check_number("shift", shift)
        self._client = OpenAIClient(
            check_text("url", url, blank=False).rstrip("/").removesuffix(known.path),
            api_key=api_key,
            timeout=timeout,
            max_retries=max_retries,
            concurrency=concurrency,
            replies=list if known.found is None else dict,
        )
        self.name = model or f"{dialect} at {self._client.base_url}"

    def score(self, pairs: Sequence[Pair]) -> list[BiLabelScore | Exception]:
        """Give the labels of each pair, in the order given; one that fails is a `PortError`.

        Raises `InputError` naming the first item that is no pair of a question and a passage.
        """
        return finish(lambda: self.ascore(pairs))

    async def ascore(self, pairs: Sequence[Pair]) -> list[BiLabelScore | Exception]:
        """Do what `score` does without blocking the event loop; cancelling it ends the requests."""
        return [
            row if isinstance(row, Exception) else self._label(number(self._dialect, row))
            for row in await self._rows(checked_pairs(pairs))
        ]

    def evaluate(self, pairs: Sequence[Pair]) -> list[float | Exception]:
        """Grade each pair in [-1, 1], as `2 * has_answer - 1`, in the order given."""
        return finish(lambda: self.aevaluate(pairs))

    async def aevaluate(self, pairs: Sequence[Pair]) -> list[float | Exception]:
        """Do what `evaluate` does, in [-1, 1], without blocking the event loop."""
        return [
            score if isinstance(score, Exception) else 2.0 * score.has_answer - 1.0
            for score in await self.ascore(pairs)
        ]

    def excerpts(
        self, pairs: Sequence[Pair], *, threshold: float = 0.1
    ) -> list[tuple[Excerpt, ...] | Exception]:
        """Cut each passage to what a Cohere reranker finds relevant in it, in source order.

        Gives a tuple of excerpts per pair, empty where nothing reaches `threshold`, in [0, 1]; a
        pair that fails is a `PortError`. Needs a model of Cohere's Rerank 5. Raises `InputError`
        for any other dialect.
        """
        return finish(lambda: self.aexcerpts(pairs, threshold=threshold))

    async def aexcerpts(
        self, pairs: Sequence[Pair], *, threshold: float = 0.1
    ) -> list[tuple[Excerpt, ...] | Exception]:
        """Do what `excerpts` does without blocking the event loop."""
        if self._dialect.path != DIALECTS["cohere"].path:
            raise InputError.of(
                "dialect", given=self._dialect.path, allowed="'cohere' for excerpts"
            )
        low = check_number("threshold", threshold, low=0.0, high=1.0)
        asked = checked_pairs(pairs)
        extra: dict[str, object] = {"relevant_spans": {"mode": "enabled", "threshold": low}}
        rows = await self._rows(asked, extra)
        return [
            row if isinstance(row, Exception) else self._cut(row, passage)
            for row, (_, passage) in zip(rows, asked, strict=True)
        ]

    async def _rows(
        self, pairs: Sequence[Pair], extra: dict[str, object] | None = None
    ) -> list[Row | Exception]:
        """Give what the server says of each pair, or the error that befell it."""
        found: list[Any] = [None] * len(pairs)

        async def ask(places: Sequence[int]) -> None:
            for at, row in zip(places, await self._asked(pairs, places, extra or {}), strict=True):
                found[at] = row

        async with asyncio.TaskGroup() as group:  # the first to be cancelled cancels the others
            for places in _requests(pairs, self._dialect.most):
                group.create_task(ask(places))
        return found

    async def _asked(
        self, pairs: Sequence[Pair], places: Sequence[int], extra: dict[str, object]
    ) -> list[Row | Exception]:
        question = pairs[places[0]][0]
        texts = [_text(pairs[at][1]) for at in places]
        body = request(self._dialect, self._model, question, texts) | extra
        try:
            reply = await self._client.post(self._dialect.path, body)
            rows: list[Any] = list(results(self._dialect, reply, len(places)))
            for row in rows:
                number(self._dialect, row)
        except PortError as error:
            status = error.status if isinstance(error, Refused) else None
            if len(places) == 1 or status not in ONE_TO_BLAME:
                return [error for _ in places]
            half = len(places) // 2
            first = await self._asked(pairs, places[:half], extra)
            return first + await self._asked(pairs, places[half:], extra)
        return rows

    def _label(self, value: float) -> BiLabelScore:
        if not self._dialect.raw:
            kept = min(1.0 - SURE, max(SURE, value))
            value = math.log(kept / (1.0 - kept))
        logit = self._scale * value + self._shift
        return BiLabelScore(_sigmoid(logit), has_answer_logit=logit)

    def _cut(self, row: Row, passage: Passage) -> tuple[Excerpt, ...]:
        lead = len(_text(passage)) - len(passage.text)
        return tuple(
            Excerpt(passage, max(0, start - lead), end - lead, score)
            for start, end, score in spans(row, _text(passage))
            if end > lead
        )

    def __repr__(self) -> str:
        return f"RemoteScorer({self._client.base_url!r}, model={self._model!r})"


def checked_pairs(pairs: Sequence[Pair]) -> list[Pair]:
    """Check pairs at the door. Raises `InputError` naming the first that is none."""
    checked = []
    for i, pair in enumerate(check_many("pairs", pairs, tuple)):
        if len(pair) != 2 or not isinstance(pair[1], Passage):
            raise InputError.of(f"pairs[{i}]", given=pair, allowed="a question and a Passage")
        checked.append((check_text(f"pairs[{i}][0]", pair[0], blank=False), pair[1]))
    return checked


def _text(passage: Passage) -> str:
    return f"{passage.title}. {passage.text}" if passage.title else passage.text


def _requests(pairs: Sequence[Pair], most: int) -> list[list[int]]:
    """Put the places of pairs of one question together, as many as a request may hold."""
    groups: dict[str, list[int]] = {}
    for at, (question, _) in enumerate(pairs):
        groups.setdefault(question, []).append(at)
    made: list[list[int]] = []
    for places in groups.values():
        size = PAYLOAD
        for at in places:
            cost = 2 * len(_text(pairs[at][1]).encode())  # escapes may double it
            if size + cost > PAYLOAD or len(made[-1]) >= most:
                made.append([])
                size = 0
            made[-1].append(at)
            size += cost
    return made


def _sigmoid(logit: float) -> float:
    return 1.0 / (1.0 + math.exp(-logit)) if logit >= 0 else 1.0 - 1.0 / (1.0 + math.exp(logit))
