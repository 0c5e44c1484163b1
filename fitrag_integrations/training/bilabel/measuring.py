"""What a scorer gives for rows that were held out, and how good it is."""

from __future__ import annotations

import copy
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F

from fitrag_integrations.core.extras import require_extra
from fitrag_integrations.evaluation.outcomes import calibration_error
from fitrag_integrations.models.encoder.trunk import Trunk
from fitrag_integrations.models.runtime.placing import cast
from fitrag_integrations.training.bilabel.lists import Lists
from fitrag_integrations.training.bilabel.module import BiLabelModule
from fitrag_integrations.training.loop.parallel import ALONE, Processes
from fitrag_integrations.training.rows import LABELS


def rounded(module: BiLabelModule) -> BiLabelModule:
    """Copy the encoders in bfloat16; the head stays the module's own, and buffers as they are."""
    interaction = module.evidence.interaction
    if interaction is not None:
        interaction = copy.copy(interaction)
        interaction.trunk = _rounded(interaction.trunk)
    return BiLabelModule(
        _rounded(module.trunk),
        module.head,
        module.tokenizer,
        evidence=replace(module.evidence, interaction=interaction),
        weigher=module.weigher,
        batch_tokens=module.batch_tokens,
        listwise=module.listwise,
    )


def _rounded(trunk: Trunk) -> Trunk:
    return cast(copy.deepcopy(trunk), torch.bfloat16)


@torch.inference_mode()
def held_logits(module: BiLabelModule, given: Lists, *, team: Processes = ALONE) -> Tensor:
    """Return the logits of all pairs, on the CPU. Shape: (pairs, 2). Processes share the work."""
    module.eval()
    mine = team.mine(len(given))
    parts = [module.inputs(batch.pairs) for batch in given.batches(mine)]
    found = [module.head(pooled, features).cpu() for pooled, features in parts]
    places = range(*given.pairs_of(mine.start, mine.stop))
    return team.gather(torch.cat([torch.zeros(0, 2), *found]), len(given.labels), places)


def cross_entropy(logits: Tensor, labels: Tensor) -> float:
    """Return the mean cross-entropy over the labels that are known. Shapes: (pairs, 2)."""
    known = ~labels.isnan()
    return float(F.binary_cross_entropy_with_logits(logits[known], labels[known]))


def figures(logits: Tensor, labels: Tensor) -> dict[str, float]:
    """Return AUC and calibration error of each label. Shapes: (pairs, 2)."""
    roc = require_extra("sklearn.metrics", extra="train", feature="the AUC of a fitted scorer")
    found = {}
    for i, name in enumerate(LABELS):
        known = ~labels[:, i].isnan()
        scores, gold = logits[known, i].sigmoid().tolist(), labels[known, i].int().tolist()
        if 0 < sum(gold) < len(gold):  # labels of one kind have none
            found[f"{name} AUC"] = round(float(roc.roc_auc_score(gold, scores)), 4)
        found[f"{name} ECE"] = round(calibration_error(scores, gold), 4)
    return found
