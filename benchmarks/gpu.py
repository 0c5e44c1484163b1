"""Measure on a GPU what only a GPU can tell, in one run of less than nine minutes.

    python benchmarks/gpu.py [--out FOLDER] [--seconds 520] [--rehearse]

It runs the tests that need a GPU, then takes the times of the models at the papers' sizes with
random weights, which cost what trained ones do: nothing is fetched. The median and the spread of
each go to FOLDER/<machine>.json, benchmarks/results by default, beside the floor that the device's
own arithmetic sets. Where there is no CUDA device it says so and writes nothing. --rehearse runs
the same lines at tiny sizes on the CPU, to see that they run; its times mean nothing.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from fitrag_integrations.models.causal.engine import CausalEngine
from fitrag_integrations.models.encoder.trunk import Trunk
from fitrag_integrations.models.runtime.engine import Options
from fitrag_integrations.models.runtime.placing import float32_head, place
from fitrag_integrations.models.runtime.worker import finished

ROOT = Path(__file__).resolve().parents[1]
REPEATS = 20
T5 = {"vocab_size": 32128, "decoder_start_token_id": 0, "d_kv": 64}


@dataclass(frozen=True)
class Sizes:
    """Say how large things are; the defaults are the papers'."""

    base: dict[str, int]
    large: dict[str, int]
    llama: dict[str, int]
    passages: int = 100
    tokens: int = 160
    graded: int = 10
    asked: int = 60
    batches: tuple[int, ...] = (1, 256)
    vectors: int = 21_000_000
    width: int = 768


