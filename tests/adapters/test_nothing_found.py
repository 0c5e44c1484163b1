"""What a language model is told where nothing was found, with the models that ship."""

import json

import pytest
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda
from llama_index.core.llms import MockLLM
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, TextNode

from fitrag_integrations import langchain, llama_index
from fitrag_integrations.commands.run.answer import AnswerPlan
from fitrag_integrations.flow import run
from fitrag_integrations.methods import Crag, FitRag
from fitrag_integrations.methods.crag.method import DROPPED, KEPT_ANYWAY, WARNING
from fitrag_integrations.methods.prompts import NOTHING_FOUND
from fitrag_integrations.ports import Ports
from fitrag_integrations.types import Action, Context, Passage

CAPITAL = "What is the capital of Mongolia?"
BUS = "The night bus N8 leaves the harbor at half past one. Tickets are sold on board."
SAYS_SO = NOTHING_FOUND.render(Context(CAPITAL))
METHODS = {
    "nothing retrieved": (FitRag(), ()),
    "blank passages only": (FitRag(), (" ",)),
    "below min_score": (FitRag(min_score=0.75), (BUS,)),
    "graded incorrect and dropped": (Crag(on_incorrect="drop"), (BUS,)),
}


class Found(BaseRetriever):
    def __init__(self, texts):
        self.texts = texts
        super().__init__()

    def _retrieve(self, query_bundle):
        return [NodeWithScore(node=TextNode(text=text)) for text in self.texts]


def asked_in_langchain(method, texts):
    prompts = []
    made = langchain.MethodRunnable(
        method=method,
        retriever=RunnableLambda(lambda _: [Document(page_content=text) for text in texts]),
        llm=RunnableLambda(lambda prompt: prompts.append(str(prompt)) or "I do not know."),
    )
    assert made.invoke(CAPITAL) == "I do not know."
    return prompts


def asked_in_llama_index(method, texts):
    made = llama_index.MethodQueryEngine(method, Found(texts), llm=MockLLM())
    return [made.query(CAPITAL).response]  # the mock gives its prompt back


@pytest.mark.parametrize("case", METHODS)
@pytest.mark.parametrize("asked", [asked_in_langchain, asked_in_llama_index])
def test_the_prompt_says_that_nothing_was_found(case, asked):
    (prompt,) = asked(*METHODS[case])
    assert prompt.strip() == SAYS_SO.strip()
    assert "from what you know" not in prompt and "do not know" in prompt


def test_the_command_line_says_so_too(tmp_path):
    rows, answered = tmp_path / "rows.jsonl", tmp_path / "answered.jsonl"
    rows.write_text(json.dumps({"question": CAPITAL, "passages": [{"text": BUS}]}) + "\n")
    AnswerPlan(str(rows), str(answered), max_tokens=2).run()  # for which not one word fits
    (row,) = map(json.loads, answered.read_text().splitlines())
    assert row["context"] == [] and row["prompt"] == SAYS_SO and row["answer"] == ""


@pytest.mark.parametrize("on_incorrect", ["warn", "drop", "keep"])
def test_crag_does_not_pass_off_what_it_graded_incorrect(on_incorrect):
    ports = Ports(lambda queries: [[Passage("bus", BUS)] for _ in queries])
    context = run(Crag(on_incorrect=on_incorrect)(CAPITAL, ports)).value
    assert context.action is Action.INCORRECT and max(context.details["grades"]) < -0.9
    assert (WARNING in context.prompt()) == (on_incorrect == "warn")
    assert bool(context.excerpts) == (on_incorrect != "drop")
    assert (DROPPED if on_incorrect == "drop" else KEPT_ANYWAY) in context.notes
    again = Context.from_dict(json.loads(json.dumps(context.to_dict())))
    assert again.prompt() == context.prompt()


def test_documents_without_a_title_are_numbered_under_their_source_or_id():
    given = [
        {"text": "a", "title": "T", "source": "t.md", "id": "1"},
        {"text": "b", "title": "", "source": "docs/a.md\n2. x", "id": "2"},
        {"text": "c", "title": "", "source": "", "id": "chunk-7"},
        {"text": "d", "title": "", "source": "", "id": "0b3e6c1e-9d0e-4c0e-8f53-1d7f1f3c2a10"},
        {"text": "e", "title": "", "source": "", "id": None},
    ]
    wanted = "1. T: a\n2. docs/a.md 2. x: b\n3. chunk-7: c\n4. d\n5. e"
    metadata = [{k: one[k] for k in ("title", "source") if one[k]} for one in given]
    documents = [
        Document(page_content=one["text"], id=one["id"], metadata=about)
        for one, about in zip(given, metadata, strict=True)
    ]
    nodes = [
        NodeWithScore(
            node=TextNode(
                text=one["text"], metadata=about, **({"id_": one["id"]} if one["id"] else {})
            )
        )
        for one, about in zip(given, metadata, strict=True)
    ]
    assert langchain.numbered_documents(documents) == wanted
    assert llama_index.numbered_nodes(nodes) == wanted
    assert langchain.numbered_documents([]) == llama_index.numbered_nodes([])
    assert langchain.numbered_documents([]) == "(No passage was found.)"
    cited = langchain.cite_documents(documents, "As [2] says.")
    assert cited.citations[0].spans[0].source == "docs/a.md\n2. x"
    assert cited.citations[0].spans[0].title == ""


def test_pieces_are_numbered_under_the_source_they_were_cut_from():
    text = "The N8 leaves at half past one. " + "Nothing else happens at night. " * 20
    whole = Document(page_content=text, metadata={"source": "buses.md"})
    compressor = langchain.SubDocumentCompressor(max_tokens=30)
    found = compressor.compress_documents([whole], "When does the N8 leave?")
    assert str(found).startswith("1. buses.md: The N8 leaves at half past one.")
    assert langchain.numbered_documents(found) == str(found)
