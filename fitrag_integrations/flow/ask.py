"""An ``Ask``, which a flow yields, and the ``Port`` that answers it."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Generator, Sequence
from dataclasses import dataclass, field
from inspect import iscoroutinefunction
from typing import Any, Generic, TypeAlias, cast

from fitrag_integrations.core.generic import A, Q, R, T
from fitrag_integrations.errors import RefusedError, refuse_if


@dataclass(frozen=True)
class Port(Generic[Q, A]):
    """A batched call with a name: n items in, n answers out, in order.

    Ports with equal names and callables are equal and share calls. Bound methods of one object are
    equal; two closures are not.

    Args:
        name: Name in traces and errors.
        call: Sync call; None if there is only an async one.
        acall: Async call; None if there is none.
        tokens: Counts the tokens of items and answers, for the trace.
        owner: Object whose calls these are, if any.
    """

    name: str
    call: Callable[[Sequence[Q]], Sequence[A]] | None
    acall: Callable[[Sequence[Q]], Awaitable[Sequence[A]]] | None = None
    tokens: Callable[[Sequence[Q], Sequence[A]], int] | None = field(default=None, compare=False)
    owner: object = field(default=None, compare=False, repr=False)

    @classmethod
    def of(
        cls,
        name: str,
        call: Callable[[Sequence[Q]], Any] | None,
        acall: Callable[[Sequence[Q]], Awaitable[Sequence[A]]] | None = None,
        *,
        owner: object = None,
    ) -> Port[Q, A]:
        """Build a port; a coroutine function given as ``call`` becomes ``acall``.

        Args:
            name: Name in traces and errors.
            call: Sync call, or None.
            acall: Async call, or None.
            owner: Object whose calls these are. By default the object that the call is a method of,
                or else the callable itself.

        Raises:
            InputError: If neither is callable.
        """
        if acall is None and iscoroutinefunction(call):
            call, acall = None, call
        given = [one for one in (call, acall) if one is not None]
        wrong = next((one for one in given if not callable(one)), None)
        refuse_if(not given or wrong is not None, f"port {name!r}", wrong, "a callable")
        asked = acall if call is None else call
        return cls(name, call, acall, owner=owner or getattr(asked, "__self__", asked))

    def __hash__(self) -> int:  # callables need not be hashable, and names distinguish most ports
        with contextlib.suppress(TypeError):
            return hash((self.name, self.call, self.acall))
        return hash(self.name)

    def ask(self, items: Sequence[Q]) -> Flow[list[A]]:
        """Request one answer per item; without items nothing is requested."""
        return cast(list[A], (yield Ask(self, items))) if len(items) else []


AnyPort: TypeAlias = Port[Any, Any]
Answers: TypeAlias = list[Any] | Exception  # of one call, or why there are none


@dataclass(frozen=True)
class Ask:
    """Request of a flow.

    Args:
        port: Port to call.
        items: Items to call it with; it returns one answer for each.
        refusals: Whether the flow accepts a `RefusedError` as an answer. It is raised anyway if
            every item is refused.
    """

    port: AnyPort
    items: Sequence[Any]
    refusals: bool = False


Flow: TypeAlias = Generator[Ask, Any, R]


def ask_able(
    port: Port[Q, A], items: Sequence[Q], of: Sequence[T]
) -> Flow[tuple[list[T], list[A], list[tuple[T, RefusedError]]]]:
    """Ask for one answer per item, and continue without the items that are refused.

    Args:
        port: The port.
        items: Items to call it with.
        of: What each item stands for.

    Returns:
        The entries of `of` that were answered, their answers, and the refused entries with their
        errors. If all items are refused, the first error is raised.
    """
    answers: list[Any] = (yield Ask(port, items, refusals=True)) if len(items) else []
    paired = list(zip(of, answers, strict=True))
    able = [(one, answer) for one, answer in paired if not isinstance(answer, RefusedError)]
    refused = [(one, answer) for one, answer in paired if isinstance(answer, RefusedError)]
    return [one for one, _ in able], [answer for _, answer in able], refused


def attempt(flow: Flow[R], *, strict: bool = False) -> Flow[tuple[R | None, Exception | None]]:
    """Run a flow inside another. If it fails, return its error, or raise it if ``strict``."""
    try:
        return (yield from flow), None
    except Exception as error:
        if strict:
            raise
        return None, error
