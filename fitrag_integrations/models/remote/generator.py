"""Continue prompts, draft and say Yes or No through an OpenAI-compatible server."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Unpack

from fitrag_integrations.core.checks import check_many, check_whole
from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import InputError
from fitrag_integrations.models.remote.base import (
    Remote,
    RemoteOptions,
    checked_pairs,
    checked_texts,
    fill,
    read_item,
    with_fields,
)
from fitrag_integrations.models.remote.client import finish
from fitrag_integrations.models.remote.replies import (
    as_draft,
    echoed,
    read_text,
    read_tokens,
    read_written,
    read_yes,
)
from fitrag_integrations.types import Draft
from fitrag_integrations.values.prompt import USUAL_TOKENS, Asked, Written

PROMPT = "Question: {question}\nAnswer:"


class RemoteGenerator(Remote):
    """Continue prompts, draft answers (IK, section 3.2) and say Yes or No through a server.

    `base_url` ends in /v1, `model` is the served name. A reply is as long as its prompt asks for,
    256 tokens where it says nothing, and at most `max_new_tokens` where that is given; the
    attribute `cut` of one that was not written to its end tells how long it is. A draft has
    `draft_tokens`, where the gate that wants it names no other.

    A draft tells log-probabilities, margins and entropies where the service does; entropies are
    over the `top_logprobs` alternatives it shows. With `api` "chat" the question itself is the
    user's message, with "completions" it is put into `prompt`, which ends at one of `stop`.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        max_new_tokens: int | None = None,
        draft_tokens: int = 32,
        prompt: str = PROMPT,
        stop: Sequence[str] = ("\n",),
        **options: Unpack[RemoteOptions],
    ) -> None:
        super().__init__(base_url, model, **options)
        given = USUAL_TOKENS if max_new_tokens is None else max_new_tokens
        self.max_new_tokens = check_whole("max_new_tokens", given, low=1)
        self._most = max_new_tokens
        self.draft_tokens = check_whole("draft_tokens", draft_tokens, low=1)
        self._prompt = with_fields("prompt", prompt, "question")
        self._stop = list(check_many("stop", stop, str)) if self._api == "completions" else []

    def generate(self, prompts: Sequence[str]) -> list[Written | Exception]:
        """Continue each prompt greedily; a prompt that fails has a `PortError` in its place."""
        return finish(lambda: self.agenerate(prompts))

    async def agenerate(self, prompts: Sequence[str]) -> list[Written | Exception]:
        """Do what `generate` does without blocking the event loop."""
        texts = checked_texts("prompts", prompts)
        ends = [
            {"stop": self._stop} if self._stop and Asked(text).one_line else {} for text in texts
        ]
        bodies = [
            self._body(text, tokens=self._room(text), told=False) | end
            for text, end in zip(texts, ends, strict=True)
        ]
        return await self._ask(bodies, read_written)

    def _room(self, prompt: str) -> int:
        """Say how many tokens a reply may have; a model that converses may think before it."""
        tokens = Asked(prompt).tokens or USUAL_TOKENS
        tokens = max(tokens, USUAL_TOKENS) if self._api == "chat" else tokens
        return min(tokens, self._most or tokens)

    def draft(self, questions: Sequence[str]) -> list[Any]:
        """Write the first `draft_tokens` tokens of an answer to each question."""
        return finish(lambda: self.adraft(questions))

    async def adraft(self, questions: Sequence[str]) -> list[Any]:
        """Do what `draft` does without blocking the event loop."""
        stop = {"stop": self._stop} if self._stop else {}
        bodies = [
            self._body(
                self._asking(question),
                tokens=Asked(question).tokens or self.draft_tokens,
                told=True,
            )
            | stop
            for question in checked_texts("questions", questions)
        ]
        return await self._ask(
            bodies, lambda reply: as_draft(read_text(reply).strip(), read_tokens(reply))
        )

    def rescore(self, questions: Sequence[str], drafts: Sequence[str]) -> list[Draft | Exception]:
        """Tell how sure the model is of each token of drafts already written.

        Needs a server that echoes a prompt with its log-probabilities, and "completions"; without
        it each item is a `PortError` that says so. A blank draft comes back empty.
        """
        return finish(lambda: self.arescore(questions, drafts))

    async def arescore(
        self, questions: Sequence[str], drafts: Sequence[str]
    ) -> list[Draft | Exception]:
        """Do what `rescore` does without blocking the event loop.

        Raises `InputError` where the api is not "completions".
        """
        if self._api != "completions":
            allowed = "'completions' for rescore, which has a prompt echoed"
            raise InputError.of("api", given=self._api, allowed=allowed)
        pairs = checked_pairs(questions, drafts)
        written = [(question, draft) for question, draft in pairs if draft.strip()]
        bodies = [
            self._body(f"{self._asking(question)} {draft.strip()}", tokens=1, told=True)
            | {"echo": True}
            for question, draft in written
        ]
        replies = iter(await self._ask(bodies, lambda reply: reply))
        return [
            read_item(next(replies), partial(_measured, draft.strip()))
            if draft.strip()
            else Draft("")
            for _, draft in pairs
        ]

    def p_yes(self, prompts: Sequence[str]) -> list[Any]:
        """Give the probability of Yes against No as the next word of each prompt, in [0, 1]."""
        return finish(lambda: self.ap_yes(prompts))

    async def ap_yes(self, prompts: Sequence[str]) -> list[Any]:
        """Do what `p_yes` does without blocking the event loop."""
        bodies = [
            self._body(text, tokens=1, told=True) for text in checked_texts("prompts", prompts)
        ]
        return await self._ask(bodies, read_yes)

    def _asking(self, question: str) -> str:
        return question if self._api == "chat" else fill(self._prompt, question)


def _measured(text: str, reply: Row) -> Draft:
    return as_draft(text, echoed(reply, text))
