"""Protocols of the models and services that methods call, and ``Ports``, which a caller gives.

Every call is batched: n items in, n answers out, in the same order. There are no base classes and
no registry: a backend is any object with the method, or a plain callable. It may add an async
method of the same name with an ``a`` in front. Models are given to the method; retrieval, search
and generation belong to the caller and come in ``Ports``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from inspect import iscoroutinefunction
from operator import methodcaller
from types import MethodType
from typing import Any, Protocol, TypeAlias, cast, runtime_checkable
from weakref import WeakValueDictionary

from fitrag_integrations.core.checks import trait
from fitrag_integrations.errors import InputError, PortError, refuse_if
from fitrag_integrations.flow import Flow, Port
from fitrag_integrations.flow.ask import AnyPort
from fitrag_integrations.text.sentences import SentenceSplitter as SentenceSplitter
from fitrag_integrations.text.tokens import TokenCounter as TokenCounter
from fitrag_integrations.types import BiLabelScore, Context, Draft, Passage, RetrievalDecision
from fitrag_integrations.values.prompt import Shot, with_shots
from fitrag_integrations.values.score import labels_of

Pair: TypeAlias = tuple[str, Passage]  # a question, and a passage to judge against it
Call: TypeAlias = Callable[..., Any]
WRITERS = (
    ("langchain_core", "Runnable", "langchain.base.ports", "Writer"),
    ("llama_index", "BaseLLM", "llama_index.base.ports", "LLMDrafter"),
)
"""Language models of a framework: its package, their base class, and the module and class that give
them ``generate(prompts)``. Imported only for an instance, whose framework is imported already."""
_writers: WeakValueDictionary[int, Any] = WeakValueDictionary()


@runtime_checkable
class Retriever(Protocol):
    """Retriever of passages."""

    def retrieve(self, queries: Sequence[str], /) -> Sequence[Sequence[Passage]]:
        """Return the passages for each query, best first."""


@runtime_checkable
class Scorer(Protocol):
    """Scorer of (question, passage) pairs with two labels."""

    def score(self, pairs: Sequence[Pair], /) -> Sequence[BiLabelScore]:
        """Return the labels of each pair, in order."""


@runtime_checkable
class Evaluator(Protocol):
    """Evaluator that grades (question, passage) pairs."""

    def evaluate(self, pairs: Sequence[Pair], /) -> Sequence[float]:
        """Return the grade of each pair, in [-1, 1], in order."""


@runtime_checkable
class Gate(Protocol):
    """Gate that estimates how likely questions are known without retrieval.

    A gate may have a ``threshold``, above which a question counts as known.
    """

    def p_known(
        self, questions: Sequence[str], drafts: Sequence[str], /
    ) -> Sequence[float | Exception]:
        """Return the probability that each question is known, in [0, 1], in order.

        Args:
            questions: Questions.
            drafts: The beginning of the model's own answer to each; empty if there is none.

        Returns:
            Probabilities. An exception in place of one fails only that question.
        """


@runtime_checkable
class Recognizer(Protocol):
    """Recognizer that decides from the scores of all retrieved passages (FIT-RAG, section 4.3)."""

    def decide(self, question: str, scores: Sequence[BiLabelScore], /) -> Flow[RetrievalDecision]:
        """Return the flow that ends in the decision; it may call a model.

        Args:
            question: Question.
            scores: Labels of the retrieved passages.
        """


@runtime_checkable
class Detector(Protocol):
    """Detector that estimates how likely combinations of excerpts suffice.

    A detector with ``eligible_among`` is given pairs instead: the scores of the excerpts kept, and
    of those left out. A detector may have a ``threshold``, and a ``check_scorer`` method that
    raises an error for the name of a scorer it was not trained on.
    """

    def eligible(self, combinations: Sequence[Sequence[BiLabelScore]], /) -> Sequence[float]:
        """Return the probability that each combination suffices, in [0, 1], in order."""


@runtime_checkable
class Generator(Protocol):
    """Language model that continues prompts."""

    def generate(self, prompts: Sequence[str], /) -> Sequence[str]:
        """Return the text that continues each prompt, in order."""


@runtime_checkable
class Drafter(Protocol):
    """Language model that writes the beginnings of answers, without passages.

    A drafter may have a ``name``, the name of its model, which thresholds are checked against.
    """

    def draft(self, questions: Sequence[str], /) -> Sequence[Draft]:
        """Return the beginning of an answer to each question, in order."""

    def rescore(self, questions: Sequence[str], drafts: Sequence[str], /) -> Sequence[Draft]:
        """Return the model's confidence in each token of texts that are already written.

        Args:
            questions: Questions.
            drafts: The text of each.
        """


@runtime_checkable
class YesNo(Protocol):
    """Language model that says how likely Yes is."""

    def p_yes(self, prompts: Sequence[str], /) -> Sequence[float]:
        """Return the probability of Yes against No after each prompt, in [0, 1], in order."""


@runtime_checkable
class AnswerLike(Protocol):
    """Answer ``passage.text[start:end]`` with a score."""

    @property
    def text(self) -> str:
        """The answer."""

    @property
    def start(self) -> int:
        """The offset of its first character."""

    @property
    def end(self) -> int:
        """The offset after its last character."""

    @property
    def score(self) -> float:
        """The score; higher is better."""


@runtime_checkable
class Reader(Protocol):
    """Reader that finds answers in passages."""

    def read(self, pairs: Sequence[Pair], /) -> Sequence[AnswerLike]:
        """Return the answer to the question of each pair in its passage, in order."""


@runtime_checkable
class Method(Protocol):
    """Method that turns a question into a flow, which ends in a context."""

    def __call__(self, question: str, ports: Ports, /) -> Flow[Context]:
        """Return the flow for one question: a generator that the drivers in ``flow`` run.

        To call a port, yield what its ``ask`` builds: one list of items goes out, one list of
        answers of the same length comes back, or the port's error is raised there. What is slow,
        retrieval, search and generation in ``ports`` and the method's own models, goes through
        ports; everything between two asks is plain Python. The flow ends by returning a `Context`.
        It, not the call, raises ``InputError`` for a blank question::

            def __call__(self, question, ports):
                (found,) = yield from ports.retrieve.ask([question])
                context = Context(question, tuple(map(Excerpt.whole, found[:3])), method="first")
                (draft,) = yield from ports.generate.ask([context.prompt()])
                return replace(context, draft=draft)
        """


@dataclass(frozen=True, init=False)
class Ports:
    """Retrieval, search and generation that a method calls.

    Each is a ``Port``, an object with the method, or a callable. A port that is left out is falsy,
    so ``if ports.search`` checks whether it is there; calling it raises ``PortError``.

    Args:
        retrieve: From queries to lists of passages.
        search: The same for the web.
        generate: From prompts to texts.
        shots: Examples to show with every prompt of ``generate``.

    Example:
        >>> bool(Ports(retrieve=lambda queries: [[] for _ in queries]).search)
        False
    """

    retrieve: Port[str, Sequence[Passage]]
    search: Port[str, Sequence[Passage]]
    generate: Port[str, str]

    def __init__(
        self,
        retrieve: object = None,
        search: object = None,
        generate: object = None,
        *,
        shots: Sequence[Shot] = (),
    ) -> None:
        for name, backend in {"retrieve": retrieve, "search": search, "generate": generate}.items():
            port = Missing(name, None) if backend is None else port_of(name, backend, name)
            object.__setattr__(self, name, showing(port, shots) if name == "generate" else port)


def showing(port: AnyPort, shots: Sequence[Shot]) -> AnyPort:
    """Return a port that adds examples to its prompts; one that is missing stays as it is, and so
    does any if there are no examples.
    """
    if not shots or isinstance(port, Missing):
        return port
    own = port.name, port.call, port.acall
    return _Shown(*own, owner=port.owner, port=port, shots=tuple(shots))


@dataclass(frozen=True)
class _Shown(AnyPort):
    """Port of a language model that reads examples in each prompt."""

    port: AnyPort = field(kw_only=True)
    shots: tuple[Shot, ...] = field(kw_only=True)
    __hash__ = Port.__hash__

    def ask(self, items: Sequence[str]) -> Flow[list[Any]]:
        """Request one answer per prompt."""
        return (yield from self.port.ask([with_shots(item, self.shots) for item in items]))


class Missing(AnyPort):
    """Placeholder for a port that was not given."""

    def __bool__(self) -> bool:
        return False

    def ask(self, items: Sequence[object]) -> Flow[list[Any]]:
        """Raise ``PortError`` naming the port to provide."""
        doors = ", `llm=` or `--llm`" if self.name == "generate" else ""
        raise PortError(f"this method needs a {self.name} port: give Ports({self.name}=...){doors}")


def port_of(name: str, backend: object, method: str, *, argument: str | None = None) -> AnyPort:
    """Build a port from a callable or an object with ``method``; return a port unchanged.

    Ports of one object are equal, so ``run_many`` joins their calls.

    Args:
        name: Name of the port in traces.
        backend: A ``Port``, an object with the method, a callable, or, where the method is
            ``"generate"``, a language model of LangChain or LlamaIndex.
        method: Name of the method; its async version has an ``a`` in front, and either may be
            missing.
        argument: Name of the argument in error messages; ``name`` by default.

    Returns:
        The port.

    Raises:
        InputError: If the backend is none of these.
    """
    if isinstance(backend, Port):
        return backend
    backend = writer_of(backend) if method == "generate" else backend
    if not isinstance(backend, type):  # a class would be called to make an instance
        if any(calls := _calls(backend, method)):
            return Port.of(name, *calls, owner=backend)
        if callable(backend):
            is_async = iscoroutinefunction(backend.__call__)  # noqa: B004
            return Port.of(name, None, backend) if is_async else Port.of(name, backend)
    allowed = f"an object with a {method!r} method, a callable, or a Port"
    raise InputError.of(argument or name, given=backend, allowed=allowed)


def pair_port(
    name: str, backend: object, method: str, *, argument: str | None = None, allowed: str = ""
) -> Port[tuple[str, str], Any]:
    """Build the port of a method that takes questions and texts as two lists, not as pairs."""
    calls = (None, None) if isinstance(backend, type) else _calls(backend, method)
    allowed = allowed or f"an object with a {method!r} method"
    refuse_if(not any(calls), argument or name, backend, allowed)
    call, twin = (None if call is None else _Unzipped(call) for call in calls)
    return Port.of(name, call, twin, owner=backend)


def gate_port(gate: Gate) -> Port[tuple[str, str], float]:
    """Build the port of a gate; its items are (question, draft) pairs."""
    return pair_port("gate", gate, "p_known")


def scorer_as_evaluator(scorer: object) -> Port[Pair, float]:
    """Build the port of an evaluator whose grade is a scorer's `has_answer`."""
    call, twin = _calls(scorer, "score")
    grading = None if call is None else _Grading(call)
    agrading = None if twin is None else _AsyncGrading(twin)
    return Port.of("evaluate", grading, agrading, owner=scorer)


