"""Published rerank-and-prune models as one-pass scorers: OpenProvence.

Such a model (Chirkova et al., 2025, "Provence") is a sequence classifier with a second head on its
token states. One pass over question and passage gives the passage's relevance, and for each token
the probability that it is worth keeping; a sentence gets the mean of its tokens. The folder is read
by its configuration and the names of its tensors, and no code of it runs.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self, Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fitrag_integrations.core.checks import check_number
from fitrag_integrations.core.files import read_file
from fitrag_integrations.errors import ModelLoadError, raise_if
from fitrag_integrations.models.encoder.items import Item, of_logits, placed_spans
from fitrag_integrations.models.encoder.pair_model import Engine
from fitrag_integrations.models.encoder.pairs import Batch, Pair, PairTokenizer
from fitrag_integrations.models.encoder.trunk import has_types
from fitrag_integrations.models.kinds import Judged, SentenceScorer
from fitrag_integrations.models.runtime.batching import blockwise
from fitrag_integrations.models.runtime.engine import EngineModel, Options, PairOptions
from fitrag_integrations.models.runtime.loading import (
    Checkpoint,
    check_vocabulary,
    checked_length,
    inner_config,
    position_limit,
)
from fitrag_integrations.models.runtime.placing import float32_head
from fitrag_integrations.models.runtime.saved import remembered
from fitrag_integrations.models.runtime.sources import model_folder
from fitrag_integrations.models.runtime.worker import Steps
from fitrag_integrations.models.scorer.reranker import SHORTEST_LENGTH, OutputRows
from fitrag_integrations.text.spans import Span
from fitrag_integrations.types import BiLabelScore
from fitrag_integrations.values.score import logit

KIND = "open_provence"
THRESHOLD = 0.1  # of folders that name none
HEAD = "pruning_head.classifier."


class Pruner(SentenceScorer, EngineModel[Engine]):
    """One-pass scorer over a published pruner; `OnePassScorer.from_pruner` creates one.

    A passage's `has_answer` is the sigmoid of the ranking logit, a sentence's the mean keep
    probability of its tokens; `llm_prefer` is None. A passage longer than the input takes its best
    chunk's logit, and a sentence is scored in the chunk that contains most of it. The token reducer
    drops sentences below `sentence_threshold`, unless it has a `min_score`.
    """

    kind = "pruner"

    def __init__(
        self, engine: Engine, *, name: str, threshold: float, temperature: float = 1.0
    ) -> None:
        super().__init__(engine, manifest={"base": name, "name": name})
        self.name = name
        self.sentence_threshold = check_number("threshold", threshold, low=0.0, high=1.0)
        self.temperature = check_number("temperature", temperature, low=1e-6)

    @classmethod
    @remembered
    def from_pretrained(
        cls,
        name_or_dir: str | Path,
        *,
        threshold: float | None = None,
        temperature: float = 1.0,
        **given: Unpack[PairOptions],
    ) -> Self:
        """Load an OpenProvence checkpoint from safetensors; no remote code runs.

        Args:
            name_or_dir: Hub name or folder of the checkpoint.
            threshold: Keep probability of a sentence, in [0, 1]. Defaults to the folder's.
            temperature: Divisor of ranking logits.
            **given: Where and how it is loaded, as in `BiLabelScorer.from_pretrained`; `max_length`
                defaults to the folder's.

        Raises:
            InputError: If an argument is out of range.
            ModelLoadError: If the folder is not OpenProvence's, or a tensor is missing.

        Example:
            >>> scorer = OnePassScorer.from_pruner("hotchpotch/open-provence-reranker-xsmall-v1")
            >>> retriever = FitRagRetriever(base=base, scorer=scorer, max_tokens=800)
        """
        options = Options.checked(**given)
        folder = model_folder(name_or_dir, revision=options.model_kwargs.get("revision"))
        checkpoint = options.checkpoint(str(folder), f"pruner {str(name_or_dir)!r}")
        fields, config = _configuration(folder, checkpoint.what)
        tokenizer = checkpoint.tokenizer(config)
        # the head reads `hidden_states[-1]`: normalized states since transformers 5, not before
        major = str(fields.get("transformers_version", "4")).partition(".")[0]
        before = not (major.isdigit() and int(major) >= 5)
        trunk: Any = RankAndPrune(*_parts(folder, checkpoint, config), norm=before)
        check_vocabulary(trunk.encoder, tokenizer, checkpoint.what)
        length = options.max_length
        if length is None:
            length = fields.get("max_length", 512)
            length = min(length, position_limit(config) or length)
        length = checked_length(length, config, low=SHORTEST_LENGTH)
        if threshold is None:
            threshold = fields.get("default_threadshold", fields.get("default_threshold"))
        return cls(
            Engine(trunk, PairTokenizer(tokenizer, max_length=length), options).retain(),
            name=folder.name if Path(name_or_dir).exists() else str(name_or_dir),
            threshold=THRESHOLD if threshold is None else threshold,
            temperature=temperature,
        )

    def save_pretrained(self, folder: str | Path) -> None:
        """Raise `TypeError`: its weights are published already."""
        raise TypeError(f"{self!r} is kept where it was published: name it to from_pruner again")

    def _score(self, pairs: Sequence[Pair]) -> Steps[list[BiLabelScore]]:
        judged = yield from self._judge([(question, passage, ()) for question, passage in pairs])
        return [whole for whole, _ in judged]

    @blockwise
    @torch.inference_mode()
    def _judge(self, items: Sequence[Item]) -> Steps[list[Judged]]:
        places, chunks, wanted = placed_spans(self._engine.tokenizer, items)
        found = iter((yield from self._engine.run_chunks(chunks, partial(self._read, wanted))))
        judged = []
        for group, (*_, spans) in zip(places, items, strict=True):
            kept, best = np.zeros(len(spans)), -math.inf
            for which, _ in group:
                output, means = next(found)
                best = max(best, output)
                kept[which] = np.maximum(kept[which], means)
            whole = best / self.temperature
            judged.append(
                (of_logits(whole), [BiLabelScore(p, None, logit(p), None) for p in kept.tolist()])
            )
        return judged

    def _read(
        self, wanted: Mapping[int, list[Span]], outputs: Tensor, mask: Tensor, batch: Batch
    ) -> list[tuple[float, NDArray[np.float64]]]:
        """Return each chunk's ranking logit, and the mean keep probability of its spans."""
        outputs = outputs.cpu().double()  # at once: each copy makes the host wait
        logits, keep = outputs[:, 0, 0].tolist(), outputs[..., 1].sigmoid().numpy()
        found = []
        for output, row, size, chunk in zip(logits, keep, batch.lengths, batch.pairs, strict=True):
            self._engine.check_finite(np.isfinite([output, *row[:size]]).all())
            sums = np.concatenate([[0.0], np.cumsum(row[:size])])
            begin, end = np.array(wanted[id(chunk)], dtype=np.int64).reshape(-1, 2).T
            found.append((output, (sums[end] - sums[begin]) / np.maximum(end - begin, 1)))
        return found

    def _details(self) -> list[str]:
        return [
            f"sentence_threshold={self.sentence_threshold:g}",
            "llm_prefer=None",
            *super()._details(),
        ]


