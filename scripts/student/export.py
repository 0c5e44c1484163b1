"""Write the student as one ONNX graph, and check that it says what torch says.

    python scripts/student/export.py RUN OUT [--check ROWS]

Every head is in the graph. Word vectors are stored in eight bits with a scale each, gathered before
they are brought back; all other weights in sixteen, brought back when the graph is loaded. What
runs is float32. OUT gets `student.onnx`, `tokenizer.json` and, where RUN has it, `student.json`.
With `--shared` the graph holds no weights: it names places in `weights.safetensors` beside it,
which torch reads as well (`model.load_shared`), so that both are the same bytes, stored once.
"""

from __future__ import annotations

import argparse
import json
import logging
import shutil
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parent))
from model import Student, batched, load, shipped_student  # noqa: E402

from fitrag_integrations.models.runtime.sources import MINILM, weights_source
from fitrag_integrations.types import Passage  # noqa: E402

INPUTS = ("input_ids", "attention_mask", "token_type_ids", "text_mask")
LARGE = 256  # numbers; smaller tensors stay as they are


class Rounded(nn.Module):
    """Look word vectors up in a table of eight bits, a scale per word."""

    table: Tensor
    scale: Tensor

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        scale = weight.abs().amax(1, keepdim=True).clamp(min=1e-8) / 127
        self.register_buffer("table", (weight / scale).round().to(torch.int8))
        self.register_buffer("scale", scale)

    def forward(self, ids: Tensor) -> Tensor:
        """Give the vectors of ids."""
        return self.table[ids].float() * self.scale[ids]


def main() -> None:
    """Export, shrink, check."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", help="a run's folder, or 'shipped' for the start")
    parser.add_argument("out", type=Path)
    parser.add_argument("--check", type=Path, help="the folder of rows.py")
    parser.add_argument("--shared", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    args.out.mkdir(parents=True, exist_ok=True)
    model, tokenizer = (
        shipped_student(attention="eager")
        if args.run == "shipped"
        else load(Path(args.run), attention="eager")
    )
    export(model.eval(), args.out / "student.onnx")
    if args.shared:
        share(args.out / "student.onnx", model)
    shutil.copyfile(Path(weights_source(MINILM)) / "tokenizer.json", args.out / "tokenizer.json")
    fitted = Path(args.run) / "fitted.json"
    told = json.loads(fitted.read_text()) if fitted.exists() else unfitted()
    (args.out / "student.json").write_text(json.dumps(told, indent=1) + "\n")
    print(f"{(args.out / 'student.onnx').stat().st_size / 1e6:.1f} MB")
    if args.check:
        check(args.run, args.out, args.check)


def unfitted() -> dict[str, object]:
    """Give what stands in for fitted numbers before there are any."""
    return {
        "labels": {name: [1.0, 0.0] for name in ("has_answer", "llm_prefer", "grade", "answered")},
        "sentence": [1.0, 0.5, 0.5, 0.5, 0.3, 0.0, 0.0, 0.0],
    }


def export(model: Student, path: Path) -> None:
    """Trace the model with any batch and length, then store its weights in fewer bits."""
    embeddings = model.encoder.embeddings
    embeddings.word_embeddings = Rounded(embeddings.word_embeddings.weight.detach())
    sample = tuple(torch.ones(2, 40, dtype=torch.long) for _ in INPUTS)
    batch, tokens = torch.export.Dim("batch"), torch.export.Dim("tokens", min=4, max=512)
    torch.onnx.export(
        model,
        sample,
        path,
        dynamo=True,
        dynamic_shapes=tuple({0: batch, 1: tokens} for _ in INPUTS),
        input_names=list(INPUTS),
        output_names=["labels", "tokens"],
        external_data=False,
        opset_version=18,
        verbose=False,
    )
    shrink(path)


def shrink(path: Path) -> None:
    """Store large float32 weights as float16, each with a cast behind it."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    graph = onnx.load(path)
    del graph.graph.value_info[:]
    for node in graph.graph.node:
        node.doc_string = ""
        del node.metadata_props[:]
    casts = []
    for given in graph.graph.initializer:
        if given.data_type == TensorProto.FLOAT and np.prod(given.dims) >= LARGE:
            name = given.name
            small = numpy_helper.to_array(given).astype(np.float16)
            given.CopyFrom(numpy_helper.from_array(small, f"{name}.half"))
            casts.append(helper.make_node("Cast", [f"{name}.half"], [name], to=TensorProto.FLOAT))
    nodes = [*casts, *graph.graph.node]
    del graph.graph.node[:]
    graph.graph.node.extend(nodes)
    onnx.checker.check_model(graph)
    onnx.save(graph, path)


