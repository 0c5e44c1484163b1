"""Answer questions from contexts once: every answer of the language model is kept in a file.

For a model that returns token probabilities, one draft per question also serves every gate on
drafts, and P(True) is computed on that draft. A question without a measurement counts as unknown.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from fitrag_integrations.core.checks import can
from fitrag_integrations.errors import PortError, raise_if
from fitrag_integrations.methods.compose.fitted import FittedTemplate
from fitrag_integrations.methods.ik.gates import GATES, KNOW, TRUE
from fitrag_integrations.training.asking_llm import Asker, AskLLM
from fitrag_integrations.training.collecting import Told
from fitrag_integrations.training.journal import AnswerCache, Heard, May, Send
from fitrag_integrations.types import Context, Draft, Excerpt, Passage
from fitrag_integrations.values.prompt import LimitedPrompt

REACHED = 3  # questions that a language model may fail on before it counts as out of reach
AT_ONCE = 32  # prompts between two reports of the progress


def prompt_of(context: Context) -> str:
    """Return the prompt of a context; without excerpts the bare question."""
    return FittedTemplate().render(context)


@dataclass
class Oracle:
    """Source of the language model's answers to contexts and prompts; a failed answer is None.

    Args:
        asker: Model that answers.
        cache: Cache of its answers.
        tell: Function that receives progress messages.

    Raises:
        PortError: If the cache stops, at a price limit for example; the answers so far are kept.
    """

    asker: Asker
    cache: AnswerCache
    tell: Callable[[str], None] | None = None

    @property
    def name(self) -> str:
        """Return the model's name."""
        return self.asker.name

    @property
    def writes(self) -> bool:
        """Return whether it can answer any prompt, and not only extract answers from passages."""
        return isinstance(self.asker, AskLLM)

    @property
    def llm(self) -> Any:
        """Return the language model itself; None for a reader."""
        return self.asker.llm if isinstance(self.asker, AskLLM) else None

    def measured(
        self,
        what: str,
        texts: Sequence[str],
        ask: Callable[[list[str]], Sequence[Any]],
        write: Callable[[Any], str],
    ) -> list[str]:
        """Measure each text with one call for many, and store the results as they arrive.

        Args:
            what: Name of the measurement in the cache.
            texts: The texts.
            ask: Function that measures some texts.
            write: Function that serializes a result.

        Returns:
            The stored results; a missing one is blank, and is not requested again.
        """

        def send(asked: Mapping[str, str], may: May, heard: Heard) -> None:
            lot = {key: text for key, text in asked.items() if may(key)}
            try:
                replies = ask(list(lot.values())) if lot else ()
            except Exception as error:  # noqa: BLE001 - not every server returns probabilities
                replies = [error] * len(lot)
            for key, reply in zip(lot, replies, strict=True):
                heard(key, Told("" if isinstance(reply, Exception) else write(reply)))

        found = self._ask([f"{what}\n{text}" for text in texts], texts, send)
        return [text or "" for text in found]

    def reach(self, questions: Sequence[str]) -> None:
        """Answer the first questions without passages, to check the model and keep the answers.

        Raises:
            PortError: If the language model answers none of them.
        """
        bare = [Context(question) for question in questions[:REACHED]]
        raise_if(
            bare and all(answer is None for answer in self.answers(bare)),
            PortError,
            f"the language model does not answer: {self.cache.last}",
        )

    def answers(self, contexts: Sequence[Context]) -> list[str | None]:
        """Answer the question of each context from its excerpts, or without any if it has none."""
        pairs = []
        for one in contexts:  # parts are equal to any others with the same words
            parts = tuple(Passage("", each.text, each.passage.title) for each in one.excerpts)
            pairs.append((one.question, Passage("", "", metadata={"parts": parts})))
        return self._ask(list(map(prompt_of, contexts)), pairs, self.asker.send)

    def answers_from(
        self, found: Mapping[str, Sequence[Passage]], questions: Sequence[str]
    ) -> list[str | None]:
        """Answer questions from all of their passages.

        Args:
            found: Passages by question.
            questions: The questions.
        """
        return self.answers([Context(q, tuple(map(Excerpt.whole, found[q]))) for q in questions])

    def texts(self, prompts: Sequence[str]) -> list[str | None]:
        """Answer prompts of any kind."""
        return self._ask(prompts, prompts, self.asker.send)

    def _ask(self, prompts: Sequence[str], about: Sequence[Any], send: Send) -> list[str | None]:
        """Answer all prompts that the cache does not know; equal ones once."""
        asked = dict(zip(prompts, about, strict=True))
        open_ = [prompt for prompt in asked if self.cache.get(prompt) is None]
        for start in range(0, len(open_), AT_ONCE):
            lot = open_[start : start + AT_ONCE]
            self.cache({prompt: asked[prompt] for prompt in lot}, send)
            if self.cache.stopped:
                raise PortError(
                    f"stopped: {self.cache.stopped}; what was answered is kept, and the same call "
                    "goes on"
                )
            self.say(f"{start + len(lot)}/{len(open_)} asked; {self.cache}")
        found = [self.cache.get(prompt) for prompt in prompts]
        return [None if one is None else one.text for one in found]

    def say(self, message: str) -> None:
        """Report the progress to the listener."""
        if self.tell is not None:
            self.tell(message)


P_TRUE = "p_true"
DRAFT, YES = "draft", "p_yes"  # what is measured, in the cache


def surenesses(questions: Sequence[str], oracle: Oracle) -> dict[str, list[float]]:
    """Compute the confidence of each gate in each question.

    Args:
        questions: Questions.
        oracle: Language model; without token log-probabilities, it has no such gates.

    Returns:
        Confidences in [0, 1] by gate.
    """
    llm = oracle.llm
    if not (can(llm, "draft") and can(llm, "rescore")):
        return {}
    written = oracle.measured(DRAFT, questions, llm.draft, lambda one: json.dumps(one.to_dict()))
    drafts = [Draft.from_dict(json.loads(text)) if text else Draft("") for text in written]
    sure = {}
    for name, gate in GATES.items():
        each = [*map(attrgetter(gate.numbers), drafts)]
        sure[name] = [gate.sureness(math.fsum(t) / len(t)) if t else 0.0 for t in each]
    if can(llm, "p_yes"):
        asked = []
        for question, draft in zip(questions, drafts, strict=True):
            prompt = TRUE if draft.text.strip() else KNOW
            filled = prompt.text.format(question=question, draft=draft.text)
            asked.append(LimitedPrompt(filled, one_line=True))
        replies = oracle.measured(YES, asked, llm.p_yes, str)
        sure[P_TRUE] = [float(text) if text else 0.0 for text in replies]
    return {name: values for name, values in sure.items() if len(set(values)) > 1}