FULL = Sizes(
    base={"d_model": 768, "d_ff": 3072, "num_layers": 12, "num_heads": 12},
    large={"d_model": 1024, "d_ff": 4096, "num_layers": 24, "num_heads": 16},
    llama={},  # its configuration's defaults are Llama-2-7B's
)
SMALL = {"d_model": 64, "d_ff": 128, "num_layers": 2, "num_heads": 2}
TINY = Sizes(
    base=SMALL,
    large=SMALL,
    llama={"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2}
    | {"num_attention_heads": 2, "num_key_value_heads": 2, "vocab_size": 300},
    passages=6,
    tokens=24,
    graded=2,
    asked=12,
    batches=(1, 4),
    vectors=1000,
    width=32,
)


@dataclass(frozen=True)
class Figure:
    """Hold a time in milliseconds: the median of the runs, the fastest, the slowest.

    `wall` is what the host waited, `device` what the GPU worked, None where there is none; `floor`
    what an H200 would take for the arithmetic alone.
    """

    name: str
    wall: tuple[float, float, float]
    device: tuple[float, float, float] | None
    of: str
    floor: float | None = None


class Bench:
    """Measure on one device, at the sizes given, until the time is up."""

    def __init__(self, device: str, sizes: Sizes, seconds: float) -> None:
        self.device, self.sizes = device, sizes
        self.until = time.monotonic() + seconds

    def figures(self) -> Iterator[Figure]:
        """Take the figures, the cheapest first; what there is no time for is left out."""
        for measure in (self.scorer, self.evaluator, self.search, self.gate):
            if time.monotonic() > self.until:
                print(f"{measure.__name__}: no time left")
                continue
            try:
                yield from measure()
            except torch.OutOfMemoryError as error:
                print(f"{measure.__name__}: {error}")
            self._empty()

    def scorer(self) -> Iterator[Figure]:
        """Time FIT-RAG's scorer: T5-base over 100 passages of 160 tokens."""
        from transformers import T5Config, T5EncoderModel

        model = self._made(T5EncoderModel, T5Config(**T5, **self.sizes.base))
        trunk = Trunk(model, pooling="mean").eval()
        ids = self._ids(self.sizes.passages, self.sizes.tokens)
        mask, types = torch.ones_like(ids), torch.zeros_like(ids)
        of = f"{len(ids)} pairs of {self.sizes.tokens} tokens"
        run = lambda: trunk.pool(trunk(ids, mask, types), mask)  # noqa: E731
        yield self._timed("T5-base scorer", run, of, floor=3.6)

    def evaluator(self) -> Iterator[Figure]:
        """Time CRAG's evaluator: T5-large over the ten passages of a question."""
        from transformers import T5Config, T5ForSequenceClassification

        model = self._made(
            T5ForSequenceClassification, T5Config(**{**T5, **self.sizes.large, "num_labels": 1})
        )
        float32_head(model)
        ids = self._ids(self.sizes.graded, self.sizes.tokens)
        ids[:, -1] = 1  # T5 refuses a text that does not end
        mask = torch.ones_like(ids)
        of = f"{len(ids)} pairs of {self.sizes.tokens} tokens"
        run = lambda: model(input_ids=ids, attention_mask=mask).logits  # noqa: E731
        yield self._timed("T5-large evaluator", run, of, floor=2.9)

    def gate(self) -> Iterator[Figure]:
        """Time IK's question to a 7B model, one and 256 at once."""
        from transformers import LlamaConfig, LlamaForCausalLM

        model = self._made(LlamaForCausalLM, LlamaConfig(**self.sizes.llama))
        budget = max(self.sizes.batches) * self.sizes.asked
        options = Options(self.device, "bfloat16", budget)
        engine = CausalEngine(model, _tokenizer(), options).retain()
        floors = {1: 3.1, 256: 256.0}
        for count in self.sizes.batches:
            rows = [([7 + i % 90 for i in range(self.sizes.asked)], (5, 6))] * count
            of = f"{count} questions of {self.sizes.asked} tokens"
            ask = lambda rows=rows: finished(engine.next_logits(rows))  # noqa: E731
            yield self._timed("IK over Llama 7B", ask, of, floor=floors.get(count))
        engine.release()

    def search(self) -> Iterator[Figure]:
        """Time a flat search in half precision, over as many vectors as the memory has room for."""
        count, width = self.sizes.vectors, self.sizes.width
        if self.device == "cuda":
            free, _ = torch.cuda.mem_get_info()
            count = min(count, int(0.6 * free / (2 * width)))
        found = torch.empty(count, width, dtype=torch.float16, device=self.device)
        for part in found.split(1_000_000):
            part.normal_()
        asked = torch.randn(1, width, device=self.device).half()
        of = f"1 question, {count} x {width} float16"
        yield self._timed("flat search", lambda: (found @ asked.T).flatten().topk(10), of)
        yield from self._faiss(min(count, 1_000_000))

    def _faiss(self, count: int) -> Iterator[Figure]:
        import numpy as np

        try:
            import faiss
        except ImportError:
            print("FAISS: not installed")
            return
        if not hasattr(faiss, "StandardGpuResources") or self.device != "cuda":
            print("FAISS: this build has no GPU")
            return
        index = faiss.GpuIndexFlatIP(faiss.StandardGpuResources(), self.sizes.width)
        vectors = np.random.default_rng(13).standard_normal((count, self.sizes.width), np.float32)
        index.add(vectors)
        asked, of = vectors[:1], f"1 question, {count} x {self.sizes.width} float32"
        yield self._timed("FAISS flat", lambda: index.search(asked, 10), of)

    def _made(self, kind: Any, config: Any) -> Any:
        """Make a model of random weights on the device, as a checkpoint is loaded and placed."""
        torch.manual_seed(13)
        from transformers.initialization import no_init_weights

        with no_init_weights(), torch.device(self.device):
            model = kind._from_config(config, dtype=torch.bfloat16)
        for weight in model.parameters():
            weight.data.normal_(std=0.02)
        return place(model, self.device, torch.bfloat16).eval().requires_grad_(False)

    def _ids(self, rows: int, tokens: int) -> torch.Tensor:
        return torch.randint(5, 90, (rows, tokens), device=self.device)

    @torch.inference_mode()
    def _timed(
        self, name: str, run: Callable[[], Any], of: str, floor: float | None = None
    ) -> Figure:
        walls: list[float] = []
        devices: list[float | None] = []
        for at in range(REPEATS + 3):
            start = time.perf_counter()
            marks = self._marks()
            run()
            devices.append(self._between(marks))
            if at < 3:  # kernels are chosen and memory is found
                walls.clear()
                devices.clear()
                continue
            walls.append(1000 * (time.perf_counter() - start))
        worked = [one for one in devices if one is not None]
        figure = Figure(name, _spread(walls), _spread(worked) if worked else None, of, floor)
        print(f"{name}, {of}: {figure.wall[0]:.2f} ms ({figure.wall[1]:.2f}-{figure.wall[2]:.2f})")
        return figure

    def _marks(self) -> list[Any]:
        if self.device != "cuda":
            return []
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        marks[0].record()
        return marks

    def _between(self, marks: list[Any]) -> float | None:
        if not marks:
            return None
        marks[1].record()
        torch.cuda.synchronize()
        return float(marks[0].elapsed_time(marks[1]))

    def _empty(self) -> None:
        if self.device == "cuda":
            torch.cuda.empty_cache()


def _spread(times: list[float]) -> tuple[float, float, float]:
    return statistics.median(times), min(times), max(times)


def _tokenizer() -> Any:
    """Make a tokenizer of a few words; the ids that are timed are given as they are."""
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    words = {word: at for at, word in enumerate(("<end>", "yes", "no"))}
    made = Tokenizer(models.WordLevel(words, unk_token="<end>"))
    return PreTrainedTokenizerFast(
        tokenizer_object=made, eos_token="<end>", pad_token="<end>", unk_token="<end>"
    )


def tested(seconds: float) -> dict[str, Any]:
    """Run the tests that need a GPU and those of both precisions; gives how they went."""
    paths = ("tests/gpu/test_on_cuda.py", "tests/models/test_precision.py")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *paths]
    try:
        ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return {"finished": False, "seconds": seconds}
    counts = {name: int(n) for n, name in re.findall(r"(\d+) (passed|failed|skipped)", ran.stdout)}
    failed = re.findall(r"^FAILED (\S+)", ran.stdout, re.MULTILINE)
    print(ran.stdout[-2000:] if failed else f"tests: {counts}")
    return {"finished": True, **counts, "failures": failed}


def main() -> None:
    """Test, measure, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--seconds", type=float, default=520.0)
    parser.add_argument("--rehearse", action="store_true")
    args = parser.parse_args()
    if not args.rehearse and not torch.cuda.is_available():
        print("no CUDA device: unmeasured")
        return
    started = time.monotonic()
    tests = {} if args.rehearse else tested(0.5 * args.seconds)
    left = args.seconds - (time.monotonic() - started)
    device, sizes = ("cpu", TINY) if args.rehearse else ("cuda", FULL)
    figures = [asdict(figure) for figure in Bench(device, sizes, left).figures()]
    machine = platform.node() if args.rehearse else torch.cuda.get_device_name()
    row = {
        "machine": machine,
        "rehearsed": args.rehearse,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "torch": torch.__version__,
        "tests": tests,
        "milliseconds": figures,
        "seconds": round(time.monotonic() - started, 1),
    }
    out = args.out or (None if args.rehearse else ROOT / "benchmarks" / "results")
    if out is None:
        print(json.dumps(row, indent=1))
        return
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{re.sub(r'[^a-z0-9]+', '-', machine.lower()).strip('-')}.json"
    path.write_text(json.dumps(row, indent=1) + "\n", encoding="utf-8")
    print(path)


if __name__ == "__main__":
    main()
