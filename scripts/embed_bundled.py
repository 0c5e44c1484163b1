"""Write `embedded/bundled`: two graphs of the trunk and all heads, the embeddings, the tokenizer;
and `embedded/base`, the layers of the untouched base.

    python scripts/embed_bundled.py

The heads are exported from torch, out of what the folders of scorer, evaluator, reader and one-pass
scorer hold, and stay in float32. The graphs hold no large weights; embeddings are kept in eight
bits, with a scale for each token.
"""

import hashlib
import io
import shutil
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from safetensors.numpy import load_file, save_file

sys.path.insert(0, str(Path(__file__).resolve().parent / "student"))
from model import FURTHEST, LEVELS, best_span, shipped_lines, shipped_student  # noqa: E402

from fitrag_integrations.models.encoder.encoders import load_encoder
from fitrag_integrations.models.runtime.backends import sample
from fitrag_integrations.models.runtime.folder import read_manifest, write_arrays, write_manifest
from fitrag_integrations.models.runtime.saved import embedded_folder
from fitrag_integrations.models.runtime.sources import MINILM, weights_source

EMBEDDINGS = "embeddings.word_embeddings"
FLOAT = onnx.TensorProto.FLOAT
SMALL = 384  # numbers; what is smaller stays in the graph
WORDS = 127  # levels of a word's vector; with half of them one decision in a hundred changes


def main() -> None:
    """Write the folder."""
    home = embedded_folder("bundled")
    home.mkdir(exist_ok=True)
    student, _ = shipped_student(attention="eager")
    trunk, _ = load_encoder(embedded_folder("trunk"), attention="eager")
    heads = heads_graph(student.eval())
    whole = joined(without_weights(graph_of(trunk.eval())), heads)
    (home / "graph.onnx").write_bytes(whole.SerializeToString())
    base = load_file(Path(weights_source(MINILM)) / "model.safetensors")
    layers = {name: each for name, each in base.items() if name.startswith("encoder.")}
    write_layers(embedded_folder("base"), layers, pooling="mean")
    parts = {k: v.numpy() for k, v in trunk.encoder.state_dict().items() if "embeddings." in k}
    save_file(in_eight_bits(parts), home / "embeddings.safetensors")
    shutil.copy(Path(weights_source(MINILM)) / "tokenizer.json", home)
    eight_bits = joined(eight_bits_graph(trunk.encoder.config), heads)
    (home / "eight_bits.onnx").write_bytes(eight_bits.SerializeToString())
    named = {
        "graph": "graph.onnx",
        "eight_bits": "eight_bits.onnx",
        "embeddings": "embeddings.safetensors",
    }
    fields = {name: entry(home / file) for name, file in named.items()}
    fields["tokenizer"] = entry(home / "tokenizer.json")
    made_of = {
        name: read_manifest(embedded_folder(name), "model.json", kind=name)["head"]["sha256"]
        for name in ("bilabel", "evaluator", "reader", "onepass")
    }
    lines = {"sentence": shipped_lines()["sentence"], "heads": made_of}
    write_manifest(home, "model.json", kind="bundled", fields={"base": MINILM, **fields, **lines})


def heads_graph(student):
    """Export the heads over the trunk's states, with what the reader adds for its best answer."""
    line = shipped_lines()["answered"][4] / 2

    class Heads(torch.nn.Module):
        def __init__(self):
            super().__init__()
            student.encoder = None
            self.student = student

        def forward(self, states, ids, mask, types, text):
            labels, tokens = student.heads(states, ids, mask, types, text)
            best = best_span(tokens, text).clamp(-FURTHEST, FURTHEST) * line
            return torch.cat([labels[:, :3], labels[:, 3:] + best.unsqueeze(1)], dim=1), tokens

    given = [torch.ones(3, 17, dtype=torch.long) for _ in range(4)]  # one for all would be merged
    states = torch.zeros(3, 17, student.tokens.in_features)
    dims = {0: torch.export.Dim("batch", min=1, max=65536), 1: torch.export.Dim("tokens", max=512)}
    names = ["states", "ids", "mask", "types", "text"]
    model = exported(Heads(), (states, *given), names, ["labels", "tokens"], (dims,) * 5)
    for each in model.graph.initializer:
        if each.dims == [student.clues.rarity.numel()]:  # the scorer's file has it too
            each.name, old = "rarity", each.name
            outside(each)
            for node in model.graph.node:
                node.input[:] = ["rarity" if name == old else name for name in node.input]
    return model


