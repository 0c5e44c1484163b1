"""Field types, checks, short reprs and method options that the public classes share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, TypeAlias

from langchain_core.load.serializable import Serializable
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.base import coerce_to_runnable
from pydantic import (
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    PlainValidator,
    PrivateAttr,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    field_validator,
    model_validator,
)

from fitrag_integrations.core.checks import can, check_whole
from fitrag_integrations.core.generic import T
from fitrag_integrations.defaults import DEFAULTS
from fitrag_integrations.errors import InputError, refuse_if, shown
from fitrag_integrations.langchain.base.ports import is_language_model, is_tool
from fitrag_integrations.methods.settings import Built, State, option_names, restored, saved
from fitrag_integrations.ports import Detector, Scorer, check_method
from fitrag_integrations.text.tokens import Encoder
from fitrag_integrations.values.prompt import Shot, check_shots

Kept = Annotated[T, Field(exclude=True)]
"""A model or a callable: it stays out of dumps; pickle keeps it."""
Counter: TypeAlias = Callable[[str], int] | Encoder | str
Splitter: TypeAlias = Callable[[str], list[tuple[int, int]]]

CONFIG = ConfigDict(arbitrary_types_allowed=True, extra="forbid", validate_assignment=True)
"""To be named by each class that has a base of LangChain, whose config would count."""


def runnable_of(value: Any, name: str = "runnable") -> Runnable[Any, Any]:
    """Return a Runnable unchanged, and wrap a callable.

    Args:
        value: Runnable or callable.
        name: Name of the value in errors.

    Raises:
        InputError: For anything else.
    """
    fine = not isinstance(value, type) and (isinstance(value, Runnable) or callable(value))
    refuse_if(not fine, name, value, "a Runnable or a callable")
    found: Runnable[Any, Any] = coerce_to_runnable(value)
    return found


def _finding(value: object, name: str) -> object:
    if is_language_model(value):
        raise InputError(
            f"`{name}` must be a Runnable that finds documents, and {shown(value)} is a language "
            "model. Pass a retriever."
        )
    return runnable_of(value, name)


class _Read:
    """Type of a field whose values are read by `read`, which is told the field's name."""

    read: ClassVar[Callable[[Any, str], object]]

    @classmethod
    def __get_pydantic_core_schema__(cls, _: object, handler: GetCoreSchemaHandler) -> Any:
        read = PlainValidator(lambda value, info: cls.read(value, str(info.field_name)))
        return handler.generate_schema(Annotated[Any, read])


if TYPE_CHECKING:  # what a caller may pass
    AnyRunnable: TypeAlias = (
        Runnable[Any, Any] | Callable[[Any], Any] | Callable[[Any, RunnableConfig], Any]
    )
    Finder: TypeAlias = AnyRunnable
    Search: TypeAlias = Any
    AnyMethod: TypeAlias = Any
    Shots: TypeAlias = tuple[Shot, ...]
    Count: TypeAlias = int
else:  # and what reads it
    AnyRunnable, Finder, Search, AnyMethod, Shots, Count = (
        type(name, (_Read,), {"__module__": __name__, "read": staticmethod(read)})
        for name, read in {
            "AnyRunnable": runnable_of,
            "Finder": _finding,
            "Search": lambda value, name: (
                value if is_tool(value) or can(value, "search") else _finding(value, name)
            ),
            "AnyMethod": lambda value, _: check_method(value),
            "Shots": lambda value, name: check_shots(name, value),
            "Count": lambda value, name: check_whole(name, value, low=1),
        }.items()
    )


class Brief(Built, Serializable):
    """LangChain component whose repr and serialization show only fields that differ from their
    defaults.
    """

    model_config = CONFIG
    _state: State = PrivateAttr(default_factory=State)

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Return True: `dumpd` can serialize the component."""
        return True

    def to_json(self) -> Any:
        """Return the class and its arguments, as LangChain's `dumpd` calls for.

        A bundled model is written as "embedded". For a value that cannot be serialized, such as a
        function or your own model, `dumpd` writes only the name, which `load` rejects.
        """
        given = {name: saved(name, value) for name, value in self._given()}
        return {"lc": 1, "type": "constructor", "id": self.lc_id(), "kwargs": given}

    @field_validator("*", mode="wrap")
    @classmethod
    def _read(
        cls, value: object, validate: ValidatorFunctionWrapHandler, info: ValidationInfo
    ) -> object:
        name = str(info.field_name)
        value = restored(name, value)
        # the method checks its own
        return value if name in option_names(cls.made) else validate(value)

    @model_validator(mode="after")
    def _check_settings(self) -> Self:
        """Check the options at construction, not at the first question."""
        if self.made is not None:
            self.built()
        return self


class RankingOptions(Brief):
    """Options of components that rank documents by the two labels."""

    scorer: Kept[Scorer | None] = None
    """Object with `score(pairs)`; None is the bundled one."""
    top_n: int | None = DEFAULTS.top_n
    """Documents that the reranker keeps, best first; None keeps all but blank ones."""
    weight: float = DEFAULTS.weight
    """Weight of `llm_prefer` against `has_answer`, in [0, 1]."""
    prior: float | None = None
    """Weight of the order given, shared words and identifiers in ranking, in [0, 1]; None is 0.1
    for the bundled scorer, 0 for another. What it puts before a better-scored document gets the
    score of that."""
    min_score: float | None = DEFAULTS.min_score
    """Lowest `relevance_score` kept, in [0, 1]; None keeps all, but for a pruner the threshold of
    its own for sentences."""
    deduplicate: bool = DEFAULTS.deduplicate
    """Keep documents of equal text and title, and text that chunks of one source share, once: the
    best-scored."""


class ReducerOptions(RankingOptions):
    """Options of components that reduce documents to their best sentences."""

    window: int | None = None
    """Sentences in a window; None is one for a scorer that judges sentences, else three. Windows of
    more than one are read as texts of their own, as in the paper."""
    max_tokens: int | None = DEFAULTS.max_tokens
    """Budget of tokens: the excerpts cost no more in a prompt, as numbered documents, and added up
    one by one; None is no limit."""
    count_tokens: Kept[Counter | None] = None
    """Counts the tokens of a text; None estimates them."""
    detector: Kept[Detector | Literal[False] | None] = None
    """Decides when the excerpts are enough; None is the bundled one where it fits the scorer and
    the windows, False keeps all."""
    max_share: float | Literal["auto"] | None = "auto"
    """Fraction of the tokens of all documents given that is kept at most, in (0, 1]; None keeps
    all; "auto" is the fraction in `DEFAULTS`, of the `top_n` best, if neither `window` nor
    `max_tokens` is given."""
