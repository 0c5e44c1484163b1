"""Settings of a training run of the bi-label scorer."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from fitrag_integrations.core.checks import Checked
from fitrag_integrations.core.option import Option
from fitrag_integrations.errors import InputError, refuse_if
from fitrag_integrations.models.runtime.sources import MINILM
from fitrag_integrations.training.losses.imbalance import Imbalance
from fitrag_integrations.training.options import (
    Accumulate,
    Bfloat16,
    EncoderBase,
    Epochs,
    EvaluateEvery,
    Rate,
    Seed,
    Steps,
)
from fitrag_integrations.training.trainer import OPTIMIZERS, steps_over

SHARE = 0.15


@dataclass(frozen=True, slots=True)
class BilabelPlan(Checked):
    """Settings for training a scorer; see `fitrag train bilabel --help`."""

    base: EncoderBase = MINILM
    tune: Annotated[str, Option("What trains: head, lora or full.")] = "lora"
    steps: Steps = 1000
    questions: Annotated[int, Option("Questions per batch.", min=1)] = 4
    rate: Rate = 3e-4
    hidden: Annotated[int, Option("Units of the head's hidden layer, 0 for none.")] = 0
    evidence: Annotated[
        bool, Option("Add lexical overlap and late interaction to the head's features.")
    ] = True
    validation: Annotated[
        str, Option("Fraction of the questions to hold out, or a file of rows.")
    ] = str(SHARE)
    seed: Seed = 13
    bfloat16: Bfloat16 = True
    imbalance: Imbalance = field(default_factory=Imbalance)
    accumulate: Accumulate = 1
    batch_tokens: Annotated[
        int | None,
        Option(
            "Padded tokens per pass through the encoder, of pairs of like length.",
            min=1,
            default="16 pairs",
        ),
    ] = None
    optimizer: Annotated[str, Option("Optimizer: adamw or sgd.")] = "adamw"
    momentum: Annotated[float, Option("Momentum of SGD.")] = 0.9
    evaluate_every: EvaluateEvery = 0
    epochs: Epochs = None
    batch: Annotated[
        int | None,
        Option("Pairs per batch instead of lists (the paper's: 16).", min=1, default="lists"),
    ] = None
    rank: Annotated[int, Option("Rank of the LoRA adapter; its alpha is twice that.", min=1)] = 16
    listwise: Annotated[
        float, Option("Weight of the listwise loss; 0 for the paper's loss.", min=0)
    ] = 0.3

    @property
    def share(self) -> float:
        """Fraction of the questions to hold out; the default fraction if `held` is a file."""
        return float(self.validation) if self.held_file is None else SHARE

    @property
    def held_file(self) -> Path | None:
        """File of rows to hold out, if it is one."""
        try:
            float(self.validation)
        except ValueError:
            return Path(self.validation)
        return None

    def steps_over(self, count: int) -> int:
        """Return the number of steps over `count` questions, or pairs in batches of pairs."""
        size = (self.batch or self.questions) * self.accumulate
        return self.steps if self.epochs is None else steps_over(count, size, self.epochs)

    def __post_init__(self) -> None:
        Checked.__post_init__(self)
        refuse_if(
            self.tune not in ("head", "lora", "full"), "--tune", self.tune, "head, lora or full"
        )
        refuse_if(
            self.optimizer not in OPTIMIZERS, "optimizer", self.optimizer, ", ".join(OPTIMIZERS)
        )
        refuse_if(
            self.held_file is not None and not self.held_file.is_file(),
            "--validation",
            self.validation,
            "a share of the questions, or a file that is there",
        )
        refuse_if(not 0 < self.share < 1, "validation", self.validation, "a share of 0 to 1")
        refuse_if(not 0 <= self.momentum < 1, "momentum", self.momentum, "0 or more, below 1")
        if self.tune == "head" and (self.accumulate > 1 or self.evaluate_every):
            given = {"accumulate": self.accumulate, "evaluate_every": self.evaluate_every}
            raise InputError.of("tune", given="head", allowed=f"lora or full with {given}")
