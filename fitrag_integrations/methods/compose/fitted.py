"""Read the output of `fitrag fit`: the settings, the thresholds, and their models.

Everything in the folder was chosen with one language model; a model with another name is rejected.
Models, methods and gates are loaded only when they are used, because every component imports this
module.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any, ClassVar, Self

from fitrag_integrations.core import jsonl
from fitrag_integrations.core.files import write_whole
from fitrag_integrations.core.record import Record
from fitrag_integrations.errors import InputError, ThresholdMismatchError, raise_if, refuse_if
from fitrag_integrations.methods.ik.decider import Decider
from fitrag_integrations.methods.settings import option_names
from fitrag_integrations.ports import Gate, Method, model_name, writer_of
from fitrag_integrations.values.prompt import NOTHING_FOUND, PromptTemplate
from fitrag_integrations.values.thresholds import ActionThresholds, FittedThreshold

NAME, CORPUS, SCHEMA = "fitted.json", "corpus.json", 1
INDEX = "index"  # the folder of the index in it, where there was a corpus
NEIGHBOURS = 10
WITH = PromptTemplate(
    "fitted",
    "Refer to the passages below and answer the question in a few words.\n\n"
    "Passages:\n{passages}\n\nQuestion: {question}\nAnswer:",
)
WITHOUT = PromptTemplate(
    "fitted_bare", "Answer the question in a few words.\n\nQuestion: {question}\nAnswer:"
)
"""The prompts of which everything was chosen."""


@dataclass(frozen=True)
class FittedTemplate:
    """Prompt of the fitted method: the passages, the bare question, or that nothing was found.

    The bare question is used for known questions, and for a context that no method produced.
    """

    name: str = "fitted"

    def render(self, context: Any) -> str:
        """Render the prompt that fits a context."""
        skipped = context.decision is not None and not context.decision.retrieve
        bare = WITHOUT if skipped or not context.method else NOTHING_FOUND
        return (WITH if context.excerpts else bare).render(context)


@dataclass(frozen=True, slots=True)
class Fitted(Record):
    """Settings in a folder that `fitrag fit` wrote.

    `recipe` is the method that was chosen: its name under `method`, the folder of its scorer, and
    its other fields as they stand; `gate` is `neighbours`,
    `ask`, `p_true` or one of `GATES`, blank for none, with its `threshold`. `thresholds` are
    CRAG's. `llm` names the language model, `promise` says what was asked for and what was
    certified, `corpus` counts the passages that were searched, None where only a retriever was
    given. `run` is what to run again.
    """

    _nested: ClassVar = {"threshold": FittedThreshold, "thresholds": ActionThresholds}

    llm: str
    recipe: dict[str, Any]
    gate: str = ""
    threshold: FittedThreshold | None = None
    thresholds: ActionThresholds | None = None
    promise: dict[str, Any] = field(default_factory=dict)
    corpus: dict[str, Any] | None = None
    run: tuple[str, ...] = ()
    schema: int = SCHEMA
    folder: str = ""

    @classmethod
    def read(cls, folder: str | Path) -> Self:
        """Read a folder; raises `InputError` naming the invalid part."""
        path = Path(folder) / NAME
        try:
            given = jsonl.loads(path.read_text(encoding="utf-8"))
            raise_if(given["schema"] != SCHEMA, ValueError, f"schema {given['schema']}")
            return cls.from_dict({**given, "folder": str(folder)})
        except (OSError, ValueError, KeyError, TypeError) as error:
            allowed = f"a folder that `fitrag fit` wrote ({error!r})"
            raise InputError.of("fitted", given=str(folder), allowed=allowed) from error

    def write(self) -> None:
        """Write the settings into their folder atomically."""
        values = {name: value for name, value in self.to_dict().items() if name != "folder"}
        write_whole(Path(self.folder) / NAME, json.dumps(values, indent=2) + "\n")

    def check(self, llm: str | None, *, allow_other_model: bool = False) -> None:
        """Check that the folder was fitted for a language model.

        Args:
            llm: Name of the language model; None passes.
            allow_other_model: Accept another model.

        Raises:
            ThresholdMismatchError: If it was fitted for another language model.
        """
        own = self.llm  # either may name its provider: `openai:gpt-5-mini`
        same = llm in (None, own) or own.endswith(f":{llm}") or str(llm).endswith(f":{own}")
        raise_if(
            not (same or allow_other_model),
            ThresholdMismatchError,
            f"{self.folder} was fitted for {self.llm!r}, given {llm!r}: fit it for that one with "
            "`fitrag fit`, or pass allow_other_model=True to use it all the same",
        )

    def method(self, llm: object = None) -> Method:
        """Build the chosen method; `llm` is required if its gate asks the model."""
        from fitrag_integrations.methods.compose.composing import method_from
        from fitrag_integrations.methods.ik.method import IKnow

        decider, fields = self.decider(llm), self._fields()
        made = method_from(fields.pop("method"), **fields)
        if decider is None:
            return made
        return IKnow(decider.gate, threshold=decider.threshold, method=made)

    def decider(self, llm: object = None) -> Decider | None:
        """Return the gate with its threshold, or None."""
        if not self.gate:
            return None
        from fitrag_integrations.methods.baselines.gated import NeighbourGate
        from fitrag_integrations.methods.ik.gates import GATES, AskGate, PTrueGate
        from fitrag_integrations.retrieval import QuestionBank

        asking: dict[str, Callable[[Any], Gate]] = {
            "ask": partial(AskGate, draft_tokens=0),
            "p_true": PTrueGate,
            **GATES,
        }
        assert self.threshold is not None
        allowed = f"the language model, {self.llm}, whom the gate asks"
        refuse_if(self.gate in asking and llm is None, "llm", None, allowed)
        return Decider(
            asking[self.gate](llm)
            if self.gate in asking
            else NeighbourGate(QuestionBank.load(Path(self.folder) / "bank"), NEIGHBOURS),
            threshold=self.threshold.value,
        )

    def options(self, names: Collection[str], llm: object = None) -> dict[str, Any]:
        """Return the arguments for a component.

        Args:
            names: Names of the component's options.
            llm: Language model of the gate, if there is one.

        Raises:
            InputError: If the folder has no settings for the component.
        """
        if "method" in names:
            return {"method": self.method(llm)} | _if("template", names, FittedTemplate())
        if "thresholds" in names:
            return {"thresholds": self._actions()}
        if "sentences" in names:  # of strips, which those thresholds hold for too
            return {"threshold": self._actions().strip, "sentences": self._actions().sentences}
        decider = self.decider(llm)
        if "scorer" in names:
            if self.recipe["method"] == "direct":
                best = f"the retriever alone with k={self.recipe['k']}, which was best"
                raise self._nothing(f"{best}: use it as it is, or MethodRetriever.from_fitted")
            own = {name: value for name, value in self._fields().items() if name in names}
            return own | (_if("gate", names, decider) if decider is not None else {})
        if "gate" in names:
            if decider is None:
                raise self._nothing("no gate: retrieving for every question was best")
            return {"gate": decider.gate, "threshold": decider.threshold}
        raise self._nothing("retrievers, rerankers, compressors, gates, and what runs a method")

    def changed(self, passages: Collection[str]) -> str:
        """Return a sentence on the passages that were added or removed, by hash; blank if none."""
        if self.corpus is None:
            return ""
        before = set(jsonl.loads((Path(self.folder) / CORPUS).read_text(encoding="utf-8")))
        counts = {"new": len(set(passages) - before), "gone": len(before - set(passages))}
        return ", ".join(f"{count} {word}" for word, count in counts.items() if count)

    def _fields(self) -> dict[str, Any]:
        """Return the recipe with its scorer loaded."""
        fields = dict(self.recipe)
        if "scorer" in fields:
            from fitrag_integrations.models import BiLabelScorer

            folder = Path(self.folder) / fields["scorer"]
            fields["scorer"] = BiLabelScorer.from_pretrained(str(folder))
        return fields

    def _actions(self) -> ActionThresholds:
        """Return CRAG's thresholds; raises `InputError` where there are none."""
        if self.thresholds is None:
            raise self._nothing("questions with and without an answer in what was retrieved")
        return self.thresholds

    def _nothing(self, allowed: str) -> InputError:
        return InputError.of("fitted", given=self.folder, allowed=allowed)


