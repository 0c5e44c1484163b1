"""The calls of the models that can be asked: prompts in, and for each an answer or what failed.

Frameworks are told by what their models can do, and none is imported.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from fitrag_integrations.errors import InputError
from fitrag_integrations.models.remote.generator import RemoteGenerator
from fitrag_integrations.training.collecting import Failed, Told

Answer = Told | Failed | str | BaseException
Call = Callable[[Sequence[str]], Awaitable[Sequence[Answer]]]
SHOWN = 200


class RemoteAnswers(RemoteGenerator):
    """Ask an OpenAI-compatible server, and read besides the text its tokens and its refusals."""

    async def aanswers(self, prompts: Sequence[str]) -> list[Any]:
        """Answer each prompt; one that fails has its error in its place."""
        more = {"stop": self._stop} if self._stop else {}
        bodies = [
            self._body(text, tokens=self.max_new_tokens, told=False) | more for text in prompts
        ]
        return await self._ask(bodies, _read_reply)


def _read_reply(reply: Any) -> Told | Failed:
    choice = (reply.get("choices") or [{}])[0]
    message = choice.get("message") or {}
    usage = reply.get("usage") or {}
    tokens = (_count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens")))
    if message.get("refusal") or choice.get("finish_reason") == "content_filter":
        told = message.get("refusal") or "withheld by the service's content filter"
        return Failed("refusal", " ".join(str(told).split())[:SHOWN], tokens)
    return Told(message.get("content") or choice.get("text") or "", tokens)


def caller(llm: Any, timeout: float) -> tuple[Call, bool]:
    """Give the call of a model, and whether it takes many prompts at once.

    Each prompt of a LangChain or LlamaIndex model has `timeout` seconds; the others time their
    own calls.
    """
    if isinstance(llm, RemoteAnswers):
        return llm.aanswers, False
    if hasattr(llm, "ainvoke"):
        return _one_by_one(partial(_langchain, llm), timeout), False
    if hasattr(llm, "acomplete"):
        return _one_by_one(partial(_llama_index, llm), timeout), False
    call = getattr(llm, "generate", llm)
    if isinstance(llm, type) or not callable(call):
        allowed = "a LangChain or LlamaIndex model, an object with generate, or a callable"
        raise InputError.of("llm", given=llm, allowed=allowed)
    return partial(asyncio.to_thread, call), True


def _one_by_one(ask: Callable[[str], Awaitable[Answer]], timeout: float) -> Call:
    async def call(prompts: Sequence[str]) -> list[Answer]:
        return [await asyncio.wait_for(ask(prompt), timeout) for prompt in prompts]

    return call


async def _langchain(llm: Any, prompt: str) -> Answer:
    reply = await llm.ainvoke(prompt)
    if isinstance(reply, str):  # not a chat model
        return reply
    usage = getattr(reply, "usage_metadata", None) or {}
    tokens = (_count(usage.get("input_tokens")), _count(usage.get("output_tokens")))
    told = (getattr(reply, "additional_kwargs", None) or {}).get("refusal")
    reason = (getattr(reply, "response_metadata", None) or {}).get("finish_reason")
    if told or reason == "content_filter":
        return Failed("refusal", str(told or "withheld by the content filter")[:SHOWN], tokens)
    return Told(str(reply.text), tokens)


async def _llama_index(llm: Any, prompt: str) -> Answer:
    return str((await llm.acomplete(prompt)).text or "")


def _count(given: Any) -> int:
    return given if isinstance(given, int) and given > 0 else 0
