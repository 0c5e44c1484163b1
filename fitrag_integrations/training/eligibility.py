"""Fit the eligible augmentation detector (FIT-RAG, section 4.4.2) and choose when to stop.

The paper specifies four layers and nothing else of the training. Here: AdamW, early stopping, and
cross-validation by question. Predictions for held-out folds give the figures, the temperature and
the threshold; then one network is trained on all questions, for the median number of epochs.

The paper's label is whether the answer from a combination is right. With that label, a question
that is answered wrongly from all passages never stops and keeps all its tokens. `label="kept"`
instead marks combinations that lose nothing: a gold answer is in the combination, or is not in the
whole list either.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Annotated, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from fitrag_integrations.core.checks import Checked
from fitrag_integrations.core.option import Option
from fitrag_integrations.errors import refuse_if
from fitrag_integrations.models.eligibility import (
    HIDDEN,
    MAX_PAIRS,
    EligibilityDetector,
    score_row,
)
from fitrag_integrations.training.calibration import figures_of, fit_temperature
from fitrag_integrations.training.options import Seed
from fitrag_integrations.training.rows import (
    BOTH,
    KINDS,
    Combination,
    eligibility_rows,
)
from fitrag_integrations.training.trainer import only_run
from fitrag_integrations.values.thresholds import FittedThreshold


class EligibilityNetwork(nn.Sequential):
    """Network that predicts whether a combination is enough. Shapes: (rows, inputs) to (rows, 1).

    It has two inputs for each of `max_pairs`, and as many again if the detector sees the rest.
    """

    def __init__(self, inputs: int = 2 * MAX_PAIRS, *, hidden: int = HIDDEN, dropout: float = 0.0):
        layers: list[nn.Module] = []
        for width in (inputs, hidden, hidden):
            layers += [nn.Linear(width, hidden), nn.ReLU(), nn.Dropout(dropout)]
        super().__init__(*layers, nn.Linear(hidden, 1))

    def arrays(self) -> dict[str, NDArray[np.float32]]:
        """Return the weights as the detector has them."""
        return {name: tensor.float().numpy() for name, tensor in self.state_dict().items()}


Labeled: TypeAlias = tuple[Tensor, Tensor]
"""Inputs and labels of combinations. Shapes: (combinations, numbers), (combinations,)."""


@dataclass(frozen=True, slots=True)
class EligibilityPlan(Checked):
    """Settings for training a detector; see `fitrag train eligibility --help`.

    `keep` is the minimum fraction of the list's answers that stopping must keep, in (0, 1].
    `max_share` is the maximum fraction of tokens at inference; None for no limit.
    """

    combinations: Annotated[
        str,
        Option(
            "Combinations to train on: random (the paper's), prefixes or both.",
            among=(*KINDS, BOTH),
        ),
    ] = BOTH
    label: Annotated[
        str,
        Option(
            "Label: eligible (the paper's, answered right) or kept (no answer lost).",
            among=("kept", "eligible"),
        ),
    ] = "eligible"
    sees_rest: Annotated[
        bool, Option("Also use the scores of the windows left out as features.")
    ] = False
    max_pairs: Annotated[
        int, Option("Number of best windows whose scores are features.", min=1)
    ] = MAX_PAIRS
    hidden: Annotated[int, Option("Units of each layer.", min=1)] = HIDDEN
    dropout: Annotated[float, Option("Dropout.", min=0, max=0.9)] = 0.1
    rate: Annotated[float, Option("Learning rate of AdamW.", name="--learning-rate", min=0)] = 1e-3
    weight_decay: Annotated[float, Option("Weight decay of AdamW.", min=0)] = 0.05
    batch: Annotated[int, Option("Combinations per batch.", min=1)] = 64
    epochs: Annotated[int, Option("Maximum number of epochs.", min=1)] = 150
    patience: Annotated[
        int, Option("Epochs without a lower loss before training stops.", min=1)
    ] = 15
    folds: Annotated[int, Option("Folds of the cross-validation.", min=2)] = 5
    keep: Annotated[
        float, Option("Minimum fraction of the answers kept when stopping.", min=0, max=1)
    ] = 0.97
    max_share: Annotated[
        float | None, Option("Maximum fraction of the tokens kept.", min=0, max=1, default="all")
    ] = None
    seed: Seed = 13

    @property
    def kinds(self) -> tuple[str, ...]:
        """Return the kinds of combinations to train on."""
        return KINDS if self.combinations == BOTH else (self.combinations,)


@only_run
def fit_eligibility(
    rows: Iterable[Mapping[str, object]], out: Path, plan: EligibilityPlan
) -> dict[str, float]:
    """Train a detector of sufficient excerpts and save it; equal rows and seeds give equal weights.

    Args:
        rows: Rows of `fitrag label eligibility`.
        out: Folder to write.
        plan: Training settings.

    Returns:
        Figures of the cross-validation: AUC and calibration error over the combinations; and for
        stopping at the threshold the fractions of tokens and answers kept, and the accuracy beside
        that of all excerpts.

    Raises:
        InputError: For rows labeled with different scorers or windows, and for too few questions.
    """
    given = list(rows)
    entries = [one for row in given if isinstance(one := row.get("fitted_for"), dict)]
    others = [one for one in entries if one != entries[0]]
    allowed = "rows labelled with one scorer, window, stride and per_passage"
    refuse_if(not entries or others, "rows.fitted_for", entries[:1] + others[:1], allowed)
    fitted_for = {"scorer": "", **entries[0]}
    known = eligibility_rows(given)
    allowed = f"at least {2 * plan.folds} questions that need retrieval"
    refuse_if(len(known) < 2 * plan.folds, "rows", len(known), allowed)
    inputs = [
        torch.tensor(
            [
                score_row(one.scores, plan.max_pairs, rest=one.left if plan.sees_rest else None)
                for one in row
            ]
        )
        for row in known
    ]
    labels = [torch.tensor([_label(row, one, plan) for one in row]) for row in known]
    trained_on = [
        torch.tensor([bool(set(plan.kinds) & set(one.kinds)) for one in row]) for row in known
    ]

    def table(places: Sequence[int]) -> Labeled:
        """Return the combinations of the plan's kinds of some questions."""
        parts = [(inputs[i][trained_on[i]], labels[i][trained_on[i]]) for i in places]
        own, gold = zip(*parts, strict=True)
        return torch.cat(own), torch.cat(gold)

    order = list(range(len(known)))
    random.Random(plan.seed).shuffle(order)
    logits, counts = [torch.empty(0)] * len(known), list[int]()
    for fold in range(plan.folds):  # each question by a network that has not seen it
        held = order[fold :: plan.folds]
        rest = [i for i in order if i not in set(held)]
        network, count = _trained(table(rest), plan, epochs=plan.epochs, held=table(held))
        counts.append(count)
        with torch.inference_mode():
            for i in held:
                logits[i] = network(inputs[i]).squeeze(1)
    epochs = max(1, round(median(counts)))
    flat, gold = torch.cat(logits), torch.cat(labels)
    temperature = fit_temperature(flat, gold)
    chances = [(one / temperature).sigmoid().tolist() for one in logits]
    stop = choose_stop(known, chances, keep=plan.keep, max_share=plan.max_share)
    network, _ = _trained(table(range(len(known))), plan, epochs=epochs)
    manifest = {
        "fitted_for": fitted_for,
        "max_pairs": plan.max_pairs,
        "sees_rest": plan.sees_rest,
        "temperature": temperature,
        "threshold": FittedThreshold(
            stop["threshold"],
            model=str(fitted_for["scorer"]),
            target=f"{plan.keep:g} of the answers kept",
            rows=len(known),
        ).to_dict(),
        "trained": {**asdict(plan), "questions": len(known), "epochs": epochs},
    }
    EligibilityDetector(network.arrays(), manifest=manifest).save_pretrained(out)
    probabilities = (flat / temperature).sigmoid().tolist()
    return {**figures_of("held out", probabilities, gold.bool().tolist()), **stop}


