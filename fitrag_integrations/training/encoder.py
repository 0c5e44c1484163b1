"""The encoder that a pair model starts from, what of it trains, and how it is saved."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from fitrag_integrations.core.checks import trait
from fitrag_integrations.core.generic import T
from fitrag_integrations.core.progress import chunks
from fitrag_integrations.models.encoder.encoders import (
    MAX_LENGTH,
    fold_adapter,
    load_base,
    load_encoder,
    save_encoder,
    tuned_names,
)
from fitrag_integrations.models.encoder.lexical import inverse_document_frequency
from fitrag_integrations.models.encoder.pairs import Batch, EncodedPair, PairTokenizer
from fitrag_integrations.models.encoder.trunk import Trunk, collate
from fitrag_integrations.models.runtime.batching import token_batches
from fitrag_integrations.models.runtime.folder import read_manifest
from fitrag_integrations.models.runtime.loading import T5_LIKE
from fitrag_integrations.training.trainer import device_of

PAIRS = 16  # of like length, run together


def start_encoder(base: str) -> tuple[Trunk, PairTokenizer, str]:
    """Load an encoder to train.

    Args:
        base: Hub name or folder of an encoder, or the folder of a reader.

    Returns:
        Trunk, tokenizer, and the name of the base.
    """
    folder = Path(base)
    if (folder / "model.json").is_file():
        manifest = read_manifest(folder, "model.json", kind="reader", needs=("encoder", "base"))
        trunk, tokenizer = load_encoder(folder / manifest["encoder"], attention="eager")
        return trunk, tokenizer, manifest["base"]
    trunk, plain = load_base(base, attention="eager")  # the fastest backward on a CPU
    return trunk, PairTokenizer(plain, max_length=MAX_LENGTH), base


def trunk_passes(
    trunk: Trunk,
    encoded: Sequence[EncodedPair],
    run: Callable[[Batch, Tensor, Tensor], Iterable[T]],
    *,
    pad_id: int,
    batch_tokens: int | None = None,
) -> list[T]:
    """Run pairs of similar length together through a trunk.

    Args:
        trunk: Encoder.
        encoded: Pairs, in any order.
        run: Function of a batch, its token states, (pairs, tokens, width), and its mask, which
            returns a result for each pair.
        pad_id: Padding token.
        batch_tokens: Padded tokens per pass; None for 16 pairs per pass.

    Returns:
        The results in the order of the pairs.
    """
    lengths = [len(pair) for pair in encoded]
    if batch_tokens is None:
        passes = list(chunks(sorted(range(len(lengths)), key=lengths.__getitem__), PAIRS))
    else:
        passes = list(token_batches(lengths, budget=batch_tokens))
    found: dict[int, T] = {}
    for places in passes:
        batch = Batch.of([encoded[i] for i in places], pad_id=pad_id)
        ids, mask, types = collate(batch, device_of(trunk))
        found |= zip(places, run(batch, trunk(ids, mask, types), mask), strict=True)
    return [found[i] for i in range(len(encoded))]


def rarity_of(texts: Iterable[str], tokenizer: PairTokenizer) -> list[float]:
    """Compute the rarity of each token from the number of texts that contain it.

    Args:
        texts: Texts; repeated ones count once.
        tokenizer: Tokenizer, whose vocabulary the result is for.
    """
    sets = tokenizer.vocabularies(sorted(set(texts)))
    return inverse_document_frequency(sets, tokenizer.vocabulary)


def with_lora(encoder: Any, *, rank: int = 16, upper: bool = False) -> Any:
    """Add a LoRA adapter; the defaults are the paper's: rank 16, alpha 32 (FIT-RAG 5.1).

    Args:
        encoder: Encoder of transformers.
        rank: Rank of the adapter; its alpha is twice that.
        upper: Whether to adapt the linear layers of the upper two thirds alone, without dropout.
            The lowest layers are the least specific to the task.

    Returns:
        PEFT model, with dropout 0.05. T5 is adapted in queries and values, other encoders in every
        linear layer but the pooler's, whose output is not used.
    """
    from peft import LoraConfig, get_peft_model

    t5 = encoder.config.model_type in T5_LIKE
    has_pooler = trait(encoder, "pooler", nn.Module) is not None
    targets: Any = ["q", "v"] if t5 else "all-linear"
    if upper:
        lowest = encoder.config.num_hidden_layers // 3
        targets = [
            name
            for name, part in encoder.named_modules()
            if isinstance(part, nn.Linear)
            and (at := re.search(r"\.(\d+)\.", name))
            and int(at[1]) >= lowest
        ]
    config = LoraConfig(
        r=rank,
        lora_alpha=2 * rank,
        lora_dropout=0.0 if upper else 0.05,
        target_modules=targets,
        exclude_modules=r"pooler\..*" if has_pooler and not upper else None,
    )
    return get_peft_model(encoder, config)


def recompute(model: Any) -> None:
    """Enable gradient checkpointing of a transformers model."""
    how = {"use_reentrant": False}  # else nothing flows through frozen embeddings
    if hasattr(model, "activation_checkpointing_enable"):  # its name since transformers 5
        model.activation_checkpointing_enable(how)
    else:
        model.gradient_checkpointing_enable(how)


def tune(trunk: Trunk, how: str, rank: int = 16) -> set[str]:
    """Choose what trains of an encoder.

    Args:
        trunk: Encoder, changed in place.
        how: "full" for all weights but the embeddings; "lora" for an adapter in every layer;
            "upper" for one in the upper two thirds, with dropout off as for "full", since it would
            cost a fifth of the time; "head" for none.
        rank: Rank of the adapter; 0 for none.

    Returns:
        Names of the weights that were tuned before, which `save_tuned` saves as well.
    """
    before = tuned_names(trunk.encoder)
    trunk.requires_grad_(how == "full")
    for part in trunk.modules():
        if isinstance(part, nn.Dropout) and how != "lora":
            part.p = 0.0
    if how == "full":
        embeddings: nn.Module = trunk.encoder.get_input_embeddings()  # type: ignore[operator]
        (trait(trunk.encoder, "embeddings", nn.Module) or embeddings).requires_grad_(False)
    elif rank and how != "head":
        trunk.encoder = with_lora(trunk.encoder, rank=rank, upper=how == "upper")
    return before


def save_tuned(
    trunk: Trunk, folder: Path, before: set[str], *, base: str, max_length: int = MAX_LENGTH
) -> None:
    """Save an encoder after training.

    Args:
        trunk: Encoder; an adapter over weights that were tuned before is merged.
        folder: Folder to write.
        before: What `tune` returned.
        base: Name of the base.
        max_length: Maximum input length in tokens.
    """
    if before and hasattr(trunk.encoder, "peft_config"):
        trunk.encoder = fold_adapter(trunk.encoder, before)
    for name, parameter in trunk.encoder.named_parameters():
        parameter.requires_grad_(parameter.requires_grad or name in before)
    save_encoder(trunk, folder, base=base, max_length=max_length)
