"""Call a language model or a reader for the answer to a question, one passage at a time.

Accepts any LangChain or LlamaIndex model (recognized by their methods, without an import), an
OpenAI-compatible server, a local model, or a callable from prompts to texts; `AskReader` runs an
extractive reader. Both answer the prompts that `AnswerCache` does not know. Outcomes arrive one by
one: an answer, or why there is none. Errors, timeouts, empty answers and refusals are retried.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias

from fitrag_integrations.core.checks import can, check_number, check_text, check_whole, trait
from fitrag_integrations.core.http import finish
from fitrag_integrations.core.progress import chunks
from fitrag_integrations.errors import InputError, PortError, refuse_if
from fitrag_integrations.models.remote.generator import RemoteGenerator
from fitrag_integrations.ports import AnswerLike, Pair, Reader
from fitrag_integrations.text.replies import strip_thoughts
from fitrag_integrations.training.collecting import Failed, Outcome, Told
from fitrag_integrations.training.journal import Heard, May, added
from fitrag_integrations.types import Passage
from fitrag_integrations.values.prompt import LimitedPrompt, PromptTemplate, with_shots

__all__ = ["AskLLM", "AskReader", "Asker", "PROMPT", "REFUSAL"]

REMEMBERED = 100_000  # pairs that a reader has read
PROMPT = (
    "Refer to the passage below and answer the question in a few words.\n\n"
    "Passage: {passage}\n\nQuestion: {question}\nAnswer:"
)
CLOSED_BOOK = "Answer the question in a few words.\n\nQuestion: {question}\nAnswer:"
"""What is asked about a passage without a text: the model has to answer by itself."""
REFUSAL = re.compile(
    r"^\W*(?:(?:i(?:'m| am) (?:so |very |really )?|we(?:'re| are) )?sorry\W+|i apologi[sz]e\W+|"
    r"unfortunately\W+)?(?:but\W+)?(?:as an? (?:ai|language model)\b[^.]*?\W+)?"
    r"i(?:'m| am| can(?:'t| ?not)| won't| will not| must)(?: (?:not able|unable|not allowed|not))?"
    r"(?: to)? (?:help you\b|help with\b|assist|comply|fulfil|discuss|engage|participate|decline)",
    re.IGNORECASE,
)
"""How refusals begin. "The passage does not say" is none: it is an answer, and a wrong one."""
_FIELD = re.compile(r"\{(question|passage)\}")


@dataclass(frozen=True)
class AskReader:
    """Answers from an extractive reader, which costs nothing and never fails.

    Of a passage put together of `parts`, which its metadata hold, each is read, as `fitrag read`
    does; the answer is the one it trusts most. What was read is not read again.
    """

    reader: Reader
    name: str = "embedded"
    _read: dict[Pair, AnswerLike] = field(default_factory=dict, init=False, repr=False)

    def prompt(self, question: str, passage: Passage) -> str:
        """Return the question and the passage as text.

        Args:
            question: Question.
            passage: Passage.
        """
        return f"{question}\n{_passage_text(passage)}"

    def send(self, asked: Mapping[str, Pair], may: May, heard: Heard) -> None:
        """Answer every prompt; without a part to read the answer is empty.

        Args:
            asked: Question and passage by prompt.
            may: Not called: reading is free.
            heard: Called with each prompt and its answer.
        """
        if len(self._read) > REMEMBERED:
            self._read.clear()
        own = {
            prompt: [(question, part) for part in passage.metadata.get("parts", (passage,))]
            for prompt, (question, passage) in asked.items()
        }
        pairs = dict.fromkeys(pair for each in own.values() for pair in each)
        new = [pair for pair in pairs if pair not in self._read]
        self._read.update(zip(new, self.reader.read(new) if new else (), strict=True))
        for prompt, each in own.items():
            best = max((self._read[pair] for pair in each), key=lambda one: one.score, default=None)
            heard(prompt, Told(best.text, score=float(best.score)) if best else Told("", score=0.0))


class AskLLM:
    """Answers from a language model.

    Args:
        llm: LangChain chat model or LLM (`ainvoke`), LlamaIndex LLM (`acomplete`), object with
            `generate`, or callable from prompts to texts.
        name: Name of the model; its own by default.
        prompt: Prompt with the fields {question} and {passage}.
        concurrency: Maximum number of prompts at once; an object with `generate` or a callable gets
            so many in a call.
        retries: Maximum number of retries of a prompt. A model with `is_greedy`, such as a local
            one, is called once, and its empty reply is an empty answer.
        timeout: Seconds for each call of a LangChain or LlamaIndex model.
        wait: Maximum seconds before the second try; doubled before each further one.
        refusal: Regular expression of refusals.

    Raises:
        InputError: For a prompt without its fields, or an object that is not a language model.

    Example:
        >>> AskLLM(lambda prompts: ["Ulm"] * len(prompts), name="mine").name
        'mine'
    """

    def __init__(
        self,
        llm: object,
        *,
        name: str | None = None,
        prompt: str = PROMPT,
        concurrency: int = 8,
        retries: int = 4,
        timeout: float = 60.0,
        wait: float = 0.5,
        refusal: str | re.Pattern[str] = REFUSAL,
    ) -> None:
        self.template = check_text("prompt", prompt)
        refuse_if(
            not {"question", "passage"} <= set(_FIELD.findall(prompt)),
            "prompt",
            prompt,
            "a text with {question} and {passage}",
        )
        check_whole("concurrency", concurrency, low=1)
        self._is_greedy = trait(llm, "is_greedy", bool) or False
        self._tries = 1 if self._is_greedy else 1 + check_whole("retries", retries, low=0)
        self._wait = check_number("wait", wait, low=0)
        self._refusal = re.compile(refusal) if isinstance(refusal, str) else refusal
        self.llm, self._shots = llm, trait(llm, "shots", tuple) or ()
        self._call, self.is_batched = caller(llm, check_number("timeout", timeout, low=0.001))
        self._lot, self._at_once = (concurrency, 1) if self.is_batched else (1, concurrency)
        names = (trait(llm, one, str) for one in ("name", "model_name", "model", "__name__"))
        self.name = name or next(filter(None, names), type(llm).__name__)

    def prompt(self, question: str, passage: Passage) -> str:
        """Fill the prompt, after the model's examples; inserted text is never read as a field.

        Args:
            question: Question.
            passage: Passage; a blank one is left out of the prompt.
        """
        template = self.template if passage.title or passage.text else CLOSED_BOOK
        fields = {"question": question, "passage": _passage_text(passage)}
        filled = _FIELD.sub(lambda match: fields[match.group(1)], template)
        braced = re.sub(r"[{}]", lambda brace: brace[0] * 2, template)
        form = braced.replace("{{passage}}", "{passages}").replace("{{question}}", "{question}")
        asked = LimitedPrompt(filled, one_line=True, template=PromptTemplate("label", form))
        return with_shots(asked, self._shots, lambda passages: _passage_text(passages[0]))

    def send(self, asked: Mapping[str, object], may: May, heard: Heard) -> None:
        """Answer all prompts; also works inside a running event loop.

        Args:
            asked: Prompts; what they are about is not read.
            may: Whether a prompt may be sent.
            heard: Called with each prompt and its answer or failure.
        """

        async def run() -> None:
            limit = asyncio.Semaphore(self._at_once)

            async def one(lot: Sequence[str]) -> None:
                async with limit:
                    await self._persist([prompt for prompt in lot if may(prompt)], heard)

            async with asyncio.TaskGroup() as group:
                for lot in chunks(asked, self._lot):
                    group.create_task(one(lot))

        finish(run)

    async def _persist(self, prompts: list[str], heard: Heard) -> None:
        """Request answers, and retry failures after random, growing waits."""
        paid = dict.fromkeys(prompts, (0, 0))
        for tried in range(1, self._tries + 1):
            answers = await self._answers(prompts) if prompts else ()
            open_, prompts = prompts, []
            for prompt, answer in zip(open_, answers, strict=True):
                outcome, is_final = self._outcome(answer)
                paid[prompt] = added(paid[prompt], outcome.tokens)
                if is_final or tried == self._tries:
                    heard(prompt, replace(outcome, tokens=paid[prompt]))
                else:
                    prompts.append(prompt)
            if not prompts:
                return
            await asyncio.sleep(random.uniform(0, min(30.0, self._wait * 2 ** (tried - 1))))

    async def _answers(self, prompts: Sequence[str]) -> Sequence[Answer]:
        try:
            answers = list(await self._call(prompts))
        except Exception as error:  # noqa: BLE001 - reported with the pair
            return [error] * len(prompts)
        if len(answers) != len(prompts):
            return [
                PortError(f"{self.name} got {len(prompts)} prompts but gave {len(answers)} answers")
            ] * len(prompts)
        return answers

    def _outcome(self, answer: Answer) -> tuple[Outcome, bool]:
        """Return an answer or a failure, and whether that is the last word."""
        if isinstance(answer, BaseException):
            is_late = isinstance(answer, TimeoutError) or "timeout" in f"{answer!r}".lower()
            message = f"{type(answer).__name__}: {answer}"[:SHOWN]
            final = isinstance(answer, PortError | InputError)  # was tried again, or is ours
            return Failed("timeout" if is_late else "error", message), final
        if isinstance(answer, Failed):
            return answer, False
        reply = answer if isinstance(answer, Told) else Told(str(answer))
        text = strip_thoughts(reply.text).strip()
        if not text and not self._is_greedy:
            return Failed("empty", "the model returned nothing", reply.tokens), False
        if self._refusal.search(text.replace("\u2019", "'")):
            return Failed("refusal", " ".join(text.split())[:SHOWN], reply.tokens), False
        return Told(text, reply.tokens), True


Asker: TypeAlias = AskReader | AskLLM
"""Source of answers from passages."""


def _passage_text(passage: Passage) -> str:
    return f"{passage.title}\n{passage.text}" if passage.title else passage.text


Answer = Told | Failed | str | BaseException
Call = Callable[[Sequence[str]], Awaitable[Sequence[Answer]]]
SHOWN = 200


class RemoteAnswers(RemoteGenerator):
    """Client of an OpenAI-compatible server that also reads token counts and refusals."""

    async def aanswers(self, prompts: Sequence[str]) -> list[Answer]:
        """Answer each prompt; a failed prompt gets its error instead of an answer."""
        tokens, stop = self.max_new_tokens, self._stop
        bodies = [self._body(text, tokens=tokens, logprobs=False, stop=stop) for text in prompts]
        return list(await self._ask(bodies, _read_reply))


def _read_reply(reply: Any) -> Answer:
    choice = (reply.get("choices") or [{}])[0]
    message, usage = choice.get("message") or {}, reply.get("usage") or {}
    counts = usage.get("prompt_tokens"), usage.get("completion_tokens")
    text = message.get("content") or choice.get("text") or ""
    return _reply(text, counts, message.get("refusal"), choice.get("finish_reason"))


def caller(llm: object, timeout: float) -> tuple[Call, bool]:
    """Return a model's call, and whether it takes many prompts at once.

    Args:
        llm: Language model.
        timeout: Seconds for each prompt of a LangChain or LlamaIndex model; other models have their
            own timeouts.

    Raises:
        InputError: For an object that is not a language model.
    """
    if isinstance(llm, RemoteAnswers):
        return llm.aanswers, False
    for verb in ("ainvoke", "acomplete"):
        if can(llm, verb):
            return partial(_one_by_one, getattr(llm, verb), timeout), False
    call: Any = getattr(llm, "generate", llm)
    refuse_if(
        isinstance(llm, type) or not callable(call),
        "llm",
        llm,
        "a LangChain or LlamaIndex model, an object with generate, or a callable",
    )
    return partial(asyncio.to_thread, call), True


async def _one_by_one(
    ask: Callable[[str], Awaitable[Any]], timeout: float, prompts: Sequence[str]
) -> list[Answer]:
    return [_read_text(await asyncio.wait_for(ask(prompt), timeout)) for prompt in prompts]


def _read_text(reply: Any) -> Answer:
    """Read the reply of a framework's model, which is a text if it is no chat model's."""
    if isinstance(reply, str):
        return reply
    usage = _said(reply, "usage_metadata")
    refusal = _said(reply, "additional_kwargs").get("refusal")
    reason = _said(reply, "response_metadata").get("finish_reason")
    counts = usage.get("input_tokens"), usage.get("output_tokens")
    return _reply(str(reply.text or ""), counts, refusal, reason)


def _reply(text: str, counts: tuple[object, object], refusal: object, reason: object) -> Answer:
    """Return what was written, or the refusal in its place, with the tokens that were reported."""
    read, written = (count if isinstance(count, int) and count > 0 else 0 for count in counts)
    if refusal or reason == "content_filter":
        message = " ".join(str(refusal or "withheld by the content filter").split())
        return Failed("refusal", message[:SHOWN], (read, written))
    return Told(text, (read, written))


def _said(reply: object, name: str) -> Mapping[str, object]:
    """Return what a reply says about itself under a name; not every model says it."""
    said = getattr(reply, name, None)
    return said if isinstance(said, Mapping) else {}
