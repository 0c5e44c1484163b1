"""Copies and overlapping chunks through the drop-ins of both frameworks."""

import re
from pathlib import Path

import pytest
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda
from langchain_text_splitters import RecursiveCharacterTextSplitter
from llama_index.core import Document as LlamaDocument
from llama_index.core.node_parser import SentenceSplitter, TokenTextSplitter
from llama_index.core.schema import NodeWithScore

from fitrag_integrations import langchain, llama_index
from fitrag_integrations.methods.explaining import Compression
from fitrag_integrations.text.sentences import split_sentences

QUESTION = "Which cheese is made in Brannoch?"
ANSWER = "The dairy of Brannoch makes a blue cheese called Kerrin from the milk of its own goats."
REST = [
    "The lighthouse of Corran Head was built in 1871 by two brothers from the mainland.",
    "Ferries to the island leave twice a day in summer and once a day in winter.",
    "The school of Brannoch has forty pupils, and its hall doubles as a cinema on Fridays.",
    "Peat was cut on the moor until 1950, when the last of the families gave it up.",
    "The market is held on Saturdays behind the church, whatever the weather brings.",
]
TEXT = " ".join([*REST[:2], ANSWER, *REST[2:]])
COMPRESSORS = {
    "reranker": ("BiLabelReranker", {"top_n": 4}),
    "compressor": ("SubDocumentCompressor", {"max_share": 1.0}),
    "refiner": ("KnowledgeRefiner", {}),
}


ALL = {"max_share": None, "top_n": None, "detector": False}
WORD = re.compile(r"(?!#)[\s\S]*\w")
AS_THEY_ARE = {"deduplicate": False}


def pieces_of(size=220, overlap=90):
    """Cut the text as recursive splitters do, at blanks, with an overlap."""
    at = 0
    while at < len(TEXT) - overlap:
        end = TEXT.rfind(" ", at, at + size) if at + size < len(TEXT) else len(TEXT)
        yield at, TEXT[at:end]
        at = TEXT.find(" ", end - overlap) + 1


def lang_documents(kind):
    if kind == "copies":
        files = [Document(page_content=ANSWER, metadata={"source": f"{n}.md"}) for n in range(5)]
        return files + [Document(page_content=text) for text in REST]
    return [
        Document(page_content=text, metadata={"source": "town.md", "start_index": at})
        for at, text in pieces_of()
    ]


def llama_nodes(kind):
    if kind == "copies":
        texts = [*(ANSWER for _ in range(5)), *REST]
        made = [LlamaDocument(text=text, id_=f"{n}") for n, text in enumerate(texts)]
    else:
        splitter = SentenceSplitter(chunk_size=60, chunk_overlap=25)
        made = splitter.get_nodes_from_documents([LlamaDocument(text=TEXT, id_="town")])
        assert len(made) > 2
    return [NodeWithScore(node=node, score=1.0 - n / 20) for n, node in enumerate(made)]


def given(framework, kind):
    return llama_nodes(kind) if framework.ours is llama_index else lang_documents(kind)


def found(framework, door, kind, **how):
    ours, pages = framework.ours, given(framework, kind)
    if door == "retriever":
        made = ours.FitRagRetriever(base=framework.finding(pages), **how)
        return framework.pieces(framework.ask(made, QUESTION))
    name, options = COMPRESSORS[door]
    made = getattr(ours, name)(**options, **how)
    return framework.pieces(framework.keep(made, pages, QUESTION))


doors = pytest.mark.parametrize("door", [*COMPRESSORS, "retriever"])


@doors
def test_five_copies_come_back_once(framework, door):
    once, often = found(framework, door, "copies"), found(framework, door, "copies", **AS_THEY_ARE)
    assert sum(ANSWER in piece.text for piece in once) == 1
    assert sum(ANSWER in piece.text for piece in often) >= 3


@doors
def test_overlapping_chunks_come_back_in_whole_sentences(framework, door):
    pieces = found(framework, door, "chunks")
    assert pieces and all(TEXT[piece.start :].startswith(piece.text) for piece in pieces)
    given_texts = [piece.text for piece in framework.pieces(given(framework, "chunks"))]
    texts = [piece.text for piece in pieces]
    assert any("Kerrin" in text for text in texts)
    if door == "reranker":
        assert set(texts) <= set(given_texts)
    else:
        assert all(sum(one in text for text in texts) < 2 for one in (ANSWER, *REST))


