"""Ask a LlamaIndex language model, as a port or as a stream."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any

from llama_index.core.llms import LLM, CustomLLM
from llama_index.core.prompts import PromptTemplate
from llama_index.core.types import TokenAsyncGen, TokenGen

from fitrag_integrations.flow import Port
from fitrag_integrations.llama_index._ports import aeach, each, has_own
from fitrag_integrations.ports import port_of

_WRITTEN = PromptTemplate("{text}")  # the whole prompt is the one value, so its braces stay
_END: Any = object()
_UNKNOWN = "unknown"  # what LlamaIndex calls a model without a name


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


@dataclass(frozen=True)
class LLMDrafter:
    """Let a LlamaIndex LLM write drafts, under the name of its model."""

    llm: LLM

    @property
    def name(self) -> str | None:
        """Give the model's name, which a fitted threshold is checked against; None if unknown."""
        name = self.llm.metadata.model_name
        return None if name == _UNKNOWN else name

    def generate(self, prompts: Sequence[str]) -> Sequence[Any]:
        """Continue each prompt; one that fails is answered with its exception."""
        call = generate_port(self.llm).call
        assert call is not None
        return call(prompts)

    async def agenerate(self, prompts: Sequence[str]) -> Sequence[Any]:
        """Continue each prompt without blocking the event loop."""
        acall = generate_port(self.llm).acall
        assert acall is not None
        return await acall(prompts)


def drafter_of(drafter: Any) -> Any:
    """Make a drafter of a LlamaIndex LLM; anything else is left as it is."""
    return LLMDrafter(drafter) if isinstance(drafter, LLM) else drafter


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
