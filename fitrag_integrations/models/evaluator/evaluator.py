"""CRAG's retrieval evaluator (section 4.2): how well a passage answers a question, in [-1, 1].

One class over two kinds of weights: our own head over any encoder, and a published classifier with
one output (the paper's T5-large is one). The grades of one have no meaning for the thresholds of
another, so thresholds carry the name of the evaluator they were fitted for and are rejected by
others.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Self, TypeAlias, Unpack

from fitrag_integrations.core.checks import check_text
from fitrag_integrations.errors import refuse_if
from fitrag_integrations.models.evaluator.head import HeadGrader
from fitrag_integrations.models.evaluator.sequence_classifier import (
    KIND,
    MAX_LENGTH,
    InputFormat,
    SequenceGrader,
    read_fields,
)
from fitrag_integrations.models.kinds import PairGrader
from fitrag_integrations.models.runtime.engine import Options, PairOptions
from fitrag_integrations.models.runtime.folder import (
    kind_in,
    read_manifest,
    reading,
    write_manifest,
)
from fitrag_integrations.models.runtime.saved import remembered
from fitrag_integrations.models.runtime.sources import model_folder
from fitrag_integrations.values.thresholds import ActionThresholds


def store_fields(folder: Path, *, name: str, thresholds: ActionThresholds | None) -> None:
    """Write a name and thresholds into an evaluator's folder, and change nothing else."""
    ours = is_ours(folder)
    kind = HeadGrader.kind if ours else KIND
    fields = {**(read_manifest(folder, "model.json", kind=kind) if ours else read_fields(folder))}
    fields["name"] = name
    if thresholds is not None:
        fields["thresholds"] = replace(thresholds, model=name).to_dict()
    write_manifest(folder, "model.json", kind=kind, fields=fields)


def is_ours(folder: Path) -> bool:
    """Check whether a folder has a head of this package, rather than only a transformers
    checkpoint.
    """
    return (folder / "model.json").is_file() and kind_in(folder) != KIND


def find(name_or_dir: str | Path) -> Path | str:
    """Return a folder, or the name of a checkpoint that transformers is to fetch itself."""
    folder = Path(name_or_dir).expanduser()
    if folder.exists() or str(name_or_dir).count("/") != 1:
        return folder
    from huggingface_hub import hf_hub_download

    try:
        hf_hub_download(str(name_or_dir), "model.json")
    except (OSError, ValueError):  # not there, or no hub: loading it by name says which
        return str(name_or_dir)
    return model_folder(name_or_dir)


Grader: TypeAlias = HeadGrader | SequenceGrader


class RetrievalEvaluator(PairGrader):
    """Evaluator that grades (question, passage) pairs: 1 is surely an answer, -1 surely none.

    Load one with `embedded()` or `from_pretrained`, or train one with `fitrag train evaluator`.
    A scorer needs no class of its own to grade: `Crag(scorer)` reads its `has_answer`. Calls from
    any thread or event loop are queued to one worker, batched by tokens, and answered in order.

    Args:
        grader: Object that computes the grades.
        name: Name that thresholds must be fitted for.
        thresholds: Thresholds of CRAG's actions.

    Example:
        >>> evaluator = RetrievalEvaluator.embedded()
        >>> evaluator.evaluate([("Who wrote it?", Passage("1", "Ann wrote it."))])
    """

    kind = "evaluator"

    def __init__(
        self, grader: Grader, *, name: str = "", thresholds: ActionThresholds | None = None
    ) -> None:
        super().__init__()
        self._grader, self._grades = grader, grader._grades
        self._engine = grader if isinstance(grader, SequenceGrader) else grader._engine
        self.name = name
        self.thresholds = thresholds

    @property
    def thresholds(self) -> ActionThresholds | None:
        """The thresholds fitted on these grades, or None."""
        return self._thresholds

    @thresholds.setter
    def thresholds(self, given: ActionThresholds | None) -> None:
        if given is not None:
            given.check(self.name)
        self._thresholds = given

    @classmethod
    @remembered
    def from_pretrained(
        cls,
        name_or_dir: str | Path,
        *,
        input_format: InputFormat | None = None,
        name: str | None = None,
        **options: Unpack[PairOptions],
    ) -> Self:
        """Load an evaluator from a folder or by hub name.

        Args:
            name_or_dir: Folder of `fitrag train evaluator`, or a classifier with one output.
            input_format: Format of the passage for a classifier: "plain" (the text) or "titled"
                (`title // text`). Defaults to the saved format, else "plain".
            name: Name that thresholds are compared with. Defaults to the folder's.
            **options: `device`, `dtype`, `batch_tokens`, `backend`, `max_length`, `model_kwargs`,
                `tokenizer_kwargs`, as for `BiLabelScorer.from_pretrained`. A classifier reads 512
                tokens at once unless `max_length` is given.

        Raises:
            InputError: If an option is invalid.
            ModelLoadError: If a file is missing or damaged, or a classifier has several outputs.
        """
        source = str(find(name_or_dir))
        grader: HeadGrader | SequenceGrader
        if is_ours(Path(source)):
            refuse_if(
                input_format is not None,
                "input_format",
                input_format,
                "None: this evaluator has an input of its own",
            )
            grader = HeadGrader.from_pretrained(source, **options)
            fields, default = grader.manifest, Path(source).name
        else:
            grader = SequenceGrader.load(
                source, Options.checked(**options), input_format=input_format
            )
            fields = dict(read_fields(Path(source)))
            default = Path(source).name if Path(source).exists() else source
        with reading(source):
            own = check_text("name", fields.get("name", default))
            if name is not None and name != own:  # what was fitted stays with the old name
                return cls(grader, name=name)
            kept = fields.get("thresholds")
            if kept is not None:
                kept = ActionThresholds.from_dict({"model": own, **kept})
            return cls(grader, name=own, thresholds=kept)

    def save_pretrained(self, folder: str | Path) -> None:
        """Save weights, name and thresholds to a folder that `from_pretrained` reads.

        Args:
            folder: Folder to write.
        """
        self._check_loaded()
        folder, grader = Path(folder), self._grader
        if isinstance(grader, HeadGrader):
            grader.save_pretrained(folder)
        else:
            grader.save(folder)
            grown = {} if grader.length == MAX_LENGTH else {"max_length": grader.length}
            write_manifest(
                folder,
                "model.json",
                kind=KIND,
                fields={"input_format": grader.input_format, **grown},
            )
        store_fields(folder, name=self.name, thresholds=self.thresholds)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle as the folder and the options; the weights stay where they are."""
        return (*super().__reduce__(), (self.thresholds,))

    def __setstate__(self, state: tuple[ActionThresholds | None]) -> None:
        (self.thresholds,) = state

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, thresholds={self.thresholds!r})"
