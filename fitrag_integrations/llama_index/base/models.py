"""Ask a LlamaIndex language model, for a text or a stream, and know its name."""

from __future__ import annotations

import asyncio
from contextvars import copy_context
from inspect import getattr_static
from typing import Any

from llama_index.core.llms import LLM, CustomLLM
from llama_index.core.prompts import PromptTemplate
from llama_index.core.types import TokenAsyncGen, TokenGen

from fitrag_integrations.core.checks import trait
from fitrag_integrations.methods.adapting import check_judged
from fitrag_integrations.methods.ik.decider import Decider
from fitrag_integrations.text.replies import astreamed, streamed

_WRITTEN = PromptTemplate("{text}")  # the whole prompt is the one value, so its braces stay
_END: Any = object()
_UNKNOWN = "unknown"  # what LlamaIndex calls a model without a name


def written(llm: LLM, prompt: str) -> str:
    """Continue a prompt."""
    return llm.predict(_WRITTEN, text=prompt)


async def awritten(llm: LLM, prompt: str) -> str:
    """Continue a prompt without blocking the event loop, where the model's own async side does."""
    return await llm.apredict(_WRITTEN, text=prompt)


def model_name(llm: Any) -> str | None:
    """Return the name of a language model, or None."""
    if isinstance(llm, LLM):
        name = llm.metadata.model_name
        return None if name == _UNKNOWN else name
    return trait(llm, "name", str)


def check_model(decider: Decider, llm: Any) -> None:
    """Refuse a decider whose threshold was fitted for another model than the one that answers."""
    if llm is not None:
        kind = type(llm).__name__ if isinstance(llm, LLM) else None
        check_judged(decider, model_name(llm), kind)


def stream(llm: LLM, prompt: str) -> TokenGen:
    """Continue a prompt token by token, without the model's thoughts."""
    return streamed(llm.stream(_WRITTEN, text=prompt))


async def astream(llm: LLM, prompt: str) -> TokenAsyncGen:
    """Continue a prompt token by token, as `stream` does, without blocking the event loop."""
    if not blocks(llm):
        return astreamed(await llm.astream(_WRITTEN, text=prompt))
    return _pumped(llm, prompt)


async def _pumped(llm: LLM, prompt: str) -> TokenAsyncGen:
    """Draw a blocking stream in threads, all in one context: the framework resets its variables."""
    context = copy_context()
    tokens = await asyncio.to_thread(lambda: context.run(stream, llm, prompt))
    while (token := await asyncio.to_thread(lambda: context.run(next, tokens, _END))) is not _END:
        yield token


def blocks(llm: LLM) -> bool:
    """Check whether the async side of a language model is the framework's, which only calls
    sync.
    """
    name = "achat" if llm.metadata.is_chat_model else "acomplete"
    # static, because the framework's decorators give another object at each look
    own = getattr_static(type(llm), name, None)
    return isinstance(llm, CustomLLM) and own is getattr_static(CustomLLM, name)
