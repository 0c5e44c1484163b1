"""The bundled models in a notebook, on a page that is run again and again, and in a web service."""

from __future__ import annotations

import importlib
import runpy
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from langchain_core.language_models import FakeListChatModel
from llama_index.core.llms import MockLLM

from fitrag_integrations import langchain as lc
from fitrag_integrations import llama_index as li
from fitrag_integrations.methods import AskGate, FitRag

TEXTS = [
    "The bridge over the Tirva was opened in 1932. It has nine <b>arches</b> of granite.",
    "The lighthouse of Corran Head was built by Ilse Marbach. A ferry leaves at noon.",
    "Bakers in Olm sell rye bread. The market is on Fridays.",
]
BRIDGE, LIGHTHOUSE = "When was the bridge over the Tirva opened?", "Who built the lighthouse?"

CELLS = (
    f"""
from fitrag_integrations import Passage, langchain as lc, llama_index as li
from fitrag_integrations.retrieval import FaissIndex
TEXTS, QUESTION = {TEXTS!r}, {BRIDGE!r}
passages = [Passage(str(at), text) for at, text in enumerate(TEXTS)]
index = FaissIndex.build(passages, show_progress=True)
""",
    "found = lc.FitRagRetriever(base=lc.FaissRetriever(index=index)).invoke(QUESTION)\nfound",
    "print(found.explain())",
    """
nodes = li.FitRagRetriever(li.FaissRetriever(index))
await nodes.aretrieve(QUESTION)  # in the kernel's own event loop
print(nodes.explain())
""",
    "lc.SubDocumentCompressor().explain(found, QUESTION)",
)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the host's own
async def test_a_notebook_shows_what_was_found_and_the_progress():
    nbformat, nbclient = map(pytest.importorskip, ("nbformat", "nbclient"))
    pytest.importorskip("ipykernel")
    notebook = nbformat.v4.new_notebook(cells=list(map(nbformat.v4.new_code_cell, CELLS)))
    client = nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3")
    await client.async_execute()
    progress, found, told, told_nodes, kept = (cell.outputs for cell in notebook.cells)
    assert "Encoding passages" in str(progress)
    for (shown,) in (found, kept):
        html = shown.data["text/html"]
        assert "1932" in html and "<b>arches" not in html
    for (printed,) in (told, told_nodes):
        assert printed.text.startswith(f"question: {BRIDGE}") and "kept" in printed.text


PAGE = """
import streamlit as st
from fitrag_integrations.langchain import FaissRetriever, FitRagRetriever
from parts import TEXTS, Halved


@st.cache_resource
def retriever():
    return FitRagRetriever(base=FaissRetriever.from_texts(TEXTS), scorer=Halved())


found = retriever().invoke(st.text_input("Question", "Who?"))
st.markdown(found[0].page_content)
st.markdown(found.explain())
"""
PARTS = f"""
from fitrag_integrations.models import BiLabelScorer
from fitrag_integrations.types import BiLabelScore

TEXTS = {TEXTS!r}


class Halved:
    def score(self, pairs):
        found = BiLabelScorer.embedded().score(pairs)
        return [score.combine() / 4 for score in found]
"""


def page(host, path):
    """Return what runs the page for a question, in a thread of the host's, and what it shows."""
    if host == "streamlit":
        app = pytest.importorskip("streamlit.testing.v1").AppTest.from_file(str(path))
        app.run(timeout=300)

        def rerun(question):
            app.text_input[0].set_value(question).run(timeout=300)
            assert not app.exception
            return [each.value for each in app.markdown]

        return rerun
    made = {}

    def cached(function):
        def get():
            if function.__name__ not in made:  # the function itself is another at each run
                made[function.__name__] = function()
            return made[function.__name__]

        return get

    def rerun(question):
        shown = []
        st = SimpleNamespace(cache_resource=cached, markdown=shown.append)
        st.text_input = lambda label, value: question
        sys.modules["streamlit"] = st
        with ThreadPoolExecutor(1) as thread:
            thread.submit(runpy.run_path, str(path)).result()
        return shown

    return rerun


@pytest.mark.parametrize("host", ["streamlit", "its way"])
def test_a_page_is_run_again_with_what_it_cached(host, tmp_path, monkeypatch):
    pytest.importorskip("torch", reason="the page's scorer is on a device of its choice")
    for name, text in (("page.py", PAGE), ("parts.py", PARTS)):
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    if host != "streamlit":
        monkeypatch.setitem(sys.modules, "streamlit", None)
    rerun = page(host, tmp_path / "page.py")
    assert "1932" in rerun(BRIDGE)[0]
    threads = threading.active_count()
    for _ in range(3):
        sys.modules.pop("parts", None)  # as after an edit: its classes are made anew
        text, told = rerun(LIGHTHOUSE)
        assert "Ilse Marbach" in text and told.startswith(f"question: {LIGHTHOUSE}")
    assert threading.active_count() <= threads


def test_a_web_service_streams_the_answer_alone():
    fastapi, testing = map(pytest.importorskip, ("fastapi", "fastapi.testclient"))
    responses = importlib.import_module("fastapi.responses")
    base = lc.FaissRetriever.from_texts(TEXTS)
    gate = AskGate(FakeListChatModel(responses=["A draft.", "Yes"]))
    llm = FakeListChatModel(responses=["In 1932."])
    router = lc.KnowledgeRouter(gate=gate, llm=llm, unknown=lambda question: "retrieved")
    method = lc.MethodRunnable(method=FitRag(), retriever=base, llm=llm)
    engine = li.MethodQueryEngine(
        FitRag(), li.FaissRetriever(base.index), llm=MockLLM(max_tokens=2), streaming=True
    )
    app = fastapi.FastAPI()

    @app.get("/answer")
    async def answer(part: str, question: str):
        if part == "engine":
            stream = (await engine.aquery(question)).response_gen
        else:
            stream = {"router": router, "method": method}[part].astream(question)
        return responses.StreamingResponse(stream, media_type="text/plain")

    with testing.TestClient(app) as client:
        for part, text in (("router", "In 1932."), ("method", "In 1932."), ("engine", "text text")):
            given = {"part": part, "question": BRIDGE}
            with client.stream("GET", "/answer", params=given) as response:
                assert "".join(response.iter_text()) == text
