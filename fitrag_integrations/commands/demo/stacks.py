"""The demo's questions, and its pipeline, FIT-RAG and an answer, as a drop-in of each framework."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

from fitrag_integrations.commands.engine.models import batched
from fitrag_integrations.core.jsonl import read_jsonl
from fitrag_integrations.flow import Flow
from fitrag_integrations.methods import FitRag
from fitrag_integrations.methods.prompts import PromptTemplate, render_excerpts
from fitrag_integrations.ports import Method, Ports, Reader, Scorer
from fitrag_integrations.text.tokens import approximate_tokens
from fitrag_integrations.types import Context, Excerpt, Passage, RetrievalDecision
from fitrag_integrations.values.windows import by_score

HOME = Path(str(resources.files("fitrag_integrations"))) / "embedded" / "demo"
PASSAGES = HOME / "passages.jsonl"
FEWEST_UNANSWERABLE = 30
T = TypeVar("T")
Answers = Callable[[list[str]], list[str]]
Seen = tuple[tuple[Passage, ...], tuple[Excerpt, ...], Context]
Build = Callable[["Parts", Method], Answers]


@dataclass(frozen=True, slots=True)
class Question:
    """Hold a question, its answers, and the ids of the passages that hold one; none hold one of
    an unanswerable question.
    """

    text: str
    answers: tuple[str, ...]
    passage_ids: frozenset[str]
    answerable: bool


@dataclass(frozen=True, slots=True)
class Worked:
    """Hold a question's way through a pipeline.

    `found` is in the order of retrieval, `ranked` best first after the reranker, whose first
    `top_n` are compressed; `kept` is what the prompt shows; `answer` is empty where the reader
    abstained. A question that was not retrieved for has none of the three.
    """

    question: Question
    found: tuple[Passage, ...]
    ranked: tuple[Excerpt, ...]
    kept: tuple[Excerpt, ...]
    prompt: str
    answer: str
    top_n: int
    decision: RetrievalDecision | None = None

    @property
    def skipped(self) -> bool:
        """Say whether the language model answered by itself."""
        return self.decision is not None and not self.decision.retrieve

    @property
    def compressed(self) -> tuple[Passage, ...]:
        """Give the passages the compressor was given."""
        return tuple(excerpt.passage for excerpt in self.ranked[: self.top_n])

    def to_dict(self) -> dict[str, object]:
        """Give it as plain values, passages by their ids."""
        return {
            "question": self.question.text,
            "answers": list(self.question.answers),
            "answerable": self.question.answerable,
            "found": [passage.id for passage in self.found],
            "ranked": [excerpt.passage.id for excerpt in self.ranked],
            "kept": [[e.passage.id, e.start, e.end] for e in self.kept],
            "tokens": approximate_tokens(render_excerpts(self.kept)),
            "prompt": self.prompt,
            "answer": self.answer,
            "decision": self.decision and self.decision.to_dict(),
        }


def questions(count: int) -> list[Question]:
    """Take an evenly spread sample, in the order of the file.

    The share of unanswerable questions is that of the file, and at least 30 where a fifth of the
    sample allows it.
    """
    every = [
        Question(r["question"], tuple(r["answers"]), frozenset(r["passage_ids"]), r["answerable"])
        for r in read_jsonl(HOME / "questions.jsonl")
    ]
    answerable, others = ([q for q in every if q.answerable is kind] for kind in (True, False))
    share = max(round(count * len(others) / len(every)), min(FEWEST_UNANSWERABLE, count // 5))
    some = min(share, len(others))
    return spread(answerable, count - some) + spread(others, some)


def spread(items: Sequence[T], count: int) -> list[T]:
    """Pick `count` items at even distances; all where there are fewer."""
    count = min(count, len(items))
    return [items[i * len(items) // count] for i in range(count)]


@dataclass(frozen=True)
class Parts:
    """Hold what both pipelines are made of; with an `llm`, the reader is not asked.

    With a `gate`, the language model that writes its drafts answers what it knows.
    """

    index: Any
    scorer: Scorer
    reader: Reader
    llm: Any = None  # a LangChain chat model
    k: int = 10
    top_n: int = 3
    gate: Any = None

    def stack(self, build: Build) -> Callable[[Sequence[Question]], list[Worked]]:
        """Build the pipeline of a framework around FIT-RAG, and watch the method at work."""
        method = Watched(FitRag(self.scorer, gate=self.gate, top_n=self.top_n))
        answers = build(self, method)

        def worked(question: Question, answer: str) -> Worked:
            found, ranked, context = method.seen[question.text]
            end = (self.render(context), answer, self.top_n, context.decision)
            return Worked(question, found, ranked, tuple(context.excerpts), *end)

        def answer(asked: Sequence[Question]) -> list[Worked]:
            return list(map(worked, asked, answers([question.text for question in asked])))

        return answer

    @property
    def reads(self) -> Reader | None:
        """Give the reader, where it is asked."""
        return self.reader if self.llm is None else None

    def writes(self, prompts: Sequence[str]) -> Sequence[str | Exception]:
        """Have a language model go on with prompts: the one given, or that of the gate."""
        if self.llm is not None:
            return batched(self.llm)(prompts)
        written: Sequence[str] = self.gate.drafter.generate(prompts)
        return written

    def render(self, context: Context) -> str:
        """Write the prompt: that of the language model where it answers by itself."""
        if self.gate is None or context.decision is None or context.decision.retrieve:
            return context.prompt()
        own = PromptTemplate("closed_book", self.gate.drafter.prompt, one_line=True)
        return own.render(context)


def langchain_stack(parts: Parts, method: Method) -> Answers:
    """Run the method as a LangChain Runnable."""
    from langchain_core.runnables import RunnableLambda

    from fitrag_integrations.langchain import FaissRetriever, MethodRunnable

    writer = parts.llm or RunnableLambda(lambda prompt: parts.writes([prompt])[0])
    retriever = FaissRetriever(index=parts.index, k=parts.k)
    chain = MethodRunnable(
        method=method, retriever=retriever, reader=parts.reads, llm=writer, template=parts
    )
    return lambda asked: [str(answer) for answer in chain.batch(asked)]


def llama_index_stack(parts: Parts, method: Method) -> Answers:
    """Run the method as a LlamaIndex query engine."""
    from fitrag_integrations.llama_index import FaissRetriever, MethodQueryEngine

    retriever = FaissRetriever(parts.index, similarity_top_k=parts.k)
    engine = MethodQueryEngine(
        method, retriever, reader=parts.reads, llm=parts.writes, template=parts
    )
    return lambda asked: [response.response or "" for response in engine.query_many(asked)]


@dataclass(frozen=True)
class Watched:
    """Run a method and keep what it found, how it ranked that, and its context.

    A flow shows its asks to whoever passes them on.
    """

    method: Method
    seen: dict[str, Seen] = field(default_factory=dict)

    def __call__(self, question: str, ports: Ports) -> Flow[Context]:
        """Give the method's flow."""
        flow, reply = self.method(question, ports), None
        found, scored = list[Passage](), list[Excerpt]()
        while True:
            try:
                ask = flow.send(reply)
            except StopIteration as done:
                context: Context = done.value
                self.seen[question] = tuple(found), tuple(by_score(scored)), context
                return context
            reply = yield ask
            if ask.port.name == "retrieve":
                found = list(reply[0])
            elif ask.port.name == "score" and not scored:
                pairs = zip(ask.items, reply, strict=True)
                scored = [Excerpt.whole(one, score=s.combine(), labels=s) for (_, one), s in pairs]
