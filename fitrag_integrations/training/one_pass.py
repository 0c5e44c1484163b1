"""Fit a one-pass scorer: the score of each window, computed in the pass that scores the passage.

The teacher is the scorer over each window as a text of its own; where the answers are known,
whether they stand in the window counts as well. The encoder is frozen, so each passage is read
once, and the head learns from what was stored.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Annotated

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional as F

from fitrag_integrations.core.extras import require_extra
from fitrag_integrations.core.files import replacing
from fitrag_integrations.core.option import Option
from fitrag_integrations.core.progress import chunks
from fitrag_integrations.errors import InputError
from fitrag_integrations.evaluation.answers import contains_answer
from fitrag_integrations.models.encoder.items import InChunk, Item
from fitrag_integrations.models.runtime.folder import read_manifest, read_tensors
from fitrag_integrations.models.runtime.worker import finished
from fitrag_integrations.models.scorer.bilabel import BiLabelScorer
from fitrag_integrations.models.scorer.one_pass import SpanReader, save_onepass
from fitrag_integrations.models.scorer.spans import SpanEvidence, SpanHead
from fitrag_integrations.text.sentences import split_sentences
from fitrag_integrations.training.losses import fit_temperatures
from fitrag_integrations.training.options import Rate, Seed, Steps, Validation
from fitrag_integrations.training.rows import Judged, split
from fitrag_integrations.training.trainer import (
    ModuleTrainer,
    Settings,
    epochs,
    fit_module,
    only_run,
)
from fitrag_integrations.types import Passage
from fitrag_integrations.values.windows import windows

SHARD = 50  # questions in a file of the cache
NAN = float("nan")


@dataclass(frozen=True, slots=True)
class Spans:
    """Spans of a question's passages: their features and their targets.

    A row per span, in order. `means`, `numbers`, `pooled` and `wholes` are those of
    `models.span_reading`; `teacher` the logits of the span read by itself, shape (spans, 2); `gold`
    1 where an answer stands in it, 0 where none does, NaN where none is known; `words` counts its
    words; `passage` is the number of its passage; `cut` says whether it is a window of the length
    the token reducer cuts.
    """

    means: Tensor
    numbers: Tensor
    pooled: Tensor
    wholes: Tensor
    teacher: Tensor
    gold: Tensor
    words: Tensor
    passage: Tensor
    cut: Tensor

    @property
    def evidence(self) -> SpanEvidence:
        """Return the features of the spans themselves."""
        return SpanEvidence(self.means, self.numbers)

    @property
    def targets(self) -> Tensor:
        """Return what the head should say: the teacher's labels, has_answer halfway to the gold."""
        labels = self.teacher.sigmoid()
        known = ~self.gold.isnan()
        labels[known, 0] = (labels[known, 0] + self.gold[known]) / 2
        return labels


def read_rows(
    rows: Sequence[Judged],
    scorer: BiLabelScorer,
    answers: nn.Linear,
    folder: Path,
    *,
    window: int,
    seed: int,
) -> list[Spans]:
    """Read all rows, once per scorer; rows whose passages have no text are left out.

    Args:
        rows: Questions with passages.
        scorer: Scorer to read with, and teacher.
        answers: Head of the two token scores.
        folder: Folder where what was read is kept.
        window: Sentences in a window.
        seed: Random seed of the further spans.
    """
    folder.mkdir(parents=True, exist_ok=True)
    reader = SpanReader(scorer, answers)
    found: list[Spans] = []
    for shard in chunks(rows, SHARD):
        filled = (
            replace(row, passages=tuple(p for p in row.passages if p.text.strip())) for row in shard
        )
        some = [row for row in filled if row.passages]
        depends = [*map(asdict, some), scorer.manifest["head"]["sha256"], window, seed]
        digest = hashlib.sha256(json.dumps(depends).encode()).hexdigest()[:16]
        path = folder / f"{digest}.safetensors"
        if not path.exists():
            tensors = _read(some, scorer, reader, window, seed)
            with replacing(path) as beside:
                save_file({name: one.contiguous() for name, one in tensors.items()}, beside)
        tensors = load_file(path)
        question = tensors.pop("question")
        found += [
            Spans(**{name: tensor[question == i] for name, tensor in tensors.items()})
            for i in question.unique().tolist()
        ]
    return found


