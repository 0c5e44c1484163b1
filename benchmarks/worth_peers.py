"""Ways to shorten retrieved passages, ours and others', each at given fractions of the words.

A way goes from lists and fractions to what it keeps of each list at each fraction. On average over
the lists every way spends the same. Ways that rank sentences fill each list's words exactly, the
last sentence cut where the words end; ways with a setting get the setting that spends as much.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from statistics import fmean
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from compression_rows import Asked
from worth_rows import Vectors, titled

from fitrag_integrations.evaluation.answers import contains_answer
from fitrag_integrations.flow import run_many
from fitrag_integrations.methods import FitRag
from fitrag_integrations.ports import Ports
from fitrag_integrations.text.bm25 import BM25
from fitrag_integrations.types import BiLabelScore, Excerpt, Passage
from fitrag_integrations.values.windows import by_score, merge, windows

TOGETHER = 16  # questions whose flows share calls
CUTOFFS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0)  # of SentenceEmbeddingOptimizer


class Kept(NamedTuple):
    """What is left of one list: whether an answer is, and the fraction of the words."""

    answer: bool
    fraction: float


Ways: TypeAlias = dict[str, Callable[[Sequence[Asked], Sequence[float]], list[list[Kept]]]]


def ways(vectors: Vectors, scorer: Scores) -> Ways:
    """Return each way to shorten under its name, ours first."""
    return {
        "ours": lambda rows, fractions: _ours(rows, fractions, scorer),
        "dense order, cut": filled(
            lambda rows: [list(map(Excerpt.whole, r.passages)) for r in rows]
        ),
        "lead sentences": filled(lambda rows: [_in_turns(_sentences(row)) for row in rows]),
        "sentence cosine": filled(lambda rows: [by_score(_cosine(row, vectors)) for row in rows]),
        "sentence BM25": filled(lambda rows: list(map(by_score, _bm25(rows)))),
        "best per passage, cosine": filled(
            lambda rows: [_in_turns(by_score(_cosine(row, vectors))) for row in rows]
        ),
        "EmbeddingsFilter": lambda rows, fractions: _embeddings_filter(rows, fractions, vectors),
        "SentenceEmbeddingOptimizer": lambda rows, fractions: _optimizer(rows, fractions, vectors),
    }


class Scores:
    """A scorer whose scores are kept, so that a passage is read once for all budgets."""

    def __init__(self, scorer: Any) -> None:
        self.scorer, self.name, self.known = scorer, scorer.name, dict[Any, Any]()

    def score(self, pairs: Sequence[tuple[str, Passage]]) -> list[BiLabelScore]:
        """Return the labels of each pair."""
        return self._known(self.scorer.score, pairs, list(pairs))

    def score_sentences(self, items: Sequence[tuple[str, Passage, Any]]) -> list[Any]:
        """Return the labels of each passage and of its spans."""
        return self._known(self.scorer.score_sentences, items, [(q, p, *s) for q, p, s in items])

    def _known(self, call: Callable[[Any], Any], items: Sequence[Any], keys: list[Any]) -> Any:
        new = {key: item for key, item in zip(keys, items, strict=True) if key not in self.known}
        self.known.update(zip(new, call([*new.values()]) if new else (), strict=True))
        return [self.known[key] for key in keys]

    def wholes(self, row: Asked) -> list[BiLabelScore]:
        """Return the labels of a list's passages, from the reading that also scored sentences."""
        spans = [[(e.start, e.end) for e in windows(p, size=1)] for p in row.passages]
        items = [(row.question, p, s) for p, s in zip(row.passages, spans, strict=True)]
        return [whole for whole, _ in self.score_sentences(items)]


def _ours(rows: Sequence[Asked], fractions: Sequence[float], scorer: Scores) -> list[list[Kept]]:
    """Run `FitRag()` with `max_tokens` in proportion to a list's words; its other options stay."""
    lists = {row.question: row.passages for row in rows}
    ports = Ports(retrieve=lambda questions: [lists[question] for question in questions])

    def kept(rate: float) -> list[Kept]:
        found = []
        for start in range(0, len(rows), TOGETHER):
            some = rows[start : start + TOGETHER]
            flows = [
                FitRag(scorer, max_tokens=max(1, round(rate * _words(row))))(row.question, ports)
                for row in some
            ]
            for row, traced in zip(some, run_many(flows), strict=True):
                found.append(_judged(row, [excerpt.text for excerpt in traced.value.excerpts]))
        return found

    return [_spending(fraction, kept, 1.3 * fraction, 3 * fraction) for fraction in fractions]


def _embeddings_filter(
    rows: Sequence[Asked], fractions: Sequence[float], vectors: Vectors
) -> list[list[Kept]]:
    """Run LangChain's class, or its rule where it is not installed, by a threshold."""
    near = {
        row.question: vectors.near(row.question, list(map(titled, row.passages))) for row in rows
    }

    def kept(below: float) -> list[Kept]:
        return [
            _judged(row, [row.passages[i].text for i in chosen(row, 1 - below)]) for row in rows
        ]

    def by_rule(row: Asked, threshold: float) -> list[int]:
        return [i for i, cosine in enumerate(near[row.question]) if cosine > threshold]

    chosen = _langchain_filter(vectors) or by_rule
    return [_spending(fraction, kept, 0.5, 1.0) for fraction in fractions]


