"""all-MiniLM-L6-v2 without torch: the weights of the extra `offline` in the graph that ships."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from fitrag_integrations.models.encoder.recipe import KNOWN
from fitrag_integrations.models.light.graphs import BUDGET, Fast, session
from fitrag_integrations.models.runtime.batching import BLOCK, in_blocks, token_batches
from fitrag_integrations.models.runtime.folder import read_arrays, read_checked, read_manifest
from fitrag_integrations.models.runtime.saved import embedded_folder
from fitrag_integrations.models.runtime.sources import MINILM, MINILM_SHA256
from fitrag_integrations.models.runtime.worker import Steps, check_going

UNUSED = ("pooler.", "embeddings.position_ids")  # of the checkpoint, but not of the graph


class LightDense:
    """Encode texts with the vectors of `encoder.vectors.Dense`. One worker owns it.

    Args:
        folder: Where the checkpoint lies.
    """

    width = 384

    def __init__(self, folder: Path) -> None:
        self.recipe = KNOWN[MINILM]
        home = embedded_folder("light")
        manifest = read_manifest(home, "model.json", kind="light", needs=("graph", "tokenizer"))
        self._tokenizer = Fast(read_checked(home, manifest["tokenizer"])).backend_tokenizer
        self._tokenizer.enable_truncation(self.recipe.max_tokens)
        self._tokenizer.no_padding()
        entry = {"file": "model.safetensors", "sha256": MINILM_SHA256}
        make = onnxruntime.OrtValue.ortvalue_from_numpy
        arrays = read_arrays(folder, entry).items()
        self._held = {
            f"encoder.{name}": make(np.ascontiguousarray(array))
            for name, array in arrays
            if not name.startswith(UNUSED)
        }
        self._session = session(read_checked(home, manifest["graph"]), self._held)

    def encode(self, items: Sequence[tuple[str, str]]) -> Steps[list[NDArray[np.float32]]]:
        """Return the vectors of (name of a prompt, text), in order. Shape of each: (width,)."""
        for name in {name for name, _ in items}:
            self.recipe.prompt(name)  # has no prompts: any other than those of the roles is refused
        return in_blocks([text for _, text in items], self._block, size=BLOCK)

    def _block(self, texts: Sequence[str]) -> Steps[list[NDArray[np.float32]]]:
        whole = [text.encode("utf-8", "replace").decode("utf-8") for text in texts]  # no surrogates
        rows = [each.ids for each in self._tokenizer.encode_batch(whole)]
        found: dict[int, NDArray[np.float32]] = {}
        for chosen in token_batches([len(row) for row in rows], budget=BUDGET):
            check_going()
            lengths = np.array([len(rows[i]) for i in chosen])
            mask = np.arange(lengths.max()) < lengths[:, None]
            ids = np.zeros(mask.shape, np.int64)
            ids[mask] = np.concatenate([rows[i] for i in chosen])
            inputs = {"ids": ids, "mask": mask.astype(np.int64), "types": np.zeros_like(ids)}
            (states,) = self._session.run(None, inputs)
            vectors = (states * mask[..., None]).sum(1) / lengths[:, None]
            vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
            found.update(zip(chosen, vectors.astype(np.float32), strict=True))
            if len(found) < len(rows):
                yield len(found), len(rows)
        return [found[i] for i in range(len(rows))]
