"""Fit the eligible augmentation detector (FIT-RAG, section 4.4.2) and choose when to stop.

The paper specifies four layers and nothing else of the training. Here: AdamW, early stopping, and
cross-validation by question. Predictions for held-out folds give the figures, the temperature and
the threshold; then one network is trained on all questions, for the median number of epochs.

The paper's label is whether the answer from a combination is right. A question answered wrongly
from everything then never stops and keeps all its tokens. `label="kept"` instead marks that nothing
is lost: a gold answer is in the combination, or not in the whole list either.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Annotated

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from fitrag_integrations.core.checks import Checked
from fitrag_integrations.core.option import Option
from fitrag_integrations.errors import InputError
from fitrag_integrations.evaluation.thresholds.fits import choose_stop
from fitrag_integrations.models.eligibility import (
    HIDDEN,
    MAX_PAIRS,
    EligibilityDetector,
    score_row,
)
from fitrag_integrations.training.eligibility.rows import (
    BOTH,
    KINDS,
    EligibilityRow,
    Judged,
    eligibility_rows,
)
from fitrag_integrations.training.losses import figures_of, fit_temperatures
from fitrag_integrations.training.options import Seed
from fitrag_integrations.values.thresholds import FittedThreshold


class EligibilityNetwork(nn.Sequential):
    """Network with the logit that a combination is enough. Shapes: (rows, inputs) to (rows, 1).

    `inputs` are two for each of `max_pairs`, and as many again where the rest is seen.
    """

    def __init__(self, inputs: int = 2 * MAX_PAIRS, *, hidden: int = HIDDEN, dropout: float = 0.0):
        layers: list[nn.Module] = []
        for width in (inputs, hidden, hidden):
            layers += [nn.Linear(width, hidden), nn.ReLU(), nn.Dropout(dropout)]
        super().__init__(*layers, nn.Linear(hidden, 1))

    def arrays(self) -> dict[str, NDArray[np.float32]]:
        """Return the weights as the detector has them."""
        return {name: tensor.float().numpy() for name, tensor in self.state_dict().items()}


LABELS = ("kept", "eligible")


@dataclass(frozen=True, slots=True)
class EligibilityPlan(Checked):
    """Settings for training a detector; see `fitrag train eligibility --help`.

    `keep` is the share of the answers in the whole list that stopping must leave, in (0, 1], and
    `max_share` the most tokens that inference will keep anyway, None all.
    """

    combinations: Annotated[
        str, Option("Combinations to train on: random (the paper's), prefixes or both.")
    ] = BOTH
    label: Annotated[
        str, Option("Label: eligible (the paper's, answered right) or kept (no answer lost).")
    ] = "eligible"
    sees_rest: Annotated[
        bool, Option("Also use the scores of the windows left out as features.")
    ] = False
    max_pairs: Annotated[
        int, Option("Number of best windows whose scores are features.", min=1)
    ] = MAX_PAIRS
    hidden: Annotated[int, Option("Units of each layer.", min=1)] = HIDDEN
    dropout: Annotated[float, Option("Dropout.", min=0, max=0.9)] = 0.1
    rate: Annotated[
        float, Option("Learning rate of AdamW.", name="--learning-rate", aliases="--rate", min=0)
    ] = 1e-3
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
        """The kinds of combinations to train on."""
        return KINDS if self.combinations == BOTH else (self.combinations,)

    def __post_init__(self) -> None:
        """Check the numbers before the training starts."""
        Checked.__post_init__(self)
        if self.combinations not in (*KINDS, BOTH):
            allowed = ", ".join((*KINDS, BOTH))
            raise InputError.of("--combinations", given=self.combinations, allowed=allowed)
        if self.label not in LABELS:
            raise InputError.of("label", given=self.label, allowed=", ".join(LABELS))


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
    if not entries or others:
        allowed = "rows labelled with one scorer, window, stride and per_passage"
        raise InputError.of("rows.fitted_for", given=entries[:1] + others[:1], allowed=allowed)
    fitted_for = {"scorer": "", **entries[0]}
    known = eligibility_rows(given)
    if len(known) < 2 * plan.folds:
        allowed = f"at least {2 * plan.folds} questions that need retrieval"
        raise InputError.of("rows", given=len(known), allowed=allowed)
    logits, epochs = _held_out(known, plan)
    labels = [torch.tensor([_label(row, one, plan) for one in row.combinations]) for row in known]
    flat, gold = torch.cat(logits), torch.cat(labels)
    (temperature, _) = fit_temperatures(torch.stack([flat, flat], 1), torch.stack([gold, gold], 1))
    chances = [(one / temperature).sigmoid().tolist() for one in logits]
    stop = choose_stop(known, chances, keep=plan.keep, max_share=plan.max_share)
    network = _trained(known, plan, epochs=epochs)
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


def _label(row: EligibilityRow, one: Judged, plan: EligibilityPlan) -> float:
    if plan.label == "eligible":
        return float(one.eligible)
    return float(one.has_answer or not any(other.has_answer for other in row.combinations))


def _tensors(rows: Sequence[EligibilityRow], plan: EligibilityPlan) -> tuple[Tensor, Tensor]:
    """Return inputs and labels of all combinations of the plan's kinds."""
    chosen = [(row, one) for row in rows for one in row.of(plan.kinds)]
    inputs = torch.tensor([_input(one, plan) for _, one in chosen])
    return inputs, torch.tensor([_label(row, one, plan) for row, one in chosen])


