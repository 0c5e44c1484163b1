"""A whole method as one step of a chain: from a question to a traced context or an answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from langchain_core.runnables import RunnableConfig
from pydantic import field_validator

from fitrag_integrations.flow import Flow, Traced
from fitrag_integrations.langchain.base.conversation import Condensing, standalone
from fitrag_integrations.langchain.base.fields import (
    AnyMethod,
    AnyRunnable,
    Finder,
    Kept,
    Search,
    Shots,
    runnable_of,
)
from fitrag_integrations.langchain.base.ports import Backend, Offer, internal, text_of
from fitrag_integrations.langchain.base.runnable import Source, StreamedRunnable
from fitrag_integrations.langchain.prompts import as_template
from fitrag_integrations.methods.answering import Answered, Answering, own_answer, read_port
from fitrag_integrations.methods.compose.fitted import FromFitted
from fitrag_integrations.ports import Method, Ports
from fitrag_integrations.types import Context, Excerpt
from fitrag_integrations.values.prompt import with_shots


class Answer(str):
    """Text of an answer, with its context, prompt and source.

    Args:
        traced: The run.
    """

    traced: Traced[Answered]

    def __new__(cls, traced: Traced[Answered]) -> Answer:
        answer = super().__new__(cls, traced.value.text)
        answer.traced = traced
        return answer

    def __reduce__(self) -> tuple[type[Answer], tuple[Traced[Answered]]]:
        return type(self), (self.traced,)

    @property
    def text(self) -> str:
        """Return the answer as a plain ``str``."""
        return self.traced.value.text

    @property
    def context(self) -> Context:
        """Return the context that the method found."""
        return self.traced.value.context

    @property
    def prompt(self) -> str:
        """Return the prompt that the answer continues."""
        return self.traced.value.prompt

    @property
    def source(self) -> Excerpt | None:
        """Return the place of an extracted answer; None for a generated one."""
        return self.traced.value.source

    @property
    def score(self) -> float | None:
        """Return the reader's score; None for a generated answer."""
        return self.traced.value.score

    def explain(self, *, dropped: bool = False) -> str:
        """Return a few lines: what was kept, the answer, and the steps.

        Args:
            dropped: List everything that was dropped, with the reason.
        """
        return self.traced.explain(dropped=dropped)

    def _repr_html_(self) -> str:
        """Show the answer over what it came from; every text is escaped."""
        return self.traced._repr_html_()

    def to_dict(self) -> dict[str, Any]:
        """Return answer, context, prompt, source and score as plain Python."""
        return self.traced.value.to_dict()


class MethodRunnable(FromFitted, Condensing, StreamedRunnable[Any, Any]):
    """Runnable that runs a method for a question.

    It returns a ``Traced[Context]`` or, with an ``llm`` or ``reader``, an ``Answer``. ``stream``
    yields the model's text as it arrives; an answer that the method wrote itself comes in one
    piece. A batch calls the retriever, the scorer and the model once per round for all questions.

    Example:
        >>> chain = MethodRunnable(method=FitRag(), retriever=store.as_retriever(), llm=llm)
        >>> chain.invoke("Who designed the bridge?")
    """

    method: Kept[AnyMethod]
    """Method of this package or of your own: `method(question, ports)` returns the flow that ends
    in a context."""
    retriever: Kept[Finder | None] = None
    """Any Runnable or callable from a question to documents."""
    search: Kept[Search | None] = None
    """Search tool, provider or callable, for methods that search the web."""
    llm: Kept[AnyRunnable | None] = None
    """Language model or chain from a prompt to text; also the method's own writer."""
    shots: Shots = ()
    """Examples for this package's prompts: `Shot` objects, or dicts with "question", "answer" and
    "passages" (each with "title" and "text")."""
    reader: Kept[Any] = None
    """Object with `read(pairs)` that finds the answer in the passages, before any `llm`."""
    template: Kept[Any] = None
    """Prompt: a template of LangChain or of this package, the name of one of these, or a text with
    {context} and {question}; None uses the context's choice."""

    @field_validator("reader")
    @classmethod
    def _check_reader(cls, reader: Any) -> object:
        if reader is not None:
            read_port(reader)
        return reader

    @field_validator("template")
    @classmethod
    def _check_template(cls, template: object) -> object:
        as_template(template)
        return template

    def flows(
        self, inputs: Sequence[object], configs: Sequence[RunnableConfig], **options: object
    ) -> list[Flow[object]]:
        """Return one flow per question.

        Args:
            inputs: Questions, dicts with one, or messages.
            configs: The config of each call, in the same order.
            **options: Not used.
        """
        offer, pairs = self._offer(), zip(inputs, configs, strict=True)
        return [self._reply(given, offer, config) for given, config in pairs]

    def result(self, traced: Traced[Any]) -> object:
        """Return the answer, the trace of a context, or the exception that ended a flow."""
        if isinstance(traced.outcome, Answered):
            return Answer(traced)
        return traced if isinstance(traced.outcome, Context) else traced.outcome

    def source(self, given: object, config: RunnableConfig, **options: Any) -> Flow[Source | Any]:
        """Return the flow that ends in the language model and its prompt, or in an answer.

        Args:
            given: The input of `stream`.
            config: The config of `stream`.
            **options: Not used.
        """
        if self.llm is None or self.reader is not None:
            return (yield from self._reply(given, self._offer(), config))
        question, notes = yield from standalone(given, self.question_key, self.condense, config)
        context = yield from self._noting(notes, self._offer(), config)(question, Ports())
        if answer := own_answer(context):
            return answer
        llm = Backend(runnable_of(self.llm), text_of)
        prompt = with_shots(context.prompt(as_template(self.template)), self.shots)
        return Source(llm, prompt, config)

    def _reply(self, given: object, offer: Offer, config: RunnableConfig) -> Flow[Any]:
        """Run the method, and have the answer to its context written."""
        question, notes = yield from standalone(given, self.question_key, self.condense, config)
        method = self._noting(notes, offer, config)
        if self.llm is None and self.reader is None:
            return (yield from method(question, Ports()))
        answering = Answering(method, reader=self.reader, template=as_template(self.template))
        return (yield from answering(question, offer.to(config)))

    def _noting(self, notes: Sequence[str], offer: Offer, config: RunnableConfig) -> Method:
        """Return the method over ports whose calls are internal; its context begins with notes."""
        within = offer.to(internal(config))

        def method(question: str, _: Ports) -> Flow[Context]:
            context: Context = yield from self.method(question, within)
            return replace(context, notes=(*notes, *context.notes))

        return method

    def _offer(self) -> Offer:
        return Offer.of(self.retriever, self.search, self.llm, shots=self.shots)
