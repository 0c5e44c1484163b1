"""Score pairs with a rerank server; nothing here requires PyTorch.

TEI, Cohere, Jina, Voyage, vLLM, llama.cpp and Infinity each get their own fields and limits. Some
servers reject unknown fields (Cohere, 422), so only those of the dialect are sent.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fitrag_integrations.core.checks import check_number, check_text
from fitrag_integrations.core.http import finish
from fitrag_integrations.core.record import Row
from fitrag_integrations.core.show import shortened
from fitrag_integrations.errors import PortError, RefusedError, raise_if, refuse_if
from fitrag_integrations.models.encoder.items import of_logits
from fitrag_integrations.models.encoder.pairs import Pair, checked_pairs
from fitrag_integrations.models.remote.client import OpenAIClient, RequestError
from fitrag_integrations.types import BiLabelScore, Excerpt, Passage
from fitrag_integrations.values.excerpt import grouped
from fitrag_integrations.values.score import logit

CONTENT = {400, 413, 422}  # status codes by which one document may fail its whole request
SIZE = re.compile(r"too (?:large|long|big|many)|exceed|length|maximum|batch size", re.IGNORECASE)
SPLITS = 64
"""Maximum number of refused requests of one call that are split in halves."""
PAYLOAD = 1_500_000  # bytes of texts in a request; the smallest known limit is 2,000,000
SURE = 1e-6  # a probability this near to 0 or 1 has no finite logit


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """Request and response format of one kind of rerank server.

    Args:
        path: Path of the endpoint.
        most: Maximum number of documents in a request.
        score: Field of the score in a result.
        raw: Whether the score is a logit, not a probability.
        query: Field of the query in a request.
        documents: Field of the documents in a request.
        found: Field of the list of results; None if the response is the list.
        needs_model: Whether a model must be named.
        takes_model: Whether a model may be named.
        always: Fields of every request, such as truncation where the server would reject long
            texts.
    """

    path: str
    most: int
    score: str
    raw: bool
    query: str = "query"
    documents: str = "documents"
    found: str | None = "results"
    needs_model: bool = False
    takes_model: bool = True
    always: Mapping[str, object] = field(default_factory=dict)


DIALECTS: Mapping[str, Dialect] = {
    "tei": Dialect(
        path="/rerank",
        documents="texts",
        most=32,  # its default; more is answered with 422
        found=None,
        score="score",
        raw=True,
        takes_model=False,
        always={"raw_scores": True, "truncate": True, "truncation_direction": "Right"},
    ),
    "cohere": Dialect(
        path="/v2/rerank", most=1000, score="relevance_score", raw=False, needs_model=True
    ),
    "jina": Dialect(
        path="/v1/rerank",
        most=1000,
        score="relevance_score",
        raw=False,
        needs_model=True,
        always={"return_documents": False},
    ),
    "voyage": Dialect(
        path="/v1/rerank",
        most=1000,
        found="data",
        score="relevance_score",
        raw=False,
        needs_model=True,
        always={"return_documents": False, "truncation": True},
    ),
    "vllm-score": Dialect(
        path="/v1/score",  # guarded by the server's key, which /score is not
        query="text_1",
        documents="text_2",
        most=512,
        found="data",
        score="score",
        raw=False,
        needs_model=True,
        always={"truncate_prompt_tokens": -1},
    ),
    "llamacpp": Dialect(path="/v1/rerank", most=256, score="relevance_score", raw=True),
    "infinity": Dialect(
        path="/rerank",
        most=2048,
        score="relevance_score",
        raw=True,
        always={"raw_scores": True, "return_documents": False},
    ),
}


class RemoteScorer:
    """Scorer that calls a served reranker, in the place of FIT-RAG's scorer (section 4.2).

    Scores are matched by the server's `index`. If a request is rejected for its size or content,
    it is split in halves, so that a single document fails alone; its item is a `RefusedError`.

    Args:
        url: Address of the server, with or without the dialect's path.
        dialect: One of `tei`, `cohere`, `jina`, `voyage`, `vllm-score`, `llamacpp`, `infinity`.
        model: Served model name; TEI does not need one.
        api_key: String, or object with `get_secret_value`.
        scale: Factor of the logit: `has_answer` is sigmoid(scale * logit + shift), in [0, 1].
        shift: Shift of the logit. Fit both on labeled rows; `llm_prefer` is None.
        raw: Whether the server returns logits, if it differs from its dialect.
        timeout: Seconds for one attempt of a request.
        max_retries: Maximum number of retries of a request.
        concurrency: Maximum number of concurrent requests.
        most: Maximum number of documents in a request. Defaults to the dialect's limit.
        deadline: Seconds for a request with its retries. Defaults to four times `timeout`.

    Raises:
        InputError: If an argument is invalid.

    Example:
        >>> scorer = RemoteScorer("http://localhost:8080", dialect="tei")
        >>> retriever = FitRagRetriever(base=base, scorer=scorer)
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
        deadline: float | None = None,
    ) -> None:
        refuse_if(dialect not in DIALECTS, "dialect", dialect, ", ".join(DIALECTS))
        known = DIALECTS[dialect]
        self._dialect = known if raw is None else replace(known, raw=bool(raw))
        if most is not None:
            most = int(check_number("most", most, low=1, high=known.most))
            self._dialect = replace(self._dialect, most=most)
        self._model = check_text("model", model)
        refuse_if(known.needs_model and not model, "model", model, f"a name, which {dialect} needs")
        self._scale = check_number("scale", scale, low=1e-6)
        self._shift = check_number("shift", shift)
        server = check_text("url", url, blank=False).rstrip("/").removesuffix(known.path)
        if deadline is None:
            deadline = 4 * check_number("timeout", timeout, low=0.001)
        self._client = OpenAIClient(
            server,
            api_key=api_key,
            timeout=timeout,
            max_retries=max_retries,
            concurrency=concurrency,
            deadline=deadline,
            replies=list if known.found is None else dict,
        )
        self.name = model or f"{dialect} at {self._client.base_url}"

    def score(self, pairs: Sequence[Pair]) -> list[BiLabelScore | Exception]:
        """Score pairs of question and passage.

        Args:
            pairs: Pairs of a question and a `Passage`.

        Returns:
            The labels of each pair, in order, or a `PortError` in place of those that failed.

        Raises:
            InputError: If an item is not a question and a passage with text; names the first one.
        """
        return finish(lambda: self.ascore(pairs))

    async def ascore(self, pairs: Sequence[Pair]) -> list[BiLabelScore | Exception]:
        """Async version of `score`; canceling it ends the requests."""
        return [
            row if isinstance(row, Exception) else self._label(number(self._dialect, row))
            for row in await self._rows(checked_pairs(pairs))
        ]

    def evaluate(self, pairs: Sequence[Pair]) -> list[float | Exception]:
        """Grade each pair, as `2 * has_answer - 1`.

        Args:
            pairs: Pairs of a question and a `Passage`.

        Returns:
            The grade of each pair in [-1, 1], in order, or a `PortError` in place of those that
            failed.

        Raises:
            InputError: If an item is not a question and a passage with text; names the first one.
        """
        return finish(lambda: self.aevaluate(pairs))

    async def aevaluate(self, pairs: Sequence[Pair]) -> list[float | Exception]:
        """Async version of `evaluate`; grades in [-1, 1]."""
        return [
            score if isinstance(score, Exception) else 2.0 * score.has_answer - 1.0
            for score in await self.ascore(pairs)
        ]

    def excerpts(
        self, pairs: Sequence[Pair], *, threshold: float = 0.1
    ) -> list[tuple[Excerpt, ...] | Exception]:
        """Return the spans of each passage that a Cohere reranker (Rerank 5) finds relevant.

        Args:
            pairs: Pairs of a question and a `Passage`.
            threshold: Minimum relevance of a span, in [0, 1].

        Returns:
            For each pair a tuple of excerpts in source order, possibly empty, or a `PortError`.

        Raises:
            InputError: For any other dialect.
        """
        return finish(lambda: self.aexcerpts(pairs, threshold=threshold))

    async def aexcerpts(
        self, pairs: Sequence[Pair], *, threshold: float = 0.1
    ) -> list[tuple[Excerpt, ...] | Exception]:
        """Async version of `excerpts`.

        Args:
            pairs: Pairs of a question and a `Passage`.
            threshold: Minimum relevance of a span, in [0, 1].
        """
        path = self._dialect.path
        refuse_if(path != DIALECTS["cohere"].path, "dialect", path, "'cohere' for excerpts")
        low = check_number("threshold", threshold, low=0.0, high=1.0)
        asked = checked_pairs(pairs)
        extra: dict[str, object] = {"relevant_spans": {"mode": "enabled", "threshold": low}}
        found: list[tuple[Excerpt, ...] | Exception] = []
        for row, (_, passage) in zip(await self._rows(asked, extra), asked, strict=True):
            if isinstance(row, Exception):
                found.append(row)
                continue
            text = _text(passage)
            before = len(text) - len(passage.text)  # the title
            found.append(
                tuple(
                    Excerpt(passage, max(0, start - before), end - before, score)
                    for start, end, score in spans(row, text)
                    if end > before
                )
            )
        return found

    async def _rows(
        self, pairs: Sequence[Pair], extra: Mapping[str, object] | None = None
    ) -> list[Row | Exception]:
        """Return the server's result for each pair, or its error."""
        found: list[Any] = [None] * len(pairs)
        splits = SPLITS

        async def ask(places: Sequence[int]) -> None:
            nonlocal splits
            texts = [_text(pairs[at][1]) for at in places]
            body = request(self._dialect, self._model, pairs[places[0]][0], texts)
            try:
                reply = await self._client.post(self._dialect.path, {**body, **(extra or {})})
                rows: list[Any] = list(results(self._dialect, reply, len(places)))
                for row in rows:
                    number(self._dialect, row)
            except PortError as error:
                status = error.status if isinstance(error, RequestError) else None
                one = status in CONTENT or (status == 500 and SIZE.search(str(error)) is not None)
                if len(places) > 1 and splits and one:  # it may go without one of them
                    splits -= 1
                    half = len(places) // 2
                    await ask(places[:half])
                    await ask(places[half:])
                    return
                rows = [error] * len(places)
                if one and len(places) == 1:
                    rows = [RefusedError(str(error))]
                    rows[0].status = status
            for at, row in zip(places, rows, strict=True):
                found[at] = row

        async with asyncio.TaskGroup() as group:  # canceling one cancels the others
            for places in _requests(pairs, self._dialect.most):
                group.create_task(ask(places))
        return found

    def _label(self, value: float) -> BiLabelScore:
        given = value if self._dialect.raw else logit(value, SURE)
        return of_logits(self._scale * given + self._shift)

    def __repr__(self) -> str:
        return f"RemoteScorer({self._client.base_url!r}, model={self._model!r})"


