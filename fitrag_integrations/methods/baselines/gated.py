"""A gate before a method: any gate, asked whether the model knows the answer by itself."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Annotated

from fitrag_integrations.core.checks import Checked, check_callable
from fitrag_integrations.flow import Flow
from fitrag_integrations.methods.ik.method import IKnow
from fitrag_integrations.ports import Method, Ports
from fitrag_integrations.types import Context


class Gating(Checked):
    """Be `IKnow` with a gate of one's own, under the name of one's class."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.inner

    @property
    @abstractmethod
    def inner(self) -> IKnow:
        """The method that is run."""

    def details(self) -> dict[str, object]:
        """Return what `Context.details` has besides."""
        return {}

    def __call__(self, question: str, ports: Ports) -> Flow[Context]:
        """Return the flow that ends in the context for one question.

        A known one has no excerpts, and its answer is left to the caller's prompt.
        """
        context = yield from self.inner(question, ports)
        name, details = type(self).__name__.lower(), {**context.details, **self.details()}
        return replace(context, method=name, details=details)


@dataclass(frozen=True)
class Gated(IKnow):
    """Method behind a gate that runs another method for unknown questions: `IKnow` (IK, section 3).

    `gate` None is the embedded one and `method` None direct retrieval; the rest is as in `IKnow`.
    """

    method: Annotated[Method, check_callable] | None = None