def _if(name: str, names: Collection[str], value: object) -> dict[str, Any]:
    return {name: value} if name in names else {}


class FromFitted:
    """Mixin that adds the constructor `from_fitted` to components of both frameworks."""

    @classmethod
    def from_fitted(
        cls,
        folder: str | Path,
        *,
        llm: object = None,
        allow_other_model: bool = False,
        **given: Any,
    ) -> Self:
        """Build the component with the settings that `fitrag fit` chose.

        Args:
            folder: The folder that `fitrag fit` wrote.
            llm: The language model that will answer.
            allow_other_model: Accept a model other than the one that the fit was made for.
            given: Further arguments of the component.

        Returns:
            The component.

        Raises:
            ThresholdMismatchError: If the fit was made for another model.
            InputError: If the folder has no settings for this class.
        """
        fitted, made = Fitted.read(folder), getattr(cls, "made", None)
        names = {*getattr(cls, "model_fields", ()), *signature(cls).parameters}
        names |= {*option_names(made)}
        kind = None if llm is None else type(llm).__name__
        fitted.check(model_name(llm) or kind, allow_other_model=allow_other_model)
        own = {"llm": llm} if llm is not None and "llm" in names else {}
        return cls(**{**fitted.options(names, writer_of(llm)), **own, **given})