def request(
    dialect: Dialect, model: str, query: str, documents: Sequence[str]
) -> dict[str, object]:
    """Build the body of a request for the scores of documents for one query."""
    return {
        **({"model": model} if model and dialect.takes_model else {}),
        dialect.query: query,
        dialect.documents: list(documents),
        **dialect.always,
    }


def results(dialect: Dialect, reply: object, count: int) -> list[Row]:
    """Return the results in the order of the documents, by their `index`.

    Raises `PortError` unless each of the `count` documents has exactly one result.
    """
    rows = reply if dialect.found is None else _field(reply, dialect.found)
    if not isinstance(rows, list):
        raise PortError(f"the response's list of scores is {type(rows).__name__}, not a list")
    ordered: list[Row | None] = [None] * count
    for row in rows:
        at = _field(row, "index")
        raise_if(
            not isinstance(at, int) or isinstance(at, bool) or not 0 <= at < count,
            PortError,
            f"the response has index {at!r}, expected 0 to {count - 1}",
        )
        raise_if(ordered[at] is not None, PortError, f"the response has index {at} twice")
        ordered[at] = row
    there = [row for row in ordered if row is not None]
    raise_if(
        len(there) < count,
        PortError,
        f"the response has {len(there)} scores for {count} documents",
    )
    return there


