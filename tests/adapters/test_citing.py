"""Citations and explanations over what the drop-ins of both frameworks give back."""

import pytest
from by_sentence import BySentence
from decision_fakes import OverlapEvaluator
from fakes import PASSAGES, QUESTIONS, OverlapScorer
from langchain_core.documents import Document
from langchain_fakes import OverlapBase, documents
from llama_fakes import node
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.schema import Document as LlamaDocument
from llama_index.core.schema import NodeWithScore, QueryBundle

from fitrag_integrations import langchain, llama_index
from fitrag_integrations.methods import FitRag, cite, highlight
from fitrag_integrations.types import BiLabelScore

QUESTION = QUESTIONS[0]
TEXTS = {passage.id: passage.text for passage in PASSAGES}
WINDOWS = {"window": 1, "detector": False, "max_tokens": 60}
STRIPS = {"top_n": 4, "threshold": -1.0, "sentences": 1}
ANSWER = "Nino Rota [1], as said in [2, 3] and [99]."


def nodes():
    return [node(passage) for passage in PASSAGES]


def made(framework, kind):
    if kind == "SubDocumentCompressor":
        return framework.SubDocumentCompressor(scorer=OverlapScorer(), **WINDOWS)
    return framework.KnowledgeRefiner(evaluator=OverlapEvaluator(), **STRIPS)


KINDS = ["SubDocumentCompressor", "KnowledgeRefiner"]


def kept(kind):
    """Compress the same with both frameworks."""
    found = made(langchain, kind).compress_documents(documents(), QUESTION)
    return found, made(llama_index, kind).postprocess_nodes(nodes(), query_str=QUESTION)


def sources(with_sources):
    """Give each framework the sources, or none."""
    return ({"sources": documents()}, {"sources": nodes()}) if with_sources else ({}, {})


def cited_by_both(kind, with_sources=False, **options):
    (found, pieces), (one, other) = kept(kind), sources(with_sources)
    return (
        langchain.cite_documents(found, ANSWER, **one, **options),
        llama_index.cite_nodes(pieces, ANSWER, **other, **options),
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "options",
    [{}, {"with_sources": True}, {"by_source": True}],
    ids=lambda o: next(iter(o), "bare"),
)
def test_both_frameworks_cite_the_same_places_of_the_sources(kind, options):
    one, other = cited_by_both(kind, **options)
    spans = [[citation.spans for citation in cited.citations] for cited in (one, other)]
    assert spans[0] == spans[1]
    assert one.unknown == other.unknown
    assert 99 in one.unknown
    for span in (span for group in spans[0] for span in group):
        assert TEXTS[span.passage_id][span.start : span.end] == span.text


@pytest.mark.parametrize("kind", KINDS)
def test_with_its_source_a_citation_shows_all_of_it(kind):
    for cited in cited_by_both(kind, with_sources=True):
        for citation in cited.citations:
            shown = highlight(citation)
            assert shown.count("⟦") == len(citation.spans)
            assert shown.replace("⟦", "").replace("⟧", "") == TEXTS[citation.spans[0].passage_id]


@pytest.mark.parametrize("with_sources", [False, True])
def test_the_numbers_are_those_of_the_numbered_text(with_sources):
    (found, pieces), (told, shown) = kept("KnowledgeRefiner"), sources(with_sources)
    text = langchain.numbered_documents(found, **told)
    assert llama_index.numbered_nodes(pieces, **shown) == text
    lines = text.splitlines()
    assert len(lines) == len({d.metadata["source_id"] for d in found}) < len(found)
    for number, line in enumerate(lines, start=1):
        (citation,) = langchain.cite_documents(found, f"[{number}]", **told).citations
        assert all(span.text in line for span in citation.spans)


def holding(pairs):
    words = ("score", "8001", "8003")
    return [BiLabelScore(float(any(word in p.text for word in words))) for _, p in pairs]


