"""The losses of the papers, one file each, to train with or to import into other trainers."""

from fitrag_integrations.training.losses.imbalance import Imbalance, Weigher, group_losses
from fitrag_integrations.training.losses.listwise import list_loss
from fitrag_integrations.training.losses.spans import span_loss, span_or_nowhere_loss

__all__ = [
    "Imbalance",
    "Weigher",
    "group_losses",
    "list_loss",
    "span_loss",
    "span_or_nowhere_loss",
]