def _input(one: Judged, plan: EligibilityPlan) -> list[float]:
    return score_row(one.scores, plan.max_pairs, rest=one.left if plan.sees_rest else None)


def _held_out(rows: Sequence[EligibilityRow], plan: EligibilityPlan) -> tuple[list[Tensor], int]:
    """Return the logits of each question's combinations by a network that has not seen it.

    Also the epochs that were best, the median over the folds.
    """
    order = list(range(len(rows)))
    random.Random(plan.seed).shuffle(order)
    logits: dict[int, Tensor] = {}
    epochs = []
    for fold in range(plan.folds):
        held = order[fold :: plan.folds]
        train = [rows[i] for i in order if i not in set(held)]
        network, best = _stopped_early(train, [rows[i] for i in held], plan)
        epochs.append(best)
        with torch.inference_mode():
            for i in held:
                inputs = torch.tensor([_input(one, plan) for one in rows[i].combinations])
                logits[i] = network(inputs).squeeze(1)
    return [logits[i] for i in range(len(rows))], max(1, round(median(epochs)))


def _stopped_early(
    train: Sequence[EligibilityRow], held: Sequence[EligibilityRow], plan: EligibilityPlan
) -> tuple[EligibilityNetwork, int]:
    """Train until the loss of the held-out questions has not fallen for `patience` epochs."""
    inputs, labels = _tensors(held, plan)
    best, since, states = float("inf"), 0, list[dict[str, Tensor]]()

    def stop(network: EligibilityNetwork) -> bool:
        nonlocal best, since
        with torch.inference_mode():
            loss = float(F.binary_cross_entropy_with_logits(network(inputs).squeeze(1), labels))
        since = 0 if loss < best - 1e-4 else since + 1
        if not since:
            best = loss
        states.append({name: value.clone() for name, value in network.state_dict().items()})
        return since >= plan.patience

    network = _trained(train, plan, epochs=plan.epochs, stop=stop)
    chosen = len(states) - 1 - since
    network.load_state_dict(states[chosen])
    return network.eval(), chosen + 1


def _trained(
    rows: Sequence[EligibilityRow],
    plan: EligibilityPlan,
    *,
    epochs: int,
    stop: Callable[[EligibilityNetwork], bool] = lambda network: False,
) -> EligibilityNetwork:
    inputs, labels = _tensors(rows, plan)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(plan.seed)
        network = EligibilityNetwork(inputs.shape[1], hidden=plan.hidden, dropout=plan.dropout)
        optimizer = torch.optim.AdamW(
            network.parameters(), lr=plan.rate, weight_decay=plan.weight_decay
        )
        for _ in range(epochs):
            network.train()
            for chosen in torch.randperm(len(inputs)).split(plan.batch):
                logits = network(inputs[chosen]).squeeze(1)
                optimizer.zero_grad()
                F.binary_cross_entropy_with_logits(logits, labels[chosen]).backward()
                optimizer.step()
            network.eval()
            if stop(network):
                break
    return network
