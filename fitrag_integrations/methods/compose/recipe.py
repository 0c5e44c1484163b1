"""Build and combine methods by name, from Python values or a short TOML file.

A table names its `method` and gives it plain fields. `[inner]` is the method that one goes on with
where it retrieves, `[retriever]` the method whose excerpts it gets in place of what is retrieved;
both have the same form again. Nothing here knows a model: what a field names is loaded when the
method is built, by `Models`.
"""

from __future__ import annotations

import importlib
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, MISSING, dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias, cast

from fitrag_integrations import models, retrieval  # whose names load on first use
from fitrag_integrations.core import jsonl
from fitrag_integrations.core.checks import check_callable, meant
from fitrag_integrations.core.extras import from_own_file, is_own_file
from fitrag_integrations.core.files import read_file
from fitrag_integrations.core.record import Row, check_mapping
from fitrag_integrations.errors import InputError, ModelLoadError, refuse_if
from fitrag_integrations.flow import Flow, Port, run_many
from fitrag_integrations.methods.baselines import MODULE_OF
from fitrag_integrations.methods.crag.evaluator import ActionThresholds
from fitrag_integrations.methods.fitrag.recognizer import (
    RECOGNIZER,
    RecognizerThresholds,
    SelfKnowledgeRecognizer,
)
from fitrag_integrations.methods.prompts import template_of
from fitrag_integrations.ports import Method, Ports
from fitrag_integrations.text.tokens import counter_for
from fitrag_integrations.types import Context, Excerpt, Passage

EMBEDDED = "embedded"
KINDS: Mapping[str, str] = {
    "scorer": "BiLabelScorer",
    "evaluator": "RetrievalEvaluator",
    "gate": "IKClassifier",
    "judge": "NecessityJudge",
    "rewriter": "QueryRewriter",
    "proxy": "LocalGenerator",
    "drafter": "LocalGenerator",
    "detector": "EligibilityDetector",
}
GATE_KINDS = {"ik": "IKClassifier", "necessity": "NecessityJudge"}  # by the kind of a `model.json`
OF_METHOD: Mapping[str, str] = {
    "Flare": "Continuer",
    "Refeed": "Continuer",
    "Replug": "ReplugGenerator",
    "SelfEval": "LocalGenerator",
}
"""What the field `model` holds, by method; Self-RAG's has to be given in Python."""

MODEL_FIELDS = frozenset((*KINDS, "model", "bank"))
BUNDLED = ("scorer", "evaluator", "detector")  # what "embedded" names


class Models:
    """Load each model once; folders are looked for beside the recipe first."""

    def __init__(self, beside: Path | None = None) -> None:
        self._beside = beside
        self._loaded: dict[tuple[str, str], Any] = {}

    def named(self, method: str, field: str, name: str, at: str) -> Any:
        """Return the model of a method's field.

        `embedded` is the shipped one, which a method has as its default.
        """
        if name == EMBEDDED:
            refuse_if(field not in BUNDLED, f"{at}{field}", name, "a folder or a hub name")
            return None
        beside = None if self._beside is None else self._beside / name
        found = str(beside) if beside is not None and beside.is_dir() else name
        if field == "bank":
            return self._once("QuestionBank", found)
        kind = OF_METHOD.get(method, "") if field == "model" else KINDS[field]
        if field == "gate" and (Path(found) / RECOGNIZER).is_file():
            return self._once("Recognizer", found)
        if field in ("gate", "judge"):
            kind = GATE_KINDS.get(str(manifest_of(Path(found)).get("kind")), kind)
        refuse_if(not kind, f"{at}{field}", name, f"an object given to {method} in Python")
        return self._once(kind, found)

    def _once(self, kind: str, name: str) -> Any:
        if (kind, name) not in self._loaded:
            self._loaded[kind, name] = self._load(kind, name)
        return self._loaded[kind, name]

    def _load(self, kind: str, name: str) -> Any:
        if kind == "QuestionBank":
            return retrieval.QuestionBank.load(name)
        if kind == "Recognizer":
            path = Path(name) / RECOGNIZER
            try:
                given = jsonl.loads(path.read_text(encoding="utf-8"))
                thresholds = RecognizerThresholds.from_dict(given["thresholds"])
            except (OSError, ValueError, KeyError, TypeError) as error:
                raise ModelLoadError(f"{path} is damaged: {error!r}") from error
            return SelfKnowledgeRecognizer(self._once("QuestionBank", name), thresholds)
        if kind == "Continuer":
            return models.Continuer(self._once("LocalGenerator", name))
        return getattr(models, kind).from_pretrained(name)


