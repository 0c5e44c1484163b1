"""Bad input and nothing to read, through every door, with the models that ship."""

import json

import pytest
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda
from llama_index.core.llms import MockLLM
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, TextNode

from fitrag_integrations import compress, langchain, llama_index, rerank
from fitrag_integrations.commands.engine.options import Files, RunOptions
from fitrag_integrations.commands.run.answer import AnswerPlan
from fitrag_integrations.commands.run.compress import CompressPlan
from fitrag_integrations.errors import InputError
from fitrag_integrations.flow import run
from fitrag_integrations.methods import Crag, FitRag, Refiner, approximate_tokens
from fitrag_integrations.methods.prompts import NOTHING_FOUND, render_excerpts
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


def budgeted(ours, kind, budget, **given):
    """Make a component with the budget, which a reranker does without."""
    options = {} if kind == "BiLabelReranker" else {"max_tokens": budget}
    return getattr(ours, kind)(**given, **options)


def compressed(kind):
    def door(texts, budget):
        made = budgeted(langchain, kind, budget)
        return made.compress_documents(documents(texts), QUESTION).context

    return door


def processed(kind):
    def door(texts, budget):
        made = budgeted(llama_index, kind, budget)
        made.postprocess_nodes(nodes(texts), query_str=QUESTION)
        return made.last_run.value

    return door


def asked(kind):
    def door(texts, budget):
        base = RunnableLambda(lambda _: documents(texts))
        return budgeted(langchain, kind, budget, base=base).invoke(QUESTION).context

    return door


def retrieved(kind):
    def door(texts, budget):
        made = budgeted(llama_index, kind, budget, base=Found(texts))
        made.retrieve(QUESTION)
        return made.last_run.value

    return door


def refined(texts, budget):
    found = run(Refiner(max_tokens=budget)(QUESTION, passages(texts))).value
    return Context(QUESTION, found.excerpts, notes=found.notes)


COMPRESSORS = ("BiLabelReranker", "SubDocumentCompressor", "KnowledgeRefiner")
RETRIEVERS = ("FitRagRetriever", "CorrectiveRetriever")
DOORS = {
    "FitRag": by_method(lambda budget: FitRag(max_tokens=budget)),
    "Crag": by_method(lambda budget: Crag(max_tokens=budget)),
    "Refiner": refined,
    "rerank": lambda texts, budget: rerank(QUESTION, texts).context,
    "compress": lambda texts, budget: compress(QUESTION, texts, max_tokens=budget).context,
    **{f"langchain.{kind}": compressed(kind) for kind in COMPRESSORS},
    **{f"langchain.{kind}": asked(kind) for kind in RETRIEVERS},
    **{f"llama_index.{kind}": processed(kind) for kind in COMPRESSORS},
    **{f"llama_index.{kind}": retrieved(kind) for kind in RETRIEVERS},
}


# What a framework's documents are read into is cut and scored as it is everywhere.
READ = ("an empty list", "blank texts", "all duplicates", "documents of one sign", "mixed scripts")


@pytest.mark.parametrize(
    ("door", "given"),
    [(door, given) for door in DOORS for given in INPUTS if "." not in door or given in READ],
)
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
    how = RunOptions(keep_going=True)
    CompressPlan(Files(str(source), str(target)), max_tokens=budget, how=how).run()
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
@pytest.mark.parametrize("kind", COMPRESSORS)
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


@pytest.mark.parametrize("kind", COMPRESSORS)
@pytest.mark.parametrize(
    "fields", [{"text": None, "metadata": {}}, {"text": "Rain.", "metadata": None}]
)
def test_odd_nodes_count_as_empty(kind, fields):
    odd = NodeWithScore(node=TextNode.model_construct(id_="odd", **fields))
    found = getattr(llama_index, kind)().postprocess_nodes(
        [odd, *nodes([ANSWER])], query_str=QUESTION
    )
    assert ANSWER in [one.text for one in found]


# --- what a language model is told where nothing was found

CAPITAL = "What is the capital of Mongolia?"
BUS = "The night bus N8 leaves the harbor at half past one. Tickets are sold on board."
SAYS_SO = NOTHING_FOUND.render(Context(CAPITAL))
METHODS = {
    "nothing retrieved": (FitRag(), ()),
    "blank passages only": (FitRag(), (" ",)),
    "below min_score": (FitRag(min_score=0.75), (BUS,)),
    "graded incorrect and dropped": (Crag(on_incorrect="drop"), (BUS,)),
}


def asked_in_langchain(method, texts):
    prompts = []
    made = langchain.MethodRunnable(
        method=method,
        retriever=RunnableLambda(lambda _: documents(texts)),
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


def test_documents_without_a_title_are_numbered_under_their_source_or_id():
    given = [
        {"text": "a", "title": "T", "source": "t.md", "id": "1"},
        {"text": "b", "title": "", "source": "docs/a.md\n2. x", "id": "2"},
        {"text": "c", "title": "", "source": "", "id": "chunk-7"},
        {"text": "d", "title": "", "source": "", "id": "0b3e6c1e-9d0e-4c0e-8f53-1d7f1f3c2a10"},
        {"text": "e", "title": "", "source": "", "id": None},
    ]
    wanted = "1. T: a\n2. docs, a.md 2. x: b\n3. chunk-7: c\n4. d\n5. e"
    metadata = [{k: one[k] for k in ("title", "source") if one[k]} for one in given]
    shelf = [
        Document(page_content=one["text"], id=one["id"], metadata=about)
        for one, about in zip(given, metadata, strict=True)
    ]
    found = [
        NodeWithScore(
            node=TextNode(
                text=one["text"], metadata=about, **({"id_": one["id"]} if one["id"] else {})
            )
        )
        for one, about in zip(given, metadata, strict=True)
    ]
    assert langchain.numbered_documents(shelf) == wanted
    assert llama_index.numbered_nodes(found) == wanted
    reverse = "5. e\n4. d\n3. chunk-7: c\n2. docs, a.md 2. x: b\n1. T: a"
    assert langchain.numbered_documents(shelf, best_last=True) == reverse
    assert llama_index.numbered_nodes(found, best_last=True) == reverse
    assert langchain.numbered_documents([]) == llama_index.numbered_nodes([])
    assert langchain.numbered_documents([]) == "(No passage was found.)"
    cited = langchain.cite_documents(shelf, "As [2] says.")
    assert cited.citations[0].spans[0].source == "docs/a.md\n2. x"
    assert cited.citations[0].spans[0].title == "docs, a.md 2. x"


def test_pieces_are_numbered_under_the_source_they_were_cut_from():
    text = "The N8 leaves at half past one. " + "Nothing else happens at night. " * 20
    whole = Document(page_content=text, metadata={"source": "buses.md"})
    compressor = langchain.SubDocumentCompressor(max_tokens=30)
    found = compressor.compress_documents([whole], "When does the N8 leave?")
    assert str(found).startswith("1. buses: The N8 leaves at half past one.")
    assert langchain.numbered_documents(found) == str(found)
