"""Gate and draft through an OpenAI-compatible server, so that a large model stays where it is.

vLLM serves a LoRA adapter by its name: give that name as `model`, and the IK decision (IK, section
3) is one request for one token with its log-probabilities. Nothing here needs torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Unpack

from fitrag_integrations.core.checks import check_is, check_number, check_text, check_whole
from fitrag_integrations.models.remote.base import (
    Remote,
    RemoteOptions,
    checked_pairs,
    fill,
    with_fields,
)
from fitrag_integrations.models.remote.client import finish
from fitrag_integrations.models.remote.generator import RemoteGenerator
from fitrag_integrations.models.remote.replies import read_yes
from fitrag_integrations.values.thresholds import FittedThreshold

__all__ = ["RemoteGenerator", "RemoteIK"]

PROMPTS = {
    "question": "Question: {question}\nDo you know the answer by yourself? Yes or No:",
    "draft": "Question: {question}\nBeginning of your answer: {draft}\n"
    "Do you know the answer by yourself? Yes or No:",
}


class RemoteIK(Remote):
    """Tell how likely a served model knows the answer to each question, a gate (IK, section 3).

    `base_url` ends in /v1; `yes` and `no` are the words whose probabilities are compared.
    `model` is the served name of the classifier, a LoRA adapter's or a plain model's; `api` says
    which endpoint: "completions" gets `prompts` as they are, "chat" in the model's chat template.
    The draft is used as given: who writes it cuts it to `draft_tokens`; `drafter` writes it where
    the caller names nobody. `fitted` says whose knowledge `threshold` was fitted for.
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
            "question": with_fields("prompts.question", prompts.get("question"), "question"),
            "draft": with_fields("prompts.draft", prompts.get("draft"), "question", "draft"),
        }
        self.fitted = None if fitted is None else check_is("fitted", fitted, FittedThreshold)
        given = fitted.value if threshold is None and fitted is not None else threshold
        self.threshold = None if given is None else check_number("threshold", given, low=0, high=1)
        self.draft_tokens = check_whole("draft_tokens", draft_tokens, low=0)
        self.drafter = drafter

    def p_known(self, questions: Sequence[str], drafts: Sequence[str]) -> list[float | Exception]:
        """Give the probability that each question is known, in [0, 1], in the order given.

        One draft per question; a blank one is none. A question whose request fails has a
        `PortError` in its place. Raises `InputError` for a blank question.
        """
        return finish(lambda: self.ap_known(questions, drafts))

    async def ap_known(
        self, questions: Sequence[str], drafts: Sequence[str]
    ) -> list[float | Exception]:
        """Do what `p_known` does, in [0, 1], without blocking the event loop."""
        prompts = [
            self._prompt(question, draft) for question, draft in checked_pairs(questions, drafts)
        ]
        bodies = [self._body(prompt, tokens=1, told=True) for prompt in prompts]
        return await self._ask(bodies, lambda reply: read_yes(reply, **self._words))

    def _prompt(self, question: str, draft: str) -> str:
        wanted = draft.strip() if self.draft_tokens else ""
        return fill(self._prompts["draft" if wanted else "question"], question, wanted)
