"""The bundled scorer, evaluator and reader: one graph, run by ONNX Runtime without torch.

`embedded/bundled` holds the graph twice, exported from the torch models by
`scripts/embed_bundled.py`: token ids in, all heads out, so that every decision on a pair comes of
one pass. Per pair there are the logits of `has_answer`, `llm_prefer`, the evaluator's grade and the
reader's trust; per token those of an answer's start and end, and of how far it is worth keeping.

The large weights are not in the graph. The tuned layers are in the files that torch reads, the
embeddings beside the graph, in eight bits with a scale for each token. One graph computes in
float32. The other multiplies whole numbers: weights have seven bits with a scale for each output,
so that sums overflow on no processor and are equal on all. Activations have eight bits with a scale
for each token, so that no score depends on the rest of the batch. Attention, norms, sums and heads
stay in float32.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Self, TypeAlias, cast

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from tokenizers import Tokenizer

from fitrag_integrations.core.checks import check_is
from fitrag_integrations.core.extras import torch_needed
from fitrag_integrations.errors import ModelLoadError, raise_if, refuse_if
from fitrag_integrations.models.encoder.items import (
    ANSWER_TOKENS,
    CALIBRATED,
    Correction,
    Lines,
)
from fitrag_integrations.models.encoder.pairs import (
    Batch,
    EncodedPair,
    Pair,
    PairTokenizer,
    rows_of,
)
from fitrag_integrations.models.encoder.recipe import KNOWN
from fitrag_integrations.models.encoder.sentences import (
    Floats,
    Nearness,
    Read,
    cosines,
    later_ends,
)
from fitrag_integrations.models.kinds import (
    Answer,
    ChunkSentenceScorer,
    PairGrader,
    PairReader,
    answer_of,
    found_in,
)
from fitrag_integrations.models.runtime.batching import (
    BLOCK,
    Room,
    in_batches,
    in_blocks,
    in_groups,
)
from fitrag_integrations.models.runtime.folder import (
    kind_in,
    read_arrays,
    read_checked,
    read_manifest,
    unscaled,
    without_similarity,
)
from fitrag_integrations.models.runtime.saved import (
    Bundled,
    Origin,
    Pool,
    SavedModel,
    Shared,
    embedded_folder,
)
from fitrag_integrations.models.runtime.sources import MINILM, MINILM_SHA256, scorer_name
from fitrag_integrations.models.runtime.worker import Steps, Worker
from fitrag_integrations.values.thresholds import ActionThresholds

Arrays: TypeAlias = Mapping[str, NDArray[Any]]
BUDGET = 1024  # padded tokens of one forward pass
KEPT = 200_000  # tokens whose logits are kept for another head that asks next, about 3 MB
DTYPES = ("int8", "float32")
GRADE, TRUST = 2, 3  # columns of a pair's logits, behind `has_answer` and `llm_prefer`
PRODUCTS = {
    "attention.self": ("query", "key", "value"),
    "attention.output": ("dense",),
    "intermediate": ("dense",),
    "output": ("dense",),
}
"""The products of a layer; the first is one for queries, keys and values."""
UNUSED = ("pooler.", "embeddings.position_ids")  # of MiniLM's checkpoint, but not of the graph


class Fast:
    """Tokenizer of `tokenizers` with the interface that `PairTokenizer` uses."""

    pad_token_id = 0

    def __init__(self, content: bytes) -> None:
        self.backend_tokenizer = Tokenizer.from_buffer(content)

    def __len__(self) -> int:
        return int(self.backend_tokenizer.get_vocab_size())


class Graph:
    """ONNX graph over some weights, with its tokenizer."""

    def __init__(self, dtype: str, weights: Arrays) -> None:
        self.home = embedded_folder("bundled")
        self.manifest = read_manifest(
            self.home,
            "model.json",
            kind="bundled",
            needs=("graph", "eight_bits", "embeddings", "tokenizer", "sentence", "heads"),
        )
        self.tokenizer = Fast(read_checked(self.home, self.manifest["tokenizer"]))
        scorer = embedded_folder("bilabel")
        head = read_manifest(scorer, "model.json", kind="bilabel", needs=("head",))["head"]
        raise_if(
            head["sha256"] != self.manifest["heads"]["bilabel"],
            ModelLoadError,
            f"{self.home}: exported from other heads than those beside it",
        )
        make = onnxruntime.OrtValue.ortvalue_from_numpy  # the session reads them where they are
        held = {
            "rarity": read_arrays(scorer, head)["rarity"],
            **{f"encoder.{name}": each for name, each in weights.items()},
        }
        self._held = {name: make(np.ascontiguousarray(each)) for name, each in held.items()}
        options = onnxruntime.SessionOptions()
        first = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()  # of the levels
        options.intra_op_num_threads = int(first) if first.isdecimal() else 0
        # threads that spin while they wait take the cores from whatever else runs
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.log_severity_level = 3
        options.add_external_initializers(list(self._held), list(self._held.values()))
        graph = read_checked(
            self.home, self.manifest["graph" if dtype == "float32" else "eight_bits"]
        )
        self._session = onnxruntime.InferenceSession(
            graph, options, providers=["CPUExecutionProvider"]
        )
        self._path = onnxruntime.RunOptions()
        self._path.only_execute_path_to_fetches = True

    def run(self, outputs: Sequence[str], batch: Batch) -> list[Floats]:
        """Compute the requested outputs only."""
        given = {
            "ids": batch.tokens[0],
            "mask": np.arange(batch.tokens.shape[2]) < batch.lengths[:, None],
            "types": batch.tokens[1],
            "text": batch.placed,
        }
        inputs = {name: array.astype(np.int64) for name, array in given.items()}
        return cast(list[Floats], self._session.run(outputs, inputs, self._path))

    def pooled(
        self, chunks: Sequence[EncodedPair], weights: Sequence[Floats]
    ) -> Steps[list[Floats]]:
        """Return the product of each chunk's weights, (rows, tokens), and its states."""

        def run(batch: list[tuple[EncodedPair, Floats]]) -> list[Floats]:
            (states,) = self.run(("states",), Batch.of([chunk for chunk, _ in batch]))
            return [
                rows @ own[: rows.shape[1]] for (_, rows), own in zip(batch, states, strict=True)
            ]

        both = list(zip(chunks, weights, strict=True))
        return in_batches(both, run, length=lambda one: len(one[0]), budget=Room(BUDGET))


