"""Ask a LlamaIndex language model, as a port or as a stream."""

from __future__ import annotations

import asyncio
from contextvars import copy_context
from typing import Any

from llama_index.core.llms import LLM, CustomLLM
from llama_index.core.prompts import PromptTemplate
from llama_index.core.types import TokenAsyncGen, TokenGen

from fitrag_integrations.flow import Port
from fitrag_integrations.llama_index._ports import aeach, each, has_own
from fitrag_integrations.ports import port_of

_WRITTEN = PromptTemplate("{text}")  # the whole prompt is the one value, so its braces stay
_END: Any = object()


def generate_port(llm: Any) -> Port[str, str]:
    """Build the port of a LlamaIndex LLM, or of anything with ``generate(prompts)``."""
    if not isinstance(llm, LLM):
        return port_of("generate", llm, "generate", argument="llm")

    def one(prompt: str) -> str:
        return llm.predict(_WRITTEN, text=prompt)

    async def aone(prompt: str) -> str:
        if _blocks(llm):
            return await asyncio.to_thread(one, prompt)
        return await llm.apredict(_WRITTEN, text=prompt)

    return Port("generate", each(one), aeach(aone))


def stream(llm: LLM, prompt: str) -> TokenGen:
    """Continue a prompt token by token."""
    return llm.stream(_WRITTEN, text=prompt)


async def astream(llm: LLM, prompt: str) -> TokenAsyncGen:
    """Continue a prompt token by token without blocking the event loop."""
    if not _blocks(llm):
        return await llm.astream(_WRITTEN, text=prompt)
    return _pumped(llm, prompt)


async def _pumped(llm: LLM, prompt: str) -> TokenAsyncGen:
    """Draw a blocking stream in threads, all in one context: the framework resets its variables."""
    context = copy_context()
    tokens = await asyncio.to_thread(lambda: context.run(stream, llm, prompt))
    while (token := await asyncio.to_thread(lambda: context.run(next, tokens, _END))) is not _END:
        yield token


def _blocks(llm: LLM) -> bool:
    """Tell whether the async side of a language model is the framework's, which only calls sync."""
    name = "achat" if llm.metadata.is_chat_model else "acomplete"
    return isinstance(llm, CustomLLM) and not has_own(llm, name, CustomLLM)
