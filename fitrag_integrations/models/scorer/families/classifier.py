"""Sequence classifiers with one output: MiniLM, BGE, ModernBERT, and most cross-encoders.

The tokenizer joins question and passage as a pair, and the output is the logit of relevance.
"""

from __future__ import annotations

from torch import Tensor, nn

from fitrag_integrations.errors import ModelLoadError
from fitrag_integrations.models.encoder.pairs import PairTokenizer
from fitrag_integrations.models.runtime.placing import float32_head
from fitrag_integrations.models.scorer.families.family import Family, Folder, Loaded


def load_classifier(folder: Folder) -> nn.Module:
    """Load the classifier of a checkpoint.

    Raises:
        ModelLoadError: If it does not have exactly one output, or its decoder no padding token.
    """
    config, what = folder.config, folder.checkpoint.what
    if config.is_encoder_decoder or config.num_labels != 1:
        given = f"a {config.model_type} checkpoint of {config.num_labels} outputs"
        other = "; RetrievalEvaluator loads such a T5" if config.is_encoder_decoder else ""
        raise ModelLoadError(f"{what}: given {given}, allowed an encoder with one{other}")
    from transformers.models.auto import modeling_auto

    decoder = config.model_type in modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    decoder &= config.model_type not in modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES
    model = folder.checkpoint.model("AutoModelForSequenceClassification")
    if folder.tokenizer.pad_token_id is not None:  # a decoder finds the last token by it
        model.config.pad_token_id = folder.tokenizer.pad_token_id
    elif decoder:
        raise ModelLoadError(
            f"{what}: its tokenizer has no padding token, by which a {config.model_type} finds the "
            "last token; pass tokenizer_kwargs={'pad_token': ...}"
        )
    return OneOutput(model, types="token_type_ids" in folder.tokenizer.model_input_names)


class OneOutput(nn.Module):
    """A network with a classifier of one output; `types` as its tokenizer returns them or not."""

    def __init__(self, encoder: nn.Module, *, types: bool) -> None:
        super().__init__()
        float32_head(encoder)
        self.encoder = encoder
        self.uses_types = types and getattr(encoder.config, "type_vocab_size", 0) > 1

    def forward(self, ids: Tensor, mask: Tensor, types: Tensor) -> Tensor:
        """Return the output of each pair. Shape: (batch,)."""
        extra = {"token_type_ids": types} if self.uses_types else {}
        outputs: Tensor = self.encoder(input_ids=ids, attention_mask=mask, **extra).logits
        return outputs.squeeze(-1)


def _load(folder: Folder) -> Loaded:
    return load_classifier(folder), PairTokenizer(folder.tokenizer, max_length=folder.length())


FAMILY = Family(
    "classifier",
    scales=("logit", "probability"),
    fits=lambda folder: not folder.architecture.endswith("ForCausalLM"),
    load=_load,
)