class Engine(Shared):
    """Logits of pairs, computed on one worker for all models that use it."""

    device = "cpu"

    def __init__(self, dtype: str) -> None:
        home = embedded_folder("bundled")
        manifest = read_manifest(home, "model.json", kind="bundled", needs=("embeddings",))
        self.dtype, self._words = dtype, read_arrays(home, manifest["embeddings"])
        if dtype == "float32":
            self._words = unscaled(self._words)
        self._graph, length = self.over("trunk")
        self.manifest = self._graph.manifest
        self.tokenizer = PairTokenizer(self._graph.tokenizer, max_length=length)
        self.worker = Worker("bundled models")
        self._kept: dict[bytes, Read] = {}  # by a chunk's tokens, the oldest first
        self._tokens = 0

    @cached_property
    def nearness(self) -> Nearness:
        """The cosines of the untouched base, which is loaded at the first call."""
        graph, length = self.over("base")
        return Nearness(self.tokenizer, length, graph.pooled)

    def over(self, name: str) -> tuple[Graph, int]:
        """Open the graph over the layers of an encoder that ships; return its length too."""
        home = embedded_folder(name)
        fields = read_manifest(home, "encoder.json", kind="encoder", needs=("max_length", "tuned"))
        layers = read_arrays(home, fields["tuned"])
        layers = unscaled(layers) if self.dtype == "float32" else dict(joined(layers))
        return Graph(self.dtype, self._words | layers), fields["max_length"]

    def run(self, chunks: Sequence[EncodedPair]) -> Steps[list[Read]]:
        """Return the logits of each chunk, in order; those of recent pairs are cached.

        Call it on the worker only.
        """
        names = [chunk.tokens.tobytes() for chunk in chunks]
        found = {name: self._kept[name] for name in names if name in self._kept}
        new = {n: chunk for n, chunk in zip(names, chunks, strict=True) if n not in found}
        read = yield from in_batches(list(new.values()), self.read, length=len, budget=Room(BUDGET))
        fresh = dict(zip(new, read, strict=True))
        self._kept |= fresh
        self._tokens += sum(len(each.tokens) for each in read)
        while self._tokens > KEPT:
            self._tokens -= len(self._kept.pop(next(iter(self._kept))).tokens)
        found |= fresh
        return [found[name] for name in names]

    def read(self, chunks: Sequence[EncodedPair]) -> list[Read]:
        """Run the graph over a batch of chunks."""
        batch = Batch.of(chunks, pad_id=self.tokenizer.pad_id)
        rows = zip(*self._graph.run(("labels", "tokens"), batch), batch.lengths, strict=True)
        return [Read(own.copy(), marks[:size].copy()) for own, marks, size in rows]


