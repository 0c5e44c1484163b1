"""Bad input of every kind through every door, with the models that ship."""

import json

import pytest
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, TextNode

from fitrag_integrations import compress, langchain, llama_index, rerank
from fitrag_integrations.commands.engine.options import Files
from fitrag_integrations.commands.run.compress import CompressPlan
from fitrag_integrations.errors import FitRagError, InputError
from fitrag_integrations.flow import run
from fitrag_integrations.methods import Crag, FitRag, Refiner, approximate_tokens
from fitrag_integrations.methods.prompts import render_excerpts
from fitrag_integrations.ports import Ports
from fitrag_integrations.types import Context, Passage

QUESTION = "Which port does the metrics endpoint use?"
ANSWER = "The metrics endpoint uses port 9464."
SENTENCE = (
    " ".join(["rain"] * 2500 + ["the metrics endpoint uses port 9464"] + ["falls"] * 2500) + "."
)
SCRIPTS = [
    "\u041f\u043e\u0440\u0442 9464. \u0627\u0644. \u7aef\u53e3\u662f9464\u3002\u0928\u092e\u0964",
    "\u202emetrics 9464\u202c e\u0301\u0301\u0301 \U0001f468\u200d\U0001f469 \ud800 ok.",
]
INPUTS = {
    "an empty list": ([], None),
    "blank texts": (["", " \n\t"], None),
    "all duplicates": ([ANSWER] * 6, None),
    "documents of one word": (["port", "metrics", "9464"], None),
    "documents of one sign": (["?", "\u200b", "\x00", "\ufeff"], None),
    "a budget of one token": ([ANSWER, "Rain falls. It is wet."], 1),
    "a sentence of 5,000 tokens": ([SENTENCE], 50),
    "a word of 20,000 letters": (["x" * 20_000], 50),
    "mixed scripts": (SCRIPTS, 60),
    "a document of 12 KB": ([ANSWER + " Rain falls." * 1000], 60),
}


class Found(BaseRetriever):
    def __init__(self, texts):
        self.texts = texts
        super().__init__()

    def _retrieve(self, query_bundle):
        return nodes(self.texts)


def passages(texts):
    return [Passage(str(at), text) for at, text in enumerate(texts)]


def documents(texts):
    return [Document(page_content=text) for text in texts]


def nodes(texts):
    return [NodeWithScore(node=TextNode(text=text)) for text in texts]


def by_method(made):
    def door(texts, budget):
        ports = Ports(lambda queries: [passages(texts) for _ in queries])
        return run(made(budget)(QUESTION, ports)).value

    return door


def compressed(made):
    return lambda texts, budget: made(budget).compress_documents(documents(texts), QUESTION).context


def processed(made):
    def door(texts, budget):
        step = made(budget)
        step.postprocess_nodes(nodes(texts), query_str=QUESTION)
        return step.last_run.value

    return door


def retrieved(made):
    def door(texts, budget):
        retriever = made(Found(texts), budget)
        retriever.retrieve(QUESTION)
        return retriever.last_run.value

    return door


def asked(made):
    def door(texts, budget):
        base = RunnableLambda(lambda _: documents(texts))
        return made(base, budget).invoke(QUESTION).context

    return door


def refined(texts, budget):
    found = run(Refiner(max_tokens=budget)(QUESTION, passages(texts))).value
    return Context(QUESTION, found.excerpts, notes=found.notes)


DOORS = {
    "FitRag": by_method(lambda budget: FitRag(max_tokens=budget)),
    "Crag": by_method(lambda budget: Crag(max_tokens=budget)),
    "Refiner": refined,
    "rerank": lambda texts, budget: rerank(QUESTION, texts).context,
    "compress": lambda texts, budget: compress(QUESTION, texts, max_tokens=budget).context,
    "langchain.BiLabelReranker": compressed(lambda budget: langchain.BiLabelReranker()),
    "langchain.SubDocumentCompressor": compressed(
        lambda budget: langchain.SubDocumentCompressor(max_tokens=budget)
    ),
    "langchain.KnowledgeRefiner": compressed(
        lambda budget: langchain.KnowledgeRefiner(max_tokens=budget)
    ),
    "langchain.FitRagRetriever": asked(
        lambda base, budget: langchain.FitRagRetriever(base=base, max_tokens=budget)
    ),
    "langchain.CorrectiveRetriever": asked(
        lambda base, budget: langchain.CorrectiveRetriever(base=base, max_tokens=budget)
    ),
    "llama_index.BiLabelReranker": processed(lambda budget: llama_index.BiLabelReranker()),
    "llama_index.SubDocumentCompressor": processed(
        lambda budget: llama_index.SubDocumentCompressor(max_tokens=budget)
    ),
    "llama_index.KnowledgeRefiner": processed(
        lambda budget: llama_index.KnowledgeRefiner(max_tokens=budget)
    ),
    "llama_index.FitRagRetriever": retrieved(
        lambda base, budget: llama_index.FitRagRetriever(base, max_tokens=budget)
    ),
    "llama_index.CorrectiveRetriever": retrieved(
        lambda base, budget: llama_index.CorrectiveRetriever(base, max_tokens=budget)
    ),
}