def choose_stop(
    rows: Sequence[Sequence[Combination]],
    chances: Sequence[Sequence[float]],
    *,
    keep: float,
    max_share: float | None = None,
) -> dict[str, float]:
    """Choose the lowest probability at which to stop, over the prefixes of held-out questions.

    Args:
        rows: Combinations of each question.
        chances: Probability of each combination.
        keep: Minimum fraction of the answers, and of the accuracy of the longest prefix within
            `max_share`, that stopping keeps.
        max_share: Maximum fraction of the tokens; None for all.

    Returns:
        The threshold, 1.0 if no lower one suffices, and the figures of stopping there.
    """
    lists = []
    for row, own in zip(rows, chances, strict=True):
        pairs = [p for p in zip(own, row, strict=True) if "prefixes" in p[1].kinds]
        pairs.sort(key=lambda pair: len(pair[1].scores))  # shortest first
        most = float("inf") if max_share is None else max_share
        if pairs:
            lists.append([pairs[0], *(pair for pair in pairs[1:] if pair[1].share <= most)])
    refuse_if(
        not lists,
        "rows",
        len(rows),
        "rows with prefixes: label them with --combinations prefixes or both",
    )
    longest = [one[-1][1] for one in lists]
    held = fmean(stop.has_answer for stop in longest)
    right = fmean(stop.eligible for stop in longest)
    for threshold in [i / 1000 for i in range(1, 1000)]:
        stops = [
            next((each for chance, each in one if chance >= threshold), last)
            for one, last in zip(lists, longest, strict=True)
        ]
        answers = fmean(stop.has_answer for stop in stops)
        accuracy = fmean(stop.eligible for stop in stops)
        if answers >= keep * held and accuracy >= keep * right:
            break
    else:
        threshold, stops = 1.0, longest
    return {
        "threshold": threshold,
        "share_kept": fmean(stop.share for stop in stops),
        "answers_kept": fmean(stop.has_answer for stop in stops) / held if held else 1.0,
        "accuracy": fmean(stop.eligible for stop in stops),
        "accuracy_of_all": right,
    }


