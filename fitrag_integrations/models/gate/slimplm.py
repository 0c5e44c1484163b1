"""SlimPLM's two small models (sections 3.2 and 3.3): is retrieval needed, and what to search for.

Both are causal language models, usually with an adapter of `fitrag train`, that read a question and
a heuristic answer. The judge writes `Known (True)` or `Known (False)`; the rewriter writes claims
and queries, which `methods.claims` reads. The released weights know other prompts than the paper
prints, so both are here by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, Unpack

from fitrag_integrations.core.checks import check_text, check_whole
from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import refuse_if
from fitrag_integrations.models.causal import decoding as causal_decoding
from fitrag_integrations.models.causal.decoding import Writing
from fitrag_integrations.models.causal.language_model import CausalEngine, Ids
from fitrag_integrations.models.causal.loading import CausalModel
from fitrag_integrations.models.gate.gate import CausalGate, Texts, cut_drafts
from fitrag_integrations.models.runtime.engine import LoadOptions
from fitrag_integrations.models.runtime.folder import positive, read_manifest
from fitrag_integrations.models.runtime.saved import remembered
from fitrag_integrations.models.runtime.sources import model_folder
from fitrag_integrations.models.runtime.worker import Steps
from fitrag_integrations.models.words import checked_pairs, filled, parting
from fitrag_integrations.types import Draft
from fitrag_integrations.values.slimplm import (
    JUDGE_PAPER,
    RELEASED_PROMPT,
    REWRITE_PAPER,
    read_verdict,
)

VERDICT_TOKENS = 16
TOKENS = 512  # of a rewriting; a heuristic answer has some 160, and the answer may stand at its end


@dataclass(frozen=True, slots=True)
class Template:
    """Prompt of a small model.

    Args:
        prompt: Text with {question} and {draft}.
        verdicts: The judge's two, known and unknown.
        raw: Whether the prompt has its own conversation marks, so that no chat template is applied.
    """

    prompt: str
    verdicts: tuple[str, ...] = ()
    raw: bool = False

    def texts(self, engine: CausalEngine, pairs: Sequence[Texts], draft_tokens: int) -> list[str]:
        """Write what the model continues of each question and the beginning of its draft."""
        cut = cut_drafts(engine, pairs, draft_tokens)
        texts = [filled(self.prompt, question=question, draft=draft) for question, draft in cut]
        return texts if self.raw else [engine.render(text) for text in texts]


JUDGES = {
    "paper": Template(JUDGE_PAPER, ("Known (True)", "Known (False)")),
    "released": Template(RELEASED_PROMPT, ("<Known(True)>", "<Known(False)>"), raw=True),
}
REWRITERS = {"paper": Template(REWRITE_PAPER), "released": Template(RELEASED_PROMPT, raw=True)}
RELEASED = {
    "necessity": "SlimPLM-Retrieval-Necessity-Judgment",
    "rewriter": "SlimPLM-Query-Rewriting",
}
"""Names of the released weights."""


class NecessityJudge(CausalGate):
    """Gate that judges by a heuristic answer whether to retrieve (SlimPLM, section 3.2).

    `judge` reads the verdict the model writes; `p_known` compares how likely it is to write True
    against False. A blank draft is judged as an empty heuristic answer.

    Args:
        engine: Language model and tokenizer.
        manifest: Fields of the folder's `model.json`.
        adapter: Name of the adapter on the engine.

    Example:
        >>> judge = NecessityJudge.from_pretrained("my-judge")
        >>> judge.judge(["Who wrote Faust?"], ["Goethe wrote Faust."])
    """

    kind = "necessity"
    title = "necessity judge"
    default_tokens = TOKENS

    def __init__(self, engine: CausalEngine, *, manifest: Row, adapter: str | None = None) -> None:
        super().__init__(engine, manifest=manifest, adapter=adapter)
        self.template = template_of(manifest.get("template", "paper"), JUDGES)
        self._temperatures = (positive(manifest, "temperature"),) * 2
        engine.worker.call(self._asked, [("question", "answer")])  # refuses unfit tokenizers early

    @classmethod
    @remembered
    def from_pretrained(
        cls,
        name_or_dir: str | Path,
        *,
        template: str | None = None,
        for_model: str | None = None,
        allow_other_model: bool = False,
        **options: Unpack[LoadOptions],
    ) -> Self:
        """Load a judge: a folder of `fitrag train necessity`, or any causal language model.

        Args:
            name_or_dir: Folder or hub name.
            template: Prompt, "paper" or "released". Defaults to the folder's, else "released" for
                the released weights and "paper" for any other.
            for_model: Name of the language model whose knowledge is to be judged.
            allow_other_model: Accept a judge that was fitted for another model.
            **options: Those of `LocalGenerator.from_pretrained` for loading.

        Raises:
            ThresholdMismatchError: If it was fitted for another model.
            ModelLoadError: If a file or a tensor is missing or damaged.
        """
        folder, manifest = _described(name_or_dir, cls.kind, template)
        return cls._for(
            folder, manifest, options, for_model=for_model, allow_other_model=allow_other_model
        )

    def judge(self, questions: Sequence[str], drafts: Sequence[str]) -> list[bool | None]:
        """Write a verdict on each question and read it.

        Args:
            questions: Questions.
            drafts: One heuristic answer per question; may be blank.

        Returns:
            True for known, False for not known, None for a verdict that cannot be read.
        """
        return self._call(self._judge, checked_pairs(questions, drafts))

    async def ajudge(self, questions: Sequence[str], drafts: Sequence[str]) -> list[bool | None]:
        """Async version of `judge`.

        Args:
            questions: Questions.
            drafts: One heuristic answer per question; may be blank.
        """
        return await self._acall(self._judge, checked_pairs(questions, drafts))

    def gaps(self, pairs: Sequence[Texts]) -> Steps[list[float]]:
        """Return the logit of True less that of False of `pairs`, any number; on the worker
        only.
        """
        both = yield from self._engine.next_logits(self._asked(pairs), adapter=self._adapter)
        return [known - unknown for known, unknown in both]

    def _asked(self, pairs: Sequence[Texts]) -> list[tuple[Ids, tuple[int, int]]]:
        """Encode each prompt up to where the two verdicts part, with the next id of each."""
        engine, template = self._engine, self.template
        texts = template.texts(engine, pairs, self.draft_tokens)
        wholes = [
            engine.encode([text + ending for text in texts], raw=template.raw)
            for ending in template.verdicts
        ]
        return [parting(one, other, engine.tokenizer) for one, other in zip(*wholes, strict=True)]

    def _judge(self, pairs: Sequence[Texts]) -> Steps[list[bool | None]]:
        written = yield from _written(self, pairs, VERDICT_TOKENS)
        return [read_verdict(done.text) for done in written]


class QueryRewriter(CausalModel):
    """Model that writes claims and queries on heuristic answers, greedily (SlimPLM, section 3.3).

    Args:
        engine: Language model and tokenizer.
        manifest: Fields of the folder's `model.json`.
        adapter: Name of the adapter on the engine.

    Example:
        >>> rewriter = QueryRewriter.from_pretrained("my-rewriter")
        >>> rewriter.rewrite(["Who wrote Faust?"], ["Goethe wrote Faust."])
    """

    kind = "rewriter"

    def __init__(self, engine: CausalEngine, *, manifest: Row, adapter: str | None = None) -> None:
        super().__init__(engine, manifest=manifest, adapter=adapter)
        self.template = template_of(manifest.get("template", "paper"), REWRITERS)
        given = manifest.get("max_new_tokens", TOKENS), manifest.get("draft_tokens", TOKENS)
        self.max_new_tokens = check_whole("max_new_tokens", given[0], low=1)
        self.draft_tokens = check_whole("draft_tokens", given[1], low=1)

    @classmethod
    @remembered
    def from_pretrained(
        cls,
        name_or_dir: str | Path,
        *,
        template: str | None = None,
        max_new_tokens: int | None = None,
        **options: Unpack[LoadOptions],
    ) -> Self:
        """Load a rewriter: a folder of `fitrag train rewriter`, or any causal language model.

        Args:
            name_or_dir: Folder or hub name.
            template: Prompt, "paper" or "released". Defaults to the folder's, else "released" for
                the released weights and "paper" for any other.
            max_new_tokens: Maximum length of the output. Defaults to the folder's.
            **options: Those of `LocalGenerator.from_pretrained` for loading.

        Raises:
            ModelLoadError: If a file or a tensor is missing or damaged.
            ChecksumError: If a file was changed.
        """
        folder, manifest = _described(name_or_dir, cls.kind, template)
        if max_new_tokens is not None:
            manifest["max_new_tokens"] = check_whole("max_new_tokens", max_new_tokens, low=1)
        return cls._over(folder, manifest, options)

    def rewrite(self, questions: Sequence[str], drafts: Sequence[str]) -> list[str]:
        """Write claims and queries on each heuristic answer.

        Args:
            questions: Questions.
            drafts: One heuristic answer per question; may be blank.

        Returns:
            A text for each question, in the grammar of the template.
        """
        return self._call(self._rewrite, checked_pairs(questions, drafts))

    async def arewrite(self, questions: Sequence[str], drafts: Sequence[str]) -> list[str]:
        """Async version of `rewrite`.

        Args:
            questions: Questions.
            drafts: One heuristic answer per question; may be blank.
        """
        return await self._acall(self._rewrite, checked_pairs(questions, drafts))

    def _rewrite(self, pairs: Sequence[Texts]) -> Steps[list[str]]:
        written = yield from _written(self, pairs, self.max_new_tokens)
        return [done.text for done in written]


def _written(
    model: NecessityJudge | QueryRewriter, pairs: Sequence[Texts], tokens: int
) -> Steps[list[Draft]]:
    """Write at most `tokens` tokens after the prompt of each pair."""
    engine, template = model._engine, model.template
    texts = template.texts(engine, pairs, model.draft_tokens)
    rows, how = engine.encode(texts, raw=template.raw), Writing(tokens)
    return (yield from causal_decoding.write(engine, rows, how, adapter=model._adapter))


def template_of(name: str, templates: Mapping[str, Template]) -> Template:
    """Return a named template of `JUDGES` or `REWRITERS`."""
    refuse_if(
        check_text("template", name) not in templates, "template", name, " or ".join(templates)
    )
    return templates[name]


def _described(
    name_or_dir: str | Path, kind: str, template: str | None
) -> tuple[Path, dict[str, Any]]:
    """Read a model's folder; a plain language model is one without an adapter."""
    if template is not None:
        template_of(template, JUDGES)
    folder = Path(name_or_dir).expanduser()
    if not (folder / "model.json").is_file() and (
        (folder / "config.json").is_file() or not folder.exists()
    ):
        released = RELEASED[kind] in str(name_or_dir)
        manifest: Row = {"base": str(name_or_dir), "template": "released" if released else "paper"}
    else:
        folder = model_folder(name_or_dir)
        manifest = read_manifest(folder, "model.json", kind=kind, needs=("base",))
    return folder, {**manifest, **({"template": template} if template else {})}