def joined(trunk, heads):
    """Lay the graph of the heads behind that of the trunk."""
    heads = onnx.compose.add_prefix(
        heads, "heads/", rename_inputs=False, rename_outputs=False, rename_initializers=False
    )
    trunk.graph.node.extend(heads.graph.node)
    trunk.graph.initializer.extend(heads.graph.initializer)
    trunk.graph.input.extend(each for each in heads.graph.input if each.name == "text")
    trunk.graph.output.extend(heads.graph.output)
    return trunk


def graph_of(trunk):
    """Export a trunk, each weight by its name."""
    dims = {0: torch.export.Dim("batch", min=1, max=65536), 1: torch.export.Dim.DYNAMIC}
    given = tuple(sample(trunk, (3, 17)))
    return exported(trunk, given, ["ids", "mask", "types"], ["states"], (dims,) * 3)


def exported(module, given, inputs, outputs, dims):
    """Export a module as a graph of any batch and length."""
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            module,
            given,
            dynamo=True,
            optimize=False,  # which would fold weights under other names
            verbose=False,
            input_names=inputs,
            output_names=outputs,
            dynamic_shapes=dims,
            opset_version=20,
        )
    assert program is not None
    file: Any = io.BytesIO()  # it says it wants a path, and takes both
    program.save(file)
    model = onnx.load_from_string(file.getvalue())
    for node in [*model.graph.node, *model.graph.initializer]:
        node.ClearField("metadata_props")
        node.ClearField("doc_string")
    del model.graph.value_info[:], model.metadata_props[:]
    return model


def without_weights(model):
    """Take the large weights out of a graph."""
    for each in model.graph.initializer:
        if each.data_type == FLOAT and np.prod(each.dims) >= SMALL:
            outside(each)
    return model


def outside(tensor):
    """Leave a tensor to whoever opens the graph."""
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    entry = tensor.external_data.add()
    entry.key, entry.value = "location", "weights"


