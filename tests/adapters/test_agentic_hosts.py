"""The bundled models in graphs with interrupts and fan-out, agents, planners and workflows."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

import pytest
from fakes import FixedGate
from langchain.agents import create_agent
from langchain.agents.middleware import TodoListMiddleware
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import create_retriever_tool
from langchain_fakes import ToolChat
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Send, interrupt
from llama_index.core.agent.workflow import AgentWorkflow, ReActAgent
from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata
from llama_index.core.llms.callbacks import llm_completion_callback
from llama_index.core.tools import RetrieverTool
from llama_index.core.workflow import Event, StartEvent, StopEvent, Workflow, step

from fitrag_integrations import langchain as lc
from fitrag_integrations import llama_index as li
from fitrag_integrations.methods import FitRag

pytest.importorskip("torch", reason="the indexes and the reader of these hosts need it")
from fitrag_integrations.models import ExtractiveReader  # noqa: E402

TEXTS = [
    "The bridge over the Tirva was opened in 1932. It has nine arches of granite.",
    "The lighthouse of Corran Head was built by Ilse Marbach. A ferry leaves at noon.",
    "Bakers in Olm sell rye bread. The market is on Fridays.",
]
BRIDGE, LIGHTHOUSE = "When was the bridge over the Tirva opened?", "Who built the lighthouse?"


@pytest.fixture(scope="module")
def retriever() -> lc.FitRagRetriever:
    return lc.FitRagRetriever(base=lc.FaissRetriever.from_texts(TEXTS, k=3), max_tokens=60)


def test_a_graph_fans_out_waits_for_a_person_and_goes_on(retriever):
    """Agentic retrieval: parts of a question in parallel, a judge, an interrupt, an answer."""

    class State(TypedDict):
        parts: list[str]
        documents: Annotated[list[Document], operator.add]
        action: str
        answer: str

    def search(state: dict[str, str]) -> dict[str, Any]:
        return {"documents": retriever.invoke(state["part"])}

    def judge(state: State) -> dict[str, Any]:
        given = {"question": state["parts"][0], "documents": state["documents"]}
        return {"action": lc.RetrievalJudge().invoke(given)["action"]}

    def answer(state: State) -> dict[str, Any]:
        approved = interrupt({"action": state["action"], "found": len(state["documents"])})
        texts = " ".join(document.page_content for document in state["documents"])
        return {"answer": texts if approved else ""}

    graph = StateGraph(State)
    for node in (search, judge, answer):
        graph.add_node(node.__name__, node)
    parts = lambda state: [Send("search", {"part": part}) for part in state["parts"]]  # noqa: E731
    graph.add_conditional_edges(START, parts, ["search"])
    for one, other in (("search", "judge"), ("judge", "answer"), ("answer", END)):
        graph.add_edge(one, other)
    whole, config = graph.compile(checkpointer=InMemorySaver()), {"configurable": {"thread_id": 1}}

    stopped = whole.invoke({"parts": [BRIDGE, LIGHTHOUSE]}, config)
    (waiting,) = stopped["__interrupt__"]
    assert waiting.value["action"] == "correct" and waiting.value["found"] >= 2
    answered = whole.invoke(Command(resume=True), config)["answer"]
    assert "1932" in answered and "Ilse Marbach" in answered


class Planner(ToolChat):
    """Plan two parts, hand both to the researcher at once, and answer with what came back."""

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any):
        results = [each.text for each in messages if isinstance(each, ToolMessage)]
        parts = BRIDGE, LIGHTHOUSE
        calls = [("task", {"description": part, "subagent_type": "finder"}) for part in parts]
        if not results:
            calls = [
                ("write_todos", {"todos": [{"content": p, "status": "pending"} for p in parts]})
            ]
        made = [
            {"name": name, "args": args, "id": f"{name}{n}"} for n, (name, args) in enumerate(calls)
        ]
        message = (
            AIMessage("", tool_calls=made) if len(results) < 3 else AIMessage(" ".join(results[1:]))
        )
        return ChatResult(generations=[ChatGeneration(message=message)])


@pytest.mark.parametrize("host", ["langchain", "deepagents"])
def test_a_planner_hands_parts_to_a_finder_with_a_gate(retriever, host):
    search = create_retriever_tool(retriever, "search", "Search the pages.")
    gate = lc.RetrievalGateMiddleware(FixedGate(0.1), tools=[search])
    if host == "deepagents":
        finder = {"name": "finder", "description": "Answers one question.", "tools": [search]}
        finder |= {"system_prompt": "Search.", "middleware": [gate]}
        finder["model"] = ToolChat(calls="search")
        create = pytest.importorskip("deepagents").create_deep_agent
        planner = create(Planner(), subagents=[finder], middleware=[TodoListMiddleware()])
    else:
        below = create_agent(ToolChat(calls="search"), [search], middleware=[gate])

        def task(description: str, subagent_type: str) -> str:
            """Have a subagent do a task."""
            return below.invoke({"messages": [HumanMessage(description)]})["messages"][-1].text

        planner = create_agent(Planner(), [task], middleware=[TodoListMiddleware()])
    found = planner.invoke({"messages": [HumanMessage("The bridge and the lighthouse?")]})
    assert "1932" in found["messages"][-1].text and "Ilse Marbach" in found["messages"][-1].text
    assert [todo["content"] for todo in found["todos"]] == [BRIDGE, LIGHTHOUSE]


@pytest.fixture(scope="module")
def nodes() -> li.FitRagRetriever:
    return li.FitRagRetriever(li.FaissRetriever.from_texts(TEXTS, similarity_top_k=3))


class Found(Event):
    nodes: list[Any]
    question: str


async def test_a_workflow_of_llama_index(nodes):
    engine = li.MethodQueryEngine(FitRag(), nodes, reader=ExtractiveReader.embedded())

    class Answering(Workflow):
        @step
        async def look_up(self, begun: StartEvent) -> Found:
            return Found(nodes=await nodes.aretrieve(begun.question), question=begun.question)

        @step
        async def answer(self, found: Found) -> StopEvent:
            response = await engine.aquery(found.question)
            return StopEvent((str(response), len(found.nodes)))

    answered, count = await Answering(timeout=120).run(question=LIGHTHOUSE)
    assert answered == "Ilse Marbach" and count >= 1


class Reasoning(CustomLLM):
    """Call the tool of a ReAct agent, then answer with its first line."""

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="reasoning")

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        _, seen, observed = prompt.rpartition("Observation: ")
        if seen and "1932" in observed:
            return CompletionResponse(text=f"Thought: done.\nAnswer: {observed.splitlines()[0]}")
        call = f'Thought: search.\nAction: find\nAction Input: {{"query": "{BRIDGE}"}}'
        return CompletionResponse(text=call)

    @llm_completion_callback()
    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        whole = self.complete(prompt)
        yield CompletionResponse(text=whole.text, delta=whole.text)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the host's own
async def test_an_agent_workflow_of_llama_index(nodes):
    tool = RetrieverTool.from_defaults(nodes, name="find", description="Find passages.")
    agent = ReActAgent(name="finder", description="Finds passages.", tools=[tool], llm=Reasoning())
    response = await AgentWorkflow(agents=[agent], root_agent="finder").run(user_msg=BRIDGE)
    assert "1932" in str(response)
