"""Label retrieved passages with the model that reads them; fit the scorer and CRAG's thresholds.

The number of labels decides what is fitted: the weight between the scorer's two labels, with some
hundreds a head over the frozen encoder, with some thousands an adapter. A trained scorer is used
only if it ranks the passages of held-out questions better.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fitrag_integrations.core.extras import installed
from fitrag_integrations.evaluation.ranking import auc
from fitrag_integrations.evaluation.thresholds.fits import fit_actions
from fitrag_integrations.models import BiLabelScorer, RetrievalEvaluator
from fitrag_integrations.models.runtime.saved import embedded_folder
from fitrag_integrations.ports import Scorer
from fitrag_integrations.training.collecting import Question, Told, passage_labels
from fitrag_integrations.training.fitted.oracle import Oracle
from fitrag_integrations.training.fitted.questions import Asked
from fitrag_integrations.training.rows import Labelled, in_lists, split
from fitrag_integrations.types import Context, Excerpt, Passage
from fitrag_integrations.values.thresholds import ActionThresholds

WEIGHTS = (0.5, 0.25, 0.75, 0.0, 1.0)  # the first one stays where no other is better by MARGIN
MARGIN = 0.01  # of the area under the ROC curve
FOR_HEAD, FOR_ADAPTER = 500, 5000  # labelled passages
SCORER = "scorer"


@dataclass(frozen=True, slots=True)
class FittedScorer:
    """Weight between the two labels, the trained scorer, and the AUC of both.

    `folder` is the folder of the trained scorer; None for the bundled one.
    """

    weight: float
    area: float | None
    folder: str | None = None
    trained: str = "nothing"


def label(
    questions: Sequence[Asked], found: Mapping[str, Sequence[Passage]], oracle: Oracle, depth: int
) -> list[Labelled]:
    """Label the first passages of each question.

    The labels are whether a passage contains the answer, and whether the language model answers
    correctly from it.

    Args:
        questions: Questions with answers.
        found: Passages by question.
        oracle: Language model.
        depth: Passages to label of each question.
    """
    rows = [
        Question(one.question, one.answers, tuple(found[one.question][:depth])) for one in questions
    ]
    contexts = [[Context(row.text, (Excerpt.whole(p),)) for p in row.passages] for row in rows]
    labelled = []
    for row, answers in zip(rows, in_lists(oracle.answers, contexts), strict=True):
        labels = passage_labels(row, [None if a is None else Told(a) for a in answers])
        has, prefer = ([one[name] for one in labels] for name in ("has_answer", "llm_prefer"))
        labelled.append(Labelled(row.text, row.passages, tuple(has), tuple(prefer)))
    return [row for row in labelled if row.passages]


def fit_scorer(rows: Sequence[Labelled], out: Path, *, seed: int, train: bool) -> FittedScorer:
    """Fit as much of the scorer as the number of rows allows.

    Args:
        rows: Labeled rows.
        out: Folder of a trained scorer.
        seed: Random seed.
        train: Whether to train a scorer if there are enough labels.
    """
    count = sum(len(row.passages) for row in rows)
    tune = "lora" if count >= FOR_ADAPTER and installed("peft") else "head"
    if not train or count < FOR_HEAD:
        return _weighed(rows, BiLabelScorer.embedded())
    from fitrag_integrations.training.bilabel.fit import BilabelPlan, fit_bilabel

    part, held = split(rows, 0.25, seed)
    plain = _weighed(held, BiLabelScorer.embedded())
    made = out.with_name(f"{out.name}.partial")
    for folder in (made, out):
        shutil.rmtree(folder, ignore_errors=True)
    # from the reader, whose encoder was tuned for pairs already
    fit_bilabel(part, made, BilabelPlan(base=str(embedded_folder("reader")), tune=tune, seed=seed))
    own = _weighed(held, BiLabelScorer.from_pretrained(made))
    if own.area is None or plain.area is None or own.area <= plain.area + MARGIN:
        shutil.rmtree(made)
        return _weighed(rows, BiLabelScorer.embedded())
    made.replace(out)
    return FittedScorer(own.weight, own.area, out.name, f"a {tune}")


def _weighed(rows: Sequence[Labelled], scorer: Scorer) -> FittedScorer:
    """Choose the weight that ranks best what holds the answer and is answered from."""
    scored = in_lists(scorer.score, [row.pairs for row in rows])
    good = [
        [int(bool(has and prefer)) for has, prefer in zip(r.has_answer, r.llm_prefer, strict=True)]
        for r in rows
    ]
    best, chosen = None, WEIGHTS[0]
    for weight in WEIGHTS:
        ranked = [float(one.combine(weight)) for each in scored for one in each]
        area = auc(ranked, [label for each in good for label in each])
        if area is not None and (best is None or area > best + MARGIN):
            best, chosen = area, weight
    return FittedScorer(chosen, best)


def fit_crag(rows: Sequence[Labelled]) -> ActionThresholds | None:
    """Fit the two thresholds of CRAG's actions on the best grades; None if all have an answer."""
    holds = [any(row.has_answer) for row in rows]
    if not 0 < sum(holds) < len(holds):
        return None
    evaluator = RetrievalEvaluator.embedded()
    best = [max(grades) for grades in in_lists(evaluator.evaluate, [row.pairs for row in rows])]
    # as `fitrag calibrate evaluator`
    upper, lower = fit_actions(best, holds, correct=0.85, incorrect=0.8)
    own = evaluator.thresholds
    assert own is not None
    return replace(own, upper=upper, lower=lower, model=evaluator.name)