class RankAndPrune(nn.Module):
    """A classifier of one output with a head of two outputs on its last token states."""

    def __init__(self, encoder: Any, head: nn.Linear, *, norm: bool) -> None:
        super().__init__()
        float32_head(encoder)
        self.encoder = encoder
        self.head = OutputRows(head, [0, 1])
        self.norm = norm and hasattr(encoder.base_model, "final_norm")
        self.uses_types = has_types(encoder.config)

    def forward(self, ids: Tensor, mask: Tensor, types: Tensor) -> Tensor:
        """Return the ranking logit, at each token, and the token's logit of being kept.

        Shape: (batch, tokens, 2), float32.
        """
        states: list[Tensor] = []
        base = self.encoder.base_model
        if self.norm:
            hook = base.final_norm.register_forward_pre_hook(lambda _, got: states.append(got[0]))
        else:
            hook = base.register_forward_hook(lambda _, __, got: states.append(got[0]))
        extra = {"token_type_ids": types} if self.uses_types else {}
        try:
            logits = self.encoder(input_ids=ids, attention_mask=mask, **extra).logits.float()
        finally:
            hook.remove()
        drop, keep = self.head(states[-1]).unbind(2)
        return torch.stack([logits.expand(keep.shape), keep - drop], dim=2)


def _configuration(folder: Path, what: str) -> tuple[dict[str, Any], Any]:
    """Read the folder's configuration, and build that of the classifier inside.

    Raises `ModelLoadError` for a folder of another kind.
    """
    try:
        fields = json.loads(read_file(folder / "config.json"))
    except (OSError, ValueError, RecursionError) as error:
        raise ModelLoadError(f"{what}: config.json is not readable: {error}") from error
    kind = fields.get("model_type") if isinstance(fields, dict) else None
    raise_if(
        kind != KIND,
        ModelLoadError,
        f"{what}: its model_type is {kind!r}, not {KIND!r}; other pruners bring code of their own, "
        "which is never run. Load a reranker with from_reranker, a folder that save_pretrained "
        "wrote with from_pretrained",
    )
    given = fields.get("base_model_config")
    outputs = fields.get("num_labels") or 1, fields.get("num_pruning_labels") or 2
    pooled = (fields.get("pruning_config") or {}).get("use_weighted_pooling")
    raise_if(
        not isinstance(given, dict) or outputs != (1, 2) or pooled,
        ModelLoadError,
        f"{what}: config.json must have base_model_config, one label and two pruning labels "
        f"without weighted pooling; it has {outputs} labels",
    )
    config = inner_config(given, f"{what}: base_model_config")
    config.num_labels = 1
    return fields, config


def _parts(folder: Path, checkpoint: Checkpoint, config: Any) -> tuple[Any, nn.Linear]:
    """Load the classifier and the pruning head out of the folder's safetensors."""
    from safetensors.torch import load_file

    state: dict[str, Tensor] = {}
    try:
        for path in sorted(folder.glob("*.safetensors")):
            state |= load_file(path)
    except Exception as error:  # hostile files raise anything
        raise ModelLoadError(f"{checkpoint.what}: {path.name} is damaged: {error}") from error
    weight, bias = (state.pop(f"{HEAD}{name}", None) for name in ("weight", "bias"))
    shapes = [None if each is None else tuple(each.shape) for each in (weight, bias)]
    if weight is None or bias is None or shapes != [(2, config.hidden_size), (2,)]:
        raise ModelLoadError(
            f"{checkpoint.what}: {HEAD}weight and bias are of the shapes {shapes}; they must be of "
            f"{(2, config.hidden_size)} and (2,)"
        )
    raise_if(
        not (weight.isfinite().all() and bias.isfinite().all()),
        ModelLoadError,
        f"{checkpoint.what}: {HEAD}* holds NaN or infinity",
    )
    head = nn.Linear(config.hidden_size, 2)
    head.load_state_dict({"weight": weight.float(), "bias": bias.float()})
    ranking = {name.removeprefix("ranking_model."): each for name, each in state.items()}
    model = checkpoint.model("AutoModelForSequenceClassification", config=config, state=ranking)
    return model, head
