"""Graphs without weights, and the weights of the embedded encoder put into them.

`embedded/light` holds two graphs of MiniLM's forward pass, its tokenizer, and what no embedded
model has tuned: the embeddings, in eight bits with a scale for each token. The tuned layers lie
where the torch models have them, so no weight ships twice. One graph computes in float32. The other
multiplies whole numbers: weights have seven bits with a scale for each output, so that no
processor's sums overflow and all give the same, and activations eight bits with a scale for each
token, so that no score depends on what is scored beside it. Attention, norms and sums stay in
float32.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, TypeAlias, TypeVar
from weakref import WeakSet, WeakValueDictionary

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from tokenizers import Tokenizer

from fitrag_integrations.errors import refuse_if
from fitrag_integrations.models.encoder.pairs import Batch, EncodedPair, PairTokenizer
from fitrag_integrations.models.runtime.batching import token_batches
from fitrag_integrations.models.runtime.folder import read_arrays, read_checked, read_manifest
from fitrag_integrations.models.runtime.saved import embedded_folder
from fitrag_integrations.models.runtime.worker import Steps, Worker

T = TypeVar("T")
Floats = NDArray[np.float32]
Arrays: TypeAlias = dict[str, Floats]
Forward = Callable[[Floats, Batch], Sequence[T]]
BUDGET = 1024  # padded tokens of one forward pass
KEPT = 32_768  # tokens whose states are kept for another head that asks next, 50 MB
EMBEDDINGS = "embeddings.word_embeddings"
DTYPES = ("int8", "float32")
LEVELS = 63  # of a weight on each side of zero
PRODUCTS = {
    "attention.self": ("query", "key", "value"),
    "attention.output": ("dense",),
    "intermediate": ("dense",),
    "output": ("dense",),
}
"""The products of a layer; the first is one for queries, keys and values."""


class Fast:
    """A tokenizer of `tokenizers` under the names by which `PairTokenizer` asks for one."""

    pad_token_id = 0

    def __init__(self, content: bytes) -> None:
        self.backend_tokenizer = Tokenizer.from_buffer(content)

    def __len__(self) -> int:
        return int(self.backend_tokenizer.get_vocab_size())


class LightEngine:
    """Run functions over token states, on a worker of its own, for all models that use it."""

    def __init__(self, encoder: Path, dtype: str) -> None:
        self.users: WeakSet[object] = WeakSet()
        home = embedded_folder("light")
        manifest = read_manifest(home, "model.json", kind="light", needs=("graph", "embeddings"))
        fields = read_manifest(
            encoder, "encoder.json", kind="encoder", needs=("max_length", "tuned")
        )
        tokenizer = Fast(read_checked(home, manifest["tokenizer"]))
        self.tokenizer = PairTokenizer(tokenizer, max_length=fields["max_length"])
        words = read_arrays(home, manifest["embeddings"])
        layers = read_arrays(encoder, fields["tuned"])
        graph = "graph" if dtype == "float32" else "eight_bits"
        if dtype == "float32":
            scale = words.pop(f"{EMBEDDINGS}.scale")
            words[f"{EMBEDDINGS}.weight"] = words[f"{EMBEDDINGS}.weight"] * scale
            held = {f"encoder.{name}": array for name, array in (words | layers).items()}
        else:
            held = {f"encoder.{name}": array for name, array in in_eight_bits(words, layers)}
        make = onnxruntime.OrtValue.ortvalue_from_numpy  # the session reads them where they are
        self._held = {
            name: make(np.ascontiguousarray(array))
            for name, array in held.items()
            if not name.startswith("encoder.pooler.")
        }
        self._session = session(read_checked(home, manifest[graph]), self._held)
        self.worker = Worker("light encoder", small=BUDGET // 128)
        self._kept: dict[bytes, Floats] = {}  # by a pair's tokens, the oldest first
        self._tokens = 0

    def leave(self, user: object) -> None:
        """Stop the worker when the last user has left."""
        self.users.discard(user)
        if not self.users:
            self.worker.close()

    def run(self, pairs: Sequence[EncodedPair], forward: Forward[T]) -> Steps[list[T]]:
        """Return the result of each pair, in order. On the worker only.

        `forward(states, batch)` gets token states, shape (batch, tokens, width).
        """
        found: dict[int, T] = {}
        for chosen in token_batches([len(pair) for pair in pairs], budget=BUDGET):
            batch = Batch.of([pairs[i] for i in chosen], pad_id=self.tokenizer.pad_id)
            found.update(zip(chosen, forward(self._known(batch), batch), strict=True))
            yield len(found), len(pairs)
        return [found[i] for i in range(len(pairs))]

    def _known(self, batch: Batch) -> Floats:
        """Return the states of a batch; what was read a moment ago is not read again."""
        names = [pair.tokens.tobytes() for pair in batch.pairs]
        known = {row: self._kept[name] for row, name in enumerate(names) if name in self._kept}
        if not known:
            states = self.states(batch)
        else:
            width = next(iter(known.values())).shape[1]
            states = np.zeros((*batch.tokens.shape[1:], width), dtype=np.float32)
            for row, held in known.items():
                states[row, : len(held)] = held
        fresh = [row for row in range(len(names)) if row not in known]
        if known and fresh:
            part = [batch.pairs[row] for row in fresh]
            read = self.states(Batch.of(part, pad_id=self.tokenizer.pad_id))
            states[fresh, : read.shape[1]] = read
        for row in fresh:
            if names[row] not in self._kept:  # else it stands twice in a batch
                own = states[row, : batch.lengths[row]]
                self._kept[names[row]] = own.copy() if known else own  # not to hold all for one
                self._tokens += len(own)
        while self._tokens > KEPT:
            self._tokens -= len(self._kept.pop(next(iter(self._kept))))
        return states

    def forget(self) -> None:
        """Clear the cache of states, so that the next pass computes everything."""
        self.worker.call(self.clear, [None])

    def clear(self, _: object = None) -> list[None]:
        """Clear the cache, as `forget` does; on the worker only."""
        self._kept.clear()
        self._tokens = 0
        return [None]

    def states(self, batch: Batch) -> Floats:
        """Run the graph. Shape: (batch, tokens, width); what is padding has any number."""
        ids, types = batch.tokens[0].astype(np.int64), batch.tokens[1].astype(np.int64)
        mask = (np.arange(ids.shape[1]) < batch.lengths[:, None]).astype(np.int64)
        states: Floats = self._session.run(None, {"ids": ids, "mask": mask, "types": types})[0]
        return states


_engines: WeakValueDictionary[tuple[Path, str], LightEngine] = WeakValueDictionary()
_making = Lock()


def precision(dtype: str | None) -> str:
    """Return the precision to compute in; raises `InputError` for another than `DTYPES`."""
    if dtype in (None, "auto"):
        return "float32" if os.environ.get("FITRAG_CPU_DTYPE") == "float32" else "int8"
    refuse_if(dtype not in DTYPES, "dtype", dtype, " or ".join(DTYPES))
    return str(dtype)


def in_eight_bits(words: Arrays, layers: Arrays) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield what the graph of whole numbers holds, by its names.

    Args:
        words: The embeddings, words' in eight bits with scales.
        layers: The weights and biases of all layers.
    """
    yield from words.items()
    for name, array in layers.items():
        if "LayerNorm" in name:
            yield name, array
    for layer in range(sum(name.endswith("intermediate.dense.bias") for name in layers)):
        for part, names in PRODUCTS.items():
            at = f"encoder.layer.{layer}.{part}"
            weight, bias = (
                np.concatenate([layers[f"{at}.{name}.{kind}"] for name in names])
                for kind in ("weight", "bias")
            )
            scale = np.maximum(np.abs(weight).max(1), 1e-8) / LEVELS
            yield f"{at}.weight", np.rint(weight / scale[:, None]).astype(np.int8).T
            yield f"{at}.scale", scale
            yield f"{at}.bias", bias


def engine_of(encoder: Path, dtype: str, user: object) -> LightEngine:
    """Return an engine; models over the same encoder and precision share it while one lives."""
    with _making:
        held = _engines.get((encoder, dtype))
        if held is None or held.worker.closed:
            _engines[encoder, dtype] = held = LightEngine(encoder, dtype)
        held.users.add(user)
        return held


def session(graph: bytes, values: Mapping[str, Any]) -> Any:
    """Open a graph whose weights are those `values`, read where they are."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(os.environ.get("OMP_NUM_THREADS") or 0)
    # threads that spin while they wait take the cores from whatever else runs
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3
    options.add_external_initializers(list(values), list(values.values()))
    return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
