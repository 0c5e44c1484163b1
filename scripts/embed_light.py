"""Write `embedded/light`: the graph of MiniLM's forward pass, its embeddings and its tokenizer.

    python scripts/embed_light.py

The graph holds no weights; embeddings are kept in eight bits, with a scale for each token.
"""

import hashlib
import io
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from safetensors.numpy import save_file

from fitrag_integrations.models.encoder.encoders import load_encoder
from fitrag_integrations.models.light.engine import EMBEDDINGS
from fitrag_integrations.models.runtime.backends import sample
from fitrag_integrations.models.runtime.folder import write_manifest
from fitrag_integrations.models.runtime.saved import embedded_folder
from fitrag_integrations.models.runtime.sources import MINILM, weights_source

SMALL = 384  # numbers; what is smaller stays in the graph
LEVELS = 127  # on each side of zero; with half of them one decision in a hundred changes


def main() -> None:
    """Write the folder."""
    home = embedded_folder("light")
    home.mkdir(exist_ok=True)
    trunk, _ = load_encoder(embedded_folder("trunk"), attention="eager")
    (home / "graph.onnx").write_bytes(without_weights(graph_of(trunk.eval())))
    parts = {k: v.numpy() for k, v in trunk.encoder.state_dict().items() if "embeddings." in k}
    save_file(in_eight_bits(parts), home / "embeddings.safetensors")
    shutil.copy(Path(weights_source(MINILM)) / "tokenizer.json", home)
    named = {"graph": "graph.onnx", "embeddings": "embeddings.safetensors"}
    fields = {name: entry(home / file) for name, file in named.items()}
    fields["tokenizer"] = entry(home / "tokenizer.json")
    write_manifest(home, "model.json", kind="light", fields={"base": MINILM, **fields})


def graph_of(trunk):
    """Export a trunk, each weight by its name."""
    dims = {0: torch.export.Dim("batch", min=1, max=65536), 1: torch.export.Dim.DYNAMIC}
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            trunk,
            tuple(sample(trunk, (3, 17))),
            dynamo=True,
            optimize=False,  # which would fold weights under other names
            verbose=False,
            input_names=["ids", "mask", "types"],
            output_names=["states"],
            dynamic_shapes=(dims,) * 3,
        )
    assert program is not None
    file: Any = io.BytesIO()  # it says it wants a path, and takes both
    program.save(file)
    return onnx.load_from_string(file.getvalue())


def without_weights(model):
    """Take the weights out, and what is told of where each node came from."""
    for each in model.graph.initializer:
        each.ClearField("metadata_props")
        if each.data_type == onnx.TensorProto.FLOAT and np.prod(each.dims) >= SMALL:
            each.ClearField("raw_data")
            each.data_location = onnx.TensorProto.EXTERNAL
            entry = each.external_data.add()
            entry.key, entry.value = "location", "weights"
    for node in model.graph.node:
        node.ClearField("metadata_props")
        node.ClearField("doc_string")
    del model.graph.value_info[:], model.metadata_props[:]
    return model.SerializeToString()


def in_eight_bits(parts):
    """Keep words' vectors as whole numbers up to 127 with a scale, the rest in half precision."""
    words = parts[f"{EMBEDDINGS}.weight"]
    scale = np.abs(words).max(1, keepdims=True).clip(min=1e-8) / LEVELS
    rest = {k: v.astype(np.float16) for k, v in parts.items() if k != f"{EMBEDDINGS}.weight"}
    return rest | {
        f"{EMBEDDINGS}.weight": np.round(words / scale).astype(np.int8),
        f"{EMBEDDINGS}.scale": scale.astype(np.float32),
    }


def entry(path):
    """Name a file with its checksum."""
    return {"file": path.name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}


if __name__ == "__main__":
    main()
