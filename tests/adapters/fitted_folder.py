"""A folder as `fitrag fit` writes it, without having fitted anything."""

from fitrag_integrations.methods.compose.fitted import Fitted
from fitrag_integrations.values.thresholds import ActionThresholds, FittedThreshold

FITRAG = {"method": "fitrag", "top_n": 4, "weight": 0.25, "max_tokens": 75}
PLAIN = {"method": "direct", "k": 3}


def write_fitted(folder, llm="tuned", recipe=FITRAG, gate="ask"):
    folder.mkdir(parents=True, exist_ok=True)
    threshold = FittedThreshold(0.4, llm) if gate else None
    actions = ActionThresholds(0.6, -0.2)
    Fitted(llm, recipe, gate, threshold, actions, folder=str(folder)).write()
    return folder
