"""The demo's questions, and FIT-RAG with an answer: without a framework and as drop-ins of both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from fitrag_integrations.commands.engine.models import batched
from fitrag_integrations.core.checks import trait
from fitrag_integrations.core.jsonl import read_jsonl
from fitrag_integrations.defaults import DEFAULTS
from fitrag_integrations.evaluation.answers import contains_answer
from fitrag_integrations.flow import Flow, run_many
from fitrag_integrations.methods import FitRag
from fitrag_integrations.methods.answering import Answering
from fitrag_integrations.methods.prompts import PromptTemplate, render_excerpts
from fitrag_integrations.ports import Method, Ports, Reader, Scorer
from fitrag_integrations.text.tokens import approximate_tokens
from fitrag_integrations.training.fitted.questions import spread
from fitrag_integrations.training.fitted.savings import cost_of
from fitrag_integrations.types import Context, Excerpt, Passage, RetrievalDecision
from fitrag_integrations.values.windows import by_score, fit, windows

EMBEDDED = Path(str(resources.files("fitrag_integrations"))) / "embedded"
HANDBOOK = EMBEDDED / "handbook"
"""Documents of a made-up company, and questions about them."""
DOCUMENTS = HANDBOOK / "documents"
FACTS = EMBEDDED / "demo"
"""Articles about the world, and questions of which the closed-book model was shown some."""
FEWEST_UNANSWERABLE = 30
Answers = Callable[[list[str]], list[str]]
Seen = tuple[tuple[Passage, ...], tuple[Excerpt, ...], Context]
Build = Callable[["Parts", Method], Answers]


@dataclass(frozen=True, slots=True)
class Question:
    """A question with its answers and the ids of the passages that hold one.

    `passage_ids` is empty where `answerable` is False.
    """

    text: str
    answers: tuple[str, ...]
    passage_ids: frozenset[str]
    answerable: bool

    def is_held_by(self, excerpts: Sequence[Excerpt]) -> bool:
        """Return whether an answer stands in an excerpt of a passage that holds it."""
        texts = (each.text for each in excerpts if each.passage.id in self.passage_ids)
        return any(contains_answer(text, self.answers) for text in texts)


@dataclass(frozen=True, slots=True)
class Worked:
    """A question's way through a pipeline.

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
        """Return whether the language model answered without retrieval."""
        return self.decision is not None and not self.decision.retrieve

    @property
    def compressed(self) -> tuple[Passage, ...]:
        """Return the passages that the compressor received."""
        return tuple(excerpt.passage for excerpt in self.ranked[: self.top_n])

    def to_dict(self) -> dict[str, object]:
        """Return plain values, passages by their ids."""
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


def handbook_questions(passages: Sequence[Passage], count: int) -> list[Question]:
    """Return an even sample of the questions about the handbook, with the passages that hold one.

    The documents named in the file hold the answer; others may have the same words by chance.
    """
    rows = list(read_jsonl(HANDBOOK / "questions.jsonl"))
    named = [
        [
            p.id
            for p in passages
            if p.source in r["sources"] and contains_answer(p.text, r["answers"])
        ]
        for r in rows
    ]
    questions = [
        Question(row["question"], tuple(row["answers"]), frozenset(ids), row["answerable"])
        for row, ids in zip(rows, named, strict=True)
    ]
    return sampled(questions, count, min_unanswerable=0)


def questions(count: int) -> list[Question]:
    """Return an even sample of the questions about the world, in the order of the file."""
    every = [
        Question(r["question"], tuple(r["answers"]), frozenset(r["passage_ids"]), r["answerable"])
        for r in read_jsonl(FACTS / "questions.jsonl")
    ]
    return sampled(every, count, min_unanswerable=FEWEST_UNANSWERABLE)


