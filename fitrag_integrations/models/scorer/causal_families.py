"""Causal language models that answer a prompt with yes or no: Qwen3-Reranker and its like.

A prompt is a list of pieces, each tokenized by itself, as the models' own pages do. The score is
the logit of the positive word at the last token, less that of the negative one where there is one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor, nn

from fitrag_integrations.errors import ModelLoadError, refuse_if
from fitrag_integrations.models.encoder.pairs import (
    OVERLAP_TOKENS,
    Pair,
    PairTokenizer,
    Tokens,
    placed_rows,
    rows_of,
    title_of,
    whole,
)
from fitrag_integrations.models.scorer.families import (
    Family,
    Folder,
    Loaded,
    OutputRows,
    load_classifier,
)

LOGIT_SCORE = "1_LogitScore/config.json"
"""Where sentence-transformers keeps the tokens that a causal reranker answers with."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a published model is prompted.

    Args:
        model_type: Of the configuration.
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


RECIPES = {
    "qwen3": Recipe(
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
    "bge-gemma": Recipe(
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
    "mxbai": Recipe(
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


def _load(recipe: Recipe, folder: Folder) -> Loaded:
    pairs = Prompt(recipe, folder)
    if folder.architecture.endswith("ForSequenceClassification"):  # converted: the head subtracts
        return load_classifier(folder), pairs
    ids = [folder.token(word) for word in recipe.words]
    _refuse_other_words(folder, ids)
    return LastToken(folder.checkpoint.model("AutoModelForCausalLM"), ids), pairs


class LastToken(nn.Module):
    """A causal language model whose output layer is reduced to the words of its answer."""

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

    def __init__(self, recipe: Recipe, folder: Folder) -> None:
        super().__init__(folder.tokenizer, max_length=folder.length())
        given = recipe.instruction if folder.instruction is None else folder.instruction
        fixed = {"instruction": recipe.instructed.replace("{instruction}", given or "")}
        self._fixed = {"bos": folder.tokenizer.bos_token or "", **(fixed if given else {})}
        self._pieces = recipe.pieces
        size = sum(len(each[0]) for each in self._piecewise([{"query": "", "document": ""}])[0])
        least = size + self.question_tokens + 2 * OVERLAP_TOKENS
        allowed = f"at least {least}: the prompt alone has {size} tokens"
        refuse_if(self.max_length < least, "max_length", self.max_length, allowed)

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
            heads = [_filled(head, {**self._fixed, **each}) for each in values]
            texts = [
                before + each["document"] + tail if mark else before
                for before, each in zip(heads, values, strict=True)
            ]
            for prompt, before, one in zip(prompts, heads, self._read(texts), strict=True):
                prompt.append((one.ids, one.offsets, len(before) if mark else None))
        return prompts


def _filled(piece: str, values: Mapping[str, str]) -> str:
    """Fill the slots of a piece once, so that braces in a text stay what they are."""
    return re.sub(r"\{(\w+)\}", lambda slot: values.get(slot[1], ""), piece)


def _refuse_other_words(folder: Folder, ids: list[int]) -> None:
    """Compare the ids with those that the folder names for sentence-transformers."""
    from transformers.utils.hub import cached_file

    path = cached_file(
        folder.checkpoint.source,
        LOGIT_SCORE,
        _raise_exceptions_for_gated_repo=False,
        _raise_exceptions_for_missing_entries=False,
        _raise_exceptions_for_connection_errors=False,
    )
    if path is None:
        return
    named = json.loads(Path(path).read_text(encoding="utf-8"))
    there = [named.get("true_token_id"), named.get("false_token_id")]
    if [i for i in there if i is not None] != ids:
        raise ModelLoadError(
            f"{folder.checkpoint.what}: {LOGIT_SCORE} names the tokens {there}, its family reads "
            f"{ids}: it is prompted another way; choose the family= it belongs to"
        )


def _fits(recipe: Recipe, folder: Folder) -> bool:
    writes = folder.architecture.endswith("ForCausalLM")
    return writes and folder.config.model_type == recipe.model_type


FAMILIES = tuple(
    Family(
        name,
        scales=("tokens",),
        fits=partial(_fits, recipe),
        load=partial(_load, recipe),
        takes_instruction=recipe.instruction is not None,
    )
    for name, recipe in RECIPES.items()
)
