"""LangChain objects over the shared fakes: documents, a base, an agent's model, a handler."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from fakes import PASSAGES, OverlapRetriever
from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    BaseCallbackHandler,
    CallbackManagerForRetrieverRun,
)
from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.retrievers import BaseRetriever
from pydantic import PrivateAttr

from fitrag_integrations.types import Passage


def document_of(passage: Passage) -> Document:
    metadata = {"title": passage.title, "source": passage.source, **passage.metadata}
    return Document(page_content=passage.text, id=passage.id, metadata=metadata)


def documents() -> list[Document]:
    return [document_of(passage) for passage in PASSAGES]


class OverlapBase(BaseRetriever):
    """Find documents by shared words; ``batches`` counts the questions of each call."""

    passages: tuple[Passage, ...] = PASSAGES
    n: int = 6
    seconds: float = 0.0
    bad: str | None = None
    _batches: list[int] = PrivateAttr(default_factory=list)

    @property
    def batches(self) -> list[int]:
        return self._batches

    def _found(self, query: str) -> list[Document]:
        if query == self.bad:
            raise ConnectionError("the index is away")
        found = OverlapRetriever(self.passages, self.n).best(query)
        return [document_of(passage) for passage in found]

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        time.sleep(self.seconds)
        return self._found(query)

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun
    ) -> list[Document]:
        await asyncio.sleep(self.seconds)
        return self._found(query)

    def batch(self, inputs: Any, config: Any = None, **kwargs: Any) -> Any:
        self._batches.append(len(inputs))
        return super().batch(inputs, config, **kwargs)

    async def abatch(self, inputs: Any, config: Any = None, **kwargs: Any) -> Any:
        self._batches.append(len(inputs))
        return await super().abatch(inputs, config, **kwargs)


async def called(runnable: Any, how: str, given: Any, config: Any = None) -> Any:
    """Ask one question in one of six ways; both kinds of batch ask it twice."""
    found = getattr(runnable, how)([given, given] if "batch" in how else given, config)
    if how == "astream":
        return [piece async for piece in found]
    return list(found) if how == "stream" else await found if how.startswith("a") else found


class ToolChat(BaseChatModel):
    """Call the tool ``calls`` first, if it may (or with ``stubborn``, anyway), then answer."""

    calls: str = "notes"
    stubborn: bool = False
    _offered: list[list[str]] = PrivateAttr(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "tool-chat"

    @property
    def offered(self) -> list[list[str]]:
        return self._offered

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        names = [each["name"] if isinstance(each, dict) else each.name for each in tools]
        return self.bind(names=names, **kwargs)

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any):
        names = kwargs.get("names", [])
        self._offered.append(names)
        last = messages[-1]
        message = AIMessage(f"answered after {last.text!r}")
        if isinstance(last, HumanMessage) and (self.calls in names or self.stubborn):
            args = {} if self.calls == "clock" else {"query": last.text}
            call = {"name": self.calls, "args": args, "id": str(len(messages))}
            message = AIMessage("", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=message)])


class Recorder(BaseCallbackHandler):
    """Keep what each run was called, its parent, its tags and how it ended."""

    def __init__(self) -> None:
        self.runs: dict[Any, dict[str, Any]] = {}

    def _start(self, run_id: Any, parent_run_id: Any, **kwargs: Any) -> None:
        self.runs[run_id] = {"parent": parent_run_id, "end": None, **kwargs}

    def on_retriever_start(self, serialized, query, *, run_id, parent_run_id=None, **kwargs):
        self._start(run_id, parent_run_id, input=query, kind="retriever", **kwargs)

    def on_chain_start(self, serialized, inputs, *, run_id, parent_run_id=None, **kwargs):
        self._start(run_id, parent_run_id, input=inputs, kind="chain", **kwargs)

    def on_chat_model_start(self, serialized, messages, *, run_id, parent_run_id=None, **kwargs):
        kwargs["name"] = serialized["name"]
        self._start(run_id, parent_run_id, input=messages, **kwargs)

    def on_retriever_end(self, documents, *, run_id, **kwargs):
        self.runs[run_id]["end"] = documents

    def on_chain_end(self, outputs, *, run_id, **kwargs):
        self.runs[run_id]["end"] = outputs

    def on_retriever_error(self, error, *, run_id, **kwargs):
        self.runs[run_id]["end"] = error

    def on_chain_error(self, error, *, run_id, **kwargs):
        self.runs[run_id]["end"] = error

    def named(self, name: str) -> list[dict[str, Any]]:
        return [run for run in self.runs.values() if run["name"] == name]

    def parent_of(self, run: dict[str, Any]) -> str | None:
        return None if run["parent"] is None else self.runs[run["parent"]]["name"]
