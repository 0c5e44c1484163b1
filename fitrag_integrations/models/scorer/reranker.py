"""Published rerankers as scorers: `has_answer` from one output, and no second label.

Read from top to bottom: what a family of checkpoints is, how each is loaded, tokenized and scored,
and the scorer over one. Sequence classifiers with one output are MiniLM, BGE, ModernBERT and most
cross-encoders; monoT5 (Nogueira et al., 2020) answers "true" or "false"; causal language models,
Qwen3-Reranker and its like, answer a prompt with yes or no. A prompt is a list of pieces, each
tokenized by itself, as the models' own pages do; the score is the logit of the positive word at the
last token, less that of the negative one where there is one. A new family is an entry of
`FAMILIES`, a new causal model a `CausalPrompt`.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias, Unpack

import numpy as np
import torch
from torch import Tensor, nn

from fitrag_integrations.core.checks import check_number
from fitrag_integrations.core.files import read_file
from fitrag_integrations.errors import ModelLoadError, raise_if, refuse_if
from fitrag_integrations.models.encoder.items import of_logits
from fitrag_integrations.models.encoder.pair_model import Engine
from fitrag_integrations.models.encoder.pairs import (
    OVERLAP_TOKENS,
    Batch,
    Pair,
    PairTokenizer,
    Tokens,
    placed_rows,
    rows_of,
    title_of,
    whole,
)
from fitrag_integrations.models.encoder.trunk import (
    as_attended,
    has_types,
    is_decoder,
)
from fitrag_integrations.models.kinds import PairScorer
from fitrag_integrations.models.runtime.engine import EngineModel, Options, PairOptions
from fitrag_integrations.models.runtime.loading import (
    T5_LIKE,
    Checkpoint,
    check_vocabulary,
    checked_length,
    position_limit,
)
from fitrag_integrations.models.runtime.placing import float32_head
from fitrag_integrations.models.runtime.saved import remembered
from fitrag_integrations.models.runtime.sources import weights_source
from fitrag_integrations.models.runtime.worker import Steps
from fitrag_integrations.models.words import filled
from fitrag_integrations.types import BiLabelScore
from fitrag_integrations.values.score import logit

Scale = Literal["tokens", "logit", "probability"]
USUAL_LENGTH = 512  # of checkpoints that name no limit
LONGEST_LENGTH = 8192  # unless `max_length` says otherwise
SHORTEST_LENGTH = 16


@dataclass(frozen=True, slots=True)
class Folder:
    """Checkpoint to load, and the caller's options of reading it.

    Args:
        checkpoint: Folder or hub name.
        config: Its configuration.
        tokenizer: Its tokenizer.
        max_length: Maximum number of tokens of an input. Defaults to what the checkpoint allows.
        instruction: Task description for families whose prompt has one. Defaults to the published
            one.
    """

    checkpoint: Checkpoint
    config: Any
    tokenizer: Any
    max_length: int | None = None
    instruction: str | None = None

    @property
    def architecture(self) -> str:
        """Class of transformers that the configuration names first."""
        return str((self.config.architectures or [""])[0])

    def length(self) -> int:
        """Return the maximum number of tokens of an input.

        Raises:
            InputError: If the caller's is larger than the number of positions.
        """
        if self.max_length is not None:
            return checked_length(self.max_length, self.config, low=SHORTEST_LENGTH)
        limits = (position_limit(self.config), self.tokenizer.model_max_length)
        named = [n for n in limits if n and n < 1e9]
        return min(*named, LONGEST_LENGTH) if named else USUAL_LENGTH

    def token(self, word: str) -> int:
        """Return the one token that a word is at the start of an answer.

        Raises:
            ModelLoadError: If the tokenizer writes the word as several tokens.
        """
        ids: list[int] = self.tokenizer(word, add_special_tokens=False)["input_ids"]
        raise_if(
            len(ids) != 1
            or ids[0] == self.tokenizer.unk_token_id
            or ids[0] >= self.config.vocab_size,
            ModelLoadError,
            f"{self.checkpoint.what}: its tokenizer writes {word!r} as the tokens {ids}; it must "
            "be one token of its vocabulary",
        )
        return ids[0]


Loaded: TypeAlias = tuple[Any, PairTokenizer]  # a module over `encoder`, and its tokenizer


@dataclass(frozen=True, slots=True)
class Family:
    """Family of rerankers that are loaded, tokenized and scored alike.

    Args:
        name: Value of `family=`.
        scales: Possible scales of its outputs; the first is the default.
        fits: Checks whether a checkpoint is one of the family.
        load: Loads the network and its tokenizer. The network has the model as `encoder`, and its
            `forward(ids, mask, types)`, each of shape (batch, tokens), returns one number per pair,
            shape (batch,). The tokenizer is a `PairTokenizer`; a family whose input has another
            form overrides its `_encode`, as `QueryDocument` does.
        takes_instruction: Whether its prompt has a place for an instruction.
    """

    name: str
    scales: tuple[Scale, ...]
    fits: Callable[[Folder], bool]
    load: Callable[[Folder], Loaded]
    takes_instruction: bool = False


class OutputRows(nn.Module):
    """Some rows of an output layer, in float32 whatever the states are computed in."""

    rows: Tensor
    bias: Tensor | None

    def __init__(self, layer: Any, ids: list[int]) -> None:
        super().__init__()
        self.register_buffer("rows", layer.weight[ids].detach().float().clone(), persistent=False)
        bias = getattr(layer, "bias", None)
        kept = None if bias is None else bias[ids].detach().float().clone()
        self.register_buffer("bias", kept, persistent=False)

    def forward(self, states: Tensor) -> Tensor:
        """Return the logits. Shape: (..., rows)."""
        return torch.nn.functional.linear(states.float(), self.rows, self.bias)


def load_classifier(folder: Folder) -> nn.Module:
    """Load the classifier of a checkpoint.

    Raises:
        ModelLoadError: If it does not have exactly one output, or its decoder no padding token.
    """
    config, what = folder.config, folder.checkpoint.what
    other = "; RetrievalEvaluator loads such a T5" if config.is_encoder_decoder else ""
    raise_if(
        config.is_encoder_decoder or config.num_labels != 1,
        ModelLoadError,
        f"{what}: a {config.model_type} checkpoint of {config.num_labels} outputs is no encoder "
        f"with one{other}",
    )
    model = folder.checkpoint.model("AutoModelForSequenceClassification")
    if folder.tokenizer.pad_token_id is not None:  # a decoder finds the last token by it
        model.config.pad_token_id = folder.tokenizer.pad_token_id
    elif is_decoder(config.model_type):
        raise ModelLoadError(
            f"{what}: its tokenizer has no padding token, by which a {config.model_type} finds the "
            "last token; pass tokenizer_kwargs={'pad_token': ...}"
        )
    return OneOutput(model, types="token_type_ids" in folder.tokenizer.model_input_names)


class OneOutput(nn.Module):
    """Network with a one-output classifier; `types` as its tokenizer returns them or not."""

    def __init__(self, encoder: nn.Module, *, types: bool) -> None:
        super().__init__()
        float32_head(encoder)
        self.encoder = encoder
        self.uses_types = types and has_types(encoder.config)

    def forward(self, ids: Tensor, mask: Tensor, types: Tensor) -> Tensor:
        """Return the output of each pair. Shape: (batch,)."""
        extra = {"token_type_ids": types} if self.uses_types else {}
        seen = as_attended(mask, self.encoder)
        outputs: Tensor = self.encoder(input_ids=ids, attention_mask=seen, **extra).logits
        return outputs.squeeze(-1)


CLASSIFIER = Family(
    "classifier",
    scales=("logit", "probability"),
    fits=lambda folder: not folder.architecture.endswith("ForCausalLM"),
    load=lambda folder: (
        load_classifier(folder),
        PairTokenizer(folder.tokenizer, max_length=folder.length()),
    ),
)


class TrueOrFalse(nn.Module):
    """T5 whose output layer is reduced to two rows, run for the first decoder step."""

    def __init__(self, encoder: Any, *, yes: int, no: int) -> None:
        super().__init__()
        self.encoder = encoder
        encoder.lm_head = OutputRows(encoder.lm_head, [yes, no])
        self.start: int = encoder.config.decoder_start_token_id

    def forward(self, ids: Tensor, mask: Tensor, types: Tensor) -> Tensor:
        """Return the logit of "true" less that of "false". Shape: (batch,)."""
        first = torch.full((len(ids), 1), self.start, device=ids.device)
        logits: Tensor = self.encoder(
            input_ids=ids, attention_mask=mask, decoder_input_ids=first, use_cache=False
        ).logits[:, 0]
        return logits[:, 0] - logits[:, 1]


class QueryDocument(PairTokenizer):
    """Tokenizer of pairs as monoT5 reads them: `Query: ... Document: title. text Relevant:`."""

    def _encode(self, pairs: Sequence[Pair]) -> list[Tokens]:
        texts = [whole(passage.text) for _, passage in pairs]
        before = [
            f"Query: {question} Document: {title_of(passage.title)}"
            for question, (_, passage) in zip(self._asked(pairs), pairs, strict=True)
        ]
        read = self._fast.encode_batch(
            [f"{start}{text} Relevant:" for start, text in zip(before, texts, strict=True)]
        )
        ids, offsets = [one.ids for one in read], [one.offsets for one in read]
        made = placed_rows(ids, offsets, [*map(len, before)], texts, 0, 1)
        for one in made:
            one[2, one[3] >= 0] = 2
        return made


def _load_monot5(folder: Folder) -> Loaded:
    yes, no = (folder.token(word) for word in ("true", "false"))
    raise_if(
        yes == no,
        ModelLoadError,
        f"{folder.checkpoint.what}: true and false are one token, {yes}",
    )
    trunk = TrueOrFalse(folder.checkpoint.model("AutoModelForSeq2SeqLM"), yes=yes, no=no)
    return trunk, QueryDocument(folder.tokenizer, max_length=folder.length())


MONOT5 = Family(
    "monot5",
    scales=("tokens",),
    fits=lambda folder: (
        folder.config.model_type in T5_LIKE
        and "Classification" not in " ".join(folder.config.architectures or [])
    ),
    load=_load_monot5,
)


LOGIT_SCORE = "1_LogitScore/config.json"
"""Where sentence-transformers keeps the tokens that a causal reranker answers with."""


@dataclass(frozen=True, slots=True)
class CausalPrompt:
    """Prompt of a published causal reranker.

    Args:
        model_type: Model type in the configuration.
        pieces: Prompt, with `{bos}`, `{instruction}`, `{query}` and `{document}`.
        words: Positive word, and the negative one whose logit is subtracted.
        instruction: Default instruction; None if the prompt has none.
        instructed: What `{instruction}` is replaced with, where there is one.
    """

    model_type: str
    pieces: tuple[str, ...]
    words: tuple[str, ...]
    instruction: str | None = None
    instructed: str = "{instruction}"

    def fits(self, folder: Folder) -> bool:
        """Check whether a checkpoint is a language model of the type."""
        writes = folder.architecture.endswith("ForCausalLM")
        return writes and folder.config.model_type == self.model_type


RECIPES = {
    "qwen3": CausalPrompt(
        "qwen3",
        (
            "<|im_start|>system\nJudge whether the Document meets the requirements based on the "
            'Query and the Instruct provided. Note that the answer can only be "yes" or "no".'
            "<|im_end|>\n<|im_start|>user\n",
            "<Instruct>: {instruction}\n<Query>: {query}\n<Document>: {document}",
            "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n",
        ),
        words=("yes", "no"),
        instruction="Given a web search query, retrieve relevant passages that answer the query",
    ),
    "bge-gemma": CausalPrompt(
        "gemma",
        (
            "{bos}",
            "A: {query}",
            "\n",
            "B: {document}",
            "\n",
            "Given a query A and a passage B, determine whether the passage contains an answer to "
            "the query by providing a prediction of either 'Yes' or 'No'.",
        ),
        words=("Yes",),
    ),
    "mxbai": CausalPrompt(
        "qwen2",
        (
            "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful "
            "assistant.<|im_end|>\n<|im_start|>user\n",
            "{instruction}query: {query}",
            "\n",
            "document: {document}",
            "\n",
            "You are a search relevance expert who evaluates how well documents match search "
            "queries. For each query-document pair, carefully analyze the semantic relationship "
            "between them, then provide your binary relevance judgment (0 for not relevant, 1 for "
            "relevant).\nRelevance:",
            "<|im_end|>\n<|im_start|>assistant\n",
        ),
        words=("1", "0"),
        instruction="",
        instructed="instruction: {instruction}\n",
    ),
}


def _load(recipe: CausalPrompt, folder: Folder) -> Loaded:
    pairs = Prompt(recipe, folder)
    if folder.architecture.endswith("ForSequenceClassification"):  # converted: the head subtracts
        return load_classifier(folder), pairs
    ids = [folder.token(word) for word in recipe.words]
    from transformers.utils.hub import cached_file

    path = cached_file(
        folder.checkpoint.source,
        LOGIT_SCORE,
        _raise_exceptions_for_gated_repo=False,
        _raise_exceptions_for_missing_entries=False,
        _raise_exceptions_for_connection_errors=False,
    )
    named = json.loads(read_file(Path(path))) if path is not None else {}
    there = [named.get("true_token_id"), named.get("false_token_id")]
    raise_if(
        path is not None and [i for i in there if i is not None] != ids,
        ModelLoadError,
        f"{folder.checkpoint.what}: {LOGIT_SCORE} names the tokens {there}, its family reads "
        f"{ids}: it is prompted another way; choose the family= it belongs to",
    )
    return LastToken(folder.checkpoint.model("AutoModelForCausalLM"), ids), pairs


class LastToken(nn.Module):
    """Causal language model whose output layer is reduced to the words of its answer."""

    def __init__(self, encoder: Any, ids: list[int]) -> None:
        super().__init__()
        encoder.set_output_embeddings(OutputRows(encoder.get_output_embeddings(), ids))
        self.encoder = encoder

    def forward(self, ids: Tensor, mask: Tensor, types: Tensor) -> Tensor:
        """Return the score of each prompt; rows are padded on the left. Shape: (batch,)."""
        order = mask.argsort(dim=1, stable=True)  # padding first
        ids, mask = ids.gather(1, order), mask.gather(1, order)
        logits: Tensor = (
            self.encoder(
                input_ids=ids,
                attention_mask=mask,
                position_ids=(mask.cumsum(1) - 1).clamp(min=0),
                use_cache=False,
                logits_to_keep=1,
            )
            .logits[:, -1]
            .float()
        )
        return logits[:, 0] - logits[:, 1] if logits.shape[1] > 1 else logits[:, 0]


class Prompt(PairTokenizer):
    """Tokenizer of pairs in a recipe's prompt; only the passage is cut into chunks."""

    def __init__(self, recipe: CausalPrompt, folder: Folder) -> None:
        super().__init__(folder.tokenizer, max_length=folder.length())
        given = recipe.instruction if folder.instruction is None else folder.instruction
        shown = recipe.instructed.replace("{instruction}", given) if given else ""
        self._fixed = {"bos": folder.tokenizer.bos_token or "", "instruction": shown}
        self._pieces = recipe.pieces
        size = sum(len(each[0]) for each in self._piecewise([{"query": "", "document": ""}])[0])
        least = size + self.question_tokens + 2 * OVERLAP_TOKENS
        refuse_if(
            self.max_length < least,
            "max_length",
            self.max_length,
            f"at least {least}: the prompt alone has {size} tokens",
        )

    def _encode(self, pairs: Sequence[Pair]) -> list[Tokens]:
        values = [
            {"query": question, "document": whole(title_of(p.title) + p.text)}
            for question, (_, p) in zip(self._asked(pairs), pairs, strict=True)
        ]
        texts, columns = [whole(p.text) for _, p in pairs], list[list[Tokens]]()
        titles = [len(title_of(p.title)) for _, p in pairs]
        for column in zip(*self._piecewise(values), strict=True):
            ids, offsets, starts = zip(*column, strict=True)
            if starts[0] is None:
                columns.append([rows_of(one, 0, 1) for one in ids])
            else:
                before = [start + title for start, title in zip(starts, titles, strict=True)]
                columns.append(placed_rows(ids, offsets, before, texts, 0, 1))
        made = [np.concatenate(rows, axis=1) for rows in zip(*columns, strict=True)]
        for tokens in made:
            tokens[2, tokens[3] >= 0] = 2
        return made

    def _piecewise(
        self, values: Sequence[Mapping[str, str]]
    ) -> list[list[tuple[list[int], list[tuple[int, int]], int | None]]]:
        """Tokenize the pieces of each prompt: ids, offsets, and where the document begins."""
        prompts: list[Any] = [[] for _ in values]
        for piece in self._pieces:
            head, mark, tail = piece.partition("{document}")
            heads = [filled(head, **self._fixed, **each) for each in values]
            texts = [
                before + each["document"] + tail if mark else before
                for before, each in zip(heads, values, strict=True)
            ]
            for prompt, before, one in zip(prompts, heads, self._read(texts), strict=True):
                prompt.append((one.ids, one.offsets, len(before) if mark else None))
        return prompts


