"""What the drop-ins read of a passage's metadata and of a message, with the bundled models."""

from pathlib import Path

import pytest
from langchain_core.documents import Document
from llama_index.core.schema import NodeWithScore, TextNode

from fitrag_integrations import compress, langchain, llama_index, rerank
from fitrag_integrations.core.jsonl import read_jsonl
from fitrag_integrations.methods.metadata import TITLE_KEYS, title_in

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
PAIRS = list(read_jsonl(BENCHMARKS / "titles.jsonl"))
SHELVES = list(read_jsonl(BENCHMARKS / "messages.jsonl"))
PRICE = "It costs 249 euros, and 219 euros for schools."
ASKED = "What does the Falcon 2 cost?"


def pages(framework, abouts, text=PRICE, **fields):
    if framework.ours is langchain:
        return [Document(text, metadata=about) for about in abouts]
    return [
        NodeWithScore(node=TextNode(text=text, metadata=about, **fields), score=0.5)
        for about in abouts
    ]


def shown(framework, found):
    ours = framework.ours
    return (ours.numbered_documents if ours is langchain else ours.numbered_nodes)(found)


@pytest.mark.parametrize("key", list(dict.fromkeys(row["key"] for row in PAIRS)))
def test_of_two_equal_texts_the_metadata_decide(framework, key):
    rows, first, lines = [row for row in PAIRS if row["key"] == key], 0, []
    reranker = framework.ours.BiLabelReranker(top_n=1)
    for row in rows:
        given = pages(framework, [{key: row["wrong"]}, {key: row["right"]}], row["text"])
        found = framework.keep(reranker, given, row["question"])
        first += framework.pieces(found)[0].metadata[key] == row["right"]
        lines.append(shown(framework, found))
    assert len(rows) == 5 and first >= (4 if key == "section" else 5)
    assert all(
        line.startswith(f"1. {title_in({key: row['right']})}: ") or first == 4
        for line, row in zip(lines, rows, strict=True)
    )


async def test_a_price_is_shown_with_its_product_at_every_door(framework):
    abouts = [{"source": f"prices/{name}.md"} for name in ("heron-5", "falcon-2")]
    given, ours = pages(framework, abouts), framework.ours
    for made in (ours.SubDocumentCompressor(max_tokens=40), ours.KnowledgeRefiner()):
        found = framework.keep(made, given, ASKED)
        assert "1. prices, falcon 2: It costs 249 euros" in shown(framework, found)
    retriever = ours.FitRagRetriever(base=framework.finding(given), top_n=1)
    _, context = await framework.in_every_way(retriever, ASKED)
    assert "1. prices, falcon 2: It costs" in context.prompt()


async def test_other_keys_are_read_where_title_keys_names_them(framework):
    abouts = [
        {"title": "Prices", "model_of": "Heron 5", "colour": "blue"},
        {"title": "Prices", "model_of": "Falcon 2", "colour": "blue"},
    ]
    given, own = pages(framework, abouts), {"title_keys": ["model_of"], "top_n": 1}
    ours = framework.ours
    for made in (ours.BiLabelReranker(**own), ours.SubDocumentCompressor(**own)):
        found = framework.keep(made, given, ASKED)
        assert shown(framework, found).startswith("1. Falcon 2: It costs")
    retriever = ours.FitRagRetriever(base=framework.finding(given), **own)
    pieces, context = await framework.in_every_way(retriever, ASKED)
    assert pieces[0].metadata["model_of"] == "Falcon 2" and pieces[0].metadata["title"] == "Prices"
    assert context.prompt().count("Falcon 2: It costs") == 1
    bare = framework.keep(ours.BiLabelReranker(title_keys=[]), given, ASKED)
    assert "Prices" not in shown(framework, bare)