def _label(row: Sequence[Combination], one: Combination, plan: EligibilityPlan) -> float:
    if plan.label == "eligible":
        return float(one.eligible)
    return float(one.has_answer or not any(other.has_answer for other in row))


def _trained(
    table: Labeled, plan: EligibilityPlan, *, epochs: int, held: Labeled | None = None
) -> tuple[EligibilityNetwork, int]:
    """Train a network for some epochs; returns it with the number of epochs that it keeps.

    With `held`, training stops once its loss has not fallen for `patience` epochs, and the best
    weights are kept.
    """
    inputs, labels = table
    lowest, chosen, best = float("inf"), epochs, dict[str, Tensor]()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(plan.seed)
        network = EligibilityNetwork(inputs.shape[1], hidden=plan.hidden, dropout=plan.dropout)
        optimizer = torch.optim.AdamW(
            network.parameters(), lr=plan.rate, weight_decay=plan.weight_decay
        )
        for epoch in range(1, epochs + 1):
            network.train()
            for some in torch.randperm(len(inputs)).split(plan.batch):
                optimizer.zero_grad()
                _loss(network, inputs[some], labels[some]).backward()
                optimizer.step()
            network.eval()
            if held is not None:
                with torch.inference_mode():
                    loss = float(_loss(network, *held))
                if loss < lowest - 1e-4:
                    best = {name: value.clone() for name, value in network.state_dict().items()}
                    lowest, chosen = loss, epoch
                elif epoch - chosen >= plan.patience:
                    break
    if best:
        network.load_state_dict(best)
    return network, chosen


def _loss(network: EligibilityNetwork, inputs: Tensor, labels: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(network(inputs).squeeze(1), labels)
