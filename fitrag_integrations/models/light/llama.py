"""The closed-book model over numpy: what the torch model writes, and what it shows of itself."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from fitrag_integrations.errors import refuse_if
from fitrag_integrations.models.causal.words import cut_at, until_stop
from fitrag_integrations.models.runtime.folder import read_arrays, read_checked
from fitrag_integrations.values.prompt import Completion

Floats = NDArray[np.float32]
Places = NDArray[np.int64]
Cache: TypeAlias = dict[int, tuple[Floats, Floats]]  # layer to the keys and values of a row so far


class Llama:
    """Run the Llama of a folder, whose manifest holds the files' checksums."""

    def __init__(self, folder: Path, manifest: dict[str, Any]) -> None:
        def entry(file: str) -> dict[str, str]:
            return {"file": file, "sha256": manifest["files"][file]}

        self.name = str(manifest["name"])
        self.config = json.loads(read_checked(folder, entry("config.json")))
        self.tokenizer = Tokenizer.from_buffer(read_checked(folder, entry("tokenizer.json")))
        self.weights = read_arrays(folder, entry("model.safetensors"))
        self.end, self.limit = self.config["eos_token_id"], self.config["max_position_embeddings"]
        self._size = self.config["head_dim"]
        half = np.arange(0, self._size, 2, dtype=np.float32) / self._size
        turn = self.config["rope_parameters"]["rope_theta"] ** -half
        angles = np.outer(np.arange(self.limit, dtype=np.float32), np.tile(turn, 2))
        self.cos, self.sin = np.cos(angles), np.sin(angles)

    def encode(self, text: str) -> list[int]:
        """Turn a text to be continued into token ids.

        Raises `InputError` for one that fills the model's input: nothing is cut without a word.
        """
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=True).ids
        allowed = f"fewer than {self.limit}, the input of {self.name}"
        refuse_if(len(ids) >= self.limit, "tokens of a prompt", len(ids), allowed)
        return ids

    def passed(
        self, rows: Sequence[Sequence[int]], kept: Sequence[Cache] | None = None
    ) -> list[tuple[list[Floats], Floats]]:
        """Run the tokens of each row behind those in its cache, and add theirs to it.

        The rows are one matrix wherever tokens do not see each other, and nothing is padded.

        Returns:
            For each row the states before the first layer and behind each, the last of them
            normed, shape (tokens, width) each, and the logits, shape (tokens, vocabulary).
        """
        kept = [{} for _ in rows] if kept is None else kept
        ends = np.cumsum([len(row) for row in rows]).tolist()
        parts = [slice(end - len(row), end) for row, end in zip(rows, ends, strict=True)]
        begins = [len(own[0][0]) if own else 0 for own in kept]
        at = np.concatenate([b + np.arange(len(r)) for r, b in zip(rows, begins, strict=True)])
        states = [self.weights["model.embed_tokens.weight"][np.concatenate(rows)]]
        for layer in range(self.config["num_hidden_layers"]):
            name = f"model.layers.{layer}."
            x = states[-1]
            y = self._normed(f"{name}input_layernorm", x)
            query, key, value = (
                self._line(f"{name}self_attn.{part}_proj", y).reshape(len(x), -1, self._size)
                for part in "qkv"
            )
            query, key = self._turned(query, at), self._turned(key, at)
            seen = []
            for part, own in zip(parts, kept, strict=True):
                keys, values = key[part], value[part]
                if layer in own:
                    before = own[layer]
                    keys = np.concatenate([before[0], keys])
                    values = np.concatenate([before[1], values])
                own[layer] = keys, values
                seen.append(self._attended(query[part], keys, values))
            x = x + self._line(f"{name}self_attn.o_proj", np.concatenate(seen))
            y = self._normed(f"{name}post_attention_layernorm", x)
            gate = self._line(f"{name}mlp.gate_proj", y)
            y = gate / (1 + np.exp(-gate)) * self._line(f"{name}mlp.up_proj", y)
            states.append(x + self._line(f"{name}mlp.down_proj", y))
        states[-1] = self._normed("model.norm", states[-1])
        logits = self._line("model.embed_tokens", states[-1])
        return [([each[part] for each in states], logits[part]) for part in parts]

    def written(
        self, prompts: Sequence[tuple[str, int]], stop: Sequence[str]
    ) -> list[tuple[Completion, Floats]]:
        """Continue prompts greedily, each by so many tokens at most and up to the first stop text.

        Returns:
            For each prompt its text, whose `cut` is set where the tokens ran out, and the `facts`
            of each token.
        """
        ids = [self.encode(prompt) for prompt, _ in prompts]
        most = [min(m, self.limit - len(row)) for (_, m), row in zip(prompts, ids, strict=True)]
        kept: list[Cache] = [{} for _ in ids]
        made: list[list[int]] = [[] for _ in ids]
        measured: list[list[Floats]] = [[] for _ in ids]
        live = [row for row, tokens in enumerate(most) if tokens > 0]
        while live:
            found = self.passed([made[i][-1:] or ids[i] for i in live], [kept[i] for i in live])
            last = np.stack([logits[-1] for _, logits in found])
            chosen = last.argmax(-1).tolist()
            going = []
            for row, token, numbers in zip(live, chosen, facts(last, chosen), strict=True):
                if token == self.end:
                    continue
                made[row].append(token)
                measured[row].append(numbers)
                text = self.tokenizer.decode(made[row])
                if len(made[row]) < most[row] and cut_at(text, stop) == text:
                    going.append(row)
            live = going
        results = []
        for own, numbers, tokens in zip(made, measured, most, strict=True):
            text, count = until_stop(self.tokenizer.decode, own, stop)
            completion = Completion(text.strip(), cut=count if count == tokens else None)
            results.append((completion, np.array(numbers[:count]).reshape(count, 3)))
        return results

    def _attended(self, query: Floats, key: Floats, value: Floats) -> Floats:
        """Attend from the last tokens of a row to all of it. Shape: (tokens, width)."""
        scores = np.einsum("qhd,khd->hqk", query, key) / np.float32(self._size**0.5)
        if len(query) > 1:
            places = np.arange(len(key))
            scores[:, places > places[-len(query) :, None]] = -np.inf
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        found: Floats = np.einsum("hqk,khd->qhd", weights, value).reshape(len(query), -1)
        return found

    def _turned(self, x: Floats, at: Places) -> Floats:
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