_engines: Pool[Engine] = Pool()


def joined(layers: Arrays) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield the weights and biases of all layers as the graph of whole numbers holds them."""
    for name, array in layers.items():
        if "LayerNorm" in name:
            yield name, array
    for layer in range(sum(name.endswith("intermediate.dense.bias") for name in layers)):
        for part, names in PRODUCTS.items():
            at = f"encoder.layer.{layer}.{part}"
            for kind in ("weight", "scale", "bias"):
                array = np.concatenate([layers[f"{at}.{name}.{kind}"] for name in names])
                yield f"{at}.{kind}", array.T if kind == "weight" else array.reshape(-1)


class BundledModel(Bundled):
    """Model over an engine that all models of the same precision share.

    Args:
        dtype: "int8" (default), with eight-bit products, or "float32". `FITRAG_CPU_DTYPE=float32`
            makes that the default.
        similarity: Whether the cosine of the untouched base counts, where the model has weights for
            it.

    Raises:
        InputError: For another `dtype`, or a `similarity` that is no bool.
    """

    def __init__(self, dtype: str | None = None, *, similarity: bool = True) -> None:
        super().__init__(read_manifest(embedded_folder(self.kind), "model.json", kind=self.kind))
        self.similarity = check_is("similarity", similarity, bool)
        if not similarity:
            self.manifest = without_similarity(self.manifest)
        if dtype in (None, "auto"):
            dtype = "float32" if os.environ.get("FITRAG_CPU_DTYPE") == "float32" else "int8"
        refuse_if(dtype not in DTYPES, "dtype", dtype, " or ".join(DTYPES))
        self.dtype = str(dtype)
        self._engine = _engines.take("the bundled models", self.dtype, partial(Engine, self.dtype))

    @classmethod
    def embedded(cls, *, dtype: str | None = None, similarity: bool = True, **options: Any) -> Self:
        """Load the bundled model; other options raise `MissingExtraError`: they need PyTorch."""
        if options:
            raise torch_needed(ModuleNotFoundError(name="torch"), f"the option {min(options)!r}")
        return cls(dtype, similarity=similarity)

    @classmethod
    def from_pretrained(cls, folder: str | Path, **options: Any) -> Self:
        """Raise `MissingExtraError`: a model other than the bundled one needs PyTorch."""
        raise torch_needed(ModuleNotFoundError(name="torch"), f"the {cls.kind} in {folder}")

    def __reduce__(self) -> tuple[object, ...]:
        return partial(type(self), self.dtype, similarity=self.similarity), ()

    def _chunks(self, pairs: Sequence[Pair]) -> Steps[list[list[tuple[EncodedPair, Read]]]]:
        """Return the chunks of each pair, with their logits."""
        groups = self._engine.tokenizer.encode(pairs)
        read = yield from in_groups(groups, self._engine.run)
        return [list(zip(*both, strict=True)) for both in zip(groups, read, strict=True)]


class BundledScorer(ChunkSentenceScorer, BundledModel):
    """Bundled scorer of FIT-RAG (section 4.2), for passages and their sentences.

    A sentence is scored by `has_answer` alone: its `llm_prefer` is None.

    Args:
        dtype, similarity: As for every bundled model.

    Example:
        >>> scorer = BundledScorer()
        >>> scorer.score([("Who wrote it?", Passage("1", "Ann wrote it."))])
    """

    kind = "bilabel"

    def __init__(self, dtype: str | None = None, *, similarity: bool = True) -> None:
        super().__init__(dtype, similarity=similarity)
        self._lines = Lines.of(self.manifest)
        self._line = np.array(self._engine.manifest["sentence"], np.float32)
        self._correction = Correction()
        self._labelled = self._marked = self._engine.run

    @classmethod
    def from_pretrained(cls, folder: str | Path, **options: Any) -> Self:
        """Load a folder of `fitrag calibrate scores`; others, and options, need PyTorch."""
        if options or kind_in(Path(folder)) != CALIBRATED:
            return super().from_pretrained(folder, **options)
        given = Correction.read(Path(folder))
        if given.source != "embedded":
            return super().from_pretrained(given.source)
        made = cls()
        made._correction = given.check(made.name)
        made._origin = Origin(str(folder), {})
        return made

    def __reduce__(self) -> tuple[object, ...]:
        return super().__reduce__() if self._origin is None else SavedModel.__reduce__(self)

    @property
    def name(self) -> str:
        """The scorer's name, equal to that of its PyTorch version, for fitted thresholds."""
        return self._correction.name(scorer_name(self.manifest))