def scorer_of(value: object) -> Any:
    """Adapt a cross-encoder of LangChain or sentence-transformers; return others unchanged."""
    kinds = [kind.__name__ for kind in type(value).__mro__]
    if "CrossEncoder" in kinds and not hasattr(value, "score"):
        # its logits mapped to [0, 1], whatever its own activation does
        return _TextScorer(value, "predict", {"activation_fn": methodcaller("sigmoid")})
    return _TextScorer(value) if "BaseCrossEncoder" in kinds else value


def writer_of(value: object) -> Any:
    """Adapt a language model of LangChain or LlamaIndex to ``generate(prompts)``.

    Language models are Runnables, ``BaseLLM`` objects and their methods, such as ``llm.complete``.
    Anything else is returned unchanged. Only the class of an object decides, because a bound or
    configured model forwards attributes of another object. One model has one adapter, so that its
    ports are equal.

    Raises:
        InputError: If the object, such as a retriever, cannot generate text.
    """
    is_method = isinstance(value, MethodType)
    model = value.__self__ if isinstance(value, MethodType) else value
    for package, base, module, name in WRITERS:
        kinds = [kind for kind in type(model).__mro__ if kind.__module__.startswith(package)]
        if any(kind.__name__ == base for kind in kinds) and (
            not is_method or any(trait(value, "__name__", str) in vars(kind) for kind in kinds)
        ):
            if (writer := _writers.get(id(model))) is None:
                writer = vars(import_module(f"fitrag_integrations.{module}"))[name](model)
                _writers[id(model)] = writer  # which keeps the model, and so its id, alive
            return writer
    return value