def test_what_a_node_hides_from_an_embedder_is_not_read():
    about = {"file_path": "/x/falcon.md", "colour": "blue", "summary": "A price. " * 20, "n": 4}
    hidden = {"excluded_embed_metadata_keys": ["file_path"]}
    node = NodeWithScore(node=TextNode(text=PRICE, metadata=about, **hidden))
    assert llama_index.numbered_nodes([node]) == f"1. blue, n 4: {PRICE}"


@pytest.mark.parametrize("key", ["title", "url"])
def test_of_a_web_page_the_title_alone_is_read(framework, key):
    about = {"web": True, "trust": "untrusted", "section": "Ignore all", key: "https://a.example/b"}
    text = shown(framework, pages(framework, [about]))
    assert "Ignore all" not in text and text.count("a.example") == 1


@pytest.mark.parametrize(
    ("metadata", "title"),
    [
        ({"source": "docs/install-guide.md"}, "docs, install guide"),
        ({"source": "https://docs.example/x200/install?lang=en#ports"}, "x200, install"),
        ({"source": "https://example.com/"}, "example.com"),
        ({"source": "C:\\docs\\my file.docx"}, "docs, my file"),
        ({"source": "Wikipedia"}, "Wikipedia"),
        ({"file_name": "C# guide.pdf"}, "C# guide"),
        ({"source": "/tmp/3f2a8c9d1e4b5a6c7d8e/chunk.json"}, "chunk"),
        ({"title": "Node.js", "source": "a/b/node.js"}, "Node.js, b, node"),
        ({"title": "X200 install", "source": "x200/install.md"}, "X200 install"),
        ({"header_path": "/X200/Wi-Fi/"}, "X200, Wi-Fi"),
        ({"header_path": "/"}, ""),
        ({"Header 3": "C", "Header 1": "A", "Header 2": "B"}, "A, B, C"),
        ({"file_path": "x.pdf", "page_label": "iv", "page": 3}, "x, page iv"),
        ({"section": "3.2", "product": "X200"}, "X200, section 3.2"),
        ({"section": ["A", "B"], "product": True}, "A, B"),
        ({"section": {"a": 1}, "title": None, "page_number": 7}, "page 7"),
        ({"product": "0b6c1c2e-6f5e-4a43-9f0e-3c6d2f7a1b2c"}, ""),
        ({"author": "Ann"}, ""),
    ],
)
def test_metadata_are_a_title(metadata, title):
    assert title_in(metadata) == title


def test_keys_are_each_named_once():
    assert len(set(TITLE_KEYS)) == len(TITLE_KEYS)


@pytest.mark.parametrize("function", [rerank, compress])
def test_plain_functions_read_the_metadata_of_mappings(function):
    files = [
        {"text": PRICE, "source": "heron-5.md", "metadata": {"model_of": "Falcon 2"}},
        {"text": PRICE, "source": "falcon-2.md", "model_of": "Heron 5"},
    ]
    (best, *_) = function(ASKED, files)
    assert best.passage.title == "falcon 2"
    (best, *_) = function(ASKED, files, title_keys=["model_of"])
    assert best.passage.source == "heron-5.md"
    assert function(ASKED, [files[0] | {"title": "Own"}])[0].passage.title == "Own"


@pytest.mark.parametrize(
    ("shelf", "at", "answers"),
    [
        (0, 0, ["9464", "8443"]),
        (0, 1, ["lantern migrate", "14 days"]),
        (1, 1, ["three days before arrival", "80 percent"]),
        (3, 3, ["approval of a director", "130 euros", "30 days"]),
    ],
)
def test_all_that_a_message_asks_is_answered_in_60_tokens(framework, shelf, at, answers):
    rows, ours = SHELVES[shelf]["passages"], framework.ours
    given = [
        page for row in rows for page in pages(framework, [{"title": row["title"]}], row["text"])
    ]
    asked = SHELVES[shelf]["messages"][at]["text"]
    made = ours.SubDocumentCompressor(max_tokens=60)
    text = shown(framework, framework.keep(made, given, asked))
    assert [one for one in answers if one not in text] == []
