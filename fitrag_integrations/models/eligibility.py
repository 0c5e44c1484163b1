"""FIT-RAG's eligible augmentation detector (section 4.4.2): is a combination enough to answer?

A four-layer fully connected network over the score pairs of a combination of sub-documents, padded
with zeros. It never sees a text. It has a few thousand weights and runs on the CPU.

Beyond the paper, a detector may also be trained on the scores of the excerpts left out: the lower
these are, the more likely a prefix is enough. They follow the pairs of the combination, padded
likewise.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Self, cast

import numpy as np

from fitrag_integrations.core.checks import check_many, check_whole
from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import ModelLoadError, raise_if, refuse_if
from fitrag_integrations.models.runtime.folder import (
    Arrays,
    positive,
    read_arrays,
    read_manifest,
    reading,
    write_arrays,
    write_manifest,
)
from fitrag_integrations.models.runtime.saved import Bundled, Shared, remembered
from fitrag_integrations.models.runtime.sources import model_folder
from fitrag_integrations.models.runtime.worker import Worker
from fitrag_integrations.types import BiLabelScore
from fitrag_integrations.values.thresholds import FittedThreshold

MAX_PAIRS = 10
HIDDEN = 64
THRESHOLD = 0.5
LAYERS = (0, 3, 6, 9)  # of the network, each but the last followed by a ReLU
Scores = Sequence[BiLabelScore | None]


class EligibilityDetector(Bundled):
    """Detector that estimates whether a combination of excerpts is enough to answer.

    Load one with `from_pretrained(folder)` or `embedded()`, train one with `fitrag train
    eligibility`. It is valid for the scorer whose scores it was trained on, and `check_scorer`
    rejects any other. Calls from any thread or event loop are queued to one worker.

    Args:
        network: Arrays of the layers, named `N.weight` and `N.bias`.
        manifest: Fields saved with the model.
    """

    kind = "eligibility"

    def __init__(self, network: Arrays, *, manifest: Row | None = None) -> None:
        super().__init__(manifest)
        self.max_pairs = check_whole("max_pairs", self.manifest.get("max_pairs", MAX_PAIRS), low=1)
        self.sees_rest = bool(self.manifest.get("sees_rest", False))
        self._temperature = positive(self.manifest, "temperature")
        fitted = self.manifest.get("threshold")
        self.fitted = None if fitted is None else FittedThreshold.from_dict(fitted)
        self._network = dict(network)
        self._engine = Shared()
        self._engine.worker = Worker("eligibility detector")
        self._any_scorer = False

    @classmethod
    @remembered
    def from_pretrained(
        cls,
        name_or_dir: str | Path,
        *,
        for_scorer: str | None = None,
        allow_other_scorer: bool = False,
    ) -> Self:
        """Load a detector.

        Args:
            name_or_dir: Folder of `save_pretrained` or `fitrag train`, or a hub name.
            for_scorer: `name` of the scorer whose scores it will get.
            allow_other_scorer: Whether to accept a scorer that it was not fitted for.

        Raises:
            ThresholdMismatchError: If it was fitted for another scorer.
            ModelLoadError: If a file is missing or damaged.
            ChecksumError: If a file was changed.
        """
        folder = model_folder(name_or_dir)
        manifest = read_manifest(
            folder, "model.json", kind=cls.kind, needs=("max_pairs", "weights", "fitted_for")
        )
        with reading(folder):
            entry = manifest["weights"]
            pairs = check_whole("max_pairs", manifest["max_pairs"], low=1)
            inputs = 2 * pairs * (1 + bool(manifest.get("sees_rest")))
            hidden = check_whole("hidden", entry["hidden"], low=1)
            network = read_arrays(folder, entry)
            wanted: dict[str, tuple[int, ...]] = {}
            widths = [inputs, hidden, hidden, hidden, 1]
            for layer, width, out in zip(LAYERS, widths, widths[1:], strict=False):
                wanted |= {f"{layer}.weight": (out, width), f"{layer}.bias": (out,)}
            found = {name: array.shape for name, array in network.items()}
            raise_if(
                found != wanted,
                ModelLoadError,
                f"{folder / entry['file']} does not fit the model: its arrays have the shapes "
                f"{found}, its manifest asks for {wanted}",
            )
            made = cls(network, manifest=manifest)
            _ = made.name, made.threshold
        made._any_scorer = allow_other_scorer
        made.check_scorer(for_scorer)
        return made

    @property
    def name(self) -> str:
        """The detector's name, for traces."""
        return f"eligibility for {self.scorer}" if self.scorer else "eligibility"

    @property
    def fitted_for(self) -> Row:
        """Return what it was trained on: scorer, window, stride and per_passage."""
        return dict(self.manifest.get("fitted_for", {}))

    @property
    def scorer(self) -> str:
        """The name of the scorer it was trained on, empty if unknown."""
        return str(self.fitted_for.get("scorer") or "")

    @property
    def threshold(self) -> float:
        """The probability from which a combination is enough: the fitted one, or 0.5."""
        return THRESHOLD if self.fitted is None else self.fitted.value

    def check_scorer(self, name: object) -> None:
        """Raise `ThresholdMismatchError` for a scorer it was not fitted for.

        A scorer without a name passes, because there is nothing to compare.
        """
        given = name if isinstance(name, str) else ""
        fitted = FittedThreshold(self.threshold, model=self.scorer)
        fitted.check(given, allow_other=self._any_scorer)

    def eligible(self, combinations: Sequence[Scores]) -> list[float]:
        """Return the probability that each combination is enough, in [0, 1], in the order given.

        The scores of a combination may be in any order; only the `max_pairs` best by their sum
        count. A score without `llm_prefer` uses `has_answer` for both. An empty combination and a
        score of None raise `InputError`. No excerpts count as left out.
        """
        return self.eligible_among([(scores, ()) for scores in combinations])

    async def aeligible(self, combinations: Sequence[Scores]) -> list[float]:
        """Async version of `eligible`; probabilities in [0, 1]."""
        return await self.aeligible_among([(scores, ()) for scores in combinations])

    def eligible_among(self, pairs: Sequence[tuple[Scores, Scores]]) -> list[float]:
        """Return the probability that each combination is enough, given the scores left out.

        Those have an effect only if the detector was trained with them (`sees_rest`).

        Args:
            pairs: Scores of a combination, and those of the excerpts it leaves out.

        Returns:
            Probabilities in [0, 1], in order.
        """
        return self._call(self._judge, self._rows(pairs))

    async def aeligible_among(self, pairs: Sequence[tuple[Scores, Scores]]) -> list[float]:
        """Async version of `eligible_among`; probabilities in [0, 1]."""
        return await self._acall(self._judge, self._rows(pairs))

    def save_pretrained(self, folder: str | Path) -> None:
        """Save network, calibration and threshold to a folder that `from_pretrained` reads."""
        entry = write_arrays(Path(folder), "network.safetensors", self._network)
        weights = {
            **self.manifest.get("weights", {}),
            **entry,
            "hidden": len(self._network["0.bias"]),
        }
        fields = {
            "fitted_for": self.fitted_for,
            "sees_rest": self.sees_rest,
            "temperature": self._temperature,
            "threshold": None if self.fitted is None else self.fitted.to_dict(),
            **self.manifest,
            "max_pairs": self.max_pairs,
            "weights": weights,
        }
        write_manifest(Path(folder), "model.json", kind=self.kind, fields=fields)

    def _rows(self, pairs: Sequence[tuple[Scores, Scores]]) -> list[list[float]]:
        rows = []
        for i, (kept, left) in enumerate(pairs):
            given = check_many(f"combinations[{i}]", kept, BiLabelScore)
            rest = check_many(f"combinations[{i}]", left, BiLabelScore) if self.sees_rest else None
            rows.append(score_row(given, self.max_pairs, rest=rest))
        return rows

    def _judge(self, rows: Sequence[Sequence[float]]) -> list[float]:
        states = np.array(rows, dtype=np.float64)  # so that no batch changes what is rounded off
        for layer in LAYERS:
            weight, bias = self._network[f"{layer}.weight"], self._network[f"{layer}.bias"]
            states = states @ weight.T.astype(np.float64) + bias
            states = states if layer == LAYERS[-1] else states.clip(min=0)
        return cast(list[float], (1 / (1 + np.exp(-states[:, 0] / self._temperature))).tolist())

    def _details(self) -> list[str]:
        return [f"threshold={self.threshold:.3g}"]


def score_row(
    scores: Sequence[BiLabelScore], max_pairs: int, *, rest: Sequence[BiLabelScore] | None = None
) -> list[float]:
    """Write the score pairs of a combination as the network reads them, zeros at the end.

    Best sum first, `2 * max_pairs` numbers: has_answer, llm_prefer, has_answer and so on; then as
    many of the rest, None where the network does not see it.
    """
    refuse_if(not scores, "combination", scores, "at least one BiLabelScore")
    row = _padded(scores, max_pairs)
    return row if rest is None else row + _padded(rest, max_pairs)


def _padded(scores: Sequence[BiLabelScore], max_pairs: int) -> list[float]:
    pairs = [
        (one.has_answer, one.has_answer if one.llm_prefer is None else one.llm_prefer)
        for one in scores
    ]
    best = sorted(pairs, key=sum, reverse=True)[:max_pairs]
    return [*chain.from_iterable(best), *[0.0] * (2 * (max_pairs - len(best)))]
