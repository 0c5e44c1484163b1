"""The calls of the models that can be asked: prompts in, and for each an answer or what failed.

Frameworks are told by what their models can do, and none is imported.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, runtime_checkable

from fitrag_integrations.errors import InputError
from fitrag_integrations.models.remote.generator import RemoteGenerator
from fitrag_integrations.training.collecting import Failed, Told

Answer = Told | Failed | str | BaseException
Call = Callable[[Sequence[str]], Awaitable[Sequence[Answer]]]
SHOWN = 200


class Text(Protocol):
    """What models of the frameworks reply with."""

    @property
    def text(self) -> str | None: ...


@runtime_checkable
class LangChainModel(Protocol):
    """A chat model, or one that replies with a text."""

    async def ainvoke(self, prompt: str, /) -> Text | str: ...


@runtime_checkable
class LlamaIndexModel(Protocol):
    """A model that completes a prompt."""

    async def acomplete(self, prompt: str, /) -> Text: ...


class RemoteAnswers(RemoteGenerator):
    """Client of an OpenAI-compatible server that also reads token counts and refusals."""

    async def aanswers(self, prompts: Sequence[str]) -> list[Answer]:
        """Answer each prompt; one that fails has its error in its place."""
        more = {"stop": self._stop} if self._stop else {}
        bodies = [
            self._body(text, tokens=self.max_new_tokens, logprobs=False) | more for text in prompts
        ]
        return list(await self._ask(bodies, _read_reply))


def _read_reply(reply: Any) -> Told | Failed:
    choice = (reply.get("choices") or [{}])[0]
    message = choice.get("message") or {}
    usage = reply.get("usage") or {}
    tokens = (_count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens")))
    if message.get("refusal") or choice.get("finish_reason") == "content_filter":
        refusal = message.get("refusal") or "withheld by the service's content filter"
        return Failed("refusal", " ".join(str(refusal).split())[:SHOWN], tokens)
    return Told(message.get("content") or choice.get("text") or "", tokens)


def caller(llm: object, timeout: float) -> tuple[Call, bool]:
    """Return the call of a model, and whether it takes many prompts at once.

    Each prompt of a LangChain or LlamaIndex model has `timeout` seconds; the others time their
    own calls.
    """
    if isinstance(llm, RemoteAnswers):
        return llm.aanswers, False
    if isinstance(llm, LangChainModel):
        return _one_by_one(partial(_langchain, llm), timeout), False
    if isinstance(llm, LlamaIndexModel):
        return _one_by_one(partial(_llama_index, llm), timeout), False
    call = llm.generate if hasattr(llm, "generate") else llm
    if isinstance(llm, type) or not callable(call):
        allowed = "a LangChain or LlamaIndex model, an object with generate, or a callable"
        raise InputError.of("llm", given=llm, allowed=allowed)
    return partial(asyncio.to_thread, call), True


def _one_by_one(ask: Callable[[str], Awaitable[Answer]], timeout: float) -> Call:
    async def call(prompts: Sequence[str]) -> list[Answer]:
        return [await asyncio.wait_for(ask(prompt), timeout) for prompt in prompts]

    return call


async def _langchain(llm: LangChainModel, prompt: str) -> Answer:
    reply = await llm.ainvoke(prompt)
    if isinstance(reply, str):  # not a chat model
        return reply
    usage = _said(reply, "usage_metadata")
    tokens = (_count(usage.get("input_tokens")), _count(usage.get("output_tokens")))
    refusal = _said(reply, "additional_kwargs").get("refusal")
    reason = _said(reply, "response_metadata").get("finish_reason")
    if refusal or reason == "content_filter":
        return Failed("refusal", str(refusal or "withheld by the content filter")[:SHOWN], tokens)
    return Told(str(reply.text), tokens)


async def _llama_index(llm: LlamaIndexModel, prompt: str) -> Answer:
    return str((await llm.acomplete(prompt)).text or "")


def _said(reply: object, name: str) -> Mapping[str, object]:
    """Return what a reply says about itself under a name; not every model says it."""
    said = getattr(reply, name, None)
    return said if isinstance(said, Mapping) else {}


def _count(given: object) -> int:
    return given if isinstance(given, int) and given > 0 else 0
