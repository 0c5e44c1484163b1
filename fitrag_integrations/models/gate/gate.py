"""What IK and the necessity judge share: a gate over a causal engine, saved with its threshold."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

from fitrag_integrations.core.checks import check_whole
from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import raise_if
from fitrag_integrations.models.causal.generator import LocalGenerator, first_tokens
from fitrag_integrations.models.causal.language_model import CausalEngine
from fitrag_integrations.models.causal.loading import CausalModel
from fitrag_integrations.models.runtime.engine import LoadOptions
from fitrag_integrations.models.runtime.folder import reading
from fitrag_integrations.models.runtime.saved import Origin
from fitrag_integrations.models.runtime.worker import Steps
from fitrag_integrations.models.words import checked_pairs, share
from fitrag_integrations.values.thresholds import FittedThreshold

THRESHOLD = 0.5
Texts = tuple[str, str]  # a question and a draft, empty for none


class CausalGate(CausalModel):
    """Gate over a causal model: the probability that each question is known.

    Built from an `engine`, a folder's `manifest`, and the name of its `adapter` on the engine.
    """

    title: ClassVar[str]
    default_tokens: ClassVar[int]
    _temperatures: tuple[float, float]  # without and with a draft

    def __init__(self, engine: CausalEngine, *, manifest: Row, adapter: str | None = None) -> None:
        super().__init__(engine, manifest=manifest, adapter=adapter)
        self._drafter: LocalGenerator | None = None
        count = manifest.get("draft_tokens", self.default_tokens)
        self.draft_tokens = check_whole("draft_tokens", count, low=0)
        fitted = manifest.get("threshold")
        self.fitted = None if fitted is None else FittedThreshold.from_dict(fitted)

    @property
    def name(self) -> str:
        """The gate's name, for traces."""
        return f"{self.title} for {self.model_name}" if self.model_name else self.title

    @property
    def model_name(self) -> str:
        """The name of the language model whose knowledge is judged, empty if unknown."""
        return fitted_for(self.manifest).model

    @property
    def threshold(self) -> float:
        """The score above which a question is known: the fitted one, else 0.5."""
        return THRESHOLD if self.fitted is None else self.fitted.value

    def generator(self, **options: Any) -> LocalGenerator:
        """Make a generator of the base, over the same copy of its weights; unload it on its own.

        `options` are those of `LocalGenerator` beside device, dtype and batch_tokens. Raises
        `TypeError` if the adapter is merged into the base.
        """
        self._worker()  # an unloaded gate has no weights to share
        raise_if(
            self._merged,
            TypeError,
            f"{self!r} has merged weights: load it without merge_adapter to share its base",
        )
        made = LocalGenerator(self._engine.retain(), **options)
        if self._origin is not None:
            given = self._origin.options
            where = {name: given[name] for name in LoadOptions.__annotations__ if name in given}
            made._origin = Origin(self._base(), {**where, **options})
        return made

    @property
    def drafter(self) -> LocalGenerator | None:
        """The generator that writes the drafts, always the same; it outlives `unload`.

        None where another model's knowledge is judged: then only that model can write them; and
        where the adapter is merged into the base.
        """
        if self.model_name != self._engine.name or self._merged:
            return None
        if self._drafter is None:
            self._drafter = self.generator(draft_tokens=max(1, self.draft_tokens))
        return self._drafter

    def p_known(
        self,
        questions: Sequence[str],
        drafts: Sequence[str],
        *,
        show_progress: bool | None = False,
    ) -> list[float]:
        """Return the probability that each question is known.

        Args:
            questions: Questions.
            drafts: One draft per question; a blank draft counts as none, and only the question is
                used.
            show_progress: Draw a bar. None draws it on a terminal.

        Returns:
            Probabilities in [0, 1], in the order given.
        """
        return self._call(self._known, checked_pairs(questions, drafts), show_progress)

    async def ap_known(self, questions: Sequence[str], drafts: Sequence[str]) -> list[float]:
        """Async version of `p_known`, in [0, 1]."""
        return await self._acall(self._known, checked_pairs(questions, drafts))

    def gaps(self, pairs: Sequence[Texts]) -> Steps[list[float]]:
        """Return the logit of knowing of `pairs`, any number; on the worker only. Drafts are
        cut.
        """
        raise NotImplementedError

    @classmethod
    def _for(
        cls,
        folder: Path,
        manifest: Row,
        options: LoadOptions,
        *,
        for_model: str | None,
        allow_other_model: bool,
    ) -> Self:
        """Load the base and its adapter or head, after checking whom they were fitted for."""
        with reading(folder):
            fitted = fitted_for(manifest)
        fitted.check(for_model or "", allow_other=allow_other_model)
        return cls._over(folder, manifest, options)

    def _known(self, pairs: Sequence[Texts]) -> Steps[list[float]]:
        gaps, given = (yield from self.gaps(pairs)), self.draft_tokens > 0
        by = [self._temperatures[bool(draft) and given] for _, draft in pairs]
        return [share((gap, 0.0), divisor) for gap, divisor in zip(gaps, by, strict=True)]


def fitted_for(manifest: Row) -> FittedThreshold:
    """Return the model whose knowledge is judged: the threshold's, else that of the training
    rows.
    """
    fitted = manifest.get("threshold")
    if fitted is not None and fitted.get("model"):
        return FittedThreshold.from_dict(fitted)
    return FittedThreshold(THRESHOLD, model=str(manifest.get("model") or ""))


def cut_drafts(engine: CausalEngine, pairs: Sequence[Texts], count: int) -> list[Texts]:
    """Cut each draft to its first tokens, none for 0. On the worker only."""
    if not count:
        return [(question, "") for question, _ in pairs]
    return [(q, first_tokens(engine.tokenizer, d, count) if d else "") for q, d in pairs]
