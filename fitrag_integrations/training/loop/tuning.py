"""What of an encoder trains: adapters, or its layers."""

from __future__ import annotations

from typing import Any

from torch import nn

from fitrag_integrations.models.encoder.trunk import Trunk


def with_lora(encoder: Any, *, rank: int = 16, alpha: int | None = None) -> Any:
    """Add adapters; by default with the paper's numbers: rank 16, alpha 32 (FIT-RAG 5.1).

    Dropout is 0.05, and alpha None twice the rank. T5 has them on queries and values, other
    encoders on every linear layer but the pooler's, whose output is not used.
    """
    from peft import LoraConfig, get_peft_model

    t5 = encoder.config.model_type in ("t5", "mt5", "umt5")
    has_pooler = getattr(encoder, "pooler", None) is not None
    config = LoraConfig(
        r=rank,
        lora_alpha=2 * rank if alpha is None else alpha,
        lora_dropout=0.05,
        target_modules=["q", "v"] if t5 else "all-linear",
        exclude_modules=r"pooler\..*" if has_pooler else None,
    )
    return get_peft_model(encoder, config)


def recompute(model: Any) -> None:
    """Enable gradient checkpointing of a transformers model."""
    how = {"use_reentrant": False}  # else nothing flows through frozen embeddings
    if hasattr(model, "activation_checkpointing_enable"):  # its name since transformers 5
        model.activation_checkpointing_enable(how)
    else:
        model.gradient_checkpointing_enable(how)


def tune_layers(trunk: Trunk) -> None:
    """Train everything but the embeddings, without dropout: it costs a fifth of the time."""
    trunk.requires_grad_(True)
    embeddings: nn.Module = trunk.encoder.get_input_embeddings()  # type: ignore[operator]
    frozen = getattr(trunk.encoder, "embeddings", embeddings)
    for parameter in frozen.parameters():
        parameter.requires_grad_(False)
    for module in trunk.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
