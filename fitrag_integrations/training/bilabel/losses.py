"""The losses of bi-label learning: per pair (FIT-RAG 4.2), and over each question's list."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor
from torch.nn import functional as F

from fitrag_integrations.training.bilabel.imbalance import group_losses
from fitrag_integrations.training.losses import list_loss

LISTWISE = 0.3


def losses(
    logits: Tensor,
    labels: Tensor,
    sizes: Sequence[int],
    *,
    grouped: bool = False,
    listwise: float = LISTWISE,
) -> dict[str, Tensor]:
    """Return cross-entropy per pair, and `listwise` times the loss per list, none where that is
    0.

    Shapes: logits and labels (pairs, 2), grouped by question into lists of `sizes`. A label that
    is NaN counts for neither. `grouped` splits the first by whether a pair's labels match.
    """
    labels = labels.to(logits.device)
    rank = {"rank": listwise * list_loss(logits, labels, sizes)} if listwise else {}
    if grouped:
        return group_losses(logits, labels) | rank
    # masked, not chosen: how many are known is a question that waits for the device
    known = ~labels.isnan()
    each = F.binary_cross_entropy_with_logits(logits, labels.nan_to_num(), reduction="none")
    return {"point": (each * known).sum() / known.sum().clamp(min=1)} | rank
