"""The options that several trainers share, as types of their plans' fields."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

from fitrag_integrations.core.option import Argument, Option

Rows: TypeAlias = Annotated[list[Path], Argument("Rows to learn from: .jsonl or .jsonl.gz.")]
Out: TypeAlias = Annotated[Path, Option("Folder or file to write.")]
Pool: TypeAlias = Annotated[Path, Option("Passages (title, text) to find candidates in: .jsonl.")]
Seed: TypeAlias = Annotated[int, Option("Seed of everything random.")]
Device: TypeAlias = Annotated[
    str | None, Option("Such as cpu or cuda:0.", default="a GPU if there is one")
]
Rate: TypeAlias = Annotated[float, Option("Peak learning rate.")]
Steps: TypeAlias = Annotated[int, Option("Steps to take.")]
Epochs: TypeAlias = Annotated[
    float | None, Option("Times to go over the rows, instead of --steps.", default="--steps")
]
Accumulate: TypeAlias = Annotated[
    int, Option("Batches a step, of each process; gradients are averaged.", min=1)
]
Checkpointing: TypeAlias = Annotated[
    bool, Option("Compute activations again for the gradients rather than keep them.")
]
FourBit: TypeAlias = Annotated[
    bool, Option("Hold the base in 4 bits, by bitsandbytes; an adapter trains beside it.")
]
DeviceMap: TypeAlias = Annotated[
    str | None, Option("Spread the base over devices: auto, balanced or sequential.", default="one")
]
Validation: TypeAlias = Annotated[float, Option("Share of questions held out.")]
EvaluateEvery: TypeAlias = Annotated[
    int, Option("Steps between evaluations; the best weights are kept. 0: none.", min=0)
]
Bfloat16: TypeAlias = Annotated[bool, Option("Compute the encoder in bfloat16.")]
EncoderBase: TypeAlias = Annotated[str, Option("Encoder: a hub name, a folder, or a model.")]
CausalBase: TypeAlias = Annotated[str, Option("Causal language model: a hub name or a folder.")]
BatchRows: TypeAlias = Annotated[int, Option("Rows a step.", min=1)]
Rank: TypeAlias = Annotated[int, Option("Rank of the adapter.", min=1)]
Alpha: TypeAlias = Annotated[int, Option("Scale of the adapter.", min=1)]
Dropout: TypeAlias = Annotated[float, Option("Of what goes into the adapter.")]
EpochsOver: TypeAlias = Annotated[float, Option("Times to go over the rows.")]
DraftTokens: TypeAlias = Annotated[int, Option("Tokens of the draft to read.", min=0)]
JudgedModel: TypeAlias = Annotated[
    str, Option("Model whose knowledge is judged.", default="the rows'")
]
Template: TypeAlias = Annotated[str, Option("Prompt: paper or released.")]
