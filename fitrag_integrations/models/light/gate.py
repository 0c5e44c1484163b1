"""The IK gate that ships and its language model without torch: equal drafts, equal decisions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, cast

import numpy as np

from fitrag_integrations.models.calls import KnowledgeGate, Writer
from fitrag_integrations.models.causal.words import (
    FACTS,
    SINGLE,
    common_prefix,
    filled,
    joined,
    share,
)
from fitrag_integrations.models.light.llama import Floats, Llama, facts
from fitrag_integrations.models.light.models import Shipped, head_of
from fitrag_integrations.models.runtime.folder import both_positive, read_manifest
from fitrag_integrations.models.runtime.saved import embedded_folder
from fitrag_integrations.models.runtime.worker import Steps, Worker
from fitrag_integrations.types import Draft
from fitrag_integrations.values.prompt import LimitedPrompt
from fitrag_integrations.values.thresholds import FittedThreshold

Item: TypeAlias = tuple[str, int]  # a prompt, and the tokens of its reply at most
BATCH = 16  # rows of one pass


class LightGenerator(Writer, Shipped):
    """Write closed-book answers and drafts, as `LocalGenerator` does over the model that ships."""

    kind = "generator"

    def __init__(self) -> None:
        folder = embedded_folder("closed_book")
        super().__init__(read_manifest(folder, "model.json", kind=self.kind, needs=("files",)))
        self.llama, self.prompt = Llama(folder, self.manifest), str(self.manifest["prompt"])
        self.name = self.llama.name
        self.draft_tokens = self.max_new_tokens = int(self.manifest["max_new_tokens"])
        self.stop = tuple(self.manifest["stop"])
        self.worker = Worker("light language model")

    def question_prompt(self, question: str) -> str:
        """Write the prompt for a closed-book answer."""
        return filled(self.prompt, question=question)

    def read(self, question: str, draft: str) -> tuple[list[int], list[int]]:
        """Encode a question's prompt and what follows it. On the worker only."""
        prompt = self.question_prompt(question)
        alone = self.llama.encode(prompt)
        if not draft:
            return alone, []
        both = self.llama.encode(joined(prompt, draft, spaced=True))
        at = min(common_prefix(alone, both), len(both) - 1)
        return both[:at], both[at:]

    def first_tokens(self, text: str, count: int) -> str:
        """Cut a text to its first tokens. On the worker only."""
        ids = self.llama.tokenizer.encode(text, add_special_tokens=False).ids
        return text if len(ids) <= count else self.llama.tokenizer.decode(ids[:count]).strip()

    def _how(self, asked: LimitedPrompt, draft: bool = False) -> int:
        most = self.max_new_tokens
        return asked.tokens or self.draft_tokens if draft else min(asked.tokens or most, most)

    def _written(self, items: Sequence[Item]) -> Steps[list[Draft]]:
        made: list[Draft] = []
        for at in range(0, len(items), BATCH):
            batch = items[at : at + BATCH]
            made += [_measured_draft(*found) for found in self.llama.written(batch, self.stop)]
            yield len(made), len(items)
        return made

    def _rescore(self, pairs: Sequence[tuple[str, str]]) -> Steps[list[Draft]]:
        made: list[Draft] = []
        for at in range(0, len(pairs), BATCH):
            batch = pairs[at : at + BATCH]
            read = [self.read(question, draft) for question, draft in batch]
            found = self.llama.passed([prompt + ids for prompt, ids in read])
            made += [
                _measured_draft(draft, facts(logits[-len(ids) - 1 : -1], ids)) if ids else Draft("")
                for (_, draft), (_, ids), (_, logits) in zip(batch, read, found, strict=True)
            ]
            yield len(made), len(pairs)
        return made

    def _own_worker(self) -> Worker:
        return self.worker


class LightGate(KnowledgeGate, Shipped):
    """Gate of the bundled language model over NumPy, with the results of `IKClassifier`."""

    kind = "ik"

    def __init__(self) -> None:
        folder = embedded_folder(self.kind)
        super().__init__(read_manifest(folder, "model.json", kind=self.kind, needs=("weights",)))
        self._head = head_of(folder, {"head": self.manifest["weights"]})
        self._temperatures = both_positive(self.manifest)
        self.draft_tokens = int(self.manifest["draft_tokens"])
        self.fitted = FittedThreshold.from_dict(self.manifest["threshold"])
        self.threshold = self.fitted.value
        self.model_name = self.fitted.model
        self.name = f"IK for {self.model_name}"
        self.drafter = LightGenerator()

    def _known(self, pairs: Sequence[tuple[str, str]]) -> Steps[list[float]]:
        found: list[float] = []
        drafter = self.drafter
        for at in range(0, len(pairs), BATCH):
            batch = pairs[at : at + BATCH]
            cuts = [drafter.first_tokens(d, self.draft_tokens) if d else "" for _, d in batch]
            read = [drafter.read(q, cut) for (q, _), cut in zip(batch, cuts, strict=True)]
            passed = drafter.llama.passed([prompt + draft for prompt, draft in read])
            for cut, (_, draft), (states, logits) in zip(cuts, read, passed, strict=True):
                numbers = self._features(states, logits, draft)
                measured = (numbers - self._head["mean"]) / self._head["scale"]
                gap = float(self._head["out.weight"][0] @ measured + self._head["out.bias"][0])
                found.append(share((gap, 0.0), self._temperatures[bool(cut)]))
            yield len(found), len(pairs)
        return found

    def _features(self, states: list[Floats], logits: Floats, draft: list[int]) -> Floats:
        """Measure a prompt and its draft as `causal.states.features` does. Shape: (features,)."""
        parts: list[Floats] = []
        for layer in self.manifest["weights"]["layers"]:
            last = states[layer][-1]
            parts += [last, states[layer][-len(draft) :].mean(0) if draft else np.zeros_like(last)]
        return np.concatenate([*parts, _measured(logits, draft)])

    def _own_worker(self) -> Worker:
        return self.drafter.worker


def _measured_draft(text: str, measured: Floats) -> Draft:
    numbers = cast(list[list[float]], measured.tolist())
    return Draft(text, *zip(*numbers, strict=True)) if numbers else Draft("")


def _measured(logits: Floats, draft: list[int]) -> Floats:
    """Return how sure the model was, from the position before the draft on. Shape: (FACTS,)."""
    count = len(draft)
    first = facts(logits[len(logits) - count - 1 :][:1], [0])[0, 1:]
    if not count:
        return np.concatenate([first, np.zeros(FACTS - 2, np.float32)])
    measured = facts(logits[-count - 1 : -1], draft)
    worst = [measured[:, 0].min(), measured[:, 1].min(), measured[:, 2].max()]
    sums = np.log1p([-measured[:, 0].sum(), measured[:, 2].sum()])
    single = np.tile(np.array([0.0, 1.0, 0.0], np.float32), (SINGLE, 1))
    single[:count] = measured[:SINGLE]
    return np.concatenate([first, measured.mean(0), worst, sums, [1.0], single.ravel()])
