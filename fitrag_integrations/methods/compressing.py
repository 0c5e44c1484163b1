"""What one step of a paper makes of given passages: the compressors of both frameworks.

Each is a method's step with the model it calls; its flow ends in a context that has a row for
everything kept and dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fitrag_integrations.core.checks import Count, check_number, check_whole
from fitrag_integrations.defaults import DEFAULTS
from fitrag_integrations.flow import Flow, run
from fitrag_integrations.methods.crag.refiner import Refiner
from fitrag_integrations.methods.defaults import EMBEDDED_SCORER, script_note
from fitrag_integrations.methods.explain.compression import Compression, explained
from fitrag_integrations.methods.fitrag.reducer import TokenReducer, rerank, score_port
from fitrag_integrations.ports import Scorer
from fitrag_integrations.types import Context, Excerpt, Passage
from fitrag_integrations.values.prompt import render_excerpts
from fitrag_integrations.values.selected import Selection
from fitrag_integrations.values.windows import bounded, usable

NUMBERS = (
    "window",
    "stride",
    "weight",
    "max_tokens",
    "max_share",
    "min_tokens",
    "per_passage",
    "min_score",
    "scoring",
)
"""Settings of a token reducer that its context keeps."""


@dataclass(frozen=True, kw_only=True)
class Reranking:
    """Rerank whole passages by the two labels (FIT-RAG, sections 4.2 and 4.4.1)."""

    top_n: int | None = DEFAULTS.top_n
    weight: float = DEFAULTS.weight
    min_score: float | None = DEFAULTS.min_score
    scorer: Scorer | None = None
    deduplicate: bool = DEFAULTS.deduplicate
    max_passages: int | None = DEFAULTS.max_passages
    max_sentences: int | None = DEFAULTS.max_sentences

    def __post_init__(self) -> None:
        """Raise `InputError` for a wrong argument."""
        score_port(self.scorer)
        for name in ("top_n", "max_passages", "max_sentences"):
            if (most := getattr(self, name)) is not None:
                check_whole(name, most, low=1)
        check_number("weight", self.weight, low=0.0, high=1.0)
        if self.min_score is not None:
            check_number("min_score", self.min_score, low=0.0, high=2.0)

    def context(self, question: str, passages: Sequence[Passage]) -> Flow[Context]:
        """Return the flow that ends in the best passages, best first."""
        numbers = {"weight": self.weight, "top_n": self.top_n}
        if self.min_score is not None:
            numbers["min_score"] = self.min_score
        selection = Selection()
        given, notes = usable(passages, deduplicate=self.deduplicate, selection=selection)
        given, ends, more = bounded(
            given,
            max_passages=self.max_passages,
            max_sentences=self.max_sentences,
            selection=selection,
        )
        more += script_note(self.scorer, EMBEDDED_SCORER, question, given)
        kept = yield from rerank(
            question,
            given,
            score_port(self.scorer),
            top_n=self.top_n,
            weight=self.weight,
            min_score=self.min_score,
            deduplicate=self.deduplicate,
            selection=selection,
            ends=ends,
        )
        rows, notes = selection.rows(kept), (*notes, *more)
        return Context(
            question, tuple(kept), notes=notes, method="rerank", details=numbers, selection=rows
        )


@dataclass(frozen=True, kw_only=True)
class Reducing(TokenReducer):
    """Rerank passages to the `top_n` best, and reduce these (FIT-RAG, section 4.4).

    `FitRag` without retrieval: equal passages give equal excerpts. `top_n` None reduces all.
    """

    scorer: Scorer | None = None
    top_n: Count | None = DEFAULTS.top_n

    def __post_init__(self) -> None:
        """Raise `InputError` for a wrong argument."""
        super().__post_init__()
        self.cutting(score_port(self.scorer))

    def context(self, question: str, passages: Sequence[Passage]) -> Flow[Context]:
        """Return the flow that ends in the excerpts kept, best first."""
        port, selection = score_port(self.scorer), Selection()
        reduced = yield from self.reduction(question, passages, port, selection, top_n=self.top_n)
        reducer, _ = self.settled(port)
        details = {
            **{name: getattr(reducer, name) for name in NUMBERS},
            "top_n": self.top_n,
            "tokens_in": reduced.tokens_in,
            "tokens_out": reduced.tokens_out,
        }
        rows = selection.rows(reduced.kept)
        return Context(
            question,
            reduced.kept,
            notes=reduced.notes,
            method="compress",
            details=details,
            selection=rows,
        )

    def cost(self, excerpts: Sequence[Excerpt]) -> int:
        """Count the tokens of excerpts as a prompt shows them."""
        return self.counter(render_excerpts(excerpts))


@dataclass(frozen=True)
class Refining(Refiner):
    """Refine passages to the strips that are about the question (CRAG, section 4.4)."""

    def context(self, question: str, passages: Sequence[Passage]) -> Flow[Context]:
        """Return the flow that ends in the strips kept, in document order."""
        kept = yield from self(question, passages)
        return Context(
            question,
            kept.excerpts,
            notes=kept.notes,
            method="refine",
            details=kept.details,
            selection=kept.selection,
        )


def explain_compression(
    question: str, passages: Sequence[Passage], *, scorer: Scorer | None = None, **settings: Any
) -> Compression:
    """Compress passages as `TokenReducer` does (FIT-RAG, section 4.4.2), and show the reasons.

    Args:
        question: The question; not blank.
        passages: What to compress.
        scorer: An object with `score(pairs)`; None is the bundled one.
        **settings: Other arguments of `TokenReducer`, such as `max_tokens` and `window`.

    Raises:
        InputError: If the question is blank or a setting is wrong.
    """
    step = Reducing(scorer=scorer, **settings)
    return run(explained(step, question, passages)).value
