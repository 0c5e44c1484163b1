"""An evaluator that is a sequence classifier with one output, as CRAG's own T5-large is.

Such a checkpoint reads question and passage as one text, `question [SEP] passage`, in which the
mark is plain text to T5. The paper's loop pads every pair to 512 tokens; here pairs of like length
share a batch of bounded size, which changes no grade and is several times faster.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from fitrag_integrations.core.checks import check_whole
from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import ModelLoadError, raise_if, refuse_if
from fitrag_integrations.models.encoder.pairs import OVERLAP_TOKENS, Pair
from fitrag_integrations.models.encoder.pairs import whole as without_surrogates
from fitrag_integrations.models.runtime.batching import in_groups
from fitrag_integrations.models.runtime.engine import Options, SharedEngine
from fitrag_integrations.models.runtime.folder import kind_in, read_manifest, reading
from fitrag_integrations.models.runtime.loading import T5_LIKE, check_vocabulary, checked_length
from fitrag_integrations.models.runtime.placing import float32_head, padded
from fitrag_integrations.models.runtime.sources import weights_source
from fitrag_integrations.models.runtime.worker import Steps
from fitrag_integrations.types import Passage

InputFormat = Literal["plain", "titled"]
KIND = "sequence-evaluator"
MAX_LENGTH = 512
CPU_TOKENS = 256  # a T5 is wide enough to gain nothing from larger batches there


class SequenceGrader(SharedEngine):
    """Grader of pairs with a one-output classifier; `RetrievalEvaluator` owns it.

    `input_format` "plain" gives the passage's text alone, "titled" `title // text`. Outputs are
    clamped to [-1, 1]. A passage longer than `length` tokens takes its best chunk's grade.
    """

    def __init__(
        self, model: Any, tokenizer: Any, options: Options, *, input_format: InputFormat = "plain"
    ) -> None:
        refuse_if(
            input_format not in get_args(InputFormat),
            "input_format",
            input_format,
            " or ".join(map(repr, get_args(InputFormat))),
        )
        refuse_if(options.compile, "compile", True, "False for a T5 that grades")
        self.input_format: InputFormat = input_format
        float32_head(model)  # the cuts stand near -1, where bfloat16 has steps of .004
        super().__init__(model, options, name=type(model).__name__)
        if options.batch_tokens is None and self.device.type == "cpu":
            self.room.tokens = CPU_TOKENS
        self._model = model
        self._tokenizer = tokenizer
        # an input of T5 ends in its end token and holds no other, or the model refuses the batch
        self._one_end = model.config.model_type in T5_LIKE
        self.length = int(min(MAX_LENGTH, tokenizer.model_max_length))
        if options.max_length is not None:
            self.length = checked_length(options.max_length, model.config, low=2 * OVERLAP_TOKENS)
        self.retain()

    @classmethod
    def load(
        cls, name_or_dir: str, options: Options, *, input_format: InputFormat | None = None
    ) -> SequenceGrader:
        """Load a checkpoint by name or folder; only safetensors are read, no remote code runs."""
        fields = read_fields(Path(name_or_dir))
        if input_format is None:
            input_format = fields.get("input_format", "plain")
        if options.max_length is None and "max_length" in fields:
            with reading(name_or_dir):
                kept = check_whole("max_length", fields["max_length"], low=1)
            options = replace(options, max_length=kept)
        checkpoint = options.checkpoint(weights_source(name_or_dir), f"evaluator {name_or_dir!r}")
        tokenizer = checkpoint.tokenizer()
        outputs = checkpoint.config().num_labels
        raise_if(
            outputs != 1,
            ModelLoadError,
            f"evaluator {name_or_dir!r} has {outputs} outputs; an evaluator has one",
        )
        model = checkpoint.model("AutoModelForSequenceClassification")
        check_vocabulary(model, tokenizer, checkpoint.what)
        return cls(model, tokenizer, options, input_format=input_format)

    def save(self, folder: Path) -> None:
        """Save weights and tokenizer as transformers does."""
        self._model.save_pretrained(folder)
        self._tokenizer.save_pretrained(folder)

    @torch.inference_mode()
    def _grades(self, pairs: Sequence[Pair]) -> Steps[list[float]]:
        chunks = [self._encoded(question, passage) for question, passage in pairs]
        grades = yield from in_groups(
            chunks, lambda flat: self.batched(flat, self._outputs, length=len)
        )
        return [max(each) for each in grades]

    def logits(self, batch: Sequence[Sequence[int]], device: torch.device) -> Tensor:
        """Run encoded inputs; gives their outputs as the model has them. Shape: (batch,)."""
        ids, mask = padded(batch, self._tokenizer.pad_token_id or 0, device)
        found: Tensor = self._model(input_ids=ids, attention_mask=mask).logits
        return found.float().squeeze(-1)

    def _outputs(self, batch: list[list[int]]) -> list[float]:
        logits = self.logits(batch, self.device).tolist()
        self.check_finite(all(map(math.isfinite, logits)))
        return [max(-1.0, min(1.0, logit)) for logit in logits]

    def _encoded(self, question: str, passage: Passage) -> list[list[int]]:
        question, text = without_surrogates(question), without_surrogates(passage.text)
        if self.input_format == "titled" and passage.title:
            text = f"{without_surrogates(passage.title)} // {text}"
        whole = self._ids(f"{question} [SEP] {text}")
        if len(whole) <= self.length:
            return [whole]
        return [self._ids(f"{question} [SEP] {text[a:b]}") for a, b in self._cuts(question, text)]

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer(text, verbose=False)["input_ids"]
        if self._one_end:  # an end mark that a passage brings is nothing the model knows
            end, unknown = self._tokenizer.eos_token_id, self._tokenizer.unk_token_id
            ids = [*(unknown if i == end else i for i in ids[:-1]), ids[-1]]
        return ids

    def _cuts(self, question: str, text: str) -> Iterator[tuple[int, int]]:
        """Return the places of overlapping chunks that fit beside the question."""
        room = self.length - len(self._ids(f"{question} [SEP] ")) - 4  # a cut may part a token
        refuse_if(
            room <= OVERLAP_TOKENS,
            "question",
            question,
            f"a question that leaves room for a passage in {self.length} tokens",
        )
        spans = self._tokenizer(
            text, add_special_tokens=False, return_offsets_mapping=True, verbose=False
        )["offset_mapping"]
        for at in range(0, max(1, len(spans) - OVERLAP_TOKENS), room - OVERLAP_TOKENS):
            inside = spans[at : at + room]
            yield inside[0][0], inside[-1][1]


def read_fields(folder: Path) -> Row:
    """Return the fields that `RetrievalEvaluator` stored beside a checkpoint, if any."""
    return read_manifest(folder, "model.json", kind=KIND) if kind_in(folder) == KIND else {}
