"""Convert the caller's Runnables to ports, and call each under its own question's config.

Callbacks belong to one question, but calls are shared by all questions of a batch. So each query
carries the config of its question, and a shared call passes LangChain one config per query.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeGuard, Union, get_args, get_origin
from uuid import uuid4

from langchain_core.messages import BaseMessage, ToolMessage
from langchain_core.runnables import (
    Runnable,
    RunnableBinding,
    RunnableConfig,
    RunnableSequence,
    RunnableSerializable,
)

from fitrag_integrations.core.checks import check_text, trait
from fitrag_integrations.errors import InputError, PortError, raise_if, refuse_if
from fitrag_integrations.flow import Flow, Port
from fitrag_integrations.langchain.base.convert import to_pages, to_passages
from fitrag_integrations.methods.ik.decider import Decider, check_judged
from fitrag_integrations.ports import Ports, showing
from fitrag_integrations.text.replies import strip_thoughts
from fitrag_integrations.values.prompt import Shot

if TYPE_CHECKING:  # a class that was never imported has no instances, and its import takes long
    from langchain_core.language_models import BaseLanguageModel
    from langchain_core.tools import BaseTool

INTERNAL = ("nostream", "fitrag")
"""Tags of calls whose words are no answer: LangGraph does not stream what has the first, and
tracers can filter by the second."""
_NAMES = ("model_name", "model", "model_id", "deployment_name", "repo_id")
"""Where language models have their names."""


def internal(config: RunnableConfig) -> RunnableConfig:
    """Return a config that marks calls as internal."""
    tags = [*(config.get("tags") or ()), *INTERNAL]
    return RunnableConfig(**{**config, "tags": list(dict.fromkeys(tags))})


class Owned(str):
    """Query or prompt with the config of its question."""

    config: RunnableConfig

    def __new__(cls, text: str, config: RunnableConfig) -> Owned:
        owned = super().__new__(cls, check_text("query", text))
        owned.config = config
        return owned

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (str(self),)  # a trace may travel, callbacks cannot


class Held(NamedTuple):
    """Any other input with the config of its question."""

    given: object
    config: RunnableConfig


@dataclass(frozen=True, eq=False)  # equal as ports are: by name and callables, not by config
class OwnedPort(Port[Any, Any]):
    """Port that attaches the config of one question to each item."""

    config: RunnableConfig = field(default_factory=RunnableConfig)

    def ask(self, items: Sequence[Any]) -> Flow[list[object]]:
        """Request one answer per item."""
        kinds = [Owned if isinstance(item, str) else Held for item in items]
        marked = [kind(item, self.config) for kind, item in zip(kinds, items, strict=True)]
        return (yield from super().ask(marked))


@dataclass(frozen=True, eq=False)
class Backend:
    """Backend that answers a batch with a Runnable; failed items get their exception."""

    runnable: Runnable[Any, Any]
    convert: Callable[[Any], object] = lambda answer: answer
    name: str = ""
    options: Mapping[str, object] = field(default_factory=dict)

    def port(self, config: RunnableConfig, name: str = "") -> OwnedPort:
        """Build the port of one question; the ports of all questions are equal.

        Args:
            config: Config of the question's calls.
            name: Name of the port. Defaults to the backend's.
        """
        return OwnedPort(name or self.name, self.call, self.acall, owner=self, config=config)

    def ask(self, given: object, config: RunnableConfig) -> Flow[Any]:
        """Request one answer; equal requests of one batch are joined.

        Args:
            given: Input of the Runnable.
            config: Config of the call.
        """
        (answer,) = yield from self.port(config).ask([given])
        return answer

    def call(self, items: Sequence[object]) -> list[object]:
        """Answer a batch in one call, or a single item directly."""
        given, configs = _unowned(items)
        if len(items) == 1:
            return [self.convert(self.runnable.invoke(given[0], configs[0], **self.options))]
        answers = self.runnable.batch(given, configs, return_exceptions=True, **self.options)
        return list(map(self._converted, answers))

    async def acall(self, items: Sequence[object]) -> list[object]:
        """Async version of ``call``."""
        given, configs = _unowned(items)
        if len(items) == 1:
            return [self.convert(await self.runnable.ainvoke(given[0], configs[0], **self.options))]
        asked = self.runnable.abatch(given, configs, return_exceptions=True, **self.options)
        return list(map(self._converted, await asked))

    def _converted(self, answer: object) -> object:
        if isinstance(answer, Exception):
            return answer
        try:
            return self.convert(answer)
        except (InputError, PortError) as error:  # this question's alone
            return error


@dataclass(frozen=True, eq=False)
class Offer:
    """Retrieval, search and generation for one batch; creates the ``Ports`` of each question."""

    retriever: Backend | None = None
    search: object = None  # a Backend, or a provider that takes a batch itself
    llm: Backend | None = None
    shots: tuple[Shot, ...] = ()

    @classmethod
    def of(
        cls,
        retriever: Any = None,
        search: Any = None,
        llm: Any = None,
        title_keys: Sequence[str] | None = None,
        shots: tuple[Shot, ...] = (),
    ) -> Offer:
        """Build an offer from Runnables and callables.

        Args:
            retriever: Runnable from a question to documents.
            search: Search tool or Runnable; an object with a ``search`` method is not wrapped.
            llm: Runnable from a prompt to text.
            title_keys: Metadata keys of a document's title.
            shots: Examples to show the ``llm``.
        """
        if search is not None and (isinstance(search, Runnable) or not hasattr(search, "search")):
            search = Backend(ToolSearch(tool=search) if is_tool(search) else search, to_pages)
        found = partial(to_passages, title_keys=title_keys)
        return cls(
            None if retriever is None else Backend(retriever, found),
            search,
            None if llm is None else Backend(llm, text_of),
            shots,
        )

    def to(self, config: RunnableConfig) -> Ports:
        """Return the ports of a question, which run under this config."""
        given = {"retrieve": self.retriever, "search": self.search, "generate": self.llm}
        ports: dict[str, Any] = {
            name: backend.port(config, name) if isinstance(backend, Backend) else backend
            for name, backend in given.items()
        }
        return Ports(**ports, shots=self.shots)


@dataclass(frozen=True)
class Writer:
    """Generator over a Runnable from a prompt to text.

    Runnables have their own ``generate`` with another meaning, so they need this adapter. Calls
    carry the tags ``INTERNAL``. A Runnable whose output type is known not to be text, such as a
    retriever, raises ``InputError``.
    """

    llm: Runnable[Any, Any]

    def __post_init__(self) -> None:
        try:
            writes_text = _is_text(self.llm.OutputType)
        except TypeError:  # not declared
            writes_text = True
        refuse_if(
            not writes_text,
            "model",
            self.llm,
            "a language model or another Runnable from a prompt to text",
        )

    @property
    def name(self) -> str | None:
        """Return the model's name, which a fitted threshold is checked against; None if unknown."""
        return name_behind(self.llm)

    def generate(self, prompts: Sequence[str]) -> list[object]:
        """Continue each prompt; a failed prompt is answered with its exception."""
        return Backend(self.llm, text_of).call([Owned(one, internal({})) for one in prompts])

    async def agenerate(self, prompts: Sequence[str]) -> list[object]:
        """Continue each prompt without blocking the event loop."""
        return await Backend(self.llm, text_of).acall([Owned(one, internal({})) for one in prompts])


