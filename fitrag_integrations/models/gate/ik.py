"""IK, "I know" (Let your LLM generate a few tokens, section 3): is retrieval needed at all?

Three variants behind one class. `lora`, the paper's: an adapter teaches the model to say Yes or No,
and the softmax over those two logits is the score. `full`: the same by all weights of a small base,
which is saved whole beside its manifest. `head`: a small head on what the frozen base shows of its
own drafting prompt.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self, Unpack, cast

import torch

from fitrag_integrations.core.checks import check_whole
from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import ModelLoadError, raise_if
from fitrag_integrations.models.causal.generator import prompt_and_draft
from fitrag_integrations.models.causal.language_model import CausalEngine
from fitrag_integrations.models.causal.states import (
    KnownHead,
    feature_count,
    features,
)
from fitrag_integrations.models.gate.gate import CausalGate, Texts, cut_drafts
from fitrag_integrations.models.runtime.engine import LoadOptions
from fitrag_integrations.models.runtime.folder import (
    both_positive,
    load_head,
    read_manifest,
    read_tensors,
    write_tensors,
)
from fitrag_integrations.models.runtime.saved import remembered
from fitrag_integrations.models.runtime.sources import model_folder
from fitrag_integrations.models.runtime.worker import Steps
from fitrag_integrations.models.words import (
    PROMPTS,
    choice_ids,
    filled,
    needs_fields,
)

VARIANTS = ("lora", "full", "head")


class IKClassifier(CausalGate):
    """Gate that estimates how likely a language model knows each answer (IK, section 3).

    Load one with `from_pretrained(folder)`, train one with `fitrag train ik`. It reads
    the question, and the first `draft_tokens` tokens of the model's own answer where a draft is
    given; a blank draft is none. Questions of all callers share one forward pass, padded on the
    left, in which only the last position is scored. The draft is read again in that pass, because
    an adapter changes what the key-value cache of the drafting holds.

    Args:
        engine: Language model and tokenizer.
        manifest: Fields of the folder's `model.json`.
        adapter: Name of the adapter on the engine, for the variant "lora".
        head: Head on the states of the frozen base, for the variant "head".

    Example:
        >>> gate = IKClassifier.from_pretrained("my-gate")
        >>> gate.p_known(["What is the capital of Mongolia?"], [""])
    """

    kind = "ik"
    title = "IK"
    default_tokens = 32

    def __init__(
        self,
        engine: CausalEngine,
        *,
        manifest: Row,
        adapter: str | None = None,
        head: KnownHead | None = None,
    ) -> None:
        super().__init__(engine, manifest=manifest, adapter=adapter)
        self._head = None if head is None else head.float().eval()
        self._temperatures = both_positive(manifest)
        self.word_ids = (0, 0)
        if head is None:
            words, spaced = tuple(manifest.get("words", ("Yes", "No"))), not engine.is_chat
            (self.word_ids,) = engine.worker.call(
                lambda each: [choice_ids(engine.tokenizer, one, spaced=spaced) for one in each],
                [words],
            )
        self._prompts = PROMPTS | dict(manifest.get("prompts", {}))
        for name, fields in (("question", ["question"]), ("draft", ["question", "draft"])):
            needs_fields(f"prompts.{name}", self._prompts[name], fields)

    @classmethod
    @remembered
    def from_pretrained(
        cls,
        name_or_dir: str | Path,
        *,
        for_model: str | None = None,
        allow_other_model: bool = False,
        **options: Unpack[LoadOptions],
    ) -> Self:
        """Load a classifier with its base.

        Args:
            name_or_dir: Folder or hub name.
            for_model: Name of the language model whose knowledge it is to judge.
            allow_other_model: Accept a classifier that was fitted for another model.
            **options: `device`, `dtype`, `batch_tokens`, `model_kwargs`, `tokenizer_kwargs` and
                `chat_template_kwargs`, as in `LocalGenerator.from_pretrained`.

        Raises:
            ThresholdMismatchError: If it was fitted for another model.
            ModelLoadError: If a file or a tensor is missing or damaged, or the tokenizer has no
                single token for Yes or No.
            ChecksumError: If a file was changed.
        """
        folder = model_folder(name_or_dir)
        manifest = read_manifest(
            folder, "model.json", kind=cls.kind, needs=("base", "variant", "weights")
        )
        return cls._for(
            folder,
            manifest,
            options,
            for_model=for_model,
            allow_other_model=allow_other_model,
        )

    @property
    def variant(self) -> str:
        """Return which of `VARIANTS` this is."""
        return str(self.manifest.get("variant", "lora" if self._head is None else "head"))

    def gaps(self, pairs: Sequence[Texts]) -> Steps[list[float]]:
        """Return the logit of knowing, any number, before calibration: Yes less No, or the
        head's.

        On the worker only; drafts are cut here.
        """
        cut = cut_drafts(self._engine, pairs, self.draft_tokens)
        if self._head is not None:
            return (yield from self._head_logits(cut))
        texts = [ask_text(self._engine, self._prompts, q, d) for q, d in cut]
        asked = [(row, self.word_ids) for row in self._engine.encode(texts)]
        both = yield from self._engine.next_logits(asked, adapter=self._adapter)
        return [yes - no for yes, no in both]

    @classmethod
    def _build(cls, engine: CausalEngine, folder: Path, manifest: Row, adapter: str | None) -> Self:
        entry = manifest["weights"]
        if manifest["variant"] in ("lora", "full"):
            return cls(engine, manifest=manifest, adapter=adapter)
        raise_if(
            manifest["variant"] != "head",
            ModelLoadError,
            f"{folder}: its variant is {manifest['variant']!r}, not one of {', '.join(VARIANTS)}",
        )
        last = int(engine.model.config.num_hidden_layers)
        for i, layer in enumerate(entry["layers"]):
            check_whole(f"layers[{i}]", layer, low=0, high=last)
        count, tensors = feature_count(engine, entry["layers"]), read_tensors(folder, entry)
        hidden = check_whole("hidden", entry["hidden"], low=0)
        head = load_head(lambda: KnownHead(count, hidden=hidden), folder / entry["file"], tensors)
        return cls(engine, manifest=manifest, head=head)

    def _save_weights(self, folder: Path, base: str) -> dict[str, str] | None:
        if self._head is None:
            return super()._save_weights(folder, base)
        return write_tensors(folder, "head.safetensors", self._head.state_dict())

    @torch.inference_mode()
    def _head_logits(self, pairs: Sequence[Texts]) -> Steps[list[float]]:
        assert self._head is not None
        if not pairs:
            return []
        rows = head_rows(self._engine, pairs, self._prompts["question"])
        measured = yield from features(self._engine, rows, self.manifest["weights"]["layers"])
        return cast(list[float], self._head(measured).tolist())


def ask_text(engine: CausalEngine, prompts: Mapping[str, str], question: str, draft: str) -> str:
    """Write what the adapter answers with Yes or No."""
    prompt = prompts["draft" if draft else "question"]
    return engine.render(filled(prompt, question=question, draft=draft))


def head_rows(
    engine: CausalEngine, pairs: Sequence[Texts], prompt: str
) -> list[tuple[list[int], list[int]]]:
    """Encode the drafting prompt and the draft, as the base passes through them."""
    texts = [
        (engine.render(q) if engine.is_chat else filled(prompt, question=q), d) for q, d in pairs
    ]
    drafted = iter(prompt_and_draft(engine, [pair for pair in texts if pair[1]]))
    alone = iter(engine.encode([text for text, draft in texts if not draft]))
    return [next(drafted) if draft else (next(alone), []) for _, draft in texts]
