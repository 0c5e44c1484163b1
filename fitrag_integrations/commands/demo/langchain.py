"""The demo's pipeline as a LangChain chain of our drop-ins."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any

from fitrag_integrations.commands.demo.data import Parts, Question, Stack, Worked, excerpt_of
from fitrag_integrations.commands.run.read import best_answer
from fitrag_integrations.methods.prompts import RETRIEVAL
from fitrag_integrations.ports import Reader
from fitrag_integrations.types import Passage, RetrievalDecision


def langchain_stack(parts: Parts) -> Stack:
    """Build retriever | reranker | compressor | prompt | answer, from our LangChain drop-ins.

    With a gate, a router stands before it.
    """
    chain, passages = langchain_chain(parts), parts.passages
    if parts.gate is not None:
        chain = _routed(parts.gate, chain)

    def answer(asked: Sequence[Question]) -> list[Worked]:
        done = chain.batch([question.text for question in asked])
        return [
            _from_chain(question, given, passages, parts.top_n)
            for question, given in zip(asked, done, strict=True)
        ]

    return answer


def langchain_chain(parts: Parts) -> Any:
    """Build the chain; each step adds to what the ones before it gave."""
    from langchain_core.output_parsers import StrOutputParser
    from langchain_core.prompts import PromptTemplate
    from langchain_core.runnables import RunnableLambda, RunnableParallel, RunnablePassthrough

    from fitrag_integrations.langchain import (
        BiLabelReranker,
        FaissRetriever,
        SubDocumentCompressor,
    )

    retriever = FaissRetriever(index=parts.index, k=parts.k)
    reranker = BiLabelReranker(scorer=parts.scorer, top_n=None).as_runnable()
    compressor = SubDocumentCompressor(scorer=parts.scorer).as_runnable()
    prompt = PromptTemplate.from_template(RETRIEVAL.text)
    question = itemgetter("question")
    first = itemgetter("ranked") | RunnableLambda(lambda documents: documents[: parts.top_n])
    reads: Any = RunnableLambda(lambda given: _read(given, parts.reader))
    writes = itemgetter("prompt") | (parts.llm or RunnablePassthrough()) | StrOutputParser()
    return (
        RunnableParallel(
            question=RunnablePassthrough(), found=retriever, decision=RunnableLambda(_decision)
        )
        | RunnablePassthrough.assign(
            ranked={"query": question, "documents": itemgetter("found")} | reranker
        )
        | RunnablePassthrough.assign(kept={"query": question, "documents": first} | compressor)
        | RunnablePassthrough.assign(
            prompt={"question": question, "passages": itemgetter("kept") | RunnableLambda(_lines)}
            | prompt
            | (lambda value: value.to_string())
        )
        | RunnablePassthrough.assign(answer=reads if parts.llm is None else writes)
    )


def _routed(gate: Any, chain: Any) -> Any:
    """Let the language model answer what the gate says it knows, and the chain the rest."""
    from langchain_core.prompts import PromptTemplate
    from langchain_core.runnables import RunnableLambda, RunnableParallel, RunnablePassthrough

    from fitrag_integrations.langchain import KnowledgeRouter

    model = gate.drafter
    asked: Any = RunnableParallel(
        question=RunnablePassthrough(), decision=RunnableLambda(_decision)
    )
    prompt = PromptTemplate.from_template(model.prompt) | (lambda value: value.to_string())
    writes = itemgetter("prompt") | RunnableLambda(_writing(model))
    known = (
        asked
        | RunnablePassthrough.assign(prompt=prompt)
        | RunnablePassthrough.assign(answer=writes)
    )
    return KnowledgeRouter(gate=gate, known=known, unknown=chain)


def _writing(model: Any) -> Callable[[str], str]:
    def write(prompt: str) -> str:
        (answer,) = model.generate([prompt])
        return str(answer)

    return write


def _decision(_: str, config: Mapping[str, Any]) -> dict[str, Any] | None:
    """Read what a router decided from the metadata of the branch's run."""
    found: dict[str, Any] | None = (config.get("metadata") or {}).get("fitrag")
    return found


def _lines(documents: Sequence[Any]) -> str:
    """Number documents as a prompt of this package shows them."""
    return "\n".join(
        f"{number}. {document.metadata['title']}: {document.page_content}"
        for number, document in enumerate(documents, start=1)
    )


def _read(given: Mapping[str, Any], reader: Reader) -> str:
    pieces = [
        Passage(str(i), document.page_content, document.metadata["title"])
        for i, document in enumerate(given["kept"])
    ]
    answers = reader.read([(given["question"], piece) for piece in pieces])
    answer: str = best_answer(answers, getattr(reader, "abstain_below", None))["answer"]
    return answer


def _from_chain(
    question: Question,
    given: Mapping[str, Any],
    passages: Mapping[str, Passage],
    top_n: int,
) -> Worked:
    """Read back what the steps of the chain gave."""
    ranked, kept = (
        tuple(excerpt_of(document.metadata, passages) for document in given.get(name, ()))
        for name in ("ranked", "kept")
    )
    found = tuple(
        replace(passages[document.id], metadata=document.metadata)
        for document in given.get("found", ())
    )
    decision = given["decision"] and RetrievalDecision.from_dict(given["decision"])
    prompt, answer = given["prompt"], given["answer"]
    return Worked(question, found, ranked, kept, prompt, answer, top_n, decision)
