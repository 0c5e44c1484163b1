"""Middleware that hides retrieval tools while the model knows the answer (IK, section 3)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NotRequired

from langchain_core.messages import BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool

from fitrag_integrations.core.checks import check_callable, check_text
from fitrag_integrations.core.extras import require_extra
from fitrag_integrations.core.generic import T
from fitrag_integrations.errors import refuse_if
from fitrag_integrations.langchain.routers import RetrievalGate
from fitrag_integrations.methods.compose.fitted import FromFitted

require_extra("langchain.agents", extra="agents", feature="RetrievalGateMiddleware")

from langchain.agents.middleware import AgentMiddleware, AgentState  # noqa: E402
from langchain.agents.middleware.types import OmitFromSchema  # noqa: E402

if TYPE_CHECKING:
    from langchain.agents.middleware.types import ModelRequest, ToolCallRequest

DECISION = "retrieval_decision"
"""The key of the decision in the agent's state."""
NOT_NEEDED = "Nothing was retrieved: you know the answer to this question. Give it from memory."


class RetrievalGateState(AgentState[Any]):
    """Agent state with the decision on the last question.

    The decision is a dict of ``retrieve``, ``p_known``, ``threshold`` and ``why``, with the
    ``question`` and ``message_id`` it applies to; None before the first question.
    """

    retrieval_decision: NotRequired[
        Annotated[dict[str, Any] | None, OmitFromSchema(input=True, output=False)]
    ]


class RetrievalGateMiddleware(FromFitted, AgentMiddleware[RetrievalGateState]):
    """Middleware that hides retrieval tools from the model while it knows the answer (IK).

    The gate is called once per message of the user; the decision is in the state as
    ``retrieval_decision``.

    Args:
        gate: Object with ``p_known(questions, drafts)``. Defaults to ``own_gate`` of ``llm``.
        tools: Names of the retrieval tools, or the tools.
        message: Answer to a call of a hidden tool; None lets the call through.
        question: Function from the messages to the question; None is the text of the user's last
            one.
        options: ``llm``, ``drafter``, ``threshold``, ``on_error`` and ``allow_other_model`` of
            ``RetrievalGate``.

    Raises:
        InputError: If an argument is of the wrong kind.

    Example:
        >>> gate = RetrievalGateMiddleware(tools=[search])
        >>> agent = create_agent(model, [search], middleware=[gate])
    """

    state_schema = RetrievalGateState

    def __init__(
        self,
        gate: Any = None,
        *,
        tools: str | BaseTool | Iterable[str | BaseTool],
        message: str | None = NOT_NEEDED,
        question: Callable[[Sequence[BaseMessage]], str] | None = None,
        **options: Any,
    ) -> None:
        """Raise ``InputError`` for a wrong argument."""
        super().__init__()
        check_callable("question", question)
        if message is not None:
            check_text("message", message, blank=False)
        self.retrieval_tools = _names(tools)
        self._message = message
        self._question = question or last_question
        self._gate = RetrievalGate(gate=gate, **options)

    def before_agent(self, state: object, runtime: object) -> dict[str, object] | None:
        """Decide on a new question; leave the state unchanged for one already decided.

        Args:
            state: State of the agent, with its messages.
            runtime: Not used.
        """
        asked, update = self._asked(state)
        return {DECISION: {**self._gate.invoke(asked["question"]), **asked}} if asked else update

    async def abefore_agent(self, state: object, runtime: object) -> dict[str, object] | None:
        """Async version of `before_agent`.

        Args:
            state: State of the agent, with its messages.
            runtime: Not used.
        """
        asked, update = self._asked(state)
        if not asked:
            return update
        return {DECISION: {**await self._gate.ainvoke(asked["question"]), **asked}}

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], T]
    ) -> T:
        """Call the model, without the retrieval tools if the question is known.

        Args:
            request: The call of the model.
            handler: Runs a call.
        """
        return handler(self._without_tools(request))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[T]]
    ) -> T:
        """Async version of `wrap_model_call`.

        Args:
            request: The call of the model.
            handler: Runs a call.
        """
        return await handler(self._without_tools(request))

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], T]
    ) -> T | ToolMessage:
        """Answer a call of a hidden tool with ``message``; run any other call.

        Args:
            request: The call of the tool.
            handler: Runs a call.
        """
        answer = self._answer(request)
        return handler(request) if answer is None else answer

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[T]]
    ) -> T | ToolMessage:
        """Async version of `wrap_tool_call`.

        Args:
            request: The call of the tool.
            handler: Runs a call.
        """
        answer = self._answer(request)
        return await handler(request) if answer is None else answer

    def _asked(self, state: Any) -> tuple[dict[str, Any], dict[str, object] | None]:
        """Return a question that is new, else the update: None over what was decided before."""
        messages, before = state["messages"], state.get(DECISION)
        asker = next((m for m in reversed(messages) if isinstance(m, HumanMessage)), None)
        question = str(check_text("question", self._question(messages))) if asker else ""
        if asker is None or not question.strip():
            return {}, {DECISION: None} if before else None
        asked = {"question": question, "message_id": asker.id}
        return ({}, None) if before and asked.items() <= before.items() else (asked, None)

    def _without_tools(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        if not _known(request.state):
            return request
        kept = [tool for tool in request.tools if _name(tool) not in self.retrieval_tools]
        choice = request.tool_choice
        if not kept or _name(choice) in self.retrieval_tools:
            choice = None  # nobody can be made to call what is not there
        return request.override(tools=kept, tool_choice=choice)

    def _answer(self, request: ToolCallRequest) -> ToolMessage | None:
        call = request.tool_call
        is_hidden = call["name"] in self.retrieval_tools and _known(request.state)
        if self._message is None or not is_hidden:
            return None
        return ToolMessage(self._message, name=call["name"], tool_call_id=call["id"])


def last_question(messages: Sequence[BaseMessage]) -> str:
    """Return the text of the user's last message, or a blank text."""
    return str(next((m.text for m in reversed(messages) if isinstance(m, HumanMessage)), ""))


def _known(state: Any) -> bool:
    decision = state.get(DECISION)
    return decision is not None and not decision["retrieve"]


def _names(tools: Any) -> frozenset[str]:
    given = [tools] if isinstance(tools, str | BaseTool) else tools
    allowed = "the names of retrieval tools, or the tools"
    refuse_if(not isinstance(given, Iterable), "tools", tools, allowed)
    names = frozenset(map(_name, given))
    refuse_if(not names or "" in names, "tools", tools, allowed)
    return names


def _name(tool: object) -> str:
    """Return the name of a tool, or a name itself; a provider's own is one of two dicts."""
    if isinstance(tool, str):
        return tool
    if isinstance(tool, dict):
        return str(tool.get("name") or tool.get("function", {}).get("name") or "")
    return str(getattr(tool, "name", ""))
