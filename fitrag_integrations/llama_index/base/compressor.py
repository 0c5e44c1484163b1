"""What the two postprocessors share: checks, running a flow, pickling and a short ``repr``."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from functools import partial
from typing import Any, ClassVar

from llama_index.core.bridge.pydantic import Field, PrivateAttr, create_model
from llama_index.core.callbacks import CallbackManager
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import ImageNode, MetadataMode, NodeWithScore, QueryBundle

from fitrag_integrations.core.checks import check_text
from fitrag_integrations.errors import InputError
from fitrag_integrations.flow import Flow, Traced, arun, run
from fitrag_integrations.llama_index.base.convert import passages_of
from fitrag_integrations.llama_index.base.fields import made_from
from fitrag_integrations.llama_index.base.ports import adapted
from fitrag_integrations.methods.adapting import Named
from fitrag_integrations.methods.explain.compression import Compression
from fitrag_integrations.methods.settings import settings_of
from fitrag_integrations.types import Passage


class Postprocessor(BaseNodePostprocessor):
    """Keep what is no plain field, models above all, by name in ``_models``.

    LlamaIndex's own pickling forgets private attributes, and drops in silence what cannot be
    pickled; here everything but the callback manager is kept, and what cannot be raises.
    """

    _models: dict[str, Any] = PrivateAttr(default_factory=dict)
    _last: Traced[Any] | None = PrivateAttr(default=None)

    @property
    def last_run(self) -> Traced[Any] | None:
        """Give the trace of the run of this object that ended last, None where none has."""
        return self._last

    def __init__(
        self, *, models: dict[str, Any], callback_manager: CallbackManager | None, **fields: Any
    ) -> None:
        super().__init__(callback_manager=callback_manager or CallbackManager(), **fields)
        self._models = {name: model for name, model in models.items() if model is not None}

    @classmethod
    def class_name(cls) -> str:
        """Name the component in serialised form."""
        return cls.__name__

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), **self._fields(), **self._models), ()

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        for name, value in self._fields().items():
            if value != type(self).model_fields[name].default:
                yield name, value
        for name, model in self._models.items():
            yield name, Named(model)

    def _fields(self) -> dict[str, Any]:
        names = (name for name in type(self).model_fields if name != "callback_manager")
        return {name: getattr(self, name) for name in names}


class DerivedPostprocessor(Postprocessor):
    """Have the options of ``made``: plain ones as fields, models and callables by their names."""

    made: ClassVar[Any]

    def __init__(self, *, callback_manager: CallbackManager | None = None, **options: Any) -> None:
        known = {each.name: each for each in settings_of(self.made)}
        made_from(type(self), self.made, options)  # tells what is wrong
        plain = {name: value for name, value in options.items() if known[name].kind is not None}
        models = {name: value for name, value in options.items() if known[name].kind is None}
        super().__init__(models=models, callback_manager=callback_manager, **plain)

    def settings(self) -> dict[str, Any]:
        """Give the options as they are now."""
        names = {each.name for each in settings_of(self.made)}
        given = {**self._fields(), **self._models}
        return {name: adapted(value) for name, value in given.items() if name in names}


def options(made: Any) -> Any:
    """Make the postprocessor whose fields are the plain options of ``made``, a dataclass."""
    fields: dict[str, Any] = {
        each.name: (each.kind, Field(default=each.default, description=each.told))
        for each in settings_of(made)
        if each.kind is not None
    }
    kind = create_model(f"{made.__name__}Options", __base__=DerivedPostprocessor, **fields)
    kind.made = made
    return kind


def with_pictures(nodes: list[NodeWithScore], kept: list[NodeWithScore]) -> list[NodeWithScore]:
    """Put the images that have no text behind what was kept: nobody judged them."""
    judged = {node.node_id for node in kept}
    pictures = [
        found
        for found in nodes
        if isinstance(found.node, ImageNode)
        and not found.node.get_content(metadata_mode=MetadataMode.NONE).strip()
        and found.node_id not in judged
    ]
    return [*kept, *pictures]


class Explaining:
    """Tell why each piece of the nodes was kept or dropped."""

    @abstractmethod
    def explained(self, question: str, passages: list[Passage]) -> Flow[Compression]:
        """Give the flow that ends in what is kept and what is dropped, with the reasons."""

    def explain(
        self,
        nodes: list[NodeWithScore],
        query_bundle: QueryBundle | None = None,
        query_str: str | None = None,
    ) -> Compression:
        """Compress `nodes` for a query, and tell what was kept and dropped, why, and by how much.

        The query is `query_bundle` or, as in `postprocess_nodes`, a text `query_str`. The
        `Compression` prints in a few lines with `explain()` and shows itself in a notebook.
        """
        question = question_of(_bundle(query_bundle, query_str))
        return run(self.explained(question, passages_of(nodes))).value

    async def aexplain(
        self,
        nodes: list[NodeWithScore],
        query_bundle: QueryBundle | None = None,
        query_str: str | None = None,
    ) -> Compression:
        """Do what `explain` does for `nodes` and `query_str`; the event loop stays free."""
        question = question_of(_bundle(query_bundle, query_str))
        return (await arun(self.explained(question, passages_of(nodes)))).value


def _bundle(query_bundle: QueryBundle | None, query_str: str | None) -> QueryBundle | None:
    if query_str is None:
        return query_bundle
    if query_bundle is not None:
        raise InputError.of("query_str", given=query_str, allowed="nothing beside query_bundle")
    return QueryBundle(check_text("query_str", query_str))


def question_of(query_bundle: QueryBundle | None) -> str:
    """Require a query with a visible character."""
    if not isinstance(query_bundle, QueryBundle):
        allowed = "a query: pass query_str or query_bundle"
        raise InputError.of("query_bundle", given=query_bundle, allowed=allowed)
    return check_text("query_str", query_bundle.query_str, blank=False)
