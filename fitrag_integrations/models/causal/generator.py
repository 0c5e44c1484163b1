"""A local causal language model that writes: answers, drafts, and how sure it was of each token."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, TypeAlias, Unpack

from fitrag_integrations.core.checks import check_many, check_whole
from fitrag_integrations.core.record import Row
from fitrag_integrations.models.causal import decoding as causal_decoding
from fitrag_integrations.models.causal.decoding import Writing
from fitrag_integrations.models.causal.language_model import CausalEngine
from fitrag_integrations.models.causal.loading import CausalModel, shared_causal
from fitrag_integrations.models.runtime.engine import LoadOptions, Options
from fitrag_integrations.models.runtime.saved import remembered
from fitrag_integrations.models.runtime.worker import Steps
from fitrag_integrations.models.words import (
    PROMPT,
    checked_pairs,
    checked_texts,
    choice_ids,
    closed_book,
    common_prefix,
    joined,
    needs_fields,
    reply_tokens,
    share,
)
from fitrag_integrations.types import Draft
from fitrag_integrations.values.prompt import (
    USUAL_TOKENS,
    LimitedPrompt,
    Shot,
    check_shots,
    with_shots,
)

Item: TypeAlias = tuple[str, Writing]


class LocalGenerator(CausalModel):
    """Local causal language model that continues prompts and drafts closed-book answers, greedily.

    Calls from any thread or event loop are queued to one worker and batched by tokens. Prompts are
    rendered in the tokenizer's chat template if it has one. The prompts of the methods are
    `LimitedPrompt` texts, which carry the length of their reply: an answer of one line ends with
    its line, or after 64 tokens, unless the model converses. Other prompts get 256 tokens. A text
    that has ended leaves its batch. `text.cut` is the length of truncated output in tokens.

    Args:
        engine: Language model and tokenizer.
        max_new_tokens: Maximum length of a reply. Defaults to the manifest's, else to what each
            prompt asks for.
        prompt: Text with {question}, for a tokenizer without a chat template.
        stop: Texts that end a reply.
        draft_tokens: Length of a draft, the first words of an answer (IK, section 3.2), if the
            gate asks for no other.
        shots: Examples to show in each prompt, as `Shot` or as rows; a model without a chat
            template often answers nothing without.

    Example:
        >>> llm = LocalGenerator.from_pretrained("Qwen/Qwen3-0.6B")
        >>> llm.generate(["The capital of Mongolia is"])
    """

    kind = "generator"
    is_greedy = True  # the same prompt gets the same reply

    def __init__(
        self,
        engine: CausalEngine,
        *,
        max_new_tokens: int | None = None,
        prompt: str | None = None,
        stop: Sequence[str] | None = None,
        draft_tokens: int = 32,
        shots: Iterable[Shot | Row] = (),
    ) -> None:
        super().__init__(engine, manifest=engine.manifest)
        given = self.manifest.get("max_new_tokens") if max_new_tokens is None else max_new_tokens
        self.max_new_tokens = check_whole(
            "max_new_tokens", USUAL_TOKENS if given is None else given, low=1
        )
        self._most = None if given is None else self.max_new_tokens
        self.draft_tokens = check_whole("draft_tokens", draft_tokens, low=1)
        self.shots = check_shots("shots", shots)
        given = self.manifest.get("prompt", PROMPT) if prompt is None else prompt
        self.prompt = needs_fields("prompt", given, ["question"])
        given = self.manifest.get("stop") if stop is None else stop
        self.stop = check_many("stop", given or (), str)
        self._end = ("\n",) if given is None and not engine.is_chat else self.stop

    @classmethod
    @remembered
    def from_pretrained(
        cls,
        name_or_dir: str | Path,
        *,
        max_new_tokens: int | None = None,
        prompt: str | None = None,
        stop: Sequence[str] | None = None,
        draft_tokens: int = 32,
        shots: Iterable[Shot | Row] = (),
        **options: Unpack[LoadOptions],
    ) -> Self:
        """Load any causal language model.

        Args:
            name_or_dir: Hub name or folder.
            max_new_tokens: Maximum length of a reply. Defaults to the folder's `model.json`, else
                to what each prompt asks for.
            prompt: Text with {question}. Defaults to the folder's, else "Question: ... Answer:".
            stop: Texts that end a reply. Defaults to the folder's, else none.
            draft_tokens: Length of a draft.
            shots: Examples to show in each prompt.
            **options: `device`, `dtype`, `batch_tokens`, `model_kwargs` (such as
                `{"device_map": "auto"}`), `tokenizer_kwargs` and `chat_template_kwargs` (such as
                `{"enable_thinking": True}`; thinking is off by default).

        Raises:
            ModelLoadError: If a file or a tensor is missing or damaged.
            ChecksumError: If a file was changed.
        """
        engine = shared_causal(name_or_dir, Options.checked(**options))
        try:
            return cls(
                engine,
                max_new_tokens=max_new_tokens,
                prompt=prompt,
                stop=stop,
                draft_tokens=draft_tokens,
                shots=shots,
            )
        except BaseException:
            engine.release()
            raise

    @property
    def is_chat(self) -> bool:
        """Whether the model has a chat template; one without continues texts."""
        return self._engine.is_chat

    @property
    def name(self) -> str:
        """The model's name, for the thresholds fitted on it."""
        return self._engine.name

    def question_prompt(self, question: str) -> str:
        """Write the prompt for a closed-book answer, in the chat template where there is one."""
        asked = closed_book(self.prompt, question, self.shots, converses=self.is_chat)
        return LimitedPrompt(self._engine.render(asked))

    def generate(self, prompts: Sequence[str]) -> list[str]:
        """Continue each prompt greedily; gives the new text alone, without blanks around it."""
        return self._call(self._generate, self._asked("prompts", prompts))

    async def agenerate(self, prompts: Sequence[str]) -> list[str]:
        """Async version of `generate`."""
        return await self._acall(self._generate, self._asked("prompts", prompts))

    def answer(self, questions: Sequence[str]) -> list[str]:
        """Answer each question closed-book, in at most `max_new_tokens` tokens."""
        return self._call(self._answer, self._asked("questions", questions, one_line=True))

    async def aanswer(self, questions: Sequence[str]) -> list[str]:
        """Async version of `answer`."""
        return await self._acall(self._answer, self._asked("questions", questions, one_line=True))

    def draft(self, questions: Sequence[str]) -> list[Draft]:
        """Write the first `draft_tokens` tokens of an answer to each question."""
        return self._call(self._draft, self._asked("questions", questions, draft=True))

    async def adraft(self, questions: Sequence[str]) -> list[Draft]:
        """Async version of `draft`."""
        return await self._acall(self._draft, self._asked("questions", questions, draft=True))

    def rescore(self, questions: Sequence[str], drafts: Sequence[str]) -> list[Draft]:
        """Compute the model's confidence in each token of existing drafts, in one pass.

        Args:
            questions: Questions.
            drafts: One draft per question; a blank one comes back empty.
        """
        return self._call(self._rescore, checked_pairs(questions, drafts))

    async def arescore(self, questions: Sequence[str], drafts: Sequence[str]) -> list[Draft]:
        """Async version of `rescore`.

        Args:
            questions: Questions.
            drafts: One draft per question; a blank one comes back empty.
        """
        return await self._acall(self._rescore, checked_pairs(questions, drafts))

    def stream(self, prompt: str) -> Iterator[str]:
        """Continue one prompt piece by piece; joined, the pieces are what `generate` gives.

        Leaving the iterator early ends the writing.
        """
        (item,) = self._asked("prompts", [prompt])
        return causal_decoding.stream_from(
            self._worker(), lambda hear: self._generate([item], hear=hear), item[1].stop
        )

    def p_yes(self, prompts: Sequence[str]) -> list[float]:
        """Return the probability of Yes against No as the next word of each prompt, in [0, 1]."""
        return self._call(self._p_yes, [text for text, _ in self._asked("prompts", prompts)])

    async def ap_yes(self, prompts: Sequence[str]) -> list[float]:
        """Async version of `p_yes`, in [0, 1]."""
        return await self._acall(self._p_yes, [text for text, _ in self._asked("prompts", prompts)])

    def first_tokens(self, texts: Sequence[str], count: int) -> list[str]:
        """Cut each text to its first tokens.

        Args:
            texts: Texts.
            count: Maximum number of tokens.
        """

        def cut(items: Sequence[str]) -> list[str]:
            return [first_tokens(self._engine.tokenizer, text, count) for text in items]

        return self._call(cut, check_many("texts", texts, str))

    def _asked(
        self, field: str, texts: Sequence[str], *, one_line: bool | None = None, draft: bool = False
    ) -> list[Item]:
        """Check prompts or questions, show the examples, and decide how each reply is written."""
        shown = [with_shots(text, self.shots) for text in check_many(field, texts, str)]
        marked = [LimitedPrompt(text, one_line=one_line) for text in shown]
        checked = checked_texts(field, shown)
        return [(text, self._how(one, draft)) for text, one in zip(checked, marked, strict=True)]

    def _answer(self, items: Sequence[Item]) -> Steps[list[str]]:
        drafts = yield from self._draft(items)
        return [draft.text for draft in drafts]

    def _draft(self, items: Sequence[Item]) -> Steps[list[Draft]]:
        asked = [(self.question_prompt(question), how) for question, how in items]
        return self._written(
            [(one, replace(how, begins=one[: LimitedPrompt(one).start])) for one, how in asked]
        )

    def _how(self, asked: LimitedPrompt, draft: bool = False) -> Writing:
        if draft:
            return Writing(asked.tokens or self.draft_tokens, self._end, facts=True)
        tokens, begins = (
            reply_tokens(asked, self._most, converses=self.is_chat),
            asked[: asked.start],
        )
        stop = self._end if asked.one_line else (*self.stop, *(() if self.is_chat else asked.stop))
        return Writing(tokens, stop, begins=begins)

    def _generate(
        self, items: Sequence[Item], hear: causal_decoding.Hear | None = None
    ) -> Steps[list[str]]:
        rendered = [(self._engine.render(prompt), how) for prompt, how in items]
        drafts = yield from self._written(rendered, hear)
        return [draft.text for draft in drafts]

    def _written(
        self, items: Sequence[Item], hear: causal_decoding.Hear | None = None
    ) -> Steps[list[Draft]]:
        rows, asked = self._engine.encode([text for text, _ in items]), []
        for row, (text, how) in zip(rows, items, strict=True):  # a chat template stands before
            end = text.find(how.begins) + len(how.begins)
            asked.append((row, replace(how, begins=text[:end] if how.begins else "")))
        return causal_decoding.by_how(
            asked, lambda some, how: causal_decoding.write(self._engine, some, how, hear=hear)
        )

    def _rescore(self, pairs: Sequence[tuple[str, str]]) -> Steps[list[Draft]]:
        written = [pair for pair in pairs if pair[1]]
        rows = prompt_and_draft(self._engine, [(self.question_prompt(q), d) for q, d in written])
        measured = iter((yield from causal_decoding.rescore(self._engine, rows)))
        return [
            Draft(draft, *zip(*next(measured), strict=True)) if draft else Draft("")
            for _, draft in pairs
        ]

    def _p_yes(self, prompts: Sequence[str]) -> Steps[list[float]]:
        engine = self._engine
        ids = choice_ids(engine.tokenizer, ("Yes", "No"), spaced=not engine.is_chat)
        rows = engine.encode([engine.render(prompt) for prompt in prompts])
        both = yield from engine.next_logits([(row, ids) for row in rows])
        return [share(logits) for logits in both]


def prompt_and_draft(
    engine: CausalEngine, pairs: Sequence[tuple[str, str]]
) -> list[tuple[list[int], list[int]]]:
    """Encode prompts and what follows them, cut where the prompt ends. On the worker only."""
    prompts = engine.encode([prompt for prompt, _ in pairs])
    wholes = engine.encode(
        [joined(prompt, draft, spaced=not engine.is_chat) for prompt, draft in pairs]
    )
    rows = []
    for prompt, whole in zip(prompts, wholes, strict=True):
        at = min(common_prefix(prompt, whole), len(whole) - 1)
        rows.append((whole[:at], whole[at:]))
    return rows


def first_tokens(tokenizer: Any, text: str, count: int) -> str:
    """Cut a text to its first tokens; a short one stays as it is. On the worker only."""
    ids = tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
    return text if len(ids) <= count else str(tokenizer.decode(ids[:count])).strip()
