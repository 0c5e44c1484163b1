"""Choose precision and backend: the fastest whose scores on a sample are those of float32.

A rule for every model of pairs. On a CPU, whatever `dtype` and `backend` leave open is tried at the
first load on the pairs of `SAMPLE`: a way counts if no score is further than `NEAR` from that in
float32 and all pairs whose scores differ by more keep their order. The fastest is recorded in a
file by processor, library versions and model, so that later loads try nothing. An argument decides
first, then the environment, such as `FITRAG_CPU_DTYPE=float32` and `FITRAG_BACKEND=onnx`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import math
import os
import platform
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial, wraps
from importlib.metadata import PackageNotFoundError, version
from itertools import combinations
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from fitrag_integrations.core.extras import installed
from fitrag_integrations.core.files import write_whole
from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import FitRagError, refuse_if
from fitrag_integrations.models.encoder.pairs import Pair
from fitrag_integrations.types import Passage

P = ParamSpec("P")
M = TypeVar("M")
DTYPE, BACKEND = "FITRAG_CPU_DTYPE", "FITRAG_BACKEND"
OPEN = (None, "auto")
_CHOSEN = ("dtype", "backend")
_DECIDED = {"quantization_config", "device_map", "dtype", "torch_dtype"}  # by transformers
PRECISIONS = {"onnx": ("float32",), "openvino": ("float32", "bfloat16")}
"""Of the backends beside torch."""
NEAR = 0.01  # of a probability
FASTER = 1.5  # times float32's rate of products, below which bfloat16 is not tried
GAIN = 1.1  # times as fast as float32, below which nothing else is taken
SHAPE = 256, 384, 1536  # of the product that is timed, a small encoder's
LIBRARIES = ("fitrag-integrations", "torch", "transformers", "onnxruntime", "openvino")
MOST = 200  # records
_ASKED = (
    "who wrote the novel about the white whale",
    "what year did the bridge over the river open to traffic",
    "which planet has the largest moon in the solar system",
    "how long does the parental leave last for employees",
)
_TEXTS = (
    "Moby-Dick; or, The Whale is an 1851 novel by the American writer Herman Melville.",
    "The bridge was designed in 1929. After four years of work it opened to traffic on 3 May 1937.",
    "Ganymede, a satellite of Jupiter, is the largest and most massive moon in the Solar System.",
    "Employees may take parental leave of up to 36 months, of which 12 are paid.",
    "Sperm whales were hunted for their oil in all oceans until late in the twentieth century.",
)
SAMPLE = tuple((asked, Passage(str(i), text)) for asked in _ASKED for i, text in enumerate(_TEXTS))
"""Pairs of a question and a passage that answers it, is near it or is of something else."""
_VERBS: dict[str, Callable[[Any], list[float]]] = {
    "score": lambda s: [s.has_answer, *([] if s.llm_prefer is None else [s.llm_prefer])],
    "evaluate": lambda grade: [(grade + 1) / 2],
    "read": lambda answer: [answer.score],
}
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Way:
    """Backend and precision."""

    backend: str = "torch"
    dtype: str = "float32"

    def __str__(self) -> str:
        return f"{self.backend} {self.dtype}"


def fastest(
    load: Callable[Concatenate[type[M], str | Path, P], M],
) -> Callable[Concatenate[type[M], str | Path, P], M]:
    """Decorate a `from_pretrained` so that it chooses what `dtype` and `backend` leave open."""

    call = cast("Callable[..., M]", load)  # with options that are not those of the caller

    @wraps(load)
    def loaded(cls: type[M], name_or_dir: str | Path, *args: P.args, **options: P.kwargs) -> M:
        given: dict[str, Any] = dict(options)
        ways = ways_of(given)

        def one(way: Way) -> M:
            return call(cls, name_or_dir, *args, **given | asdict(way))

        if not ways:
            closed = {name: v for name, v in given.items() if name not in _CHOSEN or v not in OPEN}
            return call(cls, name_or_dir, *args, **closed)
        if len(ways) == 1:
            return one(ways[0])
        what = f"{cls.__name__} {Path(str(name_or_dir)).name}"
        open_ = {name: value for name, value in given.items() if name not in _CHOSEN}
        folder = Path(name_or_dir).expanduser()
        paths = sorted(folder.rglob("*")) if folder.is_dir() else []
        kept = [(str(p), p.stat()) for p in paths if p.suffix in (".json", ".safetensors")]
        files = [str(name_or_dir), *((path, s.st_size, s.st_mtime_ns) for path, s in kept)]
        record = Record.of(what, ways, files, repr(sorted(open_.items())))
        known = record.known()
        return tried(record, ways, one)[0] if known is None else one(known)

    return cast("Callable[Concatenate[type[M], str | Path, P], M]", loaded)


def ways_of(options: Row) -> list[Way]:
    """Return what options leave open on a CPU, in float32 first; nothing for another place.

    Raises `InputError` for a value of the environment that is not allowed.
    """
    import torch

    device, passed = options.get("device"), options.get("model_kwargs")
    on_gpu = device is None and torch.cuda.is_available()
    decided = isinstance(passed, Mapping) and _DECIDED & passed.keys()
    if on_gpu or device not in (None, "cpu") or decided:
        return []
    backend = options.get("backend")
    if backend in OPEN:
        backend = os.environ.get(BACKEND) or backend or "torch"
    backends = [backend]
    if backend == "auto":
        named = {"onnx": "onnxruntime", "openvino": "openvino"}
        backends = ["torch", *(name for name, module in named.items() if installed(module))]
    dtypes = [options["dtype"]] if options.get("dtype") not in OPEN else precisions()
    return [
        Way(name, dtype)
        for name in backends
        for dtype in dtypes
        if len(dtypes) == len(backends) == 1 or dtype in PRECISIONS.get(name, dtypes)
    ]


def precisions() -> list[str]:
    """Return float32, and bfloat16 where the environment or this processor's rates suggest it."""
    said = os.environ.get(DTYPE, "auto")
    refuse_if(said not in ("auto", "float32", "bfloat16"), DTYPE, said, "auto, float32, bfloat16")
    quick = said == "bfloat16" or (said == "auto" and rate("bfloat16") >= FASTER * rate("float32"))
    return ["float32", *(["bfloat16"] if quick else [])]


