"""Measure on a GPU what only a GPU can show, end to end, in one run of less than nine minutes.

    python benchmarks/gpu.py [--out FOLDER] [--seconds 520] [--rehearse]

It runs the tests that need a GPU, then times the package's public calls, tokenizing included, at
the papers' sizes: over the text of this repository's documentation, in pairs and prompts of mixed
length. Weights are random, which cost what trained ones do, so nothing is fetched. Where
sentence-transformers or vLLM is installed, it runs beside. The median and the range of each figure
go to FOLDER/<machine>.json, benchmarks/results by default, with the time the kernels worked, how
many there were, the time the arithmetic takes and the peak of memory; a table of them lies beside
it, in Markdown. torch, transformers and pytest are all it needs. The exit status is 1 without a
CUDA device, if a test fails or none ran, and if a figure could not be taken.
--rehearse runs the same lines at tiny sizes on the CPU, to see that they run; its times mean
nothing.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import itertools
import json
import platform
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from fitrag_integrations.models import (
    BiLabelScorer,
    IKClassifier,
    LocalGenerator,
    RetrievalEvaluator,
)
from fitrag_integrations.models.causal import adapters
from fitrag_integrations.models.causal.language_model import CausalEngine
from fitrag_integrations.models.encoder.heads import BiLabelHead, ReaderHead
from fitrag_integrations.models.encoder.pair_model import Engine
from fitrag_integrations.models.encoder.pairs import PairTokenizer
from fitrag_integrations.models.encoder.trunk import Trunk
from fitrag_integrations.models.evaluator.sequence_classifier import SequenceGrader
from fitrag_integrations.models.runtime.engine import Options
from fitrag_integrations.models.runtime.placing import attending, fused, place
from fitrag_integrations.types import Passage

ROOT = Path(__file__).resolve().parents[1]
T5 = {"decoder_start_token_id": 0, "d_kv": 64, "pad_token_id": 1, "eos_token_id": 0}
PLUGINS = ("pytest_asyncio", "pytest_socket")
TESTS = ("tests/gpu/test_on_cuda.py", "tests/models/test_precision.py")


@dataclass(frozen=True)
class Sizes:
    """How large things are; the defaults are the papers'."""

    t5_base: dict[str, int]
    t5_large: dict[str, int]
    bert: dict[str, int]
    llama: dict[str, int]
    shallow: dict[str, int]
    words: int = 8000
    passages: int = 100
    graded: int = 10
    batches: tuple[int, ...] = (1, 256)
    prompts: int = 64
    new_tokens: int = 64
    long: int = 4000
    callers: int = 64
    repeats: int = 10
    warm: int = 2
    vectors: int = 21_000_000
    width: int = 768


