"""Answer questions from contexts once: every answer of the language model is kept in a journal.

For a model that returns token probabilities, one draft per question also serves every gate on
drafts, and P(True) is computed on that draft. A question without a measurement counts as unknown.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, TypeAlias

from fitrag_integrations.core.checks import can
from fitrag_integrations.errors import PortError
from fitrag_integrations.methods.compose.fitted import FittedTemplate
from fitrag_integrations.methods.ik.gates import GATES, KNOW_PROMPT, TRUE_PROMPT
from fitrag_integrations.ports import AnswerLike
from fitrag_integrations.training.asking_llm import AskLLM, AskReader
from fitrag_integrations.training.collecting import Failed, Told
from fitrag_integrations.training.journal import Account, AnswerJournal
from fitrag_integrations.types import Context, Draft, Excerpt, Passage
from fitrag_integrations.values.prompt import LimitedPrompt

REACHED = 3  # questions that a language model may fail on before it counts as out of reach
AT_ONCE = 32  # prompts between two looks at the account
Open: TypeAlias = Mapping[str, Context]


def prompt_of(context: Context) -> str:
    """Write the prompt that a context is answered from; without excerpts the bare question."""
    return FittedTemplate().render(context)


@dataclass
class Oracle:
    """Source of answers from contexts and to prompts; None for an answer that failed.

    Raises `PortError` where the account says stop; what was answered is kept. `tell` hears how far
    it is.
    """

    asker: AskLLM | AskReader
    journal: AnswerJournal
    account: Account
    tell: Callable[[str], None] | None = None
    _spans: dict[tuple[str, Passage], AnswerLike] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The model's name."""
        return self.asker.name

    @property
    def writes(self) -> bool:
        """Whether it can be asked for any text, and not only for answers from passages."""
        return isinstance(self.asker, AskLLM)

    @property
    def llm(self) -> Any:
        """The language model itself; None where a reader answers."""
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
            what: Name of the measurement in the journal.
            texts: The texts.
            ask: Function that measures some texts.
            write: Function that makes a text of a result.

        Returns:
            The stored results; a missing one is blank, and is not requested again.
        """
        keys = {text: f"{what}\n{text}" for text in texts}
        open_ = [text for text in keys if self.journal.get(keys[text]) is None]
        for start in range(0, len(open_), AT_ONCE):
            lot = [one for one in open_[start : start + AT_ONCE] if self.account.may(one)]
            try:
                replies = ask(lot) if lot else ()
            except Exception as error:  # noqa: BLE001 - not every server returns probabilities
                replies = [error] * len(lot)
            for text, reply in zip(lot, replies, strict=True):
                own = Told("" if isinstance(reply, Exception) else write(reply))
                self.journal.keep(keys[text], self.account.heard(text, own))
            self._after(start + len(lot), len(open_))
        return [self._text(keys[text]) or "" for text in texts]

    def reach(self, questions: Sequence[str]) -> None:
        """Answer the first questions without passages, which is needed anyway, and keep that.

        Raises:
            PortError: If the language model answers none of them.
        """
        bare = [Context(question) for question in questions[:REACHED]]
        if bare and all(answer is None for answer in self.answers(bare)):
            raise PortError(f"the language model does not answer: {self.account.last}")

    def answers(self, contexts: Sequence[Context]) -> list[str | None]:
        """Answer each context's question from its excerpts, without any from what is known."""
        prompts = [prompt_of(context) for context in contexts]
        self._fill(dict(zip(prompts, contexts, strict=True)))
        return [self._text(prompt) for prompt in prompts]

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
        self._fill({prompt: Context(prompt) for prompt in prompts})
        return [self._text(prompt) for prompt in prompts]

    def _text(self, prompt: str) -> str | None:
        known = self.journal.get(prompt)
        return None if known is None else known.text

    def _fill(self, prompts: Open) -> None:
        """Answer all prompts that the journal does not know; equal ones once."""
        open_ = [prompt for prompt in prompts if self.journal.get(prompt) is None]
        for start in range(0, len(open_), AT_ONCE):
            lot = open_[start : start + AT_ONCE]
            if isinstance(self.asker, AskLLM):

                def heard(at: int, outcome: Told | Failed, lot: list[str] = lot) -> None:
                    self.journal.keep(lot[at], self.account.heard(lot[at], outcome))

                self.asker.ask_prompts(lot, heard, self.account.may)
            else:
                self._read(self.asker, {prompt: prompts[prompt] for prompt in lot})
            self._after(start + len(lot), len(open_))

    def _after(self, done: int, whole: int) -> None:
        """Flush a batch to disk, and raise if the account says stop."""
        self.journal.sync()
        if self.account.stopped:
            said = "what was answered is kept, and the same call goes on"
            raise PortError(f"stopped: {self.account.stopped}; {said}")
        self.say(f"{done}/{whole} asked; {self.account}")

    def say(self, message: str) -> None:
        """Report the progress to the listener."""
        if self.tell is not None:
            self.tell(message)

    def _read(self, asker: AskReader, contexts: Open) -> None:
        """Read the excerpts; where there are none there is no answer."""
        for prompt in (prompt for prompt, c in contexts.items() if not c.excerpts):
            self.journal.keep(prompt, Told(""))
        read = {prompt: c for prompt, c in contexts.items() if c.excerpts}
        own = {
            prompt: [(c.question, _bare(each)) for each in c.excerpts] for prompt, c in read.items()
        }
        new = list(dict.fromkeys(p for each in own.values() for p in each if p not in self._spans))
        self._spans |= zip(new, asker.reader.read(new) if new else (), strict=True)
        for prompt, pairs in own.items():
            found = [self._spans[pair] for pair in pairs]
            self.journal.keep(prompt, Told(max(found, key=lambda one: one.score).text))
        self.account.asked += len(contexts)


def _bare(excerpt: Excerpt) -> Passage:
    """Return an excerpt as a passage that is equal to any other with the same words."""
    return Passage("", excerpt.text, excerpt.passage.title)


P_TRUE = "p_true"
DRAFT, YES = "draft", "p_yes"  # what is measured, in the journal


def surenesses(questions: Sequence[str], oracle: Oracle) -> dict[str, list[float]]:
    """Return how sure it is, in [0, 1], by each gate that its replies are enough for."""
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
            prompt = TRUE_PROMPT if draft.text.strip() else KNOW_PROMPT
            filled = prompt.format(question=question, draft=draft.text)
            asked.append(LimitedPrompt(filled, one_line=True))
        replies = oracle.measured(YES, asked, llm.p_yes, str)
        sure[P_TRUE] = [float(text) if text else 0.0 for text in replies]
    return {name: values for name, values in sure.items() if len(set(values)) > 1}
