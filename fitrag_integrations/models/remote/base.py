"""What a remote gate and a remote generator share: options, bodies, and checks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias, TypedDict, TypeVar

from fitrag_integrations.core.checks import check_many, check_text, check_whole
from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import InputError
from fitrag_integrations.models.remote.client import OpenAIClient

T = TypeVar("T")
Api: TypeAlias = Literal["completions", "chat"]
PATHS = {"completions": "/completions", "chat": "/chat/completions"}


class RemoteOptions(TypedDict, total=False):
    """Name what a remote gate and a remote generator take by keyword.

    `api` says which endpoint: "completions" gets prompts as they are, "chat" in the model's own
    chat template. `api_key` is a string or an object with `get_secret_value`; `top_logprobs` the
    alternatives asked for per token; `timeout` seconds; `max_retries` further tries of a request;
    `concurrency` requests open at once.
    """

    api: Api
    api_key: object
    top_logprobs: int
    timeout: float
    max_retries: int
    concurrency: int


class Remote:
    """What a remote gate and a remote generator share: the client, and how bodies are written."""

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        api: Api = "completions",
        api_key: object = None,
        top_logprobs: int = 20,
        timeout: float = 60.0,
        max_retries: int = 4,
        concurrency: int = 16,
    ) -> None:
        if api not in PATHS:
            raise InputError.of("api", given=api, allowed=" or ".join(map(repr, PATHS)))
        self.name = check_text("model", model, blank=False)
        self._api: Api = api
        self._top = check_whole("top_logprobs", top_logprobs, low=2)
        self._client = OpenAIClient(
            base_url,
            api_key=api_key,
            timeout=timeout,
            max_retries=max_retries,
            concurrency=concurrency,
        )

    async def _ask(self, bodies: Sequence[Row], read: Callable[[Row], T]) -> list[T | Exception]:
        """Send all bodies; an item that fails has its error in its place."""
        replies = await self._client.post_all(PATHS[self._api], bodies)
        return [read_item(reply, read) for reply in replies]

    def _body(self, prompt: str, *, tokens: int, told: bool) -> dict[str, object]:
        body: dict[str, object] = {"model": self.name, "max_tokens": tokens, "temperature": 0.0}
        if self._api == "chat":
            body["messages"] = [{"role": "user", "content": prompt}]
            return body | ({"logprobs": True, "top_logprobs": self._top} if told else {})
        return body | {"prompt": prompt} | ({"logprobs": self._top} if told else {})

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._client.base_url!r}, {self.name!r})"


def read_item(reply: Any, read: Callable[[Row], T]) -> T | Exception:
    if isinstance(reply, Exception):
        return reply
    if isinstance(reply, BaseException):
        raise reply
    try:
        return read(reply)
    except Exception as error:  # noqa: BLE001 - it belongs to this item alone
        return error


def fill(prompt: str, question: str, draft: str = "") -> str:
    """Fill the fields; what fills one is never read as a field itself."""
    head, mark, tail = prompt.partition("{question}")
    before, after = (part.replace("{draft}", draft) for part in (head, tail))
    return before + (question if mark else "") + after


def with_fields(field: str, prompt: object, *names: str) -> str:
    missing = [name for name in names if not isinstance(prompt, str) or f"{{{name}}}" not in prompt]
    if missing:
        allowed = "a text with " + " and ".join(f"{{{name}}}" for name in names)
        raise InputError.of(field, given=prompt, allowed=allowed)
    return str(prompt)


def checked_texts(field: str, texts: Sequence[str]) -> tuple[str, ...]:
    checked = check_many(field, texts, str)
    for i, text in enumerate(checked):
        check_text(f"{field}[{i}]", text, blank=False)
    return checked


def checked_pairs(questions: Sequence[str], drafts: Sequence[str]) -> list[tuple[str, str]]:
    asked, given = checked_texts("questions", questions), check_many("drafts", drafts, str)
    if len(asked) != len(given):
        allowed = f"one per question, {len(asked)}, blank where there is none"
        raise InputError.of("drafts", given=len(given), allowed=allowed)
    return list(zip(asked, given, strict=True))
