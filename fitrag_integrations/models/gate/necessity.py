"""SlimPLM's retrieval necessity judge (section 3.2): is a small model's own answer good enough?

A causal language model reads the question and the heuristic answer and writes `Known (True)` or
`Known (False)`. The released weights know another prompt and grammar than the paper prints; both
are here by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self, Unpack

from fitrag_integrations.core.checks import check_text
from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import InputError
from fitrag_integrations.models.causal import decoding as causal_decoding
from fitrag_integrations.models.causal.decoding import Writing
from fitrag_integrations.models.causal.engine import CausalEngine, Ids
from fitrag_integrations.models.causal.words import checked_pairs, filled, parting
from fitrag_integrations.models.gate.gate import CausalGate, Texts, cut_drafts
from fitrag_integrations.models.runtime.engine import LoadOptions
from fitrag_integrations.models.runtime.folder import positive, read_manifest
from fitrag_integrations.models.runtime.saved import remembered
from fitrag_integrations.models.runtime.sources import model_folder
from fitrag_integrations.models.runtime.worker import Steps
from fitrag_integrations.values.slimplm import JUDGE_PAPER, JUDGE_RELEASED, read_verdict

VERDICT_TOKENS = 16


@dataclass(frozen=True, slots=True)
class JudgeTemplate:
    """A judge's prompt, with {question} and {draft}, and its two verdicts.

    A `raw` prompt has its own conversation marks, and no chat template is put around it.
    """

    prompt: str
    known: str
    unknown: str
    raw: bool = False


TEMPLATES = {
    "paper": JudgeTemplate(
        JUDGE_PAPER,
        "Known (True)",
        "Known (False)",
    ),
    "released": JudgeTemplate(
        JUDGE_RELEASED,
        "<Known(True)>",
        "<Known(False)>",
        raw=True,
    ),
}


class NecessityJudge(CausalGate):
    """Judge from a heuristic answer whether a question needs retrieval; also a gate.

    `judge` reads the verdict the model writes; `p_known` compares how likely it is to write True
    against False. A blank draft is judged as an empty heuristic answer.
    """

    kind = "necessity"
    title = "necessity judge"
    default_tokens = 512  # a heuristic answer has some 160, and the answer may stand at its end

    def __init__(self, engine: CausalEngine, *, manifest: Row, adapter: str | None = None) -> None:
        super().__init__(engine, manifest=manifest, adapter=adapter)
        self.template = template_of(manifest.get("template", "paper"))
        self._one_temperature = positive(manifest, "temperature")
        engine.worker.call(self._asked, [("question", "answer")])  # tells unfit tokenizers at load

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
        if template is not None:
            template_of(template)
        folder, manifest = _described(name_or_dir, template)
        return cls._for(
            folder, manifest, options, for_model=for_model, allow_other_model=allow_other_model
        )

    def judge(self, questions: Sequence[str], drafts: Sequence[str]) -> list[bool | None]:
        """Write a verdict on each question and read it: known, not known, or None.

        None is a verdict that cannot be read, and then retrieval is needed.
        """
        return self._call(self._judge, checked_pairs(questions, drafts))

    async def ajudge(self, questions: Sequence[str], drafts: Sequence[str]) -> list[bool | None]:
        """Async version of `judge`."""
        return await self._acall(self._judge, checked_pairs(questions, drafts))

    def gaps(self, pairs: Sequence[Texts]) -> Steps[list[float]]:
        """Return the logit of True less that of False of `pairs`, any number; on the worker
        only.
        """
        both = yield from self._engine.next_logits(self._asked(pairs), adapter=self._adapter)
        return [known - unknown for known, unknown in both]

    def _temperature(self, draft: str) -> float:
        return self._one_temperature

    def _asked(self, pairs: Sequence[Texts]) -> list[tuple[Ids, tuple[int, int]]]:
        """Encode each prompt up to where the two verdicts part, with the next id of each."""
        texts, template = self._texts(pairs), self.template
        wholes = [
            self._engine.encode([text + ending for text in texts], raw=template.raw)
            for ending in (template.known, template.unknown)
        ]
        tokenizer = self._engine.tokenizer
        return [parting(one, other, tokenizer) for one, other in zip(*wholes, strict=True)]

    def _judge(self, pairs: Sequence[Texts]) -> Steps[list[bool | None]]:
        rows = self._engine.encode(self._texts(pairs), raw=self.template.raw)
        how = Writing(VERDICT_TOKENS)
        written = yield from causal_decoding.write(self._engine, rows, how, adapter=self._adapter)
        return [read_verdict(done.text) for done in written]

    def _texts(self, pairs: Sequence[Texts]) -> list[str]:
        return [
            judge_text(self._engine, self.template, question, draft)
            for question, draft in cut_drafts(self._engine, pairs, self.draft_tokens)
        ]


def judge_text(engine: CausalEngine, template: JudgeTemplate, question: str, draft: str) -> str:
    """Write what the judge continues with its verdict."""
    text = filled(template.prompt, question=question, draft=draft)
    return text if template.raw else engine.render(text)


def template_of(name: str) -> JudgeTemplate:
    """Find a named template."""
    if check_text("template", name) not in TEMPLATES:
        raise InputError.of("template", given=name, allowed=" or ".join(TEMPLATES))
    return TEMPLATES[name]


def _described(name_or_dir: str | Path, template: str | None) -> tuple[Path, Row]:
    """Read a judge's folder; a plain language model is a judge without an adapter."""
    folder = Path(name_or_dir).expanduser()
    if (folder / "model.json").is_file() or not _is_model(name_or_dir):
        folder = model_folder(name_or_dir)
        manifest = read_manifest(folder, "model.json", kind="necessity", needs=("base",))
    else:
        released = "SlimPLM-Retrieval-Necessity-Judgment" in str(name_or_dir)
        manifest = {"base": str(name_or_dir), "template": "released" if released else "paper"}
    return folder, manifest | ({"template": template} if template else {})


def _is_model(name_or_dir: str | Path) -> bool:
    folder = Path(name_or_dir).expanduser()
    return (folder / "config.json").is_file() or not folder.exists()
