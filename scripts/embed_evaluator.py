"""Put the scorer's second label into the package as the evaluator: one encoder, and the same pass.

    python scripts/embed_evaluator.py [--into EMBEDDED]

A grade is 2 * llm_prefer - 1 of the embedded scorer: whether who reads the passage answers rightly.
Of lists really retrieved it tells those with an answer better than an evaluator trained by itself
did (the card has both). The head is the scorer's, in the evaluator's form; thresholds belong to
other grades and are dropped, so `make embedded-fitted` has to come next.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import torch
from torch import Tensor

from fitrag_integrations.models.runtime.folder import (
    both_positive,
    read_manifest,
    read_tensors,
    write_manifest,
    write_tensors,
)

HOME = Path(__file__).resolve().parent.parent / "fitrag_integrations" / "embedded"
NAME = "fitrag-minilm-2"
LABEL = 1
SPAN = 5.0  # an evaluator's head takes the best answer's score divided by it


def main() -> None:
    """Write head and manifest; an encoder of the evaluator's own goes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--into", type=Path, default=HOME)
    folder = parser.parse_args().into / "evaluator"
    scorer = read_manifest(HOME / "bilabel", "model.json", kind="bilabel", needs=("head",))
    tensors = converted(read_tensors(HOME / "bilabel", scorer["head"]))
    shutil.rmtree(folder / "encoder", ignore_errors=True)
    head = {"hidden": scorer["head"]["units"], **write_tensors(folder, "head.safetensors", tensors)}
    fields = {
        "base": scorer["base"],
        "name": NAME,
        "encoder": f"../bilabel/{scorer['encoder']}",
        "head": head,
        "temperature": both_positive(scorer)[LABEL],
        "trained": {"scorer": "fitrag_integrations/embedded/bilabel", "label": "llm_prefer"},
    }
    write_manifest(folder, "model.json", kind="evaluator", fields=fields)


def converted(scorer: dict[str, Tensor]) -> dict[str, Tensor]:
    """Give the evaluator's tensors: the label's line, and the units over unscaled clues."""
    own = {name.removeprefix("head."): tensor.float() for name, tensor in scorer.items()}
    weight = own["units.weight"] * own["scale"]
    hidden = torch.cat([weight[:, :-1], weight[:, -1:] * SPAN], dim=1)
    tensors = {
        "span.weight": own["span.weight"],
        "span.bias": own["span.bias"],
        "hidden.weight": hidden,
        "hidden.bias": own["units.bias"] - weight @ own["shift"],
        "shift": torch.zeros(len(own["shift"]) - 1),
        "scale": torch.ones(len(own["scale"]) - 1),
        "out.weight": own["out.weight"][LABEL : LABEL + 1],
        "out.bias": own["out.bias"][LABEL : LABEL + 1],
        "mixed.weight": own["mixed.weight"][LABEL : LABEL + 1],
        "mixed.bias": torch.zeros(1),
    }
    return {f"head.{name}": t.contiguous() for name, t in tensors.items()} | {
        "rarity": scorer["rarity"]
    }


if __name__ == "__main__":
    main()