def role_ports(
    fields: Iterable[tuple[str, Any]], roles: Mapping[str, str], configs: Iterable[RunnableConfig]
) -> list[dict[str, object]]:
    """Build ports of the fields that are Runnables.

    The ports of a role are equal, so that their requests join. They show the examples in the field
    ``shots``.

    Args:
        fields: Names and values of fields.
        roles: Names of fields, with the name of their port.
        configs: Configs of the questions.

    Returns:
        The ports by field, for each config.
    """
    held = dict(fields)
    backends = {
        name: Backend(each, text_of)
        for name, each in held.items()
        if name in roles and isinstance(each, Runnable)
    }
    return [
        {
            name: showing(each.port(config, roles[name]), held.get("shots", ()))
            for name, each in backends.items()
        }
        for config in configs
    ]


def _is_text(kind: Any) -> bool:
    """Check whether values of a type may be a text or a message, as far as it says."""
    origin = get_origin(kind) or kind
    if origin in (Union, UnionType, Annotated):
        return any(map(_is_text, get_args(kind)))
    is_known = isinstance(origin, type) and origin is not Any
    return not is_known or issubclass(origin, str | BaseMessage)


class ToolSearch(RunnableSerializable[str, Any]):
    """Search with a tool, called as an agent calls it; it returns the tool's artifact."""

    tool: Any  # a `BaseTool`, whose import would be the slowest of all

    def invoke(self, input: str, config: RunnableConfig | None = None, **kwargs: object) -> object:
        """Search for one query.

        Args:
            input: Query.
            config: Config of the tool's run.
            **kwargs: Not used.
        """
        return self._found(self.tool.invoke(self._call(input), config))

    async def ainvoke(
        self, input: str, config: RunnableConfig | None = None, **kwargs: object
    ) -> object:
        """Async version of ``invoke``."""
        return self._found(await self.tool.ainvoke(self._call(input), config))

    def _call(self, query: str) -> dict[str, object]:
        name = next(iter(self.tool.args), "query")
        call = {"name": self.tool.name, "args": {name: query}, "id": str(uuid4())}
        return {**call, "type": "tool_call"}

    def _found(self, answer: object) -> object:
        """Return the artifact where it can be read as results, else the content."""
        if not isinstance(answer, ToolMessage):
            return answer
        raise_if(
            answer.status == "error",
            PortError,
            f"the search tool {self.tool.name!r} failed: {answer.text}",
        )
        with suppress(InputError):
            if answer.artifact is not None:
                return to_pages(answer.artifact)
        return answer.content


