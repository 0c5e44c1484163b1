"""What a method asks of the world, as Protocols; and ``Ports``, what one caller offers.

Every call is batched: n items in, n answers out, in the same order. No base classes and no
registry: a backend is any object with the method, or a plain callable, and may add an async twin
of the same name with an ``a`` in front. Models are given to the method; retrieval, search and
generation belong to the caller and come in ``Ports``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from inspect import iscoroutinefunction
from typing import Any, Protocol, TypeAlias, TypeVar, runtime_checkable

from fitrag_integrations.errors import InputError, PortError
from fitrag_integrations.flow import Flow, Port
from fitrag_integrations.text.sentences import SentenceSplitter as SentenceSplitter
from fitrag_integrations.text.tokens import TokenCounter as TokenCounter
from fitrag_integrations.types import BiLabelScore, Context, Draft, Passage, RetrievalDecision

Pair: TypeAlias = tuple[str, Passage]  # a question, and a passage to judge against it
Q = TypeVar("Q")
A = TypeVar("A")


@runtime_checkable
class Retriever(Protocol):
    """Find passages, best first, for each query."""

    def retrieve(self, queries: Sequence[str], /) -> Sequence[Sequence[Passage]]: ...


@runtime_checkable
class Scorer(Protocol):
    """Give the two labels of each (question, passage) pair."""

    def score(self, pairs: Sequence[Pair], /) -> Sequence[BiLabelScore]: ...


@runtime_checkable
class Evaluator(Protocol):
    """Grade each (question, passage) pair in [-1, 1]."""

    def evaluate(self, pairs: Sequence[Pair], /) -> Sequence[float]: ...


@runtime_checkable
class Gate(Protocol):
    """Tell how likely each question is known without retrieval, in [0, 1].

    A draft is the model's own first words on the question, empty where there are none. A gate may
    carry ``threshold``, above which a question counts as known.
    """

    def p_known(self, questions: Sequence[str], drafts: Sequence[str], /) -> Sequence[float]: ...


@runtime_checkable
class Recognizer(Protocol):
    """Decide from the scores of everything retrieved (FIT-RAG, section 4.3).

    A flow, because it may ask a model of its own.
    """

    def decide(
        self, question: str, scores: Sequence[BiLabelScore], /
    ) -> Flow[RetrievalDecision]: ...


@runtime_checkable
class Detector(Protocol):
    """Tell how likely each combination of excerpts is enough to answer, in [0, 1].

    One that has ``eligible_among`` is given pairs instead: the scores kept, and those left out. It
    may carry ``threshold``, and ``check_scorer``, which refuses the name of another scorer.
    """

    def eligible(self, combinations: Sequence[Sequence[BiLabelScore]], /) -> Sequence[float]: ...


@runtime_checkable
class Generator(Protocol):
    """Continue each prompt."""

    def generate(self, prompts: Sequence[str], /) -> Sequence[str]: ...


@runtime_checkable
class Drafter(Protocol):
    """Write the first words of an answer to each question, without any passage.

    ``rescore`` takes words already written and tells how sure the model is of each token of them.
    A drafter may carry ``name``, the name of its model, which thresholds are checked against.
    """

    def draft(self, questions: Sequence[str], /) -> Sequence[Draft]: ...
    def rescore(self, questions: Sequence[str], drafts: Sequence[str], /) -> Sequence[Draft]: ...


@runtime_checkable
class YesNo(Protocol):
    """Tell for each prompt how likely the model says Yes rather than No, in [0, 1]."""

    def p_yes(self, prompts: Sequence[str], /) -> Sequence[float]: ...


@runtime_checkable
class AnswerLike(Protocol):
    """An answer as ``passage.text[start:end]``, with a score, higher is better."""

    @property
    def text(self) -> str: ...
    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def score(self) -> float: ...


@runtime_checkable
class Reader(Protocol):
    """Find the answer to each question in its passage."""

    def read(self, pairs: Sequence[Pair], /) -> Sequence[AnswerLike]: ...


@runtime_checkable
class Method(Protocol):
    """Turn a question into a flow that ends in a context."""

    def __call__(self, question: str, ports: Ports, /) -> Flow[Context]:
        """Give the flow for one question; it asks ``ports``, what the caller offers, for its I/O.

        The flow, not the call, raises ``InputError`` for a blank question.
        """
        ...


@dataclass(frozen=True, init=False)
class Ports:
    """Offer a method its I/O; each is a ``Port``, a backend with the method, or a callable.

    ``retrieve`` and ``search`` go from queries to lists of passages, ``generate`` from prompts to
    texts. A port left out is falsy, so ``if ports.search`` asks whether it is there, and raises
    ``PortError`` when it is asked.
    """

    retrieve: Port[str, Sequence[Passage]]
    search: Port[str, Sequence[Passage]]
    generate: Port[str, str]

    def __init__(self, retrieve: Any = None, search: Any = None, generate: Any = None) -> None:
        given = {"retrieve": retrieve, "search": search, "generate": generate}
        for name, backend in given.items():
            port = Missing(name, None) if backend is None else port_of(name, backend, name)
            object.__setattr__(self, name, port)


class Missing(Port[Any, Any]):
    """Stand for a port nobody gave."""

    def __bool__(self) -> bool:
        return False

    def ask(self, items: Sequence[Any]) -> Flow[list[Any]]:
        """Raise ``PortError`` naming what to give."""
        raise PortError(f"this method needs a {self.name} port: give Ports({self.name}=...)")


def port_of(name: str, backend: Any, method: str, *, argument: str | None = None) -> Port[Any, Any]:
    """Build a port from an object with ``method``, from a callable, or pass a port through.

    The async twin is ``"a" + method``; an object may have either or both. Ports of one object are
    equal, so that the questions of ``run_many`` share its calls. A wrong backend is told under the
    name of the ``argument`` it was given as, which is the port's own where there is none.
    """
    if isinstance(backend, Port):
        return backend
    if not isinstance(backend, type):  # a class would be called to make an instance
        found, twin = (_call(backend, verb) for verb in (method, f"a{method}"))
        if found is not None or twin is not None:
            return Port.of(name, found, twin, owner=backend)
        if callable(backend):
            is_async = iscoroutinefunction(getattr(backend, "__call__", None))  # noqa: B004
            return Port.of(name, None, backend) if is_async else Port.of(name, backend)
    allowed = f"an object with a {method!r} method, a callable, or a Port"
    raise InputError.of(argument or name, given=backend, allowed=allowed)


def _call(backend: Any, verb: str) -> Any:
    found = getattr(backend, verb, None)
    return found if callable(found) else None


def gate_port(gate: Gate) -> Port[tuple[str, str], float]:
    """Build the port of a gate, whose items are (question, draft) pairs."""
    if isinstance(gate, type) or not callable(getattr(gate, "p_known", None)):
        raise InputError.of("gate", given=gate, allowed="an object with a 'p_known' method")
    has_twin = callable(getattr(gate, "ap_known", None))
    return Port.of("gate", _Unzipped(gate.p_known), _awaiting(gate) if has_twin else None)


def pair_port(name: str, backend: Any, method: str) -> Port[tuple[str, str], Any]:
    """Build the port of a method that takes two lists, of questions and of texts, as pairs."""
    found, twin = getattr(backend, method, None), getattr(backend, f"a{method}", None)
    if isinstance(backend, type) or not callable(found):
        raise InputError.of(name, given=backend, allowed=f"an object with a {method!r} method")
    return Port.of(name, _Unzipped(found), _Unzipped(twin) if callable(twin) else None)


def rescore_port(drafter: Drafter) -> Port[tuple[str, str], Draft]:
    """Build the port that measures written drafts, whose items are (question, draft) pairs."""
    twin = getattr(drafter, "arescore", None)
    return Port.of("rescore", _Unzipped(drafter.rescore), _Unzipped(twin) if twin else None)


@dataclass(frozen=True)
class _Unzipped:
    """Hand pairs to a call that takes two lists; equal, and hashed, by that call."""

    call: Callable[[Sequence[str], Sequence[str]], Any]

    def __call__(self, pairs: Sequence[tuple[str, str]]) -> Any:
        return self.call([question for question, _ in pairs], [draft for _, draft in pairs])


def _awaiting(gate: Any) -> Callable[[Sequence[tuple[str, str]]], Awaitable[Sequence[float]]]:
    return _Unzipped(gate.ap_known)