def number(dialect: Dialect, row: Row) -> float:
    """Return a score. Raises `PortError` unless it is finite, and in [0, 1] if not a logit."""
    value = _finite(_field(row, dialect.score))
    raise_if(
        not dialect.raw and not 0.0 <= value <= 1.0,
        PortError,
        f"the response has the score {value!r}, expected a probability: "
        "pass raw=True if the server returns logits",
    )
    return value


def spans(row: Row, text: str) -> list[tuple[int, int, float]]:
    """Parse a Cohere reranker's relevant spans: [start, end) in code points, and their scores.

    Raises `PortError` for a span outside the text.
    """
    found = []
    given = row.get("relevant_spans") or ()
    raise_if(
        not isinstance(given, list | tuple),
        PortError,
        f"the response's list of spans is {type(given).__name__}, not a list",
    )
    for span in given:
        start, end, score = (_field(span, name) for name in ("start", "end", "score"))
        whole = all(isinstance(n, int) and not isinstance(n, bool) for n in (start, end))
        raise_if(
            not whole or not 0 <= start < end <= len(text),
            PortError,
            f"the response has the span {shortened(span)} in a text of {len(text)}",
        )
        found.append((start, end, _finite(score)))
    return sorted(found)


def _text(passage: Passage) -> str:
    return f"{passage.title}. {passage.text}" if passage.title else passage.text


def _requests(pairs: Sequence[Pair], most: int) -> list[list[int]]:
    """Group the places of pairs by question, within the limits of a request."""
    made: list[list[int]] = []
    for places in grouped(range(len(pairs)), lambda at: pairs[at][0]).values():
        size = PAYLOAD
        for at in places:
            cost = 2 * len(_text(pairs[at][1]).encode())  # escapes may double it
            if size + cost > PAYLOAD or len(made[-1]) >= most:
                made.append([])
                size = 0
            made[-1].append(at)
            size += cost
    return made


def _finite(value: Any) -> float:
    """Return a finite number; raise `PortError` for any other value."""
    try:
        found = math.nan if isinstance(value, bool | str) else float(value)
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    if not math.isfinite(found):
        raise PortError(f"the response has the score {shortened(value)}, which is no finite number")
    return found


def _field(row: object, name: str) -> Any:
    if not isinstance(row, Mapping) or name not in row:
        raise PortError(f"the response has no {name!r} where one was expected")
    return row[name]
