"""Both frameworks in the same words, over the same stand-ins: what holds for one holds for both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from fakes import PASSAGES, OverlapRetriever
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_fakes import OverlapBase
from llama_fakes import NodeRetriever, ScriptedLLM, node
from llama_index.core.schema import NodeWithScore

from fitrag_integrations import langchain, llama_index
from fitrag_integrations.types import Context, Passage


class Piece(NamedTuple):
    """What both frameworks must agree on, of one document or node."""

    id: str | None
    text: str
    start: int | None
    metadata: dict[str, Any]

    def told(self) -> tuple[Any, ...]:
        """Leave out the id, which the frameworks make differently, and the user's own metadata."""
        names = ("relevance_score", "raw_score", "has_answer", "llm_prefer", "retrieval_score")
        names += ("source_id", "source_start", "source_end", "web", "url", "trust", "fitrag")
        return (self.text, self.start, *(self.metadata.get(name) for name in names))


class LangChain:
    """LangChain's words."""

    ours = langchain

    def given(self, passages: Sequence[Passage] = PASSAGES) -> list[Document]:
        """Make documents as a scored retriever gives them."""
        return [
            Document(
                page_content=each.text,
                id=each.id,
                metadata={
                    **{"title": each.title, "source": each.source, **each.metadata},
                    "retrieval_score": 0.5,
                },
            )
            for each in passages
        ]

    def base(self, passages: Sequence[Passage] = PASSAGES, **fields: Any) -> Any:
        """Find four of the passages by shared words."""
        return ScoredBase(passages=tuple(passages), n=4, **fields)

    def finding(self, found: Any) -> Any:
        """Find the same for every question."""
        return lambda question: found

    def says(self, text: str) -> Any:
        """Write the same to every prompt."""
        return FakeListChatModel(responses=[text])

    def pieces(self, found: Sequence[Document]) -> list[Piece]:
        return [
            Piece(each.id, each.page_content, each.metadata.get("start_index"), each.metadata)
            for each in found
        ]

    def context(self, component: Any, found: Any) -> Context:
        return found.context

    def ask(self, retriever: Any, question: str) -> Any:
        return retriever.invoke(question)

    async def aask(self, retriever: Any, question: str) -> Any:
        return await retriever.ainvoke(question)

    def many(self, retriever: Any, questions: Sequence[str], **how: Any) -> Any:
        return retriever.batch(list(questions), **how)

    async def amany(self, retriever: Any, questions: Sequence[str], **how: Any) -> Any:
        return await retriever.abatch(list(questions), **how)

    def keep(self, compressor: Any, given: Any, question: Any) -> Any:
        return compressor.compress_documents(given, question)

    async def akeep(self, compressor: Any, given: Any, question: Any) -> Any:
        return await compressor.acompress_documents(given, question)

    def __repr__(self) -> str:
        return "langchain"

    async def in_every_way(self, retriever: Any, question: str) -> tuple[list[Piece], Context]:
        """Retrieve by all four calls, which have to agree."""
        found = self.ask(retriever, question)
        context, pieces = self.context(retriever, found), self.pieces(found)
        for again in (
            await self.aask(retriever, question),
            *self.many(retriever, [question]),
            *await self.amany(retriever, [question]),
        ):
            assert self.pieces(again) == pieces
        return pieces, context

    async def kept(self, compressor: Any, question: str, given: Any = None) -> list[Piece]:
        """Compress the passages by both calls, which have to agree."""
        given = self.given() if given is None else given
        found = self.pieces(self.keep(compressor, given, question))
        assert self.pieces(await self.akeep(compressor, given, question)) == found
        return found


class LlamaIndex(LangChain):
    """LlamaIndex's words."""

    ours = llama_index

    def given(self, passages: Sequence[Passage] = PASSAGES) -> list[NodeWithScore]:
        return [node(passage) for passage in passages]

    def base(self, passages: Sequence[Passage] = PASSAGES, **fields: Any) -> Any:
        return NodeRetriever(OverlapRetriever(passages), **fields)

    def finding(self, found: Any) -> Any:
        return Finding(found)

    def says(self, text: str) -> Any:
        return Saying(text=text)

    def pieces(self, found: Sequence[NodeWithScore]) -> list[Piece]:
        assert all(each.score == each.metadata.get("relevance_score", each.score) for each in found)
        return [
            Piece(
                each.node_id,
                each.node.get_content(),  # a document has no ``text`` here
                getattr(each.node, "start_char_idx", None),
                each.metadata,
            )
            for each in found
        ]

    def context(self, component: Any, found: Any) -> Context:
        return component.last_run.value

    def ask(self, retriever: Any, question: str) -> Any:
        return retriever.retrieve(question)

    async def aask(self, retriever: Any, question: str) -> Any:
        return await retriever.aretrieve(question)

    def many(self, retriever: Any, questions: Sequence[str], **how: Any) -> Any:
        return retriever.retrieve_many(questions, **how)

    async def amany(self, retriever: Any, questions: Sequence[str], **how: Any) -> Any:
        return await retriever.aretrieve_many(questions, **how)

    def keep(self, compressor: Any, given: Any, question: Any) -> Any:
        return compressor.postprocess_nodes(given, query_str=question)

    async def akeep(self, compressor: Any, given: Any, question: Any) -> Any:
        return await compressor.apostprocess_nodes(given, query_str=question)

    def __repr__(self) -> str:
        return "llama_index"


class ScoredBase(OverlapBase):
    """Give documents with the score of a retriever."""

    def _found(self, query: str) -> list[Document]:
        found = super()._found(query)
        return [
            Document(
                page_content=each.page_content,
                id=each.id,
                metadata={**each.metadata, "retrieval_score": 0.5},
            )
            for each in found
        ]


class Finding(NodeRetriever):
    """Find the same nodes for every question."""

    def __init__(self, nodes: Any) -> None:
        super().__init__()
        self.nodes = nodes

    def _retrieve(self, query_bundle: Any) -> Any:
        return self.nodes


class Saying(ScriptedLLM):
    """Write the same to every prompt."""

    text: str = ""

    def _answer(self, prompt: str) -> str:
        self._prompts.append(prompt)
        return self.text


BOTH = (LangChain(), LlamaIndex())


def told(pieces: Sequence[Piece]) -> list[tuple[Any, ...]]:
    """Give what both frameworks must agree on."""
    return [piece.told() for piece in pieces]