def model_name(model: object) -> str:
    """Return the model name of an object or of what a port calls; blank if it has none."""
    return trait(model.owner if isinstance(model, Port) else writer_of(model), "name", str) or ""


def _calls(backend: object, verb: str) -> tuple[Call | None, Call | None]:
    found = [getattr(backend, name, None) for name in (verb, f"a{verb}")]
    call, twin = (one if callable(one) else None for one in found)
    return call, twin


@dataclass(frozen=True)
class _Unzipped:
    """Call with two lists that takes pairs; equal and hashed by the call."""

    call: Call

    def __call__(self, pairs: Sequence[tuple[str, str]]) -> Any:
        return self.call([question for question, _ in pairs], [text for _, text in pairs])


@dataclass(frozen=True)
class _TextScorer:
    """Scorer over a framework's cross-encoder, which takes texts and returns numbers in [0, 1]."""

    model: Any
    verb: str = "score"
    options: Mapping[str, Any] = field(default_factory=dict, compare=False)

    @property
    def name(self) -> str:
        """Return the scorer's name, which thresholds fitted on its scores carry."""
        return trait(self.model, "model_name", str) or type(self.model).__name__

    def score(self, pairs: Sequence[Pair]) -> Sequence[BiLabelScore]:
        """Return the only label of each pair."""
        texts = [(asked, passage.text) for asked, passage in pairs]
        return labels_of(list(getattr(self.model, self.verb)(texts, **self.options)))


@dataclass(frozen=True)
class _Grading:
    """Call that turns scores into grades; equal and hashed by the call."""

    call: Call

    def __call__(self, pairs: Sequence[Pair]) -> list[float]:
        return self.grades(self.call(pairs))

    def grades(self, scores: Any) -> list[Any]:
        return [
            one if isinstance(one, Exception) else labels_of([one])[0].grade() for one in scores
        ]


@dataclass(frozen=True)
class _AsyncGrading(_Grading):
    async def __call__(self, pairs: Sequence[Pair]) -> list[float]:  # type: ignore[override]
        return self.grades(await self.call(pairs))


def check_method(method: object) -> Method:
    """Require a method's object rather than its class."""
    wrong = isinstance(method, type) or not callable(method)
    refuse_if(wrong, "method", method, "a method, such as FitRag()")
    return cast(Method, method)