@pytest.mark.parametrize("given", INPUTS)
@pytest.mark.parametrize("door", DOORS)
def test_bad_input_ends_in_an_answer_with_notes(door, given):
    texts, budget = INPUTS[given]
    context = DOORS[door](texts, budget)
    reranks = door.endswith(("rerank", "Reranker"))
    if not context.excerpts or sum(map(len, set(texts))) > sum(
        len(e.text) for e in context.excerpts
    ):
        assert context.notes or reranks and len(context.excerpts) == len(texts)
    if len(set(texts)) < len(texts):
        assert any("repeated" in note or "no text" in note for note in context.notes)
    if budget is not None and not reranks:
        shown = render_excerpts(context.excerpts)
        assert not context.excerpts or approximate_tokens(shown) <= budget
    assert context.prompt() and json.dumps(context.to_dict())


@pytest.mark.parametrize("given", INPUTS)
def test_bad_rows_are_compressed_with_notes_or_an_error_that_names_them(given, tmp_path):
    texts, budget = INPUTS[given]
    row = {"question": QUESTION, "passages": [{"text": text} for text in texts]}
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    good = {"question": QUESTION, "passages": [{"text": ANSWER}]}
    source.write_text("".join(json.dumps(each) + "\n" for each in (row, good)))
    CompressPlan(Files(str(source), str(target)), max_tokens=budget).run()
    found, other = map(json.loads, target.read_text().splitlines())
    assert [one["text"] for one in other["excerpts"]] == [ANSWER] or budget == 1
    if "error" in found:
        assert "passages" in json.dumps(found["error"])
    else:
        assert found["excerpts"] or found["notes"]


ODD = {
    "no text": ({"page_content": None, "metadata": {}}, "no text"),
    "no text at all": ({"metadata": {}}, "no text"),
    "no metadata": ({"page_content": "Rain falls.", "metadata": None}, ""),
    "no metadata at all": ({"page_content": "Rain falls."}, ""),
    "a number for a text": ({"page_content": 7, "metadata": {}}, "Document.page_content"),
    "a list for metadata": ({"page_content": "Rain.", "metadata": [1]}, "Document.metadata"),
}


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("kind", ["BiLabelReranker", "SubDocumentCompressor", "KnowledgeRefiner"])
def test_odd_documents_count_as_empty_or_are_named(name, kind):
    fields, says = ODD[name]
    odd = [Document.model_construct(**fields), Document(page_content=ANSWER)]
    step = getattr(langchain, kind)()
    if says.startswith("Document"):
        with pytest.raises(InputError, match=says):
            step.compress_documents(odd, QUESTION)
        return
    found = step.compress_documents(odd, QUESTION)
    assert ANSWER in [one.page_content for one in found]
    assert says in " ".join(found.context.notes)


@pytest.mark.parametrize("kind", ["BiLabelReranker", "SubDocumentCompressor", "KnowledgeRefiner"])
@pytest.mark.parametrize(
    "fields", [{"text": None, "metadata": {}}, {"text": "Rain.", "metadata": None}]
)
def test_odd_nodes_count_as_empty(kind, fields):
    odd = NodeWithScore(node=TextNode.model_construct(id_="odd", **fields))
    found = getattr(llama_index, kind)().postprocess_nodes(
        [odd, *nodes([ANSWER])], query_str=QUESTION
    )
    assert ANSWER in [one.text for one in found]


@pytest.mark.parametrize(
    "texts", [None, 7, "one text", b"bytes", [None], [7], [{}], [{"text": None}]]
)
@pytest.mark.parametrize("plain", [rerank, compress])
def test_what_is_no_list_of_texts_is_named(plain, texts):
    with pytest.raises(FitRagError, match="^texts"):
        plain(QUESTION, texts)
