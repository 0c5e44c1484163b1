"""`fitrag label eligibility`: from which combinations of sub-documents is the answer right?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from fitrag_integrations.commands.engine import models
from fitrag_integrations.commands.engine.batch import Verb
from fitrag_integrations.commands.engine.options import PerPassage, Stride, Window
from fitrag_integrations.commands.label.combinations import Combining, as_one
from fitrag_integrations.commands.label.engine import FOR_READERS, Asked, AskingPlan, Fields
from fitrag_integrations.core.checks import trait
from fitrag_integrations.core.option import Option
from fitrag_integrations.defaults import DEFAULTS, WINDOWS
from fitrag_integrations.errors import InputError
from fitrag_integrations.flow import Flow
from fitrag_integrations.methods.fitrag.reducer import TokenReducer
from fitrag_integrations.training.asking_llm import AskReader
from fitrag_integrations.training.collecting import Told
from fitrag_integrations.training.eligibility.rows import BOTH, KINDS
from fitrag_integrations.types import Passage

ADDS = ("needs_retrieval", "combinations", "llm", "fitted_for")
NOTHING = Passage("", "")
"""What is asked about where the model has to answer by itself."""


@dataclass(frozen=True)
class LabelEligibility(AskingPlan):
    """Label combinations of sub-documents: does the LLM answer right from them?

    The rows of FIT-RAG's eligible augmentation detector (section 4.4.2). Adds needs_retrieval,
    false where the LLM is right without any passage, and combinations[{kinds, scores, eligible,
    has_answer, share, answer}] of the others. A run that was stopped goes on where it stopped.
    """

    name: ClassVar[str] = "label eligibility"
    depth: Annotated[int, Option("Passages a question before reranking.", min=1)] = 100
    top_n: Annotated[int, Option("Passages the reranker keeps.", min=1)] = DEFAULTS.top_n
    window: Window = DEFAULTS.paper.window
    stride: Stride = DEFAULTS.paper.stride
    per_passage: PerPassage = DEFAULTS.paper.per_passage or 0
    most: Annotated[int, Option("Windows to combine, the best ones.", min=1)] = 10
    combinations: Annotated[
        str, Option("random (the paper's), prefixes (as at inference) or both.")
    ] = BOTH
    draws: Annotated[int, Option("Random draws a question.", min=1)] = 24
    overlap: Annotated[
        float, Option("Share of members two draws may have in common.", min=0, max=1)
    ] = 0.8
    scorer: Annotated[
        str | None, Option("Bi-label scorer's folder.", default="the embedded one")
    ] = None
    seed: Annotated[int, Option("Seed of the questions' order and the draws.")] = 13

    def __post_init__(self) -> None:
        if self.combinations not in (*KINDS, BOTH):
            allowed = ", ".join((*KINDS, BOTH))
            raise InputError.of("--combinations", given=self.combinations, allowed=allowed)

    def verb(self, asked: Asked) -> Verb[Fields]:
        """Answer without passages first, then from each combination if the question needs
        retrieval.
        """
        window, stride, each = self.window, self.stride, self.per_passage or None
        scorer = models.load_scorer(self.hardware.of(self.scorer))
        reducer = TokenReducer(
            window=window, stride=stride, per_passage=each, scoring=WINDOWS, detector=False
        )
        kinds = KINDS if self.combinations == BOTH else (self.combinations,)
        combined = Combining(
            scorer, reducer, self.top_n, self.most, kinds, self.draws, self.overlap, self.seed
        )
        fitted_for = {
            "scorer": trait(scorer, "name", str) or "",
            "window": window,
            "stride": stride,
        }
        questions, may_know = self.questions(), not isinstance(asked.asker, AskReader)

        def flow(row: Mapping[str, object]) -> Flow[Fields]:
            question = yield from questions(row)
            bare = replace(question, passages=(NOTHING,) if may_know else ())
            alone = yield from asked.about(bare)
            needs = not any(isinstance(a, Told) and question.is_right(a.text) for a in alone)
            found = (yield from combined(question.text, question.passages)) if needs else []
            shown = replace(question, passages=tuple(as_one(one.excerpts) for one in found))
            outcomes = yield from asked.about(shown)
            asked.check([*alone, *outcomes])
            labelled = [
                one.to_dict(question, outcome) for one, outcome in zip(found, outcomes, strict=True)
            ]
            fields = {"needs_retrieval": needs, "combinations": labelled}
            return {
                **fields,
                "llm": asked.asker.name,
                "fitted_for": {**fitted_for, "per_passage": each},
            }

        return Verb(flow, lambda traced: traced.value, ADDS, drops=FOR_READERS)

    def counted(self, rows: Iterable[dict[str, object]]) -> tuple[str, dict[str, object]]:
        """Count questions, those known without retrieval, combinations, and error rows."""
        counts = Counter(questions=0, known=0, combinations=0, eligible=0, errors=0)
        for row in rows:
            if row.get("error") is not None:
                counts["errors"] += 1
                continue
            combinations = row["combinations"]
            assert isinstance(combinations, list)
            counts["questions"] += 1
            counts["known"] += not row["needs_retrieval"]
            counts["combinations"] += len(combinations)
            counts["eligible"] += sum(one["eligible"] == 1 for one in combinations)
        return str(dict(counts)), dict(counts)