def _langchain_filter(vectors: Vectors) -> Callable[[Asked, float], list[int]] | None:
    if not (find_spec("langchain_classic") and find_spec("langchain_community")):
        return None
    from langchain_classic.retrievers.document_compressors import EmbeddingsFilter
    from langchain_core.documents import Document
    from langchain_core.embeddings import Embeddings

    class Encoded(Embeddings):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return vectors(texts).tolist()

        def embed_query(self, text: str) -> list[float]:
            return vectors([text])[0].tolist()

    def chosen(row: Asked, threshold: float) -> list[int]:
        given = [Document(titled(p), metadata={"at": i}) for i, p in enumerate(row.passages)]
        one = EmbeddingsFilter(embeddings=Encoded(), k=None, similarity_threshold=threshold)
        return [each.metadata["at"] for each in one.compress_documents(given, row.question)]

    return chosen


def _optimizer(
    rows: Sequence[Asked], fractions: Sequence[float], vectors: Vectors
) -> list[list[Kept]]:
    """Run LlamaIndex's class over the first passages of the dense order.

    Taken are, for each fraction, the number of passages and the percentile that keep most answers
    for as many words or fewer.
    """
    from llama_index.core.base.embeddings.base import BaseEmbedding
    from llama_index.core.postprocessor import SentenceEmbeddingOptimizer
    from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

    class Encoded(BaseEmbedding):
        def _get_text_embedding(self, text: str) -> list[float]:
            return vectors([text])[0].tolist()

        def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
            return vectors(texts).tolist()

        def _get_query_embedding(self, query: str) -> list[float]:
            return self._get_text_embedding(query)

        async def _aget_query_embedding(self, query: str) -> list[float]:
            return self._get_text_embedding(query)

    def shortened(row: Asked, cutoff: float) -> list[str]:
        nodes = [NodeWithScore(node=TextNode(text=passage.text)) for passage in row.passages]
        one = SentenceEmbeddingOptimizer(
            embed_model=Encoded(), percentile_cutoff=cutoff, context_before=0, context_after=0
        )
        found = one.postprocess_nodes(nodes, query_bundle=QueryBundle(row.question))
        return [each.node.get_content() for each in found]

    settings = []
    for cutoff in CUTOFFS:
        texts = [shortened(row, cutoff) for row in rows]
        for most in range(1, max(len(row.passages) for row in rows) + 1):
            settings.append([_judged(row, t[:most]) for row, t in zip(rows, texts, strict=True)])
    return [
        max(
            (each for each in settings if _mean(each) <= fraction + 0.005),
            key=lambda each: (fmean(one.answer for one in each), -_mean(each)),
            default=[Kept(False, 0.0) for _ in rows],
        )
        for fraction in fractions
    ]


def _spending(
    fraction: float, kept: Callable[[float], list[Kept]], guess: float, high: float
) -> list[Kept]:
    """Return what the highest setting found keeps that spends the fraction at most, on average."""
    low, setting = 0.0, guess
    best, most = list[Kept](), -1.0
    for _ in range(10):
        mean = _mean(found := kept(setting))
        if mean > fraction:
            high = setting
        else:
            low = setting
            if mean > most:
                best, most = found, mean
            if mean > fraction - 0.002:
                break
        likely = setting * (fraction - 0.001) / mean if mean else high
        setting = likely if low < likely < high else (low + high) / 2
    return best


def filled(
    order: Callable[[Sequence[Asked]], list[list[Excerpt]]],
) -> Callable[[Sequence[Asked], Sequence[float]], list[list[Kept]]]:
    """Build a way that keeps excerpts in an order until the words of a list are spent."""

    def way(rows: Sequence[Asked], fractions: Sequence[float]) -> list[list[Kept]]:
        pairs = list(zip(rows, order(rows), strict=True))
        return [
            [
                _judged(row, [e.text for e in merge(_first(ranked, round(part * _words(row))))])
                for row, ranked in pairs
            ]
            for part in fractions
        ]

    return way


def _first(ranked: Sequence[Excerpt], count: int) -> list[Excerpt]:
    """Return the first `count` words of excerpts."""
    kept = []
    for excerpt in ranked:
        ends = [word.end() for word in re.finditer(r"\S+", excerpt.text)][: max(0, count)]
        if ends:
            kept.append(replace(excerpt, end=excerpt.start + ends[-1]))
        count -= len(ends)
    return kept


def _sentences(row: Asked) -> list[Excerpt]:
    """Return plain sentences: the rivals know nothing of headings and header rows."""
    found = (one for passage in row.passages for one in windows(passage, size=1))
    return [replace(one, lead=()) for one in found]


def _in_turns(excerpts: Sequence[Excerpt]) -> list[Excerpt]:
    """Sort by turns: the first excerpt of each passage, then the second of each, and so on."""
    seen: dict[str, int] = {}
    turns = []
    for excerpt in excerpts:
        seen[excerpt.passage.id] = turn = seen.get(excerpt.passage.id, -1) + 1
        turns.append(turn)
    return [excerpts[i] for i in np.argsort(turns, kind="stable")]


def _cosine(row: Asked, vectors: Vectors) -> list[Excerpt]:
    cut = _sentences(row)
    near = vectors.near(row.question, [one.text for one in cut])
    return [replace(one, score=float(x)) for one, x in zip(cut, near, strict=True)]


def _bm25(rows: Sequence[Asked]) -> list[list[Excerpt]]:
    cut = [_sentences(row) for row in rows]
    score = BM25(one.text for each in cut for one in each)
    return [
        [replace(one, score=score(row.question, one.text)) for one in each]
        for row, each in zip(rows, cut, strict=True)
    ]


def _judged(row: Asked, texts: Sequence[str]) -> Kept:
    spent = sum(len(text.split()) for text in texts)
    return Kept(any(_holds(text, row.answers) for text in texts), spent / _words(row))


@cache
def _holds(text: str, answers: tuple[str, ...]) -> bool:
    return contains_answer(text, answers)


def _words(row: Asked) -> int:
    return sum(len(passage.text.split()) for passage in row.passages)


def _mean(kept: Sequence[Kept]) -> float:
    return fmean(one.fraction for one in kept)