def _read(
    rows: Sequence[Judged], scorer: BiLabelScorer, reader: SpanReader, window: int, seed: int
) -> dict[str, Tensor]:
    """Return the fields of `Spans` for all spans of some rows, and `question`, each one's row."""
    places = [(i, j) for i, row in enumerate(rows) for j in range(len(row.passages))]
    chance = random.Random(seed)
    items, marks = list[Item](), list[dict[str, float]]()
    for i, j in places:
        row, passage = rows[i], rows[i].passages[j]
        cut = [(one.start, one.end) for one in windows(passage, size=window)]
        own, size = split_sentences(passage.text), chance.choice((1, 1, 2))
        at = chance.randrange(max(1, len(own) - size + 1))
        other = (own[at][0], own[min(at + size, len(own)) - 1][1])  # for other lengths of windows
        spans = list(dict.fromkeys([*cut, other]))
        items.append((row.question, passage, spans))
        marks += [
            {
                "gold": float(contains_answer(passage.text[a:b], row.answers))
                if row.answers
                else NAN,
                "words": len(passage.text[a:b].split()),
                "passage": j,
                "cut": k < len(cut),
                "question": i,
            }
            for k, (a, b) in enumerate(spans)
        ]
    reading = finished(reader.read(items))
    chosen = chunk_rows(reading.places)
    texts = [(q, Passage("", p.text[a:b], p.title)) for q, p, spans in items for a, b in spans]
    scores = scorer.score(texts)
    return {
        "means": reading.evidence.means[chosen],
        "numbers": reading.evidence.numbers[chosen],
        "pooled": reading.pooled[chosen],
        "wholes": reading.wholes[chosen],
        "teacher": torch.tensor([[s.has_answer_logit, s.llm_prefer_logit] for s in scores]),
        **{name: torch.tensor([mark[name] for mark in marks]) for name in marks[0]},
    }


def chunk_rows(places: Sequence[Sequence[InChunk]]) -> list[int]:
    """Return, of each span, its row in the first chunk that holds the most of it."""
    chosen, at = list[int](), 0
    for read in places:
        first: dict[int, int] = {}
        for which, _ in read:
            for row, span in enumerate(which.tolist(), start=at):
                first.setdefault(span, row)
            at += len(which)
        chosen += [first[span] for span in range(len(first))]
    return chosen


class OnePassModule(nn.Module):
    """A span head and its losses over questions."""

    def __init__(self, head: SpanHead) -> None:
        super().__init__()
        self.head = head

    def forward(self, questions: Sequence[Spans]) -> dict[str, Tensor]:
        """Return the losses of labels and of the order of a question's spans."""
        logits = [self.logits(each) for each in questions]
        label = [
            F.binary_cross_entropy_with_logits(some, each.targets)
            for some, each in zip(logits, questions, strict=True)
        ]
        order = [order_loss(some, each) for some, each in zip(logits, questions, strict=True)]
        return {"label": torch.stack(label).mean(), "order": torch.stack(order).mean()}

    def logits(self, spans: Spans) -> Tensor:
        """Return the logits of a question's spans. Shape: (spans, 2)."""
        found: Tensor = self.head(spans.evidence, spans.pooled, spans.wholes)
        return found


def order_loss(logits: Tensor, spans: Spans) -> Tensor:
    """Return the cross-entropy of each passage's spans against the shares the targets give them."""
    each = []
    for i in spans.passage.unique():
        own = spans.passage == i
        wanted = spans.targets[own].logit(eps=1e-4).softmax(0)
        each.append(-(wanted * logits[own].log_softmax(0)).sum(0).mean())
    return torch.stack(each).mean()


def figures(logits: Sequence[Tensor], rows: Sequence[Spans]) -> dict[str, float]:
    """Compare the head's windows with the teacher's.

    Args:
        logits: The head's logits of each question's spans.
        rows: The questions.

    Returns:
        Rank correlation (Spearman) of a question's windows; how often the best window of a passage
        is the teacher's, of passages with several; and, of questions where some window holds the
        answer, how often the best windows still do, by either, and how many words they have.
    """
    stats = require_extra("scipy.stats", extra="train", feature="the figures of a one-pass scorer")
    correlations, same = list[float](), list[float]()
    kept: dict[str, list[tuple[float, float]]] = {"one-pass": [], "windows": []}
    for own, row in zip(logits, rows, strict=True):
        scores = {"one-pass": own.sigmoid().sum(1), "windows": row.teacher.sigmoid().sum(1)}
        both = [each[row.cut].tolist() for each in scores.values()]
        if all(len(set(values)) > 1 for values in both):  # equal values have no order
            correlations.append(float(stats.spearmanr(*both).statistic))
        masks = (row.cut & (row.passage == i) for i in row.passage.unique())
        windows = [mask.nonzero().flatten() for mask in masks]
        best = {name: [w[int(s[w].argmax())] for w in windows] for name, s in scores.items()}
        pairs = zip(windows, *best.values(), strict=True)
        same += [float(a == b) for window, a, b in pairs if len(window) > 1]
        for name in kept if (row.gold[row.cut] == 1).any() else ():
            chosen = torch.stack(best[name])
            kept[name].append((float(row.gold[chosen].max()), float(row.words[chosen].sum())))
    found = {
        "rank correlation": fmean(correlations or [math.nan]),
        "same best window": fmean(same or [math.nan]),
    }
    for name, each in kept.items():
        answers, words = zip(*each or [(math.nan, math.nan)], strict=True)
        found |= {f"answer kept by {name}": fmean(answers), f"words kept by {name}": fmean(words)}
    return {name: round(value, 4) for name, value in found.items()}


