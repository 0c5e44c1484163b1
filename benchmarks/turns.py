"""What the parts of speed.py share: texts, a clock for things that take turns, and one thread."""

from __future__ import annotations

import json
import os
import random
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

os.environ |= {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}

import torch  # noqa: E402  # after the number of threads is set

from fitrag_integrations.models.encoder.pairs import Pair  # noqa: E402
from fitrag_integrations.models.runtime.saved import embedded_folder  # noqa: E402
from fitrag_integrations.models.runtime.sources import offline_minilm  # noqa: E402
from fitrag_integrations.types import Passage  # noqa: E402

torch.set_num_threads(1)
Row = dict[str, Any]
QUESTION = "who designed the bridge over the river and when was it opened"
CHARACTERS = 600
NAMES = ["input_ids", "attention_mask", "token_type_ids"]


def pairs_of(count: int, characters: int = CHARACTERS, seed: int = 7) -> list[Pair]:
    """Cut so many passages out of the demo's texts; no two are equal."""
    folder, chance = embedded_folder("demo"), random.Random(seed)
    texts = [
        p.read_text("utf-8") for p in sorted(folder.rglob("*")) if p.suffix in (".md", ".jsonl")
    ]
    words = " ".join(texts).split()
    starts = chance.choices(range(len(words) - characters), k=count)
    cut = (f"{i} " + " ".join(words[at : at + characters]) for i, at in enumerate(starts))
    return [(QUESTION, Passage(str(i), text[:characters])) for i, text in enumerate(cut)]


class Apart:
    """A contender in a process of its own, by the first interpreter that has it."""

    def __init__(
        self,
        name: str,
        pairs: Sequence[Pair],
        *,
        folder: Path,
        pythons: Sequence[str],
        path: Path | None = None,
    ) -> None:
        given = json.dumps([pairs[0][0], [passage.text for _, passage in pairs]])
        missing = list[str]()
        for python in pythons:
            script = Path(__file__).with_name("contenders.py")
            self._process = subprocess.Popen(
                [python, str(script), name, str(folder)],
                text=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=os.environ | ({"PYTHONPATH": str(path)} if path else {}),
            )
            self.about = self._answer(given)
            if "with" in self.about:
                return
            missing.append(f"{python}: {self.about['missing']}")
        self.about = {"missing": "; ".join(missing)}

    def seconds(self) -> float:
        """Score once; gives what it took of the processor, and keeps the scores."""
        answer = self._answer("again")
        self.scores = answer["scores"]
        return float(answer["seconds"])

    def end(self) -> None:
        """End the process."""
        self._process.communicate()

    def _answer(self, line: str) -> Row:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        found = self._process.stdout.readline()
        return json.loads(found) if found else {"missing": "its process ended"}


class Started:
    """A script in a process of its own, started each time; bytecode is kept in a folder."""

    def __init__(self, script: str, kept: str) -> None:
        self._command = [sys.executable, "-c", script]
        self._env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        self._env["PYTHONPYCACHEPREFIX"] = kept

    def seconds(self) -> float:
        """Run it; gives what it took of the processor."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(self._command, check=True, capture_output=True, env=self._env)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


Job = Callable[[], object] | Apart | Started


def in_turns(jobs: dict[str, Job], repeats: int, base: str, *, warm: bool = True) -> list[Row]:
    """Time jobs in turns; ratios are those of the medians, to that of `base`."""
    clocks = {name: getattr(job, "seconds", partial(_clocked, job)) for name, job in jobs.items()}
    times: dict[str, list[float]] = {name: [] for name in jobs}
    for turn in range(repeats + warm):
        for name, clock in clocks.items():
            times[name] += [clock()] * (turn >= warm)
    whole = median(times[base])
    return [
        {"what": name, "times as fast": whole / median(each)} | spread(each)
        for name, each in times.items()
    ]


def _clocked(job: Callable[[], object]) -> float:
    began = time.process_time()
    job()
    return time.process_time() - began


def spread(seconds: Sequence[float]) -> Row:
    """Give the median of times, the least and the most, in milliseconds."""
    return {"ms": 1e3 * median(seconds), "least": 1e3 * min(seconds), "most": 1e3 * max(seconds)}


def cross_encoder(folder: Path, seed: int = 7) -> Path:
    """Write MiniLM with one output of random weights, and its graph where FlashRank looks."""
    import shutil

    from contenders import FLASHRANK
    from sentence_transformers import CrossEncoder

    base = offline_minilm()
    assert base is not None, "the encoder comes with the extra `offline`"
    torch.manual_seed(seed)
    cross = CrossEncoder(str(base), num_labels=1, device="cpu", max_length=384)
    model: Any = cross.model
    torch.nn.init.normal_(model.classifier.weight)  # as given, all scores would be one half
    cross.save_pretrained(str(folder))
    beside = folder / FLASHRANK[0]
    beside.mkdir()
    for path in [*base.glob("*.json"), *folder.glob("*.json"), base / "vocab.txt"]:
        shutil.copy(path, beside)
    given = {name: torch.ones(2, 9, dtype=torch.int64) for name in NAMES}  # no tensor twice
    dims = {0: torch.export.Dim("batch"), 1: torch.export.Dim.DYNAMIC}
    model.set_attn_implementation("eager")
    torch.onnx.export(
        model.eval(),
        kwargs=given,
        f=str(beside / FLASHRANK[1]),
        dynamo=True,
        verbose=False,
        input_names=NAMES,
        dynamic_shapes=dict.fromkeys(NAMES, dims),
    )
    return folder
