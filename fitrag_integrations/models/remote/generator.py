"""Generator and gate behind an OpenAI-compatible server, for models that run elsewhere.

vLLM serves a LoRA adapter by its name: pass that name as `model`, and the IK decision (IK, section
3) is one request for one token with its log-probabilities. Nothing here requires PyTorch.
"""

from __future__ import annotations

import asyncio
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, TypeAlias, TypedDict, Unpack

from fitrag_integrations.core.checks import (
    check_is,
    check_many,
    check_number,
    check_text,
    check_whole,
)
from fitrag_integrations.core.generic import T
from fitrag_integrations.core.http import finish
from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import refuse_if
from fitrag_integrations.models.remote.client import OpenAIClient
from fitrag_integrations.models.remote.replies import (
    as_draft,
    echoed,
    ended_at,
    read_text,
    read_tokens,
    read_written,
    read_yes,
)
from fitrag_integrations.models.words import (
    PROMPT,
    PROMPTS,
    checked_pairs,
    checked_texts,
    closed_book,
    filled,
    needs_fields,
    reply_tokens,
)
from fitrag_integrations.types import Draft
from fitrag_integrations.values.prompt import (
    USUAL_TOKENS,
    Completion,
    LimitedPrompt,
    Shot,
    check_shots,
    with_shots,
)
from fitrag_integrations.values.thresholds import FittedThreshold

Api: TypeAlias = Literal["completions", "chat"]
_MARK = re.compile(r"<\|\w+\|>|<(?:start|end)_of_turn>|\[/?INST\]|<</?SYS>>")
PATHS = {"completions": "/completions", "chat": "/chat/completions"}


class RemoteOptions(TypedDict, total=False):
    """Keyword arguments of `RemoteGenerator` and `RemoteIK`, described in `Remote`."""

    api: Api
    api_key: object
    top_logprobs: int
    timeout: float
    max_retries: int
    concurrency: int
    deadline: float | None


class Remote:
    """Base of the models behind an OpenAI-compatible server.

    Args:
        base_url: Address that ends in /v1.
        model: Served model name.
        api: Endpoint: "completions" sends prompts as they are, "chat" in the model's template.
        api_key: String, or object with `get_secret_value`.
        top_logprobs: Alternatives to request per token.
        timeout: Seconds for one attempt of a request.
        max_retries: Maximum number of retries of a request.
        concurrency: Maximum number of concurrent requests.
        deadline: Seconds for a request with its retries. None is no limit.
    """

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
        deadline: float | None = None,
    ) -> None:
        refuse_if(api not in PATHS, "api", api, " or ".join(map(repr, PATHS)))
        self.name = check_text("model", model, blank=False)
        self._api: Api = api
        self._top = check_whole("top_logprobs", top_logprobs, low=2)
        self._client = OpenAIClient(
            base_url,
            api_key=api_key,
            timeout=timeout,
            max_retries=max_retries,
            concurrency=concurrency,
            deadline=deadline,
        )

    @property
    def is_chat(self) -> bool:
        """Whether the server applies a chat template."""
        return self._api == "chat"

    async def _ask(self, bodies: Sequence[Row], read: Callable[[Row], T]) -> list[T | Exception]:
        """Send all bodies; an item that fails has its error in its place."""
        replies = await asyncio.gather(*map(self._post, bodies), return_exceptions=True)
        return [read_item(reply, read) for reply in replies]

    async def _post(self, body: Row) -> Any:
        """Send a body; again where the reply came to a stop text of blanks before any word."""
        reply: Any = await self._client.post(PATHS[self._api], body)
        stop = body.get("stop", ())
        visible = [mark for mark in stop if mark.strip()]
        if len(visible) < len(stop) and not read_text(reply).strip():
            again = {name: value for name, value in body.items() if name != "stop"}
            again |= {"stop": visible} if visible else {}
            reply = await self._client.post(PATHS[self._api], again)
            reply = ended_at(reply, stop)
        return reply

    def _body(
        self, prompt: str, *, tokens: int, logprobs: bool, stop: Sequence[str] = ()
    ) -> dict[str, object]:
        body: dict[str, object] = {"model": self.name, "max_tokens": tokens, "temperature": 0.0}
        if self._api == "chat":
            body["messages"] = [{"role": "user", "content": prompt}]
            facts: dict[str, object] = {"logprobs": True, "top_logprobs": self._top}
        else:
            body["prompt"] = prompt
            facts = {"logprobs": self._top}
        return body | (facts if logprobs else {}) | ({"stop": stop} if stop else {})

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._client.base_url!r}, {self.name!r})"