def text_of(output: object) -> str:
    """Return the text of a language model's output, without its reasoning."""
    return strip_thoughts(piece_of(output))


def piece_of(output: object) -> str:
    """Return the text of one chunk of a language model's output."""
    return str(output.text) if isinstance(output, BaseMessage) else check_text("llm output", output)


def _unowned(items: Sequence[object]) -> tuple[list[object], list[RunnableConfig]]:
    marked = [item if isinstance(item, Owned | Held) else Held(item, {}) for item in items]
    given = [item.given if isinstance(item, Held) else str(item) for item in marked]
    return given, [item.config for item in marked]


def is_language_model(value: object) -> TypeGuard[BaseLanguageModel[Any]]:
    """Check whether a value is a LangChain language model."""
    return _is(value, "langchain_core.language_models.base", "BaseLanguageModel")


def is_tool(value: object) -> TypeGuard[BaseTool]:
    """Check whether a value is a LangChain tool."""
    return _is(value, "langchain_core.tools.base", "BaseTool")


def _is(value: object, module: str, name: str) -> bool:
    kind = getattr(sys.modules.get(module), name, None)
    return kind is not None and isinstance(value, kind)


def check_model(decider: Decider, runnable: object) -> None:
    """Check that a gate's threshold was fitted for the model behind a Runnable.

    Args:
        decider: Decision with its gate.
        runnable: Runnable; one without a language model passes.
    """
    if language_model(runnable) is not None:
        check_judged(decider, name_behind(runnable))


def language_model(runnable: object) -> BaseLanguageModel[Any] | None:
    """Return the language model behind a Runnable; for a chain, the first one in it."""
    if is_language_model(runnable):
        return runnable
    if isinstance(runnable, RunnableBinding):
        return language_model(runnable.bound)
    steps = runnable.steps if isinstance(runnable, RunnableSequence) else ()
    return next((llm for llm in map(language_model, steps) if llm is not None), None)


def name_behind(runnable: object) -> str | None:
    """Return the name that the language model behind a Runnable reports, or None."""
    llm = language_model(runnable)
    return next(filter(None, (trait(llm, name, str) for name in _NAMES)), None)