def manifest_of(folder: Path) -> dict[str, Any]:
    """Read a folder's `model.json`; empty where there is none to be read."""
    try:
        manifest = jsonl.loads(read_file(folder / "model.json"))
    except (OSError, ValueError):
        return {}
    return manifest if isinstance(manifest, dict) else {}


Recipe: TypeAlias = str | Path | Row

HOME = "fitrag_integrations.methods"
PAPERS = {"fitrag": "fitrag", "crag": "crag", "iknow": "ik", "slimplm": "slimplm", "itrg": "itrg"}
NAMES: Mapping[str, str] = {
    **{name: f"{HOME}.{folder}.method" for name, folder in PAPERS.items()},
    "direct": f"{HOME}.direct",
    **{name.lower(): f"{HOME}.baselines.{module}" for name, module in MODULE_OF.items()},
}
"""The module of each method, by the name of its contexts."""

NOT_PLAIN = ("split",)  # fields for objects no text can name: Python alone gives them
TABLES = ("thresholds",)


class MethodPort(Port[str, Sequence[Passage]]):
    """Answer each query with the excerpts ``method`` keeps, asking ``ports`` (CRAG, appendix B.3).

    The inner method's asks are those of the outer flow: its driver answers them, joins them with
    other questions', and shows them in the trace. Notes and decisions of the inner method are not
    handed on. An error of the inner flow is one of the outer flow's.

    Args:
        method: The inner method.
        ports: What the inner method retrieves, searches and generates with.
        name: Name of the port in a trace.
        contexts: Receives the context of each query that a flow runs; None keeps none.
    """

    def __init__(
        self,
        method: Method,
        ports: Ports,
        *,
        name: str = "retrieve",
        contexts: list[Context] | None = None,
    ) -> None:
        super().__init__(name, _Running(method, ports, contexts))

    def ask(self, items: Sequence[str]) -> Flow[list[Sequence[Passage]]]:
        """Run the method inside the asking flow, query by query."""
        inner = self.call
        assert isinstance(inner, _Running)
        found: list[Sequence[Passage]] = []
        for query in items:
            context = yield from inner.method(query, inner.ports)
            found.append(_passages(context))
            if inner.contexts is not None:
                inner.contexts.append(context)
        return found


def as_passage(excerpt: Excerpt) -> Passage:
    """Make a passage of an excerpt, with the source and the metadata of the one it is cut from.

    ``source_id``, ``start_index``, ``end_index`` and ``relevance_score`` are added to these.
    """
    whole = excerpt.passage
    place = {
        "source_id": whole.id,
        "start_index": excerpt.start,
        "end_index": excerpt.end,
        "relevance_score": excerpt.score,
    }
    metadata = {**whole.metadata, **place}
    return replace(excerpt.as_passage(), source=whole.source, metadata=metadata)


def _passages(context: Context) -> list[Passage]:
    return [as_passage(excerpt) for excerpt in context.excerpts]


@dataclass(frozen=True)
class _Running:
    """Run the method for whoever calls the port outside a flow."""

    method: Method
    ports: Ports
    contexts: list[Context] | None = field(default=None, compare=False, repr=False)

    def __call__(self, queries: Sequence[str]) -> list[list[Passage]]:
        traces = run_many([self.method(query, self.ports) for query in queries])
        return [_passages(trace.value) for trace in traces]


@dataclass(frozen=True)
class Over:
    """Run a method over what another one keeps, which stands in the place of its retrieval.

    Both use the caller's search and language model, and share calls with other questions. The
    selection of the context begins with what the inner method dropped, and why.

    Args:
        method: Method that ends in the context, such as `FitRag()`.
        retriever: Method whose excerpts the first one gets as passages.
    """

    method: Method
    _: KW_ONLY
    retriever: Method

    def __post_init__(self) -> None:
        for name in ("method", "retriever"):
            refuse_if(getattr(self, name) is None, name, None, "a method, such as Crag()")
            check_callable(name, getattr(self, name))

    def __call__(self, question: str, ports: Ports) -> Flow[Context]:
        """Return the flow of `method`, which ends as it would over any other retriever."""
        inner: list[Context] = []
        retrieve = MethodPort(self.retriever, ports, contexts=inner)
        shown = Ports(retrieve=retrieve, search=ports.search, generate=ports.generate)
        context = yield from self.method(question, shown)
        kept = {(row.passage, row.name) for one in inner for row in one.selection if row.kept}
        dropped = {
            row: replace(row, detail=f"{row.why}, by {one.method or 'the inner method'}")
            for one in inner
            for row in one.selection
            if not (row.kept or (row.whole and (row.passage, row.name) in kept))
        }
        return replace(context, selection=(*dropped.values(), *context.selection))