class RemoteGenerator(Remote):
    """Generator behind an OpenAI-compatible server: continues, drafts (IK, section 3.2), says Yes.

    A draft has log-probabilities, margins and entropies if the service returns them; entropies are
    over the `top_logprobs` alternatives. `text.cut` is the length of truncated output in tokens.

    Args:
        base_url: Address that ends in /v1.
        model: Served model name.
        max_new_tokens: Maximum tokens of a reply, whatever its prompt asks for. Defaults to what
            the prompt asks for, else 64 for a reply of one line and 256 for any other; with "chat"
            to at least 256.
        draft_tokens: Length of a draft, if the gate asks for no other.
        prompt: With "completions", the text that a question is inserted into; with "chat" the
            question itself is the user's message.
        stop: With "completions", texts at which a draft or a one-line reply ends.
        shots: Examples to show in each prompt, as `Shot` or as rows.
        **options: `api`, `api_key`, `top_logprobs`, `timeout`, `max_retries`, `concurrency` and
            `deadline`, as in `Remote`.

    Raises:
        InputError: If an argument is invalid.

    Example:
        >>> llm = RemoteGenerator("http://localhost:8000/v1", "meta-llama/Llama-3.1-8B-Instruct")
        >>> llm.generate(["The capital of Mongolia is"])
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
        shots: Iterable[Shot | Row] = (),
        **options: Unpack[RemoteOptions],
    ) -> None:
        super().__init__(base_url, model, **options)
        self.max_new_tokens = check_whole(
            "max_new_tokens", USUAL_TOKENS if max_new_tokens is None else max_new_tokens, low=1
        )
        self._most = max_new_tokens
        self.draft_tokens = check_whole("draft_tokens", draft_tokens, low=1)
        self.shots = check_shots("shots", shots)
        self._prompt = needs_fields("prompt", prompt, ["question"])
        self._stop = list(check_many("stop", stop, str)) if self._api == "completions" else []

    def generate(self, prompts: Sequence[str]) -> list[Completion | Exception]:
        """Continue each prompt greedily; a prompt that fails has a `PortError` in its place."""
        return finish(lambda: self.agenerate(prompts))

    async def agenerate(self, prompts: Sequence[str]) -> list[Completion | Exception]:
        """Async version of `generate`."""
        bodies = []
        for text, asked in self._asked(prompts):
            tokens = reply_tokens(asked, self._most, converses=self.is_chat)
            stop = self._stop if asked.one_line else () if self.is_chat else asked.stop
            bodies.append(self._body(text, tokens=tokens, logprobs=False, stop=stop))
        written = await self._ask(bodies, read_written)
        texts = [text for text in written if isinstance(text, str)]
        marks = [found[0] for text in texts if (found := _MARK.search(text))]
        if self.is_chat and marks:
            warnings.warn(
                f"answers of {self.name} hold marks of a chat template ({marks[0]}), which a base "
                "model does not know: pass api='completions' (--api completions)",
                stacklevel=2,
            )
        return written

    def draft(self, questions: Sequence[str]) -> list[Any]:
        """Write the first `draft_tokens` tokens of an answer to each question.

        A question that fails has a `PortError` in its place.
        """
        return finish(lambda: self.adraft(questions))

    async def adraft(self, questions: Sequence[str]) -> list[Any]:
        """Async version of `draft`."""
        bodies = []
        for question, given in zip(checked_texts("questions", questions), questions, strict=True):
            tokens = LimitedPrompt(given).tokens or self.draft_tokens
            prompt = self._question_prompt(question)
            bodies.append(self._body(prompt, tokens=tokens, logprobs=True, stop=self._stop))
        return await self._ask(
            bodies, lambda reply: as_draft(read_text(reply).strip(), read_tokens(reply))
        )

    def rescore(self, questions: Sequence[str], drafts: Sequence[str]) -> list[Draft | Exception]:
        """Compute the model's confidence in each token of existing drafts.

        Requires "completions" and a server that echoes a prompt with its log-probabilities, such
        as vLLM; on any other server each item is a `PortError`.

        Args:
            questions: Questions.
            drafts: One draft per question; a blank one comes back empty.
        """
        return finish(lambda: self.arescore(questions, drafts))

    async def arescore(
        self, questions: Sequence[str], drafts: Sequence[str]
    ) -> list[Draft | Exception]:
        """Async version of `rescore`.

        Args:
            questions: Questions.
            drafts: One draft per question; a blank one comes back empty.

        Raises:
            InputError: If the api is not "completions".
        """
        refuse_if(
            self._api != "completions",
            "api",
            self._api,
            "'completions' for rescore, which has a prompt echoed",
        )
        pairs = checked_pairs(questions, drafts)
        bodies = [
            self._body(f"{self._question_prompt(question)} {draft}", tokens=1, logprobs=True)
            | {"echo": True}
            for question, draft in pairs
            if draft
        ]
        replies = iter(await self._ask(bodies, lambda reply: reply))

        def measured(text: str, reply: Row) -> Draft:
            return as_draft(text, echoed(reply, text))

        return [
            read_item(next(replies), partial(measured, draft)) if draft else Draft("")
            for _, draft in pairs
        ]

    def p_yes(self, prompts: Sequence[str]) -> list[Any]:
        """Return the probability of Yes against No as the next word of each prompt, in [0, 1]."""
        return finish(lambda: self.ap_yes(prompts))

    async def ap_yes(self, prompts: Sequence[str]) -> list[Any]:
        """Async version of `p_yes`."""
        texts = [text for text, _ in self._asked(prompts)]
        return await self._ask([self._body(t, tokens=1, logprobs=True) for t in texts], read_yes)

    def _asked(self, prompts: Sequence[str]) -> list[tuple[str, LimitedPrompt]]:
        """Show the examples in each prompt, and return its text and its marks."""
        shown = [with_shots(prompt, self.shots) for prompt in check_many("prompts", prompts, str)]
        return list(zip(checked_texts("prompts", shown), map(LimitedPrompt, shown), strict=True))

    def _question_prompt(self, question: str) -> str:
        return closed_book(self._prompt, question, self.shots, converses=self.is_chat)


class RemoteIK(Remote):
    """Gate of a served model: the probability that it knows the answer (IK, section 3).

    Args:
        base_url: Address that ends in /v1.
        model: Served name of the classifier: of a LoRA adapter or a plain model.
        yes: Word whose probability is compared with that of `no`.
        no: The other word.
        prompts: Texts with {question}, and for "draft" also {draft}.
        threshold: Probability above which a question is known, in [0, 1]. Defaults to `fitted`'s.
        fitted: Threshold together with the model it was fitted for.
        draft_tokens: Length of the draft, cut by the drafter; 0 uses the question only.
        drafter: Model that writes the draft if the caller passes none.
        **options: `api`, `api_key`, `top_logprobs`, `timeout`, `max_retries`, `concurrency` and
            `deadline`, as in `Remote`.

    Raises:
        InputError: If an argument is invalid.

    Example:
        >>> gate = RemoteIK("http://localhost:8000/v1", "my-ik-adapter", threshold=0.7)
        >>> router = KnowledgeRouter(gate=gate, llm=llm, unknown=chain)
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        yes: str = "Yes",
        no: str = "No",
        prompts: Mapping[str, str] = PROMPTS,
        threshold: float | None = None,
        fitted: FittedThreshold | None = None,
        draft_tokens: int = 32,
        drafter: object = None,
        **options: Unpack[RemoteOptions],
    ) -> None:
        super().__init__(base_url, model, **options)
        self._words = {
            "yes": check_text("yes", yes, blank=False).strip(),
            "no": check_text("no", no, blank=False).strip(),
        }
        self._prompts = {
            name: needs_fields(f"prompts.{name}", prompts.get(name), fields)
            for name, fields in (("question", ["question"]), ("draft", ["question", "draft"]))
        }
        self.fitted = None if fitted is None else check_is("fitted", fitted, FittedThreshold)
        given = fitted.value if threshold is None and fitted is not None else threshold
        self.threshold = None if given is None else check_number("threshold", given, low=0, high=1)
        self.draft_tokens = check_whole("draft_tokens", draft_tokens, low=0)
        self.drafter = drafter

    def p_known(self, questions: Sequence[str], drafts: Sequence[str]) -> list[float | Exception]:
        """Return the probability that each question is known, in [0, 1], in order.

        Args:
            questions: Questions.
            drafts: One draft per question; blank for none.

        Returns:
            Probabilities; a question whose request fails has a `PortError` in its place.

        Raises:
            InputError: For a blank question.
        """
        return finish(lambda: self.ap_known(questions, drafts))

    async def ap_known(
        self, questions: Sequence[str], drafts: Sequence[str]
    ) -> list[float | Exception]:
        """Async version of `p_known`; probabilities in [0, 1].

        Args:
            questions: Questions.
            drafts: One draft per question; blank for none.
        """
        bodies = []
        for question, draft in checked_pairs(questions, drafts):
            wanted = draft if self.draft_tokens else ""
            prompt = self._prompts["draft" if wanted else "question"]
            prompt = filled(prompt, question=question, draft=wanted)
            bodies.append(self._body(prompt, tokens=1, logprobs=True))
        return await self._ask(bodies, lambda reply: read_yes(reply, **self._words))


def read_item(reply: Any, read: Callable[[Row], T]) -> T | Exception:
    """Parse a response; an error of this item becomes its answer, a cancellation is raised."""
    if isinstance(reply, Exception):
        return reply
    if isinstance(reply, BaseException):
        raise reply
    try:
        return read(reply)
    except Exception as error:  # noqa: BLE001 - it belongs to this item alone
        return error
