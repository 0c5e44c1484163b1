"""Base class of the routers: call the model that decides, then the chosen branch.

The branch receives the input under its own question's config, and streams if the router streams.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from langchain_core.runnables import Runnable, RunnableConfig

from fitrag_integrations.flow import Flow
from fitrag_integrations.langchain.base.ports import Backend
from fitrag_integrations.langchain.base.runnable import FlowRunnable, Source, StreamedRunnable


@dataclass(frozen=True)
class Chosen:
    """Chosen branch, its input, and the decision in plain values."""

    branch: Backend
    given: object
    about: Mapping[str, object]

    def config(self, config: RunnableConfig) -> RunnableConfig:
        """Return the config with the decision in the metadata of the branch's runs."""
        metadata = {**(config.get("metadata") or {}), "fitrag": dict(self.about)}
        return RunnableConfig(**{**config, "metadata": metadata})


Route: TypeAlias = Callable[[Any, RunnableConfig], Flow[Chosen]]


class Router(StreamedRunnable[Any, Any]):
    """Runnable that returns the output of the chosen branch."""

    @abstractmethod
    def route(self, **options: object) -> Route:
        """Return the function from an input and its config to the flow that chooses a branch.

        It is built once for all inputs of a call, together with its branches. ``options`` are the
        caller's keyword arguments for the branches.
        """

    def as_key(self) -> Runnable[Any, dict[str, object]]:
        """Return a Runnable that returns ``{"key", "input"}``, as ``RouterRunnable`` expects."""
        return RouteKey(name=f"{type(self).__name__}Key", router=self)

    def explained(
        self, inputs: Sequence[object], configs: Sequence[RunnableConfig]
    ) -> list[Flow[Any]]:
        """Return flows that decide and call no branch.

        Args:
            inputs: Inputs.
            configs: The config of each input, in the same order.
        """
        return _ends(self, inputs, configs, lambda one: {"branch": one.branch.name, **one.about})

    def flows(
        self, inputs: Sequence[object], configs: Sequence[RunnableConfig], **options: object
    ) -> list[Flow[object]]:
        """Return one flow per input; the deciding model is called once, then each branch.

        Args:
            inputs: Inputs.
            configs: The config of each input, in the same order.
            **options: Keyword arguments of the branches.
        """

        def through(given: object, config: RunnableConfig) -> Flow[object]:
            chosen = yield from route(given, config)
            return (yield from chosen.branch.ask(chosen.given, chosen.config(config)))

        route = self.route(**options)
        return list(map(through, inputs, configs))

    def source(self, given: object, config: RunnableConfig, **options: Any) -> Flow[Source | Any]:
        """Return the flow that chooses the branch to stream.

        Args:
            given: Input of ``stream``.
            config: Config of ``stream``.
            **options: Not used.
        """
        chosen = yield from self.route()(given, config)
        return Source(chosen.branch, chosen.given, chosen.config(config))


class RouteKey(FlowRunnable[Any, dict[str, object]]):
    """Runnable that chooses a branch of ``router`` and returns its name and its input."""

    router: Router

    def flows(
        self, inputs: Sequence[object], configs: Sequence[RunnableConfig], **options: object
    ) -> list[Flow[dict[str, object]]]:
        """Return one flow per input; the deciding model is called once.

        Args:
            inputs: Inputs.
            configs: The config of each input, in the same order.
            **options: Not used.
        """
        return _ends(
            self.router, inputs, configs, lambda one: {"key": one.branch.name, "input": one.given}
        )


def _ends(
    router: Router,
    inputs: Sequence[object],
    configs: Sequence[RunnableConfig],
    end: Callable[[Chosen], dict[str, object]],
) -> list[Flow[Any]]:
    """Return the flows that choose a branch and return what ``end`` makes of the choice."""
    route = router.route()

    def told(given: object, config: RunnableConfig) -> Flow[dict[str, object]]:
        return end((yield from route(given, config)))

    return list(map(told, inputs, configs))