def method_named(name: str) -> Method:
    """Build a method as it is without arguments; blanks, `-` and `_` in the name do not count."""
    return _composed({"method": name}, "", Models())


def method_from(recipe: Recipe, **fields: object) -> Method:
    """Build a method from a recipe.

    Args:
        recipe: Name of a method, a mapping, a TOML file, or a Python file with one method class.
            Folders of models are looked for beside the file first.
        **fields: Fields that replace those of the recipe's outermost table.

    Raises:
        InputError: If a name or field is unknown; the message names its place and what is allowed.
        ModelLoadError: If a model cannot be loaded.

    Example:
        >>> method_from("crag", top_n=3).top_n
        3
    """
    beside = Path(cast(str, recipe)).parent if is_file(recipe) else None
    table = read_recipe(recipe)
    if is_own_file(recipe):  # said by the caller: a recipe's own tables run nothing
        table = {"method": from_own_file(cast(str, recipe), _is_method, "one method")}
    return _composed({**table, **fields}, "", Models(beside))


def is_file(recipe: object) -> bool:
    """Check whether a recipe is the name of a TOML file."""
    return isinstance(recipe, Path) or (isinstance(recipe, str) and recipe.endswith(".toml"))


def read_recipe(recipe: Recipe) -> dict[str, object]:
    """Return a recipe of any form as a mapping."""
    if not is_file(recipe):
        return {"method": recipe} if isinstance(recipe, str) else check_mapping("method", recipe)
    path = Path(cast(str, recipe))
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError.of("method", given=str(path), allowed=f"a TOML file ({error})") from error


def _composed(given: object, place: str, models: Models) -> Method:
    if callable(given) and not isinstance(given, type):
        return cast(Method, given)
    table = {"method": given} if isinstance(given, str) else check_mapping(place or "method", given)
    at = f"{place}." if place else ""
    kind = _kind(f"{at}method", table.pop("method", None))
    over = table.pop("retriever", None)
    made = _made(kind, table, at, models)
    if over is None:
        return made
    return Over(made, retriever=_composed(over, f"{at}retriever", models))


def _is_method(kind: type) -> bool:
    own = [base for base in kind.__mro__ if base is not object]
    return any("__call__" in vars(base) for base in own) and not kind.__name__.startswith("_")


def _kind(place: str, name: object) -> type:
    if isinstance(name, type) and _is_method(name):
        return name
    plain = re.sub(r"[\s_-]", "", name).lower() if isinstance(name, str) else ""
    if plain not in NAMES:
        raise InputError.of(place, given=name, allowed=", ".join(NAMES) + meant(plain, NAMES))
    home = vars(importlib.import_module(NAMES[plain]))
    kinds = (kind for kind in home.values() if isinstance(kind, type))
    return next(kind for kind in kinds if kind.__name__.lower() == plain)


def _made(kind: type, table: Mapping[str, object], at: str, models: Models) -> Method:
    specs = fields(kind) if is_dataclass(kind) else ()
    known = {spec.name: spec for spec in specs if spec.init and spec.name not in NOT_PLAIN}
    names = ["inner" if name == "method" else name for name in known]
    values = {}
    for name, value in table.items():
        allowed = ", ".join(["method", *names, "retriever"])
        refuse_if(name not in names, f"{at}{name}", value, allowed)
        if name == "inner":
            values["method"] = _composed(value, f"{at}inner", models)
        else:
            values[name] = _value(kind.__name__, name, value, at, models)
    for name, spec in known.items():
        if spec.default is MISSING and spec.default_factory is MISSING and name not in values:
            raise InputError.of(f"{at}{name}", given=None, allowed="a value: there is no default")
    try:
        return cast(Method, kind(**values))
    except InputError as error:
        field, given, allowed = f"{at}{error.field}", error.given, error.allowed
        raise InputError.of(field, given=given, allowed=allowed) from error


def _value(kind: str, name: str, value: object, at: str, models: Models) -> Any:
    """Read a field: a model by its name, anything else as it stands."""
    if name in MODEL_FIELDS and isinstance(value, str):
        return models.named(kind, name, value, at)
    if isinstance(value, Mapping):
        refuse_if(name not in TABLES, f"{at}{name}", value, "a number, a text or a list")
        return ActionThresholds.from_dict(value)
    if isinstance(value, str) and name == "count_tokens":
        return counter_for(value)
    return template_of(value) if isinstance(value, str) and name == "template" else value