@cache
def rate(dtype: str) -> float:
    """Measure this machine's matrix product in torch, in GFLOP/s: the best of a few."""
    import torch

    rows, inner, outer = SHAPE
    kind = getattr(torch, dtype)
    left, right = torch.ones(rows, inner, dtype=kind), torch.ones(inner, outer, dtype=kind)
    seconds = []
    for _ in range(4):
        began = time.thread_time()  # what else the machine does is not counted
        left @ right
        seconds.append(max(1e-4, time.thread_time() - began))  # where a clock is too coarse
    return 2e-9 * math.prod(SHAPE) / min(seconds)


def tried(
    record: Record,
    ways: Sequence[Way],
    load: Callable[[Way], M],
    scores: Callable[[M, Sequence[Pair]], list[float]] | None = None,
) -> tuple[M, Way]:
    """Load each way and keep the fastest of those that score as the first one does.

    Args:
        record: Where the choice is kept.
        ways: Ways, the exact one first.
        load: Loads what runs by a way.
        scores: Scores pairs by it, as probabilities. Defaults to a model's own call.
    """
    score = scores or scores_of
    best = load(ways[0])
    exact, whole = measured(partial(score, best))
    least, chosen, furthest = whole / GAIN, ways[0], 0.0
    for way in ways[1:]:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", RuntimeWarning)  # it would run in torch after all
                other = load(way)
            found, took = measured(partial(score, other))
        except (FitRagError, RuntimeWarning, RuntimeError) as error:
            _log.info("%s is not run by %s: %s", record.what, way, error)
            continue
        named = os.environ.get(DTYPE) == way.dtype == "bfloat16"  # whatever it gains
        left = other
        if (took < least or named) and near(exact, found):
            left, best = best, other
            least, chosen = took, way
            furthest = max(abs(a - b) for a, b in zip(exact, found, strict=True))
        if hasattr(left, "unload"):
            left.unload()
    times = 1.0 if chosen == ways[0] else whole / least
    record.keep(chosen, times=times, apart=furthest)
    return best, chosen


