"""The closed-book model over numpy: what the torch model writes, and what it shows of itself.

One row at a time: five million weights take a thousandth of a second a token.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from fitrag_integrations.errors import InputError
from fitrag_integrations.models.causal.words import cut_at, until_stop
from fitrag_integrations.models.runtime.folder import read_arrays, read_checked
from fitrag_integrations.values.prompt import Completion

Floats = NDArray[np.float32]


class Llama:
    """Run the Llama of a folder, whose files' checksums its manifest tells."""

    def __init__(self, folder: Path, manifest: dict[str, Any]) -> None:
        def entry(file: str) -> dict[str, str]:
            return {"file": file, "sha256": manifest["files"][file]}

        self.name = str(manifest["name"])
        self.config = json.loads(read_checked(folder, entry("config.json")))
        self.tokenizer = Tokenizer.from_buffer(read_checked(folder, entry("tokenizer.json")))
        self.weights = read_arrays(folder, entry("model.safetensors"))
        self.end, self.limit = self.config["eos_token_id"], self.config["max_position_embeddings"]
        half = np.arange(0, self.config["head_dim"], 2, dtype=np.float32) / self.config["head_dim"]
        turn = self.config["rope_parameters"]["rope_theta"] ** -half
        angles = np.outer(np.arange(self.limit, dtype=np.float32), np.tile(turn, 2))
        self.cos, self.sin = np.cos(angles), np.sin(angles)

    def encode(self, text: str) -> list[int]:
        """Turn a text to be continued into token ids.

        Raises `InputError` for one that fills the model's input: nothing is cut without a word.
        """
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=True).ids
        if len(ids) >= self.limit:
            allowed = f"fewer than {self.limit}, the input of {self.name}"
            raise InputError.of("tokens of a prompt", given=len(ids), allowed=allowed)
        return ids

    def passed(
        self, ids: Sequence[int], kept: list[Any] | None = None
    ) -> tuple[list[Floats], Floats]:
        """Run tokens behind those whose keys and values are `kept`, and keep theirs as well.

        Gives the states before the first layer and behind each, the last of them normed, shape
        (tokens, width) each, and the logits, shape (tokens, vocabulary).
        """
        kept = [] if kept is None else kept
        begin = len(kept[0][0]) if kept else 0
        states = [self.weights["model.embed_tokens.weight"][list(ids)]]
        for layer in range(self.config["num_hidden_layers"]):
            name = f"model.layers.{layer}."
            x = states[-1]
            x = x + self._attended(
                name, self._normed(f"{name}input_layernorm", x), layer, begin, kept
            )
            y = self._normed(f"{name}post_attention_layernorm", x)
            gate = self._line(f"{name}mlp.gate_proj", y)
            y = gate / (1 + np.exp(-gate)) * self._line(f"{name}mlp.up_proj", y)
            states.append(x + self._line(f"{name}mlp.down_proj", y))
        states[-1] = self._normed("model.norm", states[-1])
        return states, self._line("model.embed_tokens", states[-1])

    def written(self, prompt: str, most: int, stop: Sequence[str]) -> tuple[Completion, Floats]:
        """Continue a prompt greedily: the text, and each of its tokens' `facts`.

        At most `most` tokens, up to the first of the `stop` texts; `cut` tells where those ran out.
        """
        ids, kept = self.encode(prompt), list[Any]()
        most = min(most, self.limit - len(ids))
        made: list[int] = []
        measured: list[Floats] = []
        while len(made) < most:
            _, logits = self.passed(made[-1:] or ids, kept)
            chosen = int(logits[-1].argmax())
            if chosen == self.end:
                break
            made.append(chosen)
            measured.append(facts(logits[-1:], [chosen])[0])
            text = self.tokenizer.decode(made)
            if cut_at(text, stop) != text:
                break
        text, count = until_stop(self.tokenizer.decode, made, stop)
        cut = count if count == most else None
        return Completion(text.strip(), cut=cut), np.array(measured[:count]).reshape(count, 3)

    def _attended(self, name: str, x: Floats, layer: int, begin: int, kept: list[Any]) -> Floats:
        size, tokens = self.config["head_dim"], len(x)

        def parted(part: str) -> Floats:
            return self._line(f"{name}self_attn.{part}_proj", x).reshape(tokens, -1, size)

        at = slice(begin, begin + tokens)
        query, key = (self._turned(parted(part), at) for part in ("q", "k"))
        value = parted("v")
        if begin:
            key, value = (
                np.concatenate(both) for both in zip(kept[layer], (key, value), strict=True)
            )
            kept[layer] = key, value
        else:
            kept.append((key, value))
        scores = np.einsum("qhd,khd->hqk", query, key) / np.float32(size**0.5)
        later = np.arange(len(key)) > np.arange(begin, begin + tokens)[:, None]
        scores = np.where(later, -np.inf, scores)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        found = np.einsum("hqk,khd->qhd", weights, value).reshape(tokens, -1)
        return self._line(f"{name}self_attn.o_proj", found)

    def _turned(self, x: Floats, at: slice) -> Floats:
        first, second = np.split(x, 2, axis=-1)
        turned = np.concatenate([-second, first], axis=-1)
        found: Floats = x * self.cos[at, None] + turned * self.sin[at, None]
        return found

    def _normed(self, name: str, x: Floats) -> Floats:
        size = np.sqrt((x * x).mean(-1, keepdims=True) + self.config["rms_norm_eps"])
        found: Floats = x / size * self.weights[f"{name}.weight"]
        return found

    def _line(self, name: str, x: Floats) -> Floats:
        found: Floats = x @ self.weights[f"{name}.weight"].T
        return found


def facts(logits: Floats, chosen: Sequence[int]) -> Floats:
    """Measure tokens as `causal.decoding.token_facts` does: log-probability, margin, entropy.

    Shape: (tokens, 3).
    """
    less = logits - logits.max(-1, keepdims=True)
    logs = less - np.log(np.exp(less).sum(-1, keepdims=True))
    probabilities = np.exp(logs)
    top = np.partition(probabilities, -2, axis=-1)[:, -2:]
    entropy = -(probabilities * np.where(probabilities > 0, logs, 0)).sum(-1)
    own = logs[np.arange(len(logs)), list(chosen)]
    return np.stack([own.clip(max=0), (top[:, 1] - top[:, 0]).clip(0, 1), entropy.clip(0)], axis=-1)
