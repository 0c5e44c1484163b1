"""SlimPLM's query rewriter (section 3.3): a heuristic answer becomes claims and queries.

A causal language model, usually with an adapter of `fitrag train rewriter`, reads the question and
the heuristic answer and writes one of two grammars; `methods.claims` reads both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, Unpack

from fitrag_integrations.core.checks import check_text, check_whole
from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import InputError
from fitrag_integrations.models.causal import decoding as causal_decoding
from fitrag_integrations.models.causal.decoding import Writing
from fitrag_integrations.models.causal.engine import CausalEngine
from fitrag_integrations.models.causal.model import CausalModel
from fitrag_integrations.models.causal.words import checked_pairs, filled
from fitrag_integrations.models.gate.gate import Texts, cut_drafts
from fitrag_integrations.models.runtime.engine import LoadOptions
from fitrag_integrations.models.runtime.folder import read_manifest
from fitrag_integrations.models.runtime.saved import remembered
from fitrag_integrations.models.runtime.sources import model_folder
from fitrag_integrations.models.runtime.worker import Steps
from fitrag_integrations.values.slimplm import REWRITE_PAPER, REWRITE_RELEASED

TOKENS = 512  # of a rewriting, and of the heuristic answer that is read


@dataclass(frozen=True, slots=True)
class RewriteTemplate:
    """A rewriter's prompt, with {question} and {draft}, and the grammar of its output.

    A `raw` prompt has its own conversation marks, and no chat template is put around it.
    """

    prompt: str
    grammar: str
    raw: bool = False


TEMPLATES = {
    "paper": RewriteTemplate(REWRITE_PAPER, "paper"),
    "released": RewriteTemplate(REWRITE_RELEASED, "released", raw=True),
}


class QueryRewriter(CausalModel):
    """Write claims and queries on heuristic answers, greedily (SlimPLM, section 3.3).

    Built from an `engine`, a folder's `manifest`, and the name of its `adapter` on the engine.
    """

    kind = "rewriter"

    def __init__(self, engine: CausalEngine, *, manifest: Row, adapter: str | None = None) -> None:
        super().__init__(engine, manifest=manifest, adapter=adapter)
        self.template = rewrite_template(manifest.get("template", "paper"))
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
        if template is not None:
            rewrite_template(template)
        if max_new_tokens is not None:
            check_whole("max_new_tokens", max_new_tokens, low=1)
        others = {"template": template, "max_new_tokens": max_new_tokens}
        folder, manifest = _described(name_or_dir)
        manifest |= {name: value for name, value in others.items() if value is not None}
        return cls._over(folder, manifest, options)

    def rewrite(self, questions: Sequence[str], drafts: Sequence[str]) -> list[str]:
        """Write claims and queries on each heuristic answer, in the grammar of the template.

        One draft per question; a blank one is judged as an empty heuristic answer.
        """
        return self._call(self._rewrite, checked_pairs(questions, drafts))

    async def arewrite(self, questions: Sequence[str], drafts: Sequence[str]) -> list[str]:
        """Async version of `rewrite`."""
        return await self._acall(self._rewrite, checked_pairs(questions, drafts))

    def _rewrite(self, pairs: Sequence[Texts]) -> Steps[list[str]]:
        cut = cut_drafts(self._engine, pairs, self.draft_tokens)
        texts = [rewrite_text(self._engine, self.template, *pair) for pair in cut]
        rows = self._engine.encode(texts, raw=self.template.raw)
        how = Writing(self.max_new_tokens)
        written = yield from causal_decoding.write(self._engine, rows, how, adapter=self._adapter)
        return [done.text for done in written]


def rewrite_text(engine: CausalEngine, template: RewriteTemplate, question: str, draft: str) -> str:
    """Write what the rewriter continues."""
    text = filled(template.prompt, question=question, draft=draft)
    return text if template.raw else engine.render(text)


def rewrite_template(name: str) -> RewriteTemplate:
    """Find a named template."""
    if check_text("template", name) not in TEMPLATES:
        raise InputError.of("template", given=name, allowed=" or ".join(TEMPLATES))
    return TEMPLATES[name]


def _described(name_or_dir: str | Path) -> tuple[Path, dict[str, Any]]:
    """Read a rewriter's folder; a plain language model is a rewriter without an adapter."""
    folder = Path(name_or_dir).expanduser()
    if (folder / "model.json").is_file():
        folder = model_folder(name_or_dir)
        manifest = read_manifest(folder, "model.json", kind=QueryRewriter.kind, needs=("base",))
        return folder, {"template": "paper", **manifest}
    released = "SlimPLM-Query-Rewriting" in str(name_or_dir)
    return folder, {"base": str(name_or_dir), "template": "released" if released else "paper"}
