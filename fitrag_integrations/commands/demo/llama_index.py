"""The demo's pipeline as a LlamaIndex query engine of our drop-ins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fitrag_integrations.commands.demo.data import Parts, Question, Stack, Worked, excerpt_of
from fitrag_integrations.commands.engine.models import batched
from fitrag_integrations.flow import Flow
from fitrag_integrations.methods import FitRag
from fitrag_integrations.ports import Method, Ports
from fitrag_integrations.types import Context, Excerpt, Passage, RetrievalDecision
from fitrag_integrations.values.windows import by_score


def llama_index_stack(parts: Parts) -> Stack:
    """Build a query engine that runs FIT-RAG, from our LlamaIndex drop-ins.

    With a gate, a router stands before it.
    """
    from fitrag_integrations.llama_index import FaissRetriever, MethodQueryEngine

    method = Watched(FitRag(parts.scorer, top_n=parts.top_n))
    retriever = FaissRetriever(parts.index, similarity_top_k=parts.k)
    answers = {"reader": parts.reader} if parts.llm is None else {"llm": batched(parts.llm)}
    engine: Any = MethodQueryEngine(method, retriever, **answers)
    if parts.gate is not None:
        engine = _routed(parts, engine)
    passages = parts.passages

    def answer(asked: Sequence[Question]) -> list[Worked]:
        responses = engine.query_many([question.text for question in asked])
        return [
            _from_response(question, response, method.seen, passages, parts)
            for question, response in zip(asked, responses, strict=True)
        ]

    return answer


def _routed(parts: Parts, engine: Any) -> Any:
    """Let the language model answer what the gate says it knows, and the engine the rest."""
    from fitrag_integrations.llama_index import KnowledgeRouterQueryEngine

    llm, template = parts.gate.drafter, parts.template
    return KnowledgeRouterQueryEngine(parts.gate, retrieve=engine, llm=llm, template=template)


def _from_response(
    question: Question,
    response: Any,
    seen: Mapping[str, Seen],
    passages: Mapping[str, Passage],
    parts: Parts,
) -> Worked:
    answer = response.response or ""
    told = response.metadata["fitrag"].get("decision")
    decision = None if told is None else RetrievalDecision.from_dict(told)
    if decision is not None and not decision.retrieve:
        prompt = parts.template.render(Context(question.text))
        return Worked(question, (), (), (), prompt, answer, parts.top_n, decision)
    kept = tuple(excerpt_of(found.node.metadata, passages) for found in response.source_nodes)
    prompt = Context(question.text, kept).prompt()
    found, scored = seen[question.text].found, seen[question.text].scored
    ranked = tuple(by_score(scored))
    return Worked(question, tuple(found), ranked, kept, prompt, answer, parts.top_n, decision)


@dataclass(slots=True)
class Seen:
    """Hold what a method's ports gave for one question: passages, then their labels."""

    found: list[Passage] = field(default_factory=list)
    scored: list[Excerpt] = field(default_factory=list)


@dataclass(frozen=True)
class Watched:
    """Run a method and keep what it retrieved and how it scored that: a flow shows its asks."""

    method: Method
    seen: dict[str, Seen] = field(default_factory=dict)

    def __call__(self, question: str, ports: Ports) -> Flow[Context]:
        seen = self.seen[question] = Seen()
        flow = self.method(question, ports)
        reply: Any = None
        while True:
            try:
                ask = flow.send(reply)
            except StopIteration as done:
                context: Context = done.value
                return context
            reply = yield ask
            if not seen.found:
                seen.found.extend(reply[0])
            elif not seen.scored:
                pairs = zip(ask.items, reply, strict=True)
                seen.scored.extend(
                    Excerpt.whole(passage, score=labels.combine(), labels=labels)
                    for (_, passage), labels in pairs
                )