def sampled(every: Sequence[Question], count: int, *, min_unanswerable: int) -> list[Question]:
    """Return an even sample with as many unanswerable questions as in all, answerable ones first.

    At least `min_unanswerable` of them are taken where a fifth of the sample allows it.
    """
    answerable, others = ([q for q in every if q.answerable is kind] for kind in (True, False))
    share = max(round(count * len(others) / len(every)), min(min_unanswerable, count // 5))
    some = min(share, len(others))
    return spread(answerable, count - some) + spread(others, some)


@dataclass(frozen=True)
class FirstPassages:
    """What is done without FIT-RAG: the first passages, in the order of retrieval, cut to a budget.

    Whole sentences are kept as long as they fit.
    """

    max_tokens: int

    def __call__(self, question: str, ports: Ports) -> Flow[Context]:
        """Return the flow that ends in the context for one question."""
        (found,) = yield from ports.retrieve.ask([question])
        sentences = [one for passage in found for one in windows(passage, size=1)]
        kept = fit(sentences, max_tokens=self.max_tokens, cost=cost_of)
        return Context(question, tuple(kept), method="first passages")


@dataclass(frozen=True)
class Parts:
    """What the pipelines are made of; with an `llm`, the reader is not called.

    With a `gate`, the language model that writes its drafts answers what it knows. `scorer` None
    is the default one. `max_tokens` None is FIT-RAG's default budget.
    """

    index: Any
    scorer: Scorer | None
    reader: Reader
    llm: Any = None  # a LangChain chat model
    k: int = DEFAULTS.k
    max_tokens: int | None = None
    gate: Any = None

    @property
    def method(self) -> FitRag:
        """Return FIT-RAG with its defaults, but for what is set here."""
        return FitRag(self.scorer, gate=self.gate, max_tokens=self.max_tokens)

    def stack(
        self, build: Build, method: Method | None = None
    ) -> Callable[[Sequence[Question]], list[Worked]]:
        """Build a pipeline around a method, FIT-RAG by default, and watch the method at work."""
        inner = self.method if method is None else method
        watched, top_n = Watched(inner), trait(inner, "top_n", int) or self.k
        answers = build(self, watched)

        def worked(question: Question, answer: str) -> Worked:
            found, ranked, context = watched.seen[question.text]
            end = (self.render(context), answer, top_n, context.decision)
            return Worked(question, found, ranked, tuple(context.excerpts), *end)

        def answer(asked: Sequence[Question]) -> list[Worked]:
            return list(map(worked, asked, answers([question.text for question in asked])))

        return answer

    @property
    def reads(self) -> Reader | None:
        """Return the reader where it answers."""
        return self.reader if self.llm is None else None

    def writes(self, prompts: Sequence[str]) -> Sequence[str | Exception]:
        """Continue prompts with a language model: the one given, or that of the gate."""
        if self.llm is not None:
            return batched(self.llm)(prompts)
        written: Sequence[str] = self.gate.drafter.generate(prompts)
        return written

    def render(self, context: Context) -> str:
        """Write the prompt: that of the language model where it answers without retrieval."""
        if self.gate is None or context.decision is None or context.decision.retrieve:
            return context.prompt()
        own = PromptTemplate("closed_book", self.gate.drafter.prompt, one_line=True)
        return own.render(context)


def plain_stack(parts: Parts, method: Method) -> Answers:
    """Run the method without a framework."""
    from fitrag_integrations.retrieval import IndexRetriever

    answering = Answering(method, reader=parts.reads, template=parts)
    writes = parts.llm is not None or parts.gate is not None
    retriever = IndexRetriever(parts.index, parts.k)
    ports = Ports(retrieve=retriever, generate=parts.writes if writes else None)

    def answer(asked: list[str]) -> list[str]:
        return [traced.value.text for traced in run_many([answering(q, ports) for q in asked])]

    return answer


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

    A flow yields its asks to the caller, who sees them with their replies.
    """

    method: Method
    seen: dict[str, Seen] = field(default_factory=dict)

    def __call__(self, question: str, ports: Ports) -> Flow[Context]:
        """Return the method's flow."""
        flow, reply = self.method(question, ports), None
        found, scored = list[Passage](), list[Excerpt]()
        weight = trait(self.method, "weight", float)
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
            elif ask.port.name in ("score", "score_sentences") and not scored:
                labels = [each[0] if isinstance(each, tuple) else each for each in reply]
                scored = [
                    Excerpt.whole(
                        item[1],
                        score=label.combine(0.5 if weight is None else weight),
                        labels=label,
                    )
                    for item, label in zip(ask.items, labels, strict=True)
                ]