class BundledEvaluator(PairGrader, BundledModel):
    """Bundled evaluator of CRAG (section 4.2), which grades pairs in [-1, 1].

    Args:
        dtype, similarity: As for every bundled model.

    Example:
        >>> BundledEvaluator().evaluate([("Who wrote it?", Passage("1", "Ann wrote it."))])
    """

    kind = "evaluator"

    def __init__(self, dtype: str | None = None, *, similarity: bool = True) -> None:
        super().__init__(dtype, similarity=similarity)
        self._lines, self.name = Lines.of(self.manifest), str(self.manifest["name"])
        self.thresholds = ActionThresholds.from_dict(self.manifest["thresholds"])

    def _grades(self, pairs: Sequence[Pair]) -> Steps[list[float]]:
        found = yield from self._chunks(pairs)
        near = yield from cosines(self._engine, self._lines, [(*pair, ()) for pair in pairs])
        best = [max(float(read.labels[GRADE]) for _, read in chunks) for chunks in found]
        return self._lines.grades(pairs, best, near)


class BundledReader(PairReader, BundledModel):
    """Bundled reader (Karpukhin et al., 2020), which finds the answer in a passage.

    Args:
        dtype, similarity: As for every bundled model.

    Example:
        >>> BundledReader().read([("Who wrote it?", Passage("1", "Ann wrote it."))])[0].text
        'Ann'
    """

    kind = "reader"

    def __init__(self, dtype: str | None = None, *, similarity: bool = True) -> None:
        super().__init__(dtype, similarity=similarity)
        self.abstain_below: float | None = self.manifest["thresholds"]["abstain_below"]

    def _read(self, pairs: Sequence[Pair]) -> Steps[list[Answer]]:
        found = yield from self._chunks(pairs)
        answers = []
        for (_, passage), chunks in zip(pairs, found, strict=True):
            best = []
            for chunk, read in chunks:
                start, end = np.where(chunk.tokens[3] >= 0, read.tokens[:, :2].T, -np.inf)
                scores = start[:, None] + later_ends(end)
                first, further = divmod(int(scores.argmax()), ANSWER_TOKENS)
                best.append(found_in(chunk, float(read.labels[TRUST]), first, first + further))
            answers.append(answer_of(passage, best))
        return answers


class BundledDense:
    """MiniLM encoder in ONNX Runtime, with the vectors of `encoder.vectors.Dense`.

    Args:
        folder: Folder of the checkpoint of the extra `offline`.
    """

    width = 384

    def __init__(self, folder: Path) -> None:
        self.recipe = KNOWN[MINILM]
        arrays = read_arrays(folder, {"file": "model.safetensors", "sha256": MINILM_SHA256})
        used = {name: each for name, each in arrays.items() if not name.startswith(UNUSED)}
        self._graph = Graph("float32", used)
        self._tokenizer = self._graph.tokenizer.backend_tokenizer
        self._tokenizer.enable_truncation(self.recipe.max_tokens)
        self._tokenizer.no_padding()

    def encode(self, items: Sequence[tuple[str, str]]) -> Steps[list[Floats]]:
        """Return the vectors of (name of a prompt, text), in order. Shape of each: (width,)."""
        for name in {name for name, _ in items}:
            self.recipe.prompt(name)  # has no prompts: any other than those of the roles is refused
        return in_blocks([text for _, text in items], self._block, size=BLOCK)

    def _block(self, texts: Sequence[str]) -> Steps[list[Floats]]:
        valid = [text.encode("utf-8", "replace").decode("utf-8") for text in texts]  # no surrogates
        rows = [each.ids for each in self._tokenizer.encode_batch(valid)]
        chunks = [EncodedPair(rows_of(ids, 0, 1)) for ids in rows]
        means = [np.full((1, len(ids)), 1 / len(ids), np.float32) for ids in rows]
        vectors = np.concatenate((yield from self._graph.pooled(chunks, means)))
        vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        return list(vectors)
