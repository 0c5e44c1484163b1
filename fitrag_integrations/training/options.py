"""The options that several trainers share, as types of their plans' fields."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

from fitrag_integrations.core.option import Argument, Option

Rows: TypeAlias = Annotated[list[Path], Argument("Training rows: .jsonl or .jsonl.gz.")]
Out: TypeAlias = Annotated[Path, Option("Folder or file to write.")]
Seed: TypeAlias = Annotated[int, Option("Random seed.")]
Device: TypeAlias = Annotated[
    str | None, Option("Device, e.g. cpu or cuda:0.", default="a GPU if there is one")
]
Rate: TypeAlias = Annotated[float, Option("Peak learning rate.", name="--learning-rate")]
Steps: TypeAlias = Annotated[int, Option("Number of training steps.")]
Epochs: TypeAlias = Annotated[
    float | None, Option("Passes over the rows, instead of --steps.", default="--steps")
]
Accumulate: TypeAlias = Annotated[
    int,
    Option(
        "Batches per step and process whose gradients are averaged.",
        name="--gradient-accumulation-steps",
        min=1,
    ),
]
Checkpointing: TypeAlias = Annotated[
    bool,
    Option(
        "Enable gradient checkpointing: less memory, slower steps.",
        name="--gradient-checkpointing",
    ),
]
Validation: TypeAlias = Annotated[
    float, Option("Fraction of the questions held out for validation.", min=0, max=0.9)
]
EvaluateEvery: TypeAlias = Annotated[
    int, Option("Steps between evaluations, after which the best weights are kept; 0: none.", min=0)
]
Bfloat16: TypeAlias = Annotated[bool, Option("Run the encoder in bfloat16.")]
EncoderBase: TypeAlias = Annotated[
    str,
    Option("Base encoder: a hub name or a folder; for evaluators and scorers also a reader's."),
]
CausalBase: TypeAlias = Annotated[str, Option("Causal language model: a hub name or a folder.")]
Dropout: TypeAlias = Annotated[float, Option("Dropout of the LoRA adapter.", name="--lora-dropout")]
DraftTokens: TypeAlias = Annotated[int, Option("Maximum tokens of the draft.", min=0)]
JudgedModel: TypeAlias = Annotated[
    str, Option("Model whose knowledge is judged.", default="the one named in the rows")
]
Template: TypeAlias = Annotated[str, Option("Prompt template: paper or released.")]
