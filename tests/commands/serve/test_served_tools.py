"""`fitrag serve --mcp`: the tools, what they refuse, and the whole protocol where the SDK is."""

import asyncio
import inspect
import json
import os
import sys
from types import SimpleNamespace

import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

from fitrag_integrations import InputError, Passage
from fitrag_integrations.cli import app
from fitrag_integrations.commands.serve.door import Metrics, Settings
from fitrag_integrations.commands.serve.service import Service
from fitrag_integrations.commands.serve.tools import Tools

QUESTION = "Where does the Danube rise?"
TEXTS = [
    "The Rhine ends in the North Sea.",
    "Lunch is at noon. The Danube rises in Donaueschingen.",
]
PASSAGES = [
    Passage(str(at), text, metadata={"retrieval_score": 0.5}) for at, text in enumerate(TEXTS)
]


@pytest.fixture(scope="module")
def tools():
    service = Service(Settings(documents=50), Metrics())
    service.load()
    retriever = SimpleNamespace(retrieve=lambda queries: [PASSAGES for _ in queries])
    yield Tools(service, retriever)
    service.stop()


def test_the_tools_answer_as_the_service_does(tools):
    async def all_four():
        return (
            await tools.rerank(QUESTION, TEXTS, top_n=1),
            await tools.compress(QUESTION, TEXTS),
            await tools.grade(QUESTION, TEXTS),
            await tools.retrieve(QUESTION, k=1),
        )

    ranked, compressed, graded, found = asyncio.run(all_four())
    assert [(one["index"], one["text"]) for one in ranked] == [(1, TEXTS[1])]
    best = compressed["excerpts"][0]
    assert best["text"] == TEXTS[best["passage"]][best["start"] : best["end"]]
    assert graded["action"] == "correct" and graded["grades"][1] > graded["grades"][0]
    assert found[0]["text"] == TEXTS[0]
    json.dumps([ranked, compressed, graded, found])
    blank = asyncio.run(tools.rerank(QUESTION, ["", *TEXTS]))[-1]
    assert (blank["index"], blank["relevance"]) == (0, 0.0) and "blank" in blank["reason"]
    assert "no text" in asyncio.run(tools.compress(QUESTION, ["", *TEXTS]))["notes"][0]
    assert "blank" in asyncio.run(tools.grade(QUESTION, ["", *TEXTS]))["notes"][0]


@pytest.mark.parametrize(
    ("tool", "given", "error", "named"),
    [
        ("rerank", (QUESTION, []), InputError, "documents"),
        ("rerank", (QUESTION, ["a"] * 51), InputError, "at most 50|1 to 50"),
        ("rerank", (QUESTION, TEXTS, -1), ValidationError, "top_n"),
        ("compress", (QUESTION, TEXTS, 0), ValidationError, "max_tokens"),
        ("grade", ("", TEXTS), ValidationError, "question"),
        ("grade", (QUESTION, ["a" * 2_000_001]), ValidationError, "2000000"),
        ("retrieve", (QUESTION, 0), InputError, "k` must be"),
    ],
)
def test_a_tool_names_what_is_wrong(tools, tool, given, error, named):
    with pytest.raises(error, match=named):
        asyncio.run(getattr(tools, tool)(*given))


def test_a_budget_bounds_the_excerpts_as_that_of_the_command_line_does(tools, tmp_path):
    texts = ["Lunch is at noon. The Danube rises in Donaueschingen. It ends in the Black Sea."] * 3
    texts = [f"Guide {number}. {text}" for number, text in enumerate(texts)]
    rows, out = tmp_path / "rows.jsonl", tmp_path / "out.jsonl"
    rows.write_text(json.dumps({"question": QUESTION, "passages": [{"text": t} for t in texts]}))
    result = CliRunner().invoke(app, ["compress", str(rows), str(out), "--max-tokens", "20"])
    assert result.exit_code == 0, result.output
    expected = json.loads(out.read_text())
    got = asyncio.run(tools.compress(QUESTION, texts, max_tokens=20))
    assert got == {name: expected[name] for name in got}
    assert got["tokens_out"] <= 20 < asyncio.run(tools.compress(QUESTION, texts))["tokens_out"]


def test_retrieve_is_offered_over_an_index_only(tools):
    offered = [tool.__name__ for tool in tools.offered()]
    assert offered == ["retrieve", "rerank", "compress", "grade"]
    assert [tool.__name__ for tool in Tools(tools.service).offered()] == offered[1:]
    assert all(inspect.getdoc(tool) for tool in tools.offered())


def test_an_agent_calls_the_tools_over_stdio():
    pytest.importorskip("mcp")
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    words = ["-m", "fitrag_integrations.cli", "serve", "--mcp", "--payload", "4000"]
    env = dict(os.environ)

    async def talk(more, documents):
        started = StdioServerParameters(command=sys.executable, args=[*words, *more], env=env)
        async with stdio_client(started) as streams, ClientSession(*streams) as session:
            await session.initialize()
            names = [tool.name for tool in (await session.list_tools()).tools]
            calls = [
                session.call_tool("rerank", {"query": QUESTION, "documents": texts})
                for texts in documents
            ]
            answers = await asyncio.gather(*calls)
        assert names == ["rerank", "compress", "grade"]
        return [
            (getattr(one, "is_error", getattr(one, "isError", None)), one.content[0].text)
            for one in answers
        ]

    right, wrong, large = asyncio.run(talk([], documents=[TEXTS, [], ["x" * 4000]]))
    assert not right[0] and json.loads(right[1])["index"] == 1
    assert wrong[0] and "documents` must be" in wrong[1]
    assert large[0] and "at most 4000" in large[1]
    ((failed, late),) = asyncio.run(talk(["--deadline", "0.001"], documents=[TEXTS * 20]))
    assert failed and "not answered within 0.001 s" in late
    busy = asyncio.run(talk(["--concurrency", "1"], documents=[TEXTS * 20] * 3))
    assert sum(failed and "try again" in text for failed, text in busy) == 2