CAUSAL = tuple(
    Family(
        name,
        scales=("tokens",),
        fits=recipe.fits,
        load=partial(_load, recipe),
        takes_instruction=recipe.instruction is not None,
    )
    for name, recipe in RECIPES.items()
)


FAMILIES = {family.name: family for family in (MONOT5, *CAUSAL, CLASSIFIER)}
"""By name, in the order in which they are tried."""


class ReadyReranker(PairScorer, EngineModel[Engine]):
    """Scorer over a published reranker; `BiLabelScorer.from_reranker` creates one.

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

        Example:
            >>> scorer = BiLabelScorer.from_reranker("BAAI/bge-reranker-v2-m3", max_length=1024)
            >>> scorer = BiLabelScorer.from_reranker("Qwen/Qwen3-Reranker-0.6B")
        """
        temperature = check_number("temperature", temperature, low=1e-6)
        options, source = Options.checked(**given), weights_source(str(name_or_dir))
        checkpoint = options.checkpoint(source, f"reranker {str(name_or_dir)!r}")
        config, tokenizer = checkpoint.config(), checkpoint.tokenizer()
        folder = Folder(checkpoint, config, tokenizer, options.max_length, instruction)
        refuse_if(
            family is not None and family not in FAMILIES, "family", family, ", ".join(FAMILIES)
        )
        fitting = (each.name for each in FAMILIES.values() if each.fits(folder))
        named = family or next(fitting, "")
        raise_if(
            not named,
            ModelLoadError,
            f"{checkpoint.what}: {folder.architecture} is a language model whose prompt is not "
            f"known; pass family= with the one it was trained with: {', '.join(FAMILIES)}",
        )
        chosen = FAMILIES[named]
        scale = chosen.scales[0] if scale is None else scale
        refuse_if(
            scale not in chosen.scales,
            "scale",
            scale,
            f"{' or '.join(map(repr, chosen.scales))} for a {config.model_type} of the family "
            f"{chosen.name!r}",
        )
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
        self._engine.check_finite(all(map(math.isfinite, numbers)))
        return numbers

    def _label(self, output: float) -> BiLabelScore:
        if self.scale == "probability":
            refuse_if(
                not 0 <= output <= 1,
                "scale",
                self.scale,
                "'logit', whose outputs are not kept to [0, 1] as a probability is",
            )
            output = logit(output)
        return of_logits(output / self.temperature)

    def _details(self) -> list[str]:
        return [f"scale={self.scale!r}", "llm_prefer=None", *super()._details()]
