"""Published rerankers as scorers: `has_answer` from one output, and no second label.

`FAMILIES` is the registry: a new kind of checkpoint is a file in `families/` and an entry here.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Self, Unpack

import torch
from torch import Tensor

from fitrag_integrations.core.checks import check_number
from fitrag_integrations.errors import ModelLoadError, refuse_if
from fitrag_integrations.models.encoder.items import of_logits
from fitrag_integrations.models.encoder.pair_model import Engine
from fitrag_integrations.models.encoder.pairs import Batch, Pair
from fitrag_integrations.models.kinds import PairScorer
from fitrag_integrations.models.runtime.engine import EngineModel, Options, PairOptions
from fitrag_integrations.models.runtime.loading import check_vocabulary
from fitrag_integrations.models.runtime.saved import remembered
from fitrag_integrations.models.runtime.sources import weights_source
from fitrag_integrations.models.runtime.worker import Steps
from fitrag_integrations.models.scorer import causal_families
from fitrag_integrations.models.scorer.families import CLASSIFIER, MONOT5, Family, Folder, Scale
from fitrag_integrations.types import BiLabelScore
from fitrag_integrations.values.score import logit

FAMILIES = {family.name: family for family in (MONOT5, *causal_families.FAMILIES, CLASSIFIER)}
"""By name, in the order in which they are tried."""


class RerankerOptions(PairOptions, total=False):
    """Keyword arguments of `from_reranker`, described in `ReadyReranker.from_pretrained`."""

    family: str | None
    scale: Scale | None
    temperature: float
    instruction: str | None


class ReadyReranker(PairScorer, EngineModel[Engine]):
    """Scorer over a published reranker; `BiLabelScorer.from_reranker` makes one.

    `has_answer` is the sigmoid of the output over `temperature`, and `llm_prefer` is None. A
    passage longer than the input takes its best chunk's output.
    """

    kind = "reranker"

    def __init__(
        self, engine: Engine, *, name: str, family: str, scale: Scale, temperature: float = 1.0
    ) -> None:
        super().__init__(engine, manifest={"base": name, "name": name})
        self.name, self.family, self.scale = name, family, scale
        self.temperature = temperature

    @classmethod
    @remembered
    def from_pretrained(
        cls,
        name_or_dir: str | Path,
        *,
        family: str | None = None,
        scale: Scale | None = None,
        temperature: float = 1.0,
        instruction: str | None = None,
        **given: Unpack[PairOptions],
    ) -> Self:
        """Load a published reranker; only safetensors are read, and no remote code runs.

        Args:
            name_or_dir: Hub name or folder of the checkpoint.
            family: "classifier", "monot5", "qwen3", "bge-gemma" or "mxbai". Defaults to what the
                configuration shows.
            scale: Output of the model: "tokens", the logits of the words it answers with; "logit",
                one number without bounds; "probability", one in [0, 1]. Defaults to the family's.
            temperature: Divisor of logits.
            instruction: Task description in the prompt of "qwen3" and "mxbai". Defaults to the
                published one.
            **given: Where and how it is loaded, as in `BiLabelScorer.from_pretrained`; `max_length`
                defaults to what tokenizer and positions allow, at most 8,192.

        Raises:
            InputError: If an argument is invalid for the checkpoint.
            ModelLoadError: If the checkpoint has another shape, or no weights for its output.
        """
        temperature = check_number("temperature", temperature, low=1e-6)
        options, source = Options.checked(**given), weights_source(str(name_or_dir))
        checkpoint = options.checkpoint(source, f"reranker {str(name_or_dir)!r}")
        config, tokenizer = checkpoint.config(), checkpoint.tokenizer()
        folder = Folder(checkpoint, config, tokenizer, options.max_length, instruction)
        chosen = family_of(folder, family)
        scale = chosen.scales[0] if scale is None else scale
        named = " or ".join(map(repr, chosen.scales))
        allowed = f"{named} for a {config.model_type} of the family {chosen.name!r}"
        refuse_if(scale not in chosen.scales, "scale", scale, allowed)
        refuse_if(
            instruction is not None and not chosen.takes_instruction,
            "instruction",
            instruction,
            f"none: the family {chosen.name!r} has no place for one",
        )
        trunk, pairs = chosen.load(folder)
        check_vocabulary(trunk.encoder, folder.tokenizer, checkpoint.what)
        name = Path(source).name if Path(source).exists() else str(name_or_dir)
        if instruction is not None:  # its scores are others, and so are thresholds fitted on them
            name += f" {hashlib.sha256(instruction.encode()).hexdigest()[:8]}"
        return cls(
            Engine(trunk, pairs, options).retain(),
            name=name,
            family=chosen.name,
            scale=scale,
            temperature=temperature,
        )

    def save_pretrained(self, folder: str | Path) -> None:
        """Raise `TypeError`: its weights are published already, and it has no second label."""
        raise TypeError(
            f"{self!r} is kept where it was published: name it to from_reranker again, or make a "
            "scorer with both labels of it with `fitrag train bilabel --base`"
        )

    @torch.inference_mode()
    def _score(self, pairs: Sequence[Pair]) -> Steps[list[BiLabelScore]]:
        found = yield from self._engine.run(pairs, self._outputs)
        return [self._label(max(outputs)) for outputs in found]

    def _outputs(self, outputs: Tensor, mask: Tensor, batch: Batch) -> list[float]:
        numbers: list[float] = outputs.float().tolist()
        if not all(map(math.isfinite, numbers)):  # float16 overflows in T5
            raise ModelLoadError(f"{self.name!r} gave no number in {self._engine.dtype}")
        return numbers

    def _label(self, output: float) -> BiLabelScore:
        if self.scale == "probability":
            allowed = "'logit', whose outputs are not kept to [0, 1] as a probability is"
            refuse_if(not 0 <= output <= 1, "scale", self.scale, allowed)
            output = logit(output)
        return of_logits(output / self.temperature)

    def _details(self) -> list[str]:
        return [f"scale={self.scale!r}", "llm_prefer=None", *super()._details()]


def family_of(folder: Folder, named: str | None) -> Family:
    """Return the family with a name, or the first that a checkpoint fits.

    Raises:
        InputError: For a name that no family has.
        ModelLoadError: For a checkpoint that fits none.
    """
    if named is not None:
        refuse_if(named not in FAMILIES, "family", named, ", ".join(FAMILIES))
        return FAMILIES[named]
    for family in FAMILIES.values():
        if family.fits(folder):
            return family
    raise ModelLoadError(
        f"{folder.checkpoint.what}: {folder.architecture} is a language model whose prompt is not "
        f"known; pass family= with the one it was trained with: {', '.join(FAMILIES)}"
    )