def eight_bits_graph(config):
    """Build the graph whose products are of whole numbers, from ONNX Runtime's own operators."""
    width, inner, layers = config.hidden_size, config.intermediate_size, config.num_hidden_layers
    nodes: list[Any] = []
    held: dict[str, Any] = {}

    def weight(name, kind, *dims):
        held[name] = onnx.TensorProto(name=name, data_type=kind, dims=dims)
        outside(held[name])
        return name

    def constant(name, value):
        held[name] = onnx.numpy_helper.from_array(np.array(value), name)
        return name

    def node(op, *given, out=None, own=False, **options):
        made = [f"v{len(nodes)}"] if out is None else out
        domain = "com.microsoft" if own else ""
        nodes.append(onnx.helper.make_node(op, given, made, domain=domain, **options))
        return made[0]

    def norm(name, *given):
        both = (weight(f"encoder.{name}.LayerNorm.{k}", FLOAT, width) for k in ("weight", "bias"))
        op = "SkipLayerNormalization" if len(given) > 1 else "LayerNormalization"
        return node(op, *given, *both, own=len(given) > 1, epsilon=config.layer_norm_eps)

    def product(name, x, size, outputs, *, zero=128):
        """Multiply by a weight; each token is divided by its largest number first."""
        largest = node("ReduceMax", node("Abs", x), constant("last", [-1]), keepdims=1)
        largest = node("Max", largest, constant("tiny", np.float32(1e-9)))
        step = constant(f"step of {zero}", np.float32(1 / (255 - zero)))
        place = constant(f"zero at {zero}", np.uint8(zero))
        whole = node("QuantizeLinear", node("Div", x, largest), step, place)
        weights = weight(f"encoder.{name}.weight", onnx.TensorProto.INT8, size, outputs)
        scales = weight(f"encoder.{name}.scale", FLOAT, outputs)
        found = node("MatMulIntegerToFloat", whole, weights, step, scales, place, own=True)
        return node(
            "Add", node("Mul", found, largest), weight(f"encoder.{name}.bias", FLOAT, outputs)
        )

    words, rows = f"encoder.{EMBEDDINGS}", config.vocab_size
    table = weight(f"{words}.weight", onnx.TensorProto.INT8, rows, width)
    vectors = node("Cast", node("Gather", table, "ids"), to=FLOAT)
    scales = node("Gather", weight(f"{words}.scale", FLOAT, rows, 1), "ids")
    types = weight("encoder.embeddings.token_type_embeddings.weight", FLOAT, 2, width)
    places = weight(
        "encoder.embeddings.position_embeddings.weight",
        FLOAT,
        config.max_position_embeddings,
        width,
    )
    tokens = node("Shape", "ids", start=1, end=2)
    first = node("Slice", places, constant("first", [0]), tokens, constant("rows", [0]))
    vectors = node("Add", node("Mul", vectors, scales), node("Gather", types, "types"))
    x = norm("embeddings", node("Add", vectors, first))
    mask = node("Cast", "mask", to=onnx.TensorProto.INT32)
    for layer in range(layers):
        at = f"encoder.layer.{layer}"
        three = [f"{at}.{name}" for name in ("query", "key", "value")]
        both = product(f"{at}.attention.self", x, width, 3 * width)
        node("Split", both, constant("three", [width] * 3), out=three, axis=-1)
        heads = config.num_attention_heads
        seen = node("MultiHeadAttention", *three, "", mask, own=True, num_heads=heads)
        seen = product(f"{at}.attention.output", seen, width, width)
        x = norm(f"{at}.attention.output", seen, x)
        wide = node("Gelu", product(f"{at}.intermediate", x, width, inner), own=True)
        # few of its numbers lie below zero, and none far
        x = norm(f"{at}.output", product(f"{at}.output", wide, inner, width, zero=32), x)
    node("Identity", x, out=["states"])
    described = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.INT64, ["batch", "tokens"])
        for name in ("ids", "mask", "types")
    ]
    states = onnx.helper.make_tensor_value_info("states", FLOAT, ["batch", "tokens", width])
    graph = onnx.helper.make_graph(nodes, "eight bits", described, [states], [*held.values()])
    sets = [onnx.helper.make_opsetid("", 20), onnx.helper.make_opsetid("com.microsoft", 1)]
    return onnx.helper.make_model(graph, opset_imports=sets, ir_version=10)


def in_eight_bits(parts, levels=WORDS):
    """Keep matrices but small tables as whole numbers with a scale a row, the rest in half."""
    made = {}
    for name, array in parts.items():
        if array.ndim < 2 or "position" in name or "token_type" in name:
            made[name] = array.astype(np.float16)
            continue
        scale = np.maximum(np.abs(array).max(1, keepdims=True), np.float32(1e-8)) / levels
        made[name] = np.rint(array / scale).astype(np.int8)
        made[f"{name.removesuffix('weight')}scale"] = scale.astype(np.float32)
    return made


def write_layers(folder, layers, *, pooling):
    """Write an encoder that ships: its layers in whole numbers, over the base's embeddings."""
    made = write_arrays(folder, "tuned.safetensors", in_eight_bits(layers, LEVELS))
    fields = {"base": MINILM, "pooling": pooling, "max_length": 384, "rounded": True}
    write_manifest(folder, "encoder.json", kind="encoder", fields={**fields, "tuned": made})


def entry(path):
    """Name a file with its checksum."""
    return {"file": path.name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}


if __name__ == "__main__":
    main()
