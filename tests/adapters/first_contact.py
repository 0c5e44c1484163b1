"""Five pages about a river, a retriever over them, and what a new user's objects look like.

`LANGCHAIN` and `LLAMA_INDEX` call the drop-ins of either framework in the same words.
"""

from dataclasses import dataclass
from types import ModuleType
from typing import Any

from langchain_core.cross_encoders import BaseCrossEncoder
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.retrievers import BaseRetriever as LangChainRetriever
from llama_index.core.base.base_retriever import BaseRetriever as LlamaIndexRetriever
from llama_index.core.llms import MockLLM
from llama_index.core.schema import NodeWithScore, TextNode

from fitrag_integrations import langchain, llama_index

QUESTION = "Who designed the bridge over the Tirva?"
PAGES = {
    "Bridge over the Tirva": "The bridge over the Tirva was opened in 1932. It was designed by "
    "Ilse Marbach, who had never built one before. Trams crossed it until 1968. Today it carries "
    "two lanes of cars and a cycle path.",
    "Ilse Marbach": "Ilse Marbach was an engineer from Graz. She studied in Vienna and built "
    "mostly grain silos. Her papers are kept in the city archive.",
    "Tirva": "The Tirva is a river of 84 kilometres. It rises below the Hohe Wand and ends in a "
    "lake. Otters came back to it in the nineties.",
    "Corran Head": "The lighthouse of Corran Head was built by Anna Vell in 1870. It stands on a "
    "rock of slate. The lamp was electrified in 1951.",
    "Ferry": "The ferry to Corran Head leaves at noon. On Sundays there is a second crossing at "
    "six. Bicycles travel free of charge.",
}
ROWS = [(f"page-{n}", title, text) for n, (title, text) in enumerate(PAGES.items())]
NAMES = ("fitrag", "corrective", "slimplm", "itrg")


class Shelf(LangChainRetriever):
    """Give all pages, as a vector store of a user's does, and remember its configs."""

    seen: list = []

    def _get_relevant_documents(self, query, *, run_manager):
        return [Document(text, id=id_, metadata={"title": title}) for id_, title, text in ROWS]

    def invoke(self, input, config=None, **kwargs):
        self.seen.append(config)
        return super().invoke(input, config, **kwargs)

    async def ainvoke(self, input, config=None, **kwargs):
        self.seen.append(config)
        return await super().ainvoke(input, config, **kwargs)


class NodeShelf(LlamaIndexRetriever):
    """Give all pages, scored, as an index of a user's does."""

    def _retrieve(self, query_bundle):
        return [
            NodeWithScore(node=TextNode(id_=id_, text=text, metadata={"title": title}), score=0.7)
            for id_, title, text in ROWS
        ]


class Overlap(BaseCrossEncoder):
    """Score by shared words, in [0, 1], as a user's own cross-encoder may."""

    def score(self, text_pairs):
        return [
            len(set(query.lower().split()) & set(text.lower().split())) / len(query.split())
            for query, text in text_pairs
        ]


def overlap(pairs):
    """Score by shared words, in [0, 1], as a function of a user's may."""
    return Overlap().score([(question, passage.text) for question, passage in pairs])


@dataclass(frozen=True)
class Kit:
    """A framework: its drop-ins, a retriever and a model of a user's, and its calls."""

    ours: ModuleType
    shelf: type
    llm: Any
    find: str
    keep: str

    def retriever(self, kind, base=None, **options):
        """Make a retriever over the shelf."""
        return getattr(self.ours, kind)(base=base or self.shelf(), **options)

    def retrievers(self):
        """Make one of each."""
        made = {
            "fitrag": self.retriever("FitRagRetriever"),
            "corrective": self.retriever("CorrectiveRetriever"),
            "slimplm": self.retriever("SlimPLMRetriever", llm=self.llm),
            "itrg": self.retriever("ITRGRetriever", llm=self.llm, rounds=2),
        }
        if self.ours is langchain:
            steps = [langchain.BiLabelReranker()]
            base = self.shelf()
            made["compressing"] = langchain.CompressingRetriever(base=base, compressors=steps)
        return made

    def found(self, retriever, question=QUESTION):
        """Retrieve."""
        return getattr(retriever, self.find)(question)

    async def afound(self, retriever, question=QUESTION):
        """Retrieve by the async side."""
        return await getattr(retriever, f"a{self.find}")(question)

    def kept(self, compressor, question=QUESTION, how=""):
        """Compress the pages; the async side is to be awaited."""
        given = self.found(self.shelf())
        asked = {"query" if self.ours is langchain else "query_str": question}
        return getattr(compressor, f"{how}{self.keep}")(given, **asked)

    def text(self, one):
        """Return the text of a document or node, and its id."""
        if self.ours is langchain:
            return one.page_content, one.id
        return one.text, one.node_id


LANGCHAIN = Kit(
    langchain, Shelf, FakeListChatModel(responses=["a"]), "invoke", "compress_documents"
)
LLAMA_INDEX = Kit(llama_index, NodeShelf, MockLLM(), "retrieve", "postprocess_nodes")