@dataclass(frozen=True, slots=True)
class OnePassPlan:
    """Settings for training a one-pass scorer; see `fitrag train onepass --help`."""

    scorer: Annotated[Path, Option("Folder of the bi-label scorer to extend.")]
    reader: Annotated[
        Path | None,
        Option("Folder of a reader over the same encoder, for a scorer without spans."),
    ] = None
    steps: Steps = 600
    questions: Annotated[int, Option("Questions per batch.", min=1)] = 8
    rate: Rate = 3e-3
    hidden: Annotated[int, Option("Units of the head's hidden layer.", min=1)] = 32
    window: Annotated[int, Option("Sentences in a window.", min=1)] = 3
    validation: Validation = 0.2
    seed: Seed = 13
    dtype: Annotated[str | None, Option("Data type of the scorer: float32 or bfloat16.")] = None
    device: Annotated[str | None, Option("Device of the scorer.", default="cpu")] = None


@only_run
def fit_onepass(rows: Sequence[Judged], out: Path, plan: OnePassPlan) -> dict[str, float]:
    """Train a head over a scorer's folder and save it.

    What was read is kept in `out/run`, so a second run with other settings only fits.

    Args:
        rows: Questions with passages, from `rows.judged_row`.
        out: Folder to write.
        plan: Training settings.

    Returns:
        Figures on the held-out questions.
    """
    train, held = split(rows, plan.validation, plan.seed)
    torch.manual_seed(plan.seed)
    scorer = BiLabelScorer.from_pretrained(
        plan.scorer, device=plan.device or "cpu", dtype=plan.dtype
    )
    head = SpanHead(scorer._engine.trunk.width, hidden=plan.hidden)
    with torch.no_grad():  # the two token scores are the scorer's own if it has them
        if scorer._head.span is not None:
            head.answers.load_state_dict(scorer._head.span.state_dict())
        elif plan.reader is None:
            allowed = "a reader's folder: this scorer has no token scores of its own"
            raise InputError.of("--reader", given=plan.reader, allowed=allowed)
        else:
            manifest = read_manifest(plan.reader, "model.json", kind="reader", needs=("head",))
            tensors = read_tensors(plan.reader, manifest["head"])
            spans = {name: tensors[f"span.{name}"] for name in ("weight", "bias")}
            head.answers.load_state_dict(spans)
    head.answers.requires_grad_(False)  # the features were computed with it
    known, unknown = (
        read_rows(some, scorer, head.answers, out / "run", window=plan.window, seed=plan.seed)
        for some in (train, held)
    )
    head.standardize(torch.cat([torch.cat([each.numbers, each.wholes], 1) for each in known]))
    for line in (head.means, head.pooled, head.mixed):  # starts as the whole passage's labels
        nn.init.zeros_(line.weight)
    module = OnePassModule(head)
    chosen = epochs([len(each.gold) for each in known], plan.questions, seed=plan.seed)
    settings = Settings(plan.steps, plan.rate, seed=plan.seed, bfloat16=False)
    plain = {name: str(v) if isinstance(v, Path) else v for name, v in asdict(plan).items()}
    del plain["device"]
    depends = [[row.question for row in train], scorer.manifest["head"]["sha256"], plain]
    digest = hashlib.sha256(json.dumps(depends).encode()).hexdigest()[
        :16
    ]  # of all a fit depends on
    run = out / "run" / f"fit-{digest}"
    fit_module(ModuleTrainer(module, lambda at: [known[i] for i in chosen(at)], settings, run))
    with torch.inference_mode():
        logits = [module.eval().logits(each) for each in unknown]
    wanted = torch.cat([each.targets for each in unknown])
    temperatures = fit_temperatures(torch.cat(logits), wanted)
    fields = {"temperatures": list(temperatures), "trained": plain}
    save_onepass(out, head, Path(plan.scorer), fields)
    return figures([each / torch.tensor(temperatures) for each in logits], unknown)