def share(path: Path, model: Student) -> None:
    """Move the graph's weights into a safetensors file, under torch's names.

    The graph has some of them transposed; these have `.T` behind their name.
    """
    import onnx
    from onnx import TensorProto, numpy_helper
    from safetensors.numpy import save_file

    known = {}
    for name, tensor in model.state_dict().items():
        given = tensor.numpy()
        given = given.astype(np.float16) if given.dtype == np.float32 else given
        known[given.shape, given.tobytes()] = name
        if given.ndim == 2:
            known.setdefault((given.T.shape, given.T.tobytes()), f"{name}.T")
    graph = onnx.load(path)
    placed = {}
    for given in graph.graph.initializer:
        array = numpy_helper.to_array(given)
        name = known.get((array.shape, array.tobytes()))
        if array.size >= LARGE and name is not None:
            placed[given.name] = (name, array)
    stored = dict(placed.values())
    stored |= {
        name: tensor.numpy()
        for name, tensor in model.state_dict().items()
        if name not in stored and f"{name}.T" not in stored
    }
    file = path.parent / "weights.safetensors"
    save_file(stored, file)
    header = int.from_bytes(file.read_bytes()[:8], "little")
    places = json.loads(file.read_bytes()[8 : 8 + header])
    for given in graph.graph.initializer:
        if given.name in placed:
            first, last = places[placed[given.name][0]]["data_offsets"]
            given.ClearField("raw_data")
            given.data_location = TensorProto.EXTERNAL
            for key, value in (
                ("location", file.name),
                ("offset", 8 + header + first),
                ("length", last - first),
            ):
                given.external_data.add(key=key, value=str(value))
    path.write_bytes(graph.SerializeToString())


def check(run: str, out: Path, rows: Path) -> None:
    """Compare with torch on held-out pairs: the largest differences, decisions, and the speed."""
    from reference import Student as Reference

    items = [json.loads(line) for line in (rows / "held.jsonl").open()][:60]
    triples = [(i["question"], p["title"], p["text"]) for i in items for p in i["passages"]][:400]
    model, tokenizer = shipped_student() if run == "shipped" else load(Path(run))
    model.eval()
    encoded = [
        c
        for group in tokenizer.encode([(q, Passage("", x, t)) for q, t, x in triples])
        for c in group
    ]
    began = time.process_time()
    theirs: list[tuple[Tensor, Tensor]] = []
    with torch.inference_mode():
        order = sorted(range(len(encoded)), key=lambda i: len(encoded[i]))
        found: dict[int, tuple[Tensor, Tensor]] = {}
        for at in range(0, len(order), 16):
            some = order[at : at + 16]
            labels, tokens = model(**batched([encoded[i] for i in some]))
            found |= {i: (labels[r], tokens[r, : len(encoded[i])]) for r, i in enumerate(some)}
        theirs = [found[i] for i in range(len(encoded))]
    torch_seconds = time.process_time() - began
    began = time.process_time()
    reference = Reference(out)
    print(f"graph loaded in {time.process_time() - began:.2f} s")
    chunks = [c for group in reference.encode(triples) for c in group]
    assert [c.ids for c in chunks] == [e.ids for e in encoded]
    assert [c.places for c in chunks] == [e.offsets for e in encoded]
    began = time.process_time()
    ours = reference.run(chunks)
    seconds = time.process_time() - began
    apart = max(float(np.abs(o[0] - t[0].numpy()).max()) for o, t in zip(ours, theirs, strict=True))
    marks = max(float(np.abs(o[1] - t[1].numpy()).max()) for o, t in zip(ours, theirs, strict=True))
    same = np.mean(
        [((o[0] > 0) == (t[0].numpy() > 0)).all() for o, t in zip(ours, theirs, strict=True)]
    )
    print(
        f"{len(ours)} chunks: labels apart by {apart:.4f}, tokens by {marks:.4f}, "
        f"all four decisions equal {same:.4f}"
    )
    print(
        f"cpu seconds: torch {torch_seconds:.1f}, onnxruntime {seconds:.1f}, "
        f"{torch_seconds / seconds:.2f} times"
    )


if __name__ == "__main__":
    main()