FILES = [
    path
    for folder in ("benchmarks/files/choose", "fitrag_integrations/embedded/handbook/documents")
    for path in sorted((Path(__file__).parents[2] / folder).rglob("*"))
    if path.suffix in (".md", ".txt") and path.stat().st_size > 1500
][:6]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_sentence_that_was_whole_in_a_chunk_is_lost(path, framework):
    text, at = path.read_text(encoding="utf-8")[:6000], FILES.index(path)
    if framework.ours is langchain:
        splitter = RecursiveCharacterTextSplitter(
            chunk_size=500,
            chunk_overlap=150,
            add_start_index=True,
            separators=[["\n\n", " "], [" "]][at % 2],
        )
        pages = splitter.create_documents([text], [{"source": path.name}])
        texts = [page.page_content for page in pages]
    else:
        made = [SentenceSplitter, TokenTextSplitter][at % 2](
            chunk_size=120, chunk_overlap=40, tokenizer=str.split
        )
        nodes = made.get_nodes_from_documents([LlamaDocument(text=text, id_=path.name)])
        pages, texts = [NodeWithScore(node=node) for node in nodes], [n.text for n in nodes]
    assert len(pages) > 2
    whole = {text[a:b] for a, b in split_sentences(text) if any(text[a:b] in t for t in texts)}
    for name, options in (("BiLabelReranker", {"top_n": None}), ("SubDocumentCompressor", ALL)):
        kept = framework.pieces(
            framework.keep(getattr(framework.ours, name)(**options), pages, "What is due?")
        )
        shown = "\n".join(piece.text for piece in kept)
        if name == "BiLabelReranker":
            assert {piece.text for piece in kept} <= set(texts)
        lost = [one for one in whole if WORD.match(one) and one not in shown]
        assert lost == []


@pytest.mark.parametrize("door", COMPRESSORS)
async def test_every_compressor_explains_what_it_dropped(framework, door):
    name, options = COMPRESSORS[door]
    made, pages = getattr(framework.ours, name)(**options), given(framework, "copies")
    asked = {"query" if framework.ours is langchain else "query_str": QUESTION}
    found, again = made.explain(pages, **asked), await made.aexplain(pages, **asked)
    assert isinstance(found, Compression) and again.explain() == found.explain()
    copies = [row for row in found.dropped if row.reason == "duplicate" and row.whole]
    assert len(copies) == 4  # of five in as many files the best-scored stays
    for shown in (found.explain(dropped=True), found._repr_html_()):
        assert "duplicate, same text as" in shown
    if door == "reranker":
        assert [row.detail for row in found.dropped if row.reason == "top_n"] == ["top_n=4"] * 2


def test_a_retriever_explains_every_dropped_document():
    base = RunnableLambda(lambda query: lang_documents("copies"))
    found = langchain.FitRagRetriever(base=base, top_n=2).invoke(QUESTION)
    rows = [row for row in found.context.selection if row.whole]
    assert len(rows) == 10 and sum(row.reason == "top_n" for row in rows) == 4
    assert found.explain(dropped=True).count(": top_n=2") == 4 and "top_n=2" in found._repr_html_()


def test_what_k_drops_is_dropped_by_k():
    text = "Brannoch makes a cheese. The cheese is blue. Cheese ripens in caves."
    shelf = [Document(page_content=text.replace("blue", each)) for each in ("blue", "red", "old")]
    retriever = langchain.FitRagRetriever(base=lambda query: shelf, max_tokens=400, k=2)
    found = retriever.invoke("Which cheese is made in Brannoch?")
    kept = found.context.excerpts
    assert len(found) == len(kept) == 2 and found.explain().count("\n  ") == 2
    rows = [row for row in found.context.selection if row.reason == "k"]
    whole = langchain.FitRagRetriever(base=lambda query: shelf, max_tokens=400)
    every = whole.invoke("Which cheese is made in Brannoch?").context.excerpts
    assert rows and {row.detail for row in rows} == {"k=2"} and len(every) > 2
    gone = {one.passage.id for one in every} - {one.passage.id for one in kept}
    assert {row.passage for row in rows if row.whole} == gone
    assert "k=2" in found.explain() and "k=2" in found.explain(dropped=True)