def test_pieces_of_a_source_stand_together_under_one_number():
    rows = "".join(f"| service {n} | {8000 + n} |\n" for n in range(9))
    table = Document(page_content=f"| name | port |\n| --- | --- |\n{rows}", id="t")
    prose = Document(page_content="Nino wrote a score. It is long. A score of Rota won.", id="p")
    others = [Document(page_content="Who?", id="o", metadata={"title": "Other"})]
    options = {"max_share": 0.9, "min_score": 0.4, "prior": 0}
    made = langchain.SubDocumentCompressor(scorer=BySentence(holding), **options)
    asked = "Which score by Rota, and which port has service 1, service 3?"
    found = [*made.compress_documents([prose, table], asked), *others]
    text = langchain.numbered_documents(found)
    heads = [line.split(":")[0] for line in text.splitlines() if line[0].isdigit()]
    assert sorted(head[3:] for head in heads[:2]) == ["p", "t"] and heads[2] == "3. Other"
    assert text.count("score") + text.count("| service") > 2
    assert text.index("8001") < text.index("8003") and text.index("wrote") < text.index("won")
    number = next(head for head in heads if head.endswith("p"))[0]
    (citation,) = langchain.cite_documents(found, f"[{number}]").citations
    assert [span.passage_id for span in citation.spans] == ["p"] * len(citation.spans)
    each = langchain.cite_documents(found, "[1]", by_source=False)
    assert each.shown == len(found) and len(each.citations[0].spans) == 1


def test_chunks_lead_to_the_file_they_were_cut_from():
    whole = "\n\n".join(TEXTS.values())
    files = [Document(page_content=whole, metadata={"source": "all.txt"})]
    at = [(whole.index(text), text) for text in TEXTS.values()]
    chunks = [
        Document(page_content=text, metadata={"source": "all.txt", "start_index": start})
        for start, text in at
    ]
    found = made(langchain, "SubDocumentCompressor").compress_documents(chunks, QUESTION)
    (citation,) = langchain.cite_documents(found, "[1]", sources=files).citations
    shown = [span.text for span in citation.spans]
    assert all(any(each.page_content in text for text in shown) for each in found)
    for span in citation.spans:
        assert whole[span.start : span.end] == span.text
    assert citation.excerpts[0].passage.text == whole


def test_nodes_lead_to_the_document_they_were_cut_from():
    document = LlamaDocument(text="\n\n".join(TEXTS.values()), id_="all")
    chunks = SentenceSplitter(chunk_size=60, chunk_overlap=0).get_nodes_from_documents([document])
    given = [NodeWithScore(node=chunk, score=0.5) for chunk in chunks]
    pieces = made(llama_index, "SubDocumentCompressor").postprocess_nodes(given, query_str=QUESTION)
    (citation,) = llama_index.cite_nodes(pieces, "[1]", sources=[document]).citations
    assert {span.passage_id for span in citation.spans} == {"all"}
    for span in citation.spans:
        assert document.text[span.start : span.end] == span.text
    shown = [span.text for span in citation.spans]
    assert all(any(piece.node.text in text for text in shown) for piece in pieces)


def test_a_source_that_says_otherwise_is_not_believed():
    found = made(langchain, "SubDocumentCompressor").compress_documents(documents(), QUESTION)
    other = [Document(page_content="Another text.", id=name) for name in TEXTS]
    (citation,) = langchain.cite_documents(found, "[1]", sources=other).citations
    assert citation.excerpts[0].passage.text == found[0].page_content
    assert citation.spans[0].passage_id == "amarcord"


@pytest.mark.parametrize("kind", KINDS)
async def test_both_explain_what_they_do_alike(kind):
    given, before = documents(), documents()
    one = made(langchain, kind)
    other = made(llama_index, kind)
    told = one.explain(given, QUESTION)
    same = other.explain(nodes(), query_str=QUESTION)
    assert told.explain() == same.explain()
    assert (await one.aexplain(given, QUESTION)) == told
    assert (await other.aexplain(nodes(), QueryBundle(QUESTION))).explain() == told.explain()
    kept = one.compress_documents(given, QUESTION)
    assert [excerpt.text for excerpt in told.kept] == [each.page_content for each in kept]
    assert told.dropped
    assert "<mark" in told._repr_html_()
    assert given == before


def test_an_answer_of_a_whole_method_cites_its_context():
    runnable = langchain.MethodRunnable(
        method=FitRag(OverlapScorer(), detector=False),
        retriever=OverlapBase(),
        llm=lambda prompt: "Nino Rota [1].",
        template="retrieval_cited",
    )
    answer = runnable.invoke(QUESTION)
    assert "square brackets" in answer.prompt
    (citation,) = cite(answer.context, answer).citations
    assert citation.spans[0].passage_id == "amarcord"
    assert "<mark" in answer._repr_html_()
