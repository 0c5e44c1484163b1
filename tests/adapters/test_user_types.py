"""A user's project in both frameworks under strict checkers: wrong lines are caught, no others."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = """
from collections.abc import Callable, Sequence

from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.retrievers import BaseRetriever as Base
from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.llms import MockLLM
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore

from fitrag_integrations import compress, rerank
from fitrag_integrations import langchain as lc
from fitrag_integrations import llama_index as li
from fitrag_integrations.methods import AskGate, FitRag
from fitrag_integrations.types import Passage


def grade(pairs: Sequence[tuple[str, Passage]]) -> list[float]:
    return [1.0 for _ in pairs]


def find(question: str) -> list[Document]:
    return [Document(page_content=question)]


async def afind(question: str) -> list[Document]:
    return [Document(page_content=question)]


async def chains(base: Base) -> None:
    retriever = lc.FitRagRetriever(base=find, max_tokens=80, top_n=3, count_tokens=len)
    found = retriever.invoke("Who?")
    print(found.explain(), found.context.notes, found[0].page_content)
    print((await retriever.ainvoke("Who?")).context.decision)
    print([each.context for each in retriever.batch(["Who?"])])
    lc.FitRagRetriever(base=afind, gate=AskGate(FakeListChatModel(responses=["Yes"])))
    lc.CorrectiveRetriever(base=base, search=find, thresholds="popqa")
    lc.ITRGRetriever(base=find, k=None, rounds=2, llm=lambda prompt: "text")
    lc.SlimPLMRetriever(base=find, proxy=FakeListChatModel(responses=[""]))
    lc.CompressingRetriever(base=find, compressors=[lc.BiLabelReranker(top_n=10)])
    short: list[Document] = lc.SubDocumentCompressor(max_tokens=800).compress_documents([], "q")
    lc.KnowledgeRouter(known=lambda question: "a", unknown=find).stream("Who?")
    lc.CorrectiveRouter(correct=find, incorrect=find, base=find).as_tool(name="find")
    print(lc.RetrievalGate(threshold=0.5).invoke("Who?")["retrieve"], short)
    print(lc.RetrievalJudge().invoke({"question": "Who?", "documents": []})["action"])
    lc.MethodRunnable(method=FitRag(), retriever=find, llm=lambda prompt: "x").as_tool()


def engines(base: BaseRetriever, engine: BaseQueryEngine, count: Callable[[str], int]) -> None:
    retriever = li.FitRagRetriever(base, max_tokens=80, ids="source", count_tokens=count)
    nodes: list[NodeWithScore] = retriever.retrieve("Who?")
    retriever.max_tokens = 40
    print(retriever.explain(), retriever.last_run, (retriever.top_n or 0) + 1)
    reranker = li.BiLabelReranker(top_n=10)
    compressor = li.SubDocumentCompressor(max_tokens=800, max_share=0.5)
    print(reranker.top_n, compressor.postprocess_nodes(nodes, query_str="Who?"))
    li.KnowledgeRefiner(top_n=3)
    li.KnowledgeRefiner(evaluator=grade)
    li.ITRGRetriever(base, llm=MockLLM(), rounds=2)
    li.SlimPLMRetriever(base, llm=MockLLM(), max_queries=2)
    li.CorrectiveRetriever(base, search=find, llm=MockLLM(), top_n=3)
    li.KnowledgeRouterQueryEngine(retrieve=engine, llm=MockLLM(), threshold=0.5)
    li.CorrectiveRouterQueryEngine(base, correct=engine, incorrect=engine, thresholds="popqa")
    li.KnowledgeSelector(threshold=0.5, drafter=MockLLM()).as_tool("gate")
    li.MethodQueryEngine(FitRag(), base, llm=MockLLM()).query("Who?")


def functions() -> None:
    kept = compress("Who?", ["A text."], max_tokens=20, window=2, top_n=None)
    print(kept.explain(), rerank("Who?", ["A text."], top_n=1, scorer=lambda pairs: [])[0].score)


def wrong(base: Base, other: BaseRetriever, engine: BaseQueryEngine) -> None:
    compress("Who?", ["A text."], max_token=10)  # wrong
    compress("Who?", ["A text."], window="two")  # wrong
    rerank("Who?", ["A text."], top=1)  # wrong
    lc.FitRagRetriever(base=base, max_token=80)  # wrong
    lc.FitRagRetriever(base=base, max_tokens="80")  # wrong
    lc.FitRagRetriever()  # wrong
    lc.FitRagRetriever(base=3)  # wrong
    lc.BiLabelReranker(top_n="3")  # wrong
    lc.SubDocumentCompressor(max_tokes=3)  # wrong
    lc.KnowledgeRouter(known=find)  # wrong
    lc.CorrectiveRetriever(base=base, on_web_error="ignore")  # wrong
    lc.FitRagRetriever(base=base).invoke("Who?").contexts  # wrong
    li.FitRagRetriever(other, max_token=80)  # wrong
    li.FitRagRetriever(other, max_tokens="80")  # wrong
    li.FitRagRetriever(other).max_tokens = "80"  # wrong
    li.FitRagRetriever(3)  # wrong
    li.BiLabelReranker(top_n="10")  # wrong
    li.SubDocumentCompressor(max_tokes=8)  # wrong
    li.KnowledgeRefiner(top_m=8)  # wrong
    li.KnowledgeSelector(thresold=0.5)  # wrong
    li.KnowledgeRouterQueryEngine(retrieve=engine, on_error="ignore")  # wrong
    li.CorrectiveRouterQueryEngine(other, correct=engine)  # wrong
"""


# What the components inherit from is read, and of what lies behind that nothing: it took minutes.
SETTINGS = """
[mypy]
strict = true
follow_imports = skip
[mypy-fitrag_integrations.*,langchain_core.*,llama_index.*,llama_index_instrumentation.*]
follow_imports = silent
[mypy-workflows.*,pydantic.*,pydantic_core.*,typing_extensions.*,dataclasses_json.*]
follow_imports = silent
"""
WRONG = {at for at, line in enumerate(PROJECT.splitlines(), 1) if line.endswith("# wrong")}


def project(folder: Path) -> Path:
    path = folder / "project.py"
    path.write_text(PROJECT)
    return path


def test_mypy_catches_the_wrong_lines_of_a_project_and_no_others(tmp_path):
    pytest.importorskip("mypy")
    # A process of its own: inside this one, mypy leaves ten million objects for every collection.
    (tmp_path / "mypy.ini").write_text(SETTINGS)
    command = [sys.executable, "-m", "mypy", "--cache-dir", os.devnull, str(project(tmp_path))]
    where = os.environ | {"MYPYPATH": str(ROOT)}
    how = {"capture_output": True, "text": True, "cwd": tmp_path, "check": False}
    run = subprocess.run(command, env=where, **how)
    assert not run.stderr
    assert {int(line) for line in re.findall(r"project\.py:(\d+): error", run.stdout)} == WRONG, (
        run.stdout
    )


@pytest.mark.skipif(shutil.which("pyright") is None, reason="needs pyright")
def test_pyright_catches_the_same_lines(tmp_path):
    settings = {"typeCheckingMode": "strict", "extraPaths": [str(ROOT)], "include": ["project.py"]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    project(tmp_path)
    command = ["pyright", "-p", str(tmp_path), "--pythonpath", sys.executable, "--outputjson"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    found = json.loads(run.stdout)["generalDiagnostics"]
    assert {each["range"]["start"]["line"] + 1 for each in found} == WRONG, run.stdout
