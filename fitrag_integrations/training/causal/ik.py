"""Fit an IK classifier (IK, section 3): an adapter that says Yes or No, or a head.

One set of weights serves with and without a draft, because it is trained on a mixture of draft
lengths. The two cases are calibrated separately, since a question alone carries less
information. A head is fitted on hidden states of the frozen base, which are computed once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import compress
from pathlib import Path
from typing import Annotated, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fitrag_integrations.core.option import Option
from fitrag_integrations.errors import refuse_if
from fitrag_integrations.models.causal import adapters as causal_adapters
from fitrag_integrations.models.causal.language_model import CausalEngine
from fitrag_integrations.models.causal.states import (
    KnownHead,
    default_layers,
    feature_count,
    features,
)
from fitrag_integrations.models.gate.gate import cut_drafts
from fitrag_integrations.models.gate.ik import VARIANTS, IKClassifier, ask_text, head_rows
from fitrag_integrations.models.runtime.folder import write_manifest, write_tensors
from fitrag_integrations.models.runtime.worker import finished
from fitrag_integrations.models.words import FACTS, PROMPT, PROMPTS
from fitrag_integrations.training.calibration import figures_of, fit_temperatures
from fitrag_integrations.training.causal.adapter import (
    AdapterPlan,
    CausalPlan,
    Example,
    Lesson,
    base_from,
    fit_words,
    own_engine,
)
from fitrag_integrations.training.options import (
    CausalBase,
    DraftTokens,
    JudgedModel,
)
from fitrag_integrations.training.rows import (
    KnownRow,
    judged_model,
    known_rows,
    split_rows,
)
from fitrag_integrations.training.trainer import (
    ModuleTrainer,
    Settings,
    epochs,
    first_process,
    fit_module,
    only_run,
    process_count,
    training_device,
)


class HeadModule(nn.Module):
    """Head with its loss on features computed once, because the base is frozen."""

    def __init__(self, head: KnownHead, measured: Tensor, labels: Tensor) -> None:
        super().__init__()
        self.head, self._measured, self._labels = head, measured, labels

    def __len__(self) -> int:
        return len(self._labels)

    def forward(self, batch: Sequence[int]) -> dict[str, Tensor]:
        """Return the cross-entropy of the rows with these numbers."""
        chosen = torch.tensor(batch)
        logits = self.head(self._measured[chosen])
        return {"known": F.binary_cross_entropy_with_logits(logits, self._labels[chosen])}


WHOLE = "base"  # the folder of a base that was trained whole, beside its manifest


@dataclass(frozen=True, slots=True)
class IKPlan(CausalPlan):
    """Settings for training an IK classifier; see `fitrag train ik --help`.

    `lengths` are the draft lengths of the mixture, None for none, half and all of `draft_tokens`.
    `epochs` and `rate` default to the paper's 1 and 1e-4 for an adapter, and to 40 and 1e-3 for a
    head. `layers` are the layers whose states a head reads, by default the middle and the last.
    """

    base: CausalBase
    variant: Annotated[
        str,
        Option(
            "What trains: lora (the paper's from 7 billion weights on), full (all weights; the "
            "paper's below that) or head.",
            name="--tune",
            among=tuple(VARIANTS),
        ),
    ] = "lora"
    model: JudgedModel = ""
    draft_tokens: DraftTokens = 32
    lengths: Annotated[
        list[int] | None,
        Option("Draft length of the mixture, in tokens; repeatable.", name="--length"),
    ] = None
    epochs: Annotated[
        float | None, Option("Passes over the rows.", default="1, with --tune head 40")
    ] = None
    rate: Annotated[
        float | None,
        Option(
            "Peak learning rate.",
            name="--learning-rate",
            default="1e-4, with --tune head 1e-3",
        ),
    ] = None
    hidden: Annotated[int, Option("Units of the head's hidden layer, 0 for none.", min=0)] = 0
    layers: Annotated[
        list[int] | None,
        Option("Layer whose hidden states the head reads; repeatable.", name="--layer"),
    ] = None
    weight_decay: Annotated[float, Option("Weight decay of the head.")] = 0.3

    def mixture(self) -> tuple[int, ...]:
        """Return the draft lengths to train on."""
        given = self.lengths or (0, self.draft_tokens // 2, self.draft_tokens)
        refuse_if(
            any(not 0 <= length <= self.draft_tokens for length in given),
            "lengths",
            given,
            f"whole numbers from 0 to draft_tokens, {self.draft_tokens}",
        )
        return tuple(sorted(set(given)))


@only_run
def fit_ik(rows: Iterable[Mapping[str, object]], out: Path, plan: IKPlan) -> dict[str, float]:
    """Train an IK classifier, calibrate it on held-out questions and save it.

    Args:
        rows: Rows of question, draft and known, from `fitrag label ik`.
        out: Folder to write; a stopped run in it continues.
        plan: Training settings.

    Returns:
        Number of held-out questions, the fraction known, accuracy, AUC and calibration error,
        without a draft and with `draft_tokens`. Only the first process saves and returns them; the
        result of the others is empty.

    Raises:
        InputError: For an invalid row, or rows of several models.
        ModelLoadError: If the base's tokenizer has no token for Yes or No.
    """
    given = known_rows(rows)
    train, held = split_rows(given, validation=plan.validation, seed=plan.seed)
    device = training_device(plan.device)
    refuse_if(
        process_count() > 1 and plan.variant == "head",
        "variant",
        "head",
        "lora or full in several processes",
    )
    engine = own_engine(plan.base, str(device), four_bit=plan.four_bit, device_map=plan.device_map)
    try:
        manifest: dict[str, Any] = {
            "base": base_from(out, plan.base),
            "variant": plan.variant,
            "model": judged_model(given, plan.model, engine.name),
            "prompts": PROMPTS,
            "draft_tokens": plan.draft_tokens,
            "temperatures": [1.0, 1.0],
            "threshold": None,
            "trained": {**asdict(plan), "base": Path(plan.base).name, "rows": len(given)},
        }
        if plan.variant == "head":
            manifest["prompts"] = {"question": str(engine.manifest.get("prompt", PROMPT))}
            model = _fit_head(engine, train, held, out, plan, manifest)
        else:
            model = _fit_words(engine, train, held, out, plan, manifest)
        if not first_process():
            return {}
        pairs = [(row.question, row.draft) for row in held]
        drafts = [bool(draft) and model.draft_tokens > 0 for _, draft in pairs]
        without = finished(model.gaps([(question, "") for question, _ in pairs]))
        drafted = iter(finished(model.gaps([*compress(pairs, drafts)])))
        second = [next(drafted) if there else torch.nan for there in drafts]
        gaps = torch.tensor([without, second]).T.contiguous()  # (rows, 2); NaN: no draft
        labels = torch.tensor([[float(row.known)] * 2 for row in held])
        found = fit_temperatures(gaps, labels.masked_fill(gaps.isnan(), torch.nan))
        model.manifest["temperatures"] = list(found)
        write_manifest(out, "model.json", kind=IKClassifier.kind, fields=model.manifest)
        return _figures(gaps / torch.tensor(found), held, plan)
    finally:
        engine.release()


def _fit_words(
    engine: CausalEngine,
    train: Sequence[KnownRow],
    held: Sequence[KnownRow],
    out: Path,
    plan: IKPlan,
    manifest: dict[str, Any],
) -> IKClassifier:
    """Teach the base to say Yes or No, by an adapter or by all its weights."""
    ids = IKClassifier(engine, manifest=manifest).word_ids
    lengths = plan.mixture()

    def taught(row: KnownRow, length: int) -> Example:
        ((question, draft),) = cut_drafts(engine, [(row.question, row.draft)], length)
        (prompt,) = engine.encode([ask_text(engine, manifest["prompts"], question, draft)])
        return Example(prompt, [ids[0] if row.known else ids[1]])

    lesson = Lesson(
        lambda i, chance: taught(train[i], chance.choice(lengths)),
        [taught(row, length) for row in held for length in {0, plan.draft_tokens}],
        [len(row.question) + len(row.draft) for row in train],
    )
    how = AdapterPlan(
        epochs=1.0 if plan.epochs is None else plan.epochs,
        rate=1e-4 if plan.rate is None else plan.rate,
        **{spec.name: getattr(plan, spec.name) for spec in fields(CausalPlan)},
    )
    name = fit_words(engine, lesson, out / "run", how, whole=plan.variant == "full")
    if plan.variant == "full":
        if first_process():
            engine.model.save_pretrained(out / WHOLE)
            engine.tokenizer.save_pretrained(out / WHOLE)
        manifest |= {"base": f"./{WHOLE}", "weights": {}}
        return IKClassifier(engine, manifest=manifest)
    if first_process():
        manifest["weights"] = causal_adapters.save(engine.model, out, name, base=manifest["base"])
    return IKClassifier(engine, manifest=manifest, adapter=name)


def _fit_head(
    engine: CausalEngine,
    train: Sequence[KnownRow],
    held: Sequence[KnownRow],
    out: Path,
    plan: IKPlan,
    manifest: dict[str, Any],
) -> IKClassifier:
    """Fit a head on hidden states, by default of the middle and the last layer."""
    layers = list(plan.layers or ()) or default_layers(engine)

    def measured(rows: Sequence[KnownRow], lengths: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Measure each row at each draft length. Shapes: (rows, features), (rows,)."""
        pairs = [(row.question, row.draft) for row in rows]
        cut = [pair for length in lengths for pair in cut_drafts(engine, pairs, length)]
        labels = torch.tensor([float(row.known) for _ in lengths for row in rows])
        prompts = head_rows(engine, cut, manifest["prompts"]["question"])
        return finished(features(engine, prompts, layers)).clone(), labels

    torch.manual_seed(plan.seed)
    head = KnownHead(feature_count(engine, layers), hidden=plan.hidden, dropout=plan.dropout)
    own, labels = measured(train, plan.mixture())
    head.standardize(own, states=own.shape[1] - FACTS)
    with torch.no_grad():  # a head that has learned nothing gives the known fraction, not a half
        head.out.bias.fill_(torch.logit((labels.sum() + 0.5) / (len(labels) + 1)))
    module = HeadModule(head, own, labels)
    kept = HeadModule(head, *measured(held, sorted({0, plan.draft_tokens})))
    steps = max(1, round((40.0 if plan.epochs is None else plan.epochs) * len(own) / plan.batch))
    settings = Settings(
        steps,
        1e-3 if plan.rate is None else plan.rate,
        weight_decay=plan.weight_decay,
        seed=plan.seed,
        bfloat16=False,
        evaluate_every=max(1, steps // 10),
    )
    batch = epochs([1] * len(own), plan.batch, seed=plan.seed)
    fit_module(
        ModuleTrainer(
            module, batch, settings, out / "run", lambda: float(kept(range(len(kept)))["known"])
        )
    )
    entry = write_tensors(out, "head.safetensors", head.state_dict())
    manifest["weights"] = {**entry, "layers": layers, "hidden": plan.hidden}
    return IKClassifier(engine, manifest=manifest, head=head)


def _figures(logits: Tensor, held: Sequence[KnownRow], plan: IKPlan) -> dict[str, float]:
    figures: dict[str, float] = {}
    for column, tokens in enumerate((0, plan.draft_tokens)):
        there = ~logits[:, column].isnan()
        if tokens or not column:
            scores = logits[there, column].sigmoid().tolist()
            gold = [row.known for row, fine in zip(held, there.tolist(), strict=True) if fine]
            figures |= figures_of(f"{tokens} tokens", scores, gold, "known") if gold else {}
    return figures
