"""The detector's network, as it is trained."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import nn

from fitrag_integrations.models.eligibility import HIDDEN, MAX_PAIRS


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