def measured(score: Callable[[Sequence[Pair]], M]) -> tuple[M, float]:
    """Return the scores of `SAMPLE`, and their processor time once the model is warm."""
    score(SAMPLE[:2])
    began = time.process_time()
    found = score(SAMPLE)
    return found, time.process_time() - began


def scores_of(model: Any, pairs: Sequence[Pair]) -> list[float]:
    """Score pairs, as probabilities."""
    verb = next(verb for verb in _VERBS if hasattr(model, verb))
    return [number for each in getattr(model, verb)(pairs) for number in _VERBS[verb](each)]


def near(exact: Sequence[float], found: Sequence[float]) -> bool:
    """Check that scores are near the exact ones, and in their order where those differ by more."""
    both = list(zip(exact, found, strict=True))
    return all(abs(a - b) <= NEAR for a, b in both) and all(
        (a - c) * (b - d) > 0 for (a, b), (c, d) in combinations(both, 2) if abs(a - c) > NEAR
    )


@dataclass(frozen=True)
class Record:
    """What was chosen for a model, in a file of the cache folder."""

    what: str
    key: str
    ways: Sequence[Way]

    @classmethod
    def of(cls, what: str, ways: Iterable[Way], *facts: object) -> Record:
        """Make the record of a model by the facts that a choice depends on."""
        versions = [f"{name} {package_version(name)}" for name in LIBRARIES]
        about = [processor(), versions, os.environ.get(DTYPE), *map(str, ways), facts]
        return cls(what, hashlib.sha256(repr(about).encode()).hexdigest()[:16], tuple(ways))

    def known(self) -> Way | None:
        """Return the way that an earlier process chose; None where none did."""
        way = records().get(self.key, {}).get("way")
        found = next((one for one in self.ways if str(one) == way), None)
        if found is not None:
            _log.debug("%s runs by %s, as chosen before", self.what, found)
        return found

    def keep(self, way: Way, *, times: float, apart: float) -> None:
        """Log a choice and record it, where the folder can be written."""
        _log.info(
            "%s runs by %s: %.2g times as fast as float32, scores at most %.2g from it; %s and %s "
            "choose otherwise",
            *(self.what, way, times, apart, DTYPE, BACKEND),
        )
        entry = {"model": self.what, "way": str(way), "times": times, "apart": apart}
        kept = {**records(), self.key: {**entry, "processor": processor()}}
        with contextlib.suppress(OSError):
            _file().parent.mkdir(parents=True, exist_ok=True)
            write_whole(_file(), json.dumps(dict(list(kept.items())[-MOST:]), indent=1) + "\n")


def records() -> dict[str, dict[str, Any]]:
    """Read what was chosen on this machine; a file that cannot be read holds nothing."""
    try:
        found = json.loads(_file().read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    held = found.items() if isinstance(found, dict) else ()
    return {key: entry for key, entry in held if isinstance(entry, dict)}


def _file() -> Path:
    return cache_folder() / "engines.json"


def cache_folder() -> Path:
    """Return the folder for graphs and choices: `FITRAG_CACHE`, else the system's for caches."""
    if given := os.environ.get("FITRAG_CACHE"):
        return Path(given).expanduser()
    home = Path.home()
    place = {"darwin": home / "Library" / "Caches", "win32": home / "AppData" / "Local"}
    usual = place.get(sys.platform, home / ".cache")
    return Path(os.environ.get("XDG_CACHE_HOME") or usual) / "fitrag"


@cache
def package_version(name: str) -> str | None:
    """Return the version of an installed package; None for one that is not there."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


@cache
def processor() -> str:
    """Return the name of the processor, and what it computes bfloat16 with."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor() or platform.machine()
    named = [line.partition(":")[2].strip() for line in text.splitlines() if "model name" in line]
    flags = [flag for flag in ("avx512_bf16", "amx_bf16", "bf16") if flag in text.split()]
    return " ".join([*(named[:1] or [platform.machine()]), *flags])
