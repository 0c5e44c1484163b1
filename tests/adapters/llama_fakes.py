"""LlamaIndex components over the shared stand-ins: real base classes, no model."""

from __future__ import annotations

import threading
from typing import Any

from fakes import OverlapRetriever
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata, MockLLM
from llama_index.core.llms.callbacks import llm_completion_callback
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, TextNode
from pydantic import PrivateAttr

from fitrag_integrations.types import Passage


def node(passage: Passage, score: float | None = 0.5, **fields: Any) -> NodeWithScore:
    """Make a node as a vector store would give it, which shows an embedder title and source."""
    metadata = {**passage.metadata, "title": passage.title, "source": passage.source}
    fields = {"excluded_embed_metadata_keys": list(passage.metadata), **fields}
    made = TextNode(id_=passage.id, text=passage.text, metadata=metadata, **fields)
    return NodeWithScore(node=made, score=score)


class NodeRetriever(BaseRetriever):
    """Find nodes by shared words, with an async side that does not wait; fail for ``bad``."""

    def __init__(self, found: OverlapRetriever | None = None, bad: str | None = None) -> None:
        self.found, self.bad = found or OverlapRetriever(), bad
        super().__init__()

    def _retrieve(self, query_bundle):
        if query_bundle.query_str == self.bad:
            raise ConnectionError("the index is away")
        self.found.batches.append(1)
        return [node(passage) for passage in self.found.best(query_bundle.query_str)]

    async def _aretrieve(self, query_bundle):
        return self._retrieve(query_bundle)


class EmptyRetriever(BaseRetriever):
    """Find nothing."""

    def _retrieve(self, query_bundle):
        return []


class MockChat(MockLLM):
    """A mock that says it chats; a ``MockLLM`` of the oldest version takes no argument for it."""

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(num_output=-1, is_chat_model=True)


class ScriptedLLM(CustomLLM):
    """Answer with the question's line of the prompt; keep every prompt, and who gave it."""

    _prompts: list[str] = PrivateAttr(default_factory=list)
    _threads: set[int] = PrivateAttr(default_factory=set)

    @property
    def prompts(self) -> list[str]:
        return self._prompts

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata()

    def _answer(self, prompt: str) -> str:
        self._prompts.append(prompt)
        self._threads.add(threading.get_ident())
        lines = [line for line in prompt.splitlines() if line.startswith("Question: ")]
        return f"Answer to {lines[-1]}" if lines else "An answer"

    @llm_completion_callback()
    def complete(self, prompt, formatted=False, **kwargs):
        return CompletionResponse(text=self._answer(prompt))

    @llm_completion_callback()
    def stream_complete(self, prompt, formatted=False, **kwargs):
        def tokens():
            text = ""
            for word in self._answer(prompt).split(" "):
                delta = word if not text else f" {word}"
                text += delta
                yield CompletionResponse(text=text, delta=delta)

        return tokens()


class Events(BaseEventHandler):
    """Keep the events of the whole library while it is on."""

    _seen: list[Any] = PrivateAttr(default_factory=list)

    @classmethod
    def class_name(cls) -> str:
        return "Events"

    def handle(self, event: Any, **kwargs: Any) -> None:
        self._seen.append(event)

    def of(self, kind: type) -> list[Any]:
        return [event for event in self._seen if isinstance(event, kind)]

    def __enter__(self):
        get_dispatcher().add_event_handler(self)
        return self

    def __exit__(self, *error: object) -> None:
        root = get_dispatcher()
        root.event_handlers = [handler for handler in root.event_handlers if handler is not self]