FULL = Sizes(
    t5_base={"d_model": 768, "d_ff": 3072, "num_layers": 12, "num_heads": 12},
    t5_large={"d_model": 1024, "d_ff": 4096, "num_layers": 24, "num_heads": 16},
    bert={},  # the defaults of the configurations are BERT-base's and Llama-2-7B's
    llama={"max_position_embeddings": 4096},
    shallow={"num_hidden_layers": 4, "max_position_embeddings": 4096},
)
SMALL = {"d_model": 64, "d_ff": 128, "num_layers": 2, "num_heads": 2}
LLAMA = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2}
LLAMA |= {"num_attention_heads": 2, "num_key_value_heads": 2, "max_position_embeddings": 512}
TINY = Sizes(
    t5_base=SMALL,
    t5_large=SMALL,
    bert={"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2}
    | {"num_attention_heads": 2},
    llama=LLAMA,
    shallow=LLAMA,
    words=400,
    passages=6,
    graded=2,
    batches=(1, 4),
    prompts=3,
    new_tokens=4,
    long=200,
    callers=4,
    repeats=1,
    warm=0,
    vectors=1000,
    width=32,
)


@dataclass(frozen=True)
class Figure:
    """Time in milliseconds (median, fastest, slowest), or a number in another unit.

    Of a GPU: `device` is the time its kernels worked and `events` how many there were, copies
    included; `host` is the rest of the time, in which the GPU waited for the host; `floor` is what
    the arithmetic takes at the rate of a large product, or reading the weights; `peak` the most
    memory, in GiB.
    """

    name: str
    of: str
    wall: tuple[float, float, float]
    device: float | None = None
    events: float | None = None
    host: float | None = None
    floor: float | None = None
    peak: float | None = None
    unit: str = "ms"
    more: dict[str, float] = field(default_factory=dict)


class Bench:
    """Measure on one device, at the sizes given, until the time is up."""

    def __init__(self, device: str, sizes: Sizes, seconds: float) -> None:
        self.device, self.sizes = device, sizes
        self.until = time.monotonic() + seconds
        self.failed: list[str] = []
        self.absent: list[str] = []
        pages = " ".join(p.read_text(encoding="utf-8") for p in sorted(ROOT.glob("docs/**/*.md")))
        self.text, self.chance = pages.split(), random.Random(13)
        self.tokenizer = tokenizer_of(pages, sizes.words, "$A", "[CLS] $A [SEP] $B [SEP]")
        self.ending = tokenizer_of(pages, sizes.words, "$A <end>", "$A <end> $B <end>")
        self.pairs = [(self.words(12), Passage(str(n), self.words(90))) for n in range(1000)]
        read = self.tokenizer([q for q, _ in self.pairs], [p.text for _, p in self.pairs])
        self.a_pair = sum(map(len, read["input_ids"])) / len(self.pairs)  # tokens, in the mean
        read = self.tokenizer([q for q, _ in self.pairs])
        self.a_question = sum(map(len, read["input_ids"])) / len(self.pairs)
        self.rate, self.bandwidth = rates() if device == "cuda" else (0.0, 0.0)

    def figures(self) -> Iterator[Figure]:
        """Take the figures, the cheapest first; what fails is kept in `failed`, with the rest."""
        parts = (
            *(self.scorer, self.reranker, self.evaluator, self.training, self.precision),
            *(self.search, self.language_model),
        )
        for measure in parts:
            if time.monotonic() > self.until:
                self.failed.append(f"{measure.__name__}: no time left")
                continue
            try:
                for figure in measure():
                    low, high = figure.wall[1:]
                    shown = f"{figure.wall[0]:.4g} {figure.unit} ({low:.4g}-{high:.4g})"
                    print(f"{figure.name}, {figure.of}: {shown} {figure.more or ''}", flush=True)
                    yield figure
            except Exception as error:  # whatever a device raises, the others are measured
                traceback.print_exc()
                self.failed.append(f"{measure.__name__}: {type(error).__name__}: {error}")
            if self.device == "cuda":
                torch.cuda.empty_cache()

    def words(self, count: int) -> str:
        """Cut a text of about so many words, between half and twice, from the documentation."""
        size, at = self.chance.randint(count // 2, 2 * count), self.chance.randrange(len(self.text))
        return " ".join([*self.text, *self.text][at : at + size])

    def scorer(self) -> Iterator[Figure]:
        """Time FIT-RAG's scorer: a T5-base with two labels, for one caller and for many."""
        trunk = Trunk(self._made("T5EncoderModel", T5 | self.sizes.t5_base), pooling="mean")
        tokenizer = PairTokenizer(self.tokenizer)
        engine = Engine(trunk, tokenizer, self._options()).retain()
        scorer = BiLabelScorer(engine, BiLabelHead(trunk.width))
        fresh = self._fresh(self.sizes.passages)
        of = f"{self.sizes.passages} passages"
        score, work = lambda: scorer.score(next(fresh)), (trunk, self.sizes.passages * self.a_pair)
        yield self._timed("score, T5-base", of, score, work)
        known = next(fresh)
        of_known = f"{of} whose tokens are known"
        yield self._timed("score, T5-base", of_known, lambda: scorer.score(known), work)
        ten = self._fresh(10)
        callers, runs = self.sizes.callers, self.sizes.repeats + self.sizes.warm
        rounds = iter([[next(ten) for _ in range(callers)] for _ in range(runs)])
        with ThreadPoolExecutor(callers) as pool:
            crowd = lambda: list(pool.map(scorer.score, next(rounds)))  # noqa: E731
            of, work = f"{callers} callers, 10 passages each", (trunk, 10 * callers * self.a_pair)
            yield self._timed("score, T5-base", of, crowd, work, busy=False)
        scorer.unload()

    def reranker(self) -> Iterator[Figure]:
        """Time a cross-encoder of BERT-base's size, beside sentence-transformers' own."""
        with tempfile.TemporaryDirectory() as folder:
            config = self.sizes.bert | {"num_labels": 1}
            self._saved("BertForSequenceClassification", config, folder)
            scorer = BiLabelScorer.from_reranker(
                folder,
                device=self.device,
                dtype="bfloat16",
                batch_tokens=self._options().batch_tokens,
            )
            of, fresh = f"{self.sizes.passages} passages", self._fresh(self.sizes.passages)
            work = scorer._engine.trunk, self.sizes.passages * self.a_pair
            score = lambda: scorer.score(next(fresh))  # noqa: E731
            yield self._timed("from_reranker, BERT-base", of, score, work)
            scorer.unload()
            try:
                from sentence_transformers import CrossEncoder
            except ImportError:
                self.absent.append("sentence-transformers")
                return
            half = {"dtype": torch.bfloat16}
            peer = CrossEncoder(folder, device=self.device, max_length=512, model_kwargs=half)
            texts = ([(q, p.text) for q, p in pairs] for pairs in fresh)
            for size, without in itertools.product((32, 100), (False, True)):
                how = f"batch_size={size}{', without cuDNN attention' if without else ''}"

                def predict(size: int = size, without: bool = without) -> None:
                    with attending(torch.device(self.device if without else "cpu")):
                        peer.predict(next(texts), batch_size=size, show_progress_bar=False)

                yield self._timed(f"CrossEncoder.predict, BERT-base, {how}", of, predict, work)

    def evaluator(self) -> Iterator[Figure]:
        """Time CRAG's evaluator: a T5-large over the passages of a question."""
        config = T5 | self.sizes.t5_large | {"num_labels": 1}
        model = self._made("T5ForSequenceClassification", config)
        grader = SequenceGrader(model, self.ending, self._options())
        evaluator, fresh = RetrievalEvaluator(grader), self._fresh(self.sizes.graded)
        of = f"{self.sizes.graded} passages"
        run, work = (
            lambda: evaluator.evaluate(next(fresh)),
            (model, self.sizes.graded * self.a_pair),
        )
        yield self._timed("evaluate, T5-large", of, run, work)
        evaluator.unload()

    def training(self) -> Iterator[Figure]:
        """Time a step of each trainer: loss, gradients and AdamW, tokenizing included."""
        from fitrag_integrations.training.bilabel.module import BiLabelModule, Lists
        from fitrag_integrations.training.causal.adapter import CausalModule, Example
        from fitrag_integrations.training.encoder import start_encoder
        from fitrag_integrations.training.evaluator.fit import EvaluatorPlan
        from fitrag_integrations.training.evaluator.fit import _start as start_evaluator
        from fitrag_integrations.training.evaluator.module import labelled_pairs, start_regression
        from fitrag_integrations.training.reader import ReaderModule
        from fitrag_integrations.training.rows import Judged, Labelled, ReadingRow

        texts = [passage for _, passage in self.pairs]
        asked = [(self.words(12), tuple(texts[4 * n : 4 * n + 4])) for n in range(4)]
        labels = (1, 0, 0, 0)
        labelled = [Labelled(q, four, labels, labels) for q, four in asked]
        judged = [Judged(q, ("a",), four, labels) for q, four in asked]
        with tempfile.TemporaryDirectory() as bert, tempfile.TemporaryDirectory() as t5:
            self._saved("BertModel", self.sizes.bert, bert)
            classifier = T5 | self.sizes.t5_base | {"num_labels": 1}
            self._saved("T5ForSequenceClassification", classifier, t5, self.ending)
            (trunk, tokenizer, _), (other, _, _) = start_encoder(bert), start_encoder(bert)
            both = [one.requires_grad_(True) for one in (trunk, other)]
            lists, width = Lists(labelled, tokenizer), trunk.width
            reading = [
                (ReadingRow(q, (one.text.split()[3],), one, None, tuple(rest)), (one, *rest))
                for q, (one, *rest) in asked
            ]
            llama = self._causal(self.sizes.shallow)
            config = adapters.lora_config(llama.model, rank=16, alpha=32, dropout=0.0)
            adapters.switch(llama.model, llama.attach(config, {}))
            for name, parameter in llama.model.named_parameters():
                parameter.requires_grad_("lora_" in name)
            known = [Example(row, [5]) for row in llama.encode([q for q, _ in self.pairs[:16]])]
            evaluator, *_ = start_evaluator(judged, EvaluatorPlan(base=bert, tune="full"))
            regression = start_regression(t5, tune="full", rank=4, input_format="plain")
            scoring = BiLabelModule(both[0], BiLabelHead(width), tokenizer)
            reader = ReaderModule(both[1], ReaderHead(width), tokenizer)
            steps: dict[str, tuple[Any, Callable[[], Any]]] = {
                "train bilabel, BERT-base": (scoring, lambda: lists.encoded(range(4))),
                "train reader, BERT-base": (reader, lambda: reading),
                "train evaluator, BERT-base": (evaluator, lambda: judged),
                "regression, T5-base": (regression, lambda: labelled_pairs(judged)[:12]),
                "train ik, 4 layers of Llama 7B": (CausalModule(llama), lambda: known),
            }
            for name, (module, batch) in steps.items():
                module.to(self.device)
                tuned = [p for p in module.parameters() if p.requires_grad]
                optimizer = torch.optim.AdamW(tuned, lr=1e-5)

                def step(module: Any = module, batch: Any = batch, by: Any = optimizer) -> None:
                    by.zero_grad()
                    with torch.autocast(self.device, torch.bfloat16):
                        losses = module(batch())
                    torch.stack([loss.float() for loss in losses.values()]).sum().backward()
                    by.step()

                yield self._timed(name, "a step", step, trains=True)
            llama.release()

    def precision(self) -> Iterator[Figure]:
        """Compare bfloat16 with float32 after a prompt of thousands of tokens."""
        prompts = [self.words(2 * self.sizes.long) for _ in range(2)]
        found = []
        for dtype in ("float32", "bfloat16"):
            llm = LocalGenerator(self._causal(self.sizes.shallow, dtype))
            ids = [self.tokenizer(one)["input_ids"][: self.sizes.long] for one in prompts]
            found.append(llm.p_yes([self.tokenizer.decode(row) for row in ids]))
            llm.unload()
        apart = [abs(a - b) for a, b in zip(*found, strict=True)]
        of = f"bfloat16 from float32, prompts of {self.sizes.long} tokens, 4 layers of Llama 7B"
        yield Figure("p_yes", of, spread(apart), unit="of probability")

    def language_model(self) -> Iterator[Figure]:
        """Time IK with its adapter and the base alone, then how fast answers are written."""
        engine = self._causal(self.sizes.llama)
        config = adapters.lora_config(engine.model, rank=16, alpha=32, dropout=0.0)
        gate = IKClassifier(engine, manifest={"base": "random"}, adapter=engine.attach(config, {}))
        llm = gate.generator(max_new_tokens=self.sizes.new_tokens, stop=())
        asked = lambda count: [self.words(12) for _ in range(count)]  # noqa: E731
        for count in self.sizes.batches:
            of, none = f"{count} questions of mixed length, Llama 7B", [""] * count
            known = lambda n=count, none=none: gate.p_known(asked(n), none)  # noqa: E731
            work = engine.model, count * self.a_question
            yield self._timed("IK with its adapter", of, known, work)
            alone = lambda n=count: llm.p_yes(asked(n))  # noqa: E731
            yield self._timed("the base alone", of, alone, work)
        for count in (1, self.sizes.prompts):
            tokens = self.sizes.new_tokens
            of = f"{count} prompts, {tokens} tokens each, Llama 7B"
            write = lambda n=count: llm.generate(asked(n))  # noqa: E731

            def plain(n: int = count, tokens: int = tokens) -> None:
                given = self.tokenizer(asked(n), padding=True, return_tensors="pt").to(self.device)
                with attending(engine.device):
                    engine.model.generate(
                        input_ids=given["input_ids"],
                        attention_mask=given["attention_mask"],
                        max_new_tokens=tokens,
                    ).tolist()

            work = engine.model, count * (self.a_question + tokens)
            for name, run in (("generate", write), ("transformers' generate", plain)):
                figure = self._timed(name, of, run, work, passes=tokens, busy=count > 1)
                rate = 1000 * count * tokens / figure.wall[0]
                yield replace(figure, more={"tokens a second": round(rate, 1)})
        gate.unload()
        llm.unload()
        yield from self._vllm()

    def _vllm(self) -> Iterator[Figure]:
        try:
            from vllm import LLM, SamplingParams
        except ImportError:
            self.absent.append("vllm")
            return
        with tempfile.TemporaryDirectory() as folder:
            self._saved("LlamaForCausalLM", self.sizes.llama, folder)
            peer, how = LLM(folder, dtype="bfloat16"), SamplingParams(temperature=0.0)
            how.max_tokens, how.ignore_eos = self.sizes.new_tokens, True
            count = self.sizes.prompts
            of = f"{count} prompts, {self.sizes.new_tokens} tokens each, Llama 7B"
            write = lambda: peer.generate([self.words(12) for _ in range(count)], how)  # noqa: E731
            figure = self._timed("vLLM", of, write)
            rate = 1000 * count * self.sizes.new_tokens / figure.wall[0]
            yield replace(figure, more={"tokens a second": round(rate, 1)})

    def search(self) -> Iterator[Figure]:
        """Time a flat search in half precision, over as many vectors as the memory has room for."""
        count, width = self.sizes.vectors, self.sizes.width
        if self.device == "cuda":
            count = min(count, int(0.6 * torch.cuda.mem_get_info()[0] / (2 * width)))
        found = torch.empty(count, width, dtype=torch.float16, device=self.device)
        for part in found.split(1_000_000):
            part.normal_()
        asked = torch.randn(1, width, device=self.device).half()
        of = f"1 question, {count} x {width} float16"
        search = lambda: (found @ asked.T).flatten().topk(10).indices.tolist()  # noqa: E731
        yield self._timed("flat search", of, search)
        try:
            import faiss
            import numpy as np
        except ImportError:
            self.absent.append("faiss")
            return
        if not hasattr(faiss, "StandardGpuResources"):
            self.absent.append("faiss for a GPU")
            return
        index = faiss.GpuIndexFlatIP(faiss.StandardGpuResources(), width)
        vectors = np.random.default_rng(13).standard_normal((10**6, width), np.float32)
        index.add(vectors)
        of = f"1 question, {len(vectors)} x {width} float32"
        yield self._timed("FAISS flat", of, lambda: index.search(vectors[:1], 10))

    def _options(self, dtype: str = "bfloat16") -> Options:
        return Options(self.device, dtype)

    def _fresh(self, count: int) -> Iterator[list[tuple[str, Passage]]]:
        """Yield pairs that were not tokenized before, as requests are."""
        for n in itertools.count():
            some = self.chance.sample(self.pairs, count)
            yield [(f"{q} {n}", Passage(p.id, f"{n} {p.text}")) for q, p in some]

    def _causal(self, size: dict[str, int], dtype: str = "bfloat16") -> CausalEngine:
        model = self._made("LlamaForCausalLM", size, getattr(torch, dtype))
        return CausalEngine(model, self.tokenizer, self._options(dtype), name="random").retain()

    def _made(
        self,
        name: str,
        config: dict[str, int],
        dtype: Any = torch.bfloat16,
        device: str | None = None,
    ) -> Any:
        """Make a model of random weights on the device, as a checkpoint is loaded and placed."""
        from transformers.initialization import no_init_weights

        torch.manual_seed(13)
        kind = getattr(importlib.import_module("transformers"), name)
        sizes = {"vocab_size": len(self.tokenizer), "pad_token_id": 1, **config}
        device = device or self.device
        with no_init_weights(), torch.device(device):
            model = kind._from_config(kind.config_class(**sizes), dtype=dtype)
        for weight in model.parameters():
            weight.data.normal_(std=0.02)
        return fused(place(model, device, dtype)).eval().requires_grad_(False)

    def _saved(self, name: str, config: dict[str, int], folder: str, tokenizer: Any = None) -> None:
        place = "cuda" if self.device == "cuda" else "cpu"
        self._made(name, config, device=place).to("cpu").save_pretrained(folder)
        (tokenizer or self.tokenizer).save_pretrained(folder)

    def _timed(
        self,
        name: str,
        of: str,
        run: Callable[[], Any],
        work: tuple[torch.nn.Module, float] | None = None,
        *,
        passes: int = 1,
        trains: bool = False,
        busy: bool = True,
    ) -> Figure:
        """Run a call some times; each gives an answer to the host, so the host's clock is right.

        `work` is a model and the tokens it reads in `passes`. With `busy` the kernels of one more
        call are recorded.
        """
        walls, on_gpu = list[float](), self.device == "cuda"
        if on_gpu:
            torch.cuda.reset_peak_memory_stats()
        for at in range(self.sizes.repeats + self.sizes.warm):
            if on_gpu:
                torch.cuda.synchronize()
            start = time.perf_counter()
            with torch.inference_mode(not trains):
                run()
            if on_gpu:
                torch.cuda.synchronize()
            if at >= self.sizes.warm:  # kernels are chosen and memory is found
                walls.append(1000 * (time.perf_counter() - start))
        wall = spread(walls)
        if not on_gpu:
            return Figure(name, of, wall)
        peak, floor, worked, events = torch.cuda.max_memory_allocated() / 2**30, None, None, None
        if work is not None:
            weights = sum(p.numel() for p in work[0].parameters())
            arithmetic = 2 * weights * work[1] / self.rate
            floor = 1000 * max(arithmetic, passes * 2 * weights / self.bandwidth)
        if busy:
            kinds = [torch.profiler.ProfilerActivity.CUDA]
            with torch.profiler.profile(activities=kinds) as seen, torch.inference_mode(not trains):
                run()
                torch.cuda.synchronize()
            found = seen.key_averages()
            worked = sum(one.self_device_time_total for one in found) / 1000
            events = float(sum(one.count for one in found))
        host = None if worked is None else max(0.0, wall[0] - worked)
        return Figure(name, of, wall, worked, events, host, floor, peak)


def rates() -> tuple[float, float]:
    """Measure products a second of a large matrix in bfloat16, and bytes read a second."""
    one = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    large = torch.empty(2**30, device="cuda", dtype=torch.int32)
    found = []
    for run, size in ((lambda: one @ one, 2 * 8192**3), (large.clone, 2 * 2**32)):
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        run()
        marks[0].record()
        for _ in range(5):
            run()
        marks[1].record()
        torch.cuda.synchronize()
        found.append(5000 * size / marks[0].elapsed_time(marks[1]))
    return found[0], found[1]


def table(row: dict[str, Any]) -> str:
    """Write the figures of a run as a table in Markdown."""
    columns = ("wall", "device", "host", "floor", "events", "peak")
    lines = [
        f"# {row['machine']}, {row['at']}, commit {row['commit']}, torch {row['torch']}",
        "",
        "Milliseconds, medians: the call, its kernels, the rest, what the arithmetic takes; GiB.",
        "",
        "| call | of | wall | GPU busy | host | floor | device events | peak |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for one in row["figures"]:
        given = [one["wall"][0], *(one[name] for name in columns[1:])]
        shown = ["" if value is None else f"{value:.4g}" for value in given]
        unit = "" if one["unit"] == "ms" else f" {one['unit']}"
        cells = [one["name"], one["of"], f"{shown[0]}{unit}", *shown[1:]]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def spread(numbers: Sequence[float]) -> tuple[float, float, float]:
    """Return the median, the smallest and the largest."""
    return statistics.median(numbers), min(numbers), max(numbers)


def tokenizer_of(text: str, words: int, single: str, pair: str) -> Any:
    """Train a byte-level BPE on a text, with one token each for Yes and No."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    special = ["<end>", "<pad>", "[CLS]", "[SEP]", "<unk>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=words, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    raw.train_from_iterator([text, *["Yes", "No", " Yes", " No"] * 10_000], trainer)
    raw.post_processor = processors.TemplateProcessing(
        single=single, pair=pair, special_tokens=[("<end>", 0), ("[CLS]", 2), ("[SEP]", 3)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=raw,
        eos_token="<end>",
        pad_token="<pad>",
        unk_token="<unk>",
        model_max_length=8192,
    )


def tested(seconds: float) -> dict[str, Any]:
    """Run the tests that need a GPU and those of both precisions; `passed` says how they ended."""
    plain = ["-p", "no:cacheprovider", "-p", "no:benchmark", "-p", "no:xdist"]
    absent = [name for name in PLUGINS if importlib.util.find_spec(name) is None]
    if absent:  # the project's settings name them
        print(f"not installed, and not needed here: {', '.join(absent)}", file=sys.stderr)
        plain += ["-o", "addopts=", "-W", "ignore::pytest.PytestConfigWarning"]
    command = [sys.executable, "-m", "pytest", "-q", *plain, *TESTS]
    try:
        ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return {"passed": False, "reason": f"not finished after {seconds:.0f} seconds"}
    found = re.findall(r"(\d+) (passed|failed|skipped|error)", ran.stdout)
    counts = {name: int(n) for n, name in found}
    good = ran.returncode == 0 and counts.get("passed", 0) > 0
    if not good:
        print(ran.stdout[-4000:], ran.stderr[-2000:], file=sys.stderr)
    failures = re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - |$)", ran.stdout, re.MULTILINE)
    return {"passed": good, "status": ran.returncode, "counts": counts, "failures": failures}


def main() -> None:
    """Test, measure, write; exit with 1 where anything is missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--seconds", type=float, default=520.0)
    parser.add_argument("--rehearse", action="store_true")
    args = parser.parse_args()
    if not args.rehearse and not torch.cuda.is_available():
        sys.exit("no CUDA device: unmeasured")
    started = time.monotonic()
    tests = {"passed": True, "reason": "rehearsed"} if args.rehearse else tested(0.4 * args.seconds)
    left = args.seconds - (time.monotonic() - started)
    bench = Bench(*(("cpu", TINY) if args.rehearse else ("cuda", FULL)), left)
    figures = [asdict(figure) for figure in bench.figures()]
    machine = platform.node() if args.rehearse else torch.cuda.get_device_name()
    asked = ("git", "-C", str(ROOT), "rev-parse", "--short", "HEAD")
    commit = subprocess.run(asked, capture_output=True, text=True, check=False)
    row = {
        "machine": machine,
        "rehearsed": args.rehearse,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit.stdout.strip() or "unknown",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": version("transformers"),
        "tests": tests,
        "figures": figures,
        "failed": bench.failed,
        "not installed": bench.absent,
        "seconds": round(time.monotonic() - started, 1),
    }
    out = args.out or (None if args.rehearse else ROOT / "benchmarks" / "results")
    if out is None:
        print(json.dumps(row, indent=1))
    else:
        out.mkdir(parents=True, exist_ok=True)
        path = out / f"{re.sub(r'[^a-z0-9]+', '-', machine.lower()).strip('-')}.json"
        path.write_text(json.dumps(row, indent=1) + "\n", encoding="utf-8")
        path.with_suffix(".md").write_text(table(row), encoding="utf-8")
        print(path)
    if bench.failed or not tests["passed"]:
        sys.exit(f"failed: {bench.failed}, tests: {tests}")


if __name__ == "__main__":
    main()
