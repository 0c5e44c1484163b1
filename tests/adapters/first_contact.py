"""Five pages about a river, a retriever over them, and what a new user's objects look like."""

from frameworks import BOTH
from langchain_core.cross_encoders import BaseCrossEncoder
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.retrievers import BaseRetriever as LangChainRetriever
from llama_index.core.base.base_retriever import BaseRetriever as LlamaIndexRetriever
from llama_index.core.llms import MockLLM
from llama_index.core.schema import NodeWithScore, TextNode

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


LANGCHAIN, LLAMA_INDEX = BOTH
SHELVES = {LANGCHAIN: Shelf, LLAMA_INDEX: NodeShelf}
LLMS = {LANGCHAIN: FakeListChatModel(responses=["a"]), LLAMA_INDEX: MockLLM()}


def retriever(framework, kind, **options):
    """Make a retriever over the shelf."""
    return getattr(framework.ours, kind)(base=SHELVES[framework](), **options)


def retrievers(framework):
    """Make one of each."""
    llm = LLMS[framework]
    made = {
        "fitrag": retriever(framework, "FitRagRetriever"),
        "corrective": retriever(framework, "CorrectiveRetriever"),
        "slimplm": retriever(framework, "SlimPLMRetriever", llm=llm),
        "itrg": retriever(framework, "ITRGRetriever", llm=llm, rounds=2),
    }
    if framework is LANGCHAIN:
        steps = [framework.ours.BiLabelReranker()]
        made["compressing"] = retriever(framework, "CompressingRetriever", compressors=steps)
    return made
