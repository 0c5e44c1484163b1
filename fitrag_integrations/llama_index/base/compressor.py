"""Run a step of ``methods.plain`` over nodes as a postprocessor."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from inspect import signature
from typing import Any, ClassVar, cast

from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.callbacks import CallbackManager
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import ImageNode, MetadataMode, NodeWithScore, QueryBundle
from llama_index.core.tools import FunctionTool

from fitrag_integrations.core.checks import check_is, check_text
from fitrag_integrations.errors import InputError
from fitrag_integrations.flow import Flow, Traced, arun, run
from fitrag_integrations.llama_index.base.convert import passages_of, piece_node, whole_node
from fitrag_integrations.llama_index.base.events import dispatcher, reranking, tell_compressed
from fitrag_integrations.llama_index.base.fields import made_from, signed
from fitrag_integrations.llama_index.base.tools import AskedOfTexts, nodes_of, tool_of
from fitrag_integrations.methods.adapting import Named
from fitrag_integrations.methods.crag.refiner import Refiner
from fitrag_integrations.methods.explaining import Compression, explained
from fitrag_integrations.methods.fitrag.reducer import Reranking, TokenReducer
from fitrag_integrations.methods.settings import restored, saved, settings_of
from fitrag_integrations.text.cleaning import has_text
from fitrag_integrations.types import Context


class Postprocessor(BaseNodePostprocessor):
    """Node postprocessor with the options of ``made`` as fields.

    LlamaIndex's own pickling forgets private attributes, and drops in silence what cannot be
    pickled; here everything but the callback manager is kept, and what cannot be raises.
    """

    made: ClassVar[Any]
    _models: dict[str, Any] = PrivateAttr(default_factory=dict)
    _last: Traced[Context] | None = PrivateAttr(default=None)

    def __init__(self, *, callback_manager: CallbackManager | None = None, **options: Any) -> None:
        options = {name: restored(name, value) for name, value in options.items()}
        made_from(type(self), self.made, options)  # names what is wrong
        models = {each.name for each in settings_of(self.made) if each.kind is None}
        plain = {name: value for name, value in options.items() if name not in models}
        super().__init__(callback_manager=callback_manager or CallbackManager(), **plain)
        self._models = {
            name: model for name, model in options.items() if name in models and model is not None
        }

    @classmethod
    def __pydantic_init_subclass__(cls, **more: Any) -> None:
        super().__pydantic_init_subclass__(**more)
        if made := getattr(cls, "made", None):
            has_manager = "callback_manager" in signature(cls.__init__).parameters
            signed(cls, made, () if has_manager else ("callback_manager",))

    @classmethod
    def class_name(cls) -> str:
        """Return the name of the component in serialized form."""
        return cls.__name__

    def to_dict(self, **kwargs: Any) -> dict[str, Any]:
        """Return the options in plain values, from which `from_dict` builds an equal component.

        A bundled model is written as "embedded". Raises `InputError` for another model or a
        function, which no plain value can name.
        """
        values = {**super().to_dict(**kwargs)}
        for name, value in self._models.items():
            values[name] = saved(name, value)
            if not isinstance(values[name], dict | str | bool | int | float):
                allowed = "a bundled model: pass yours again when you load the rest"
                raise InputError.of(name, given=value, allowed=allowed)
        return values

    @property
    def last_run(self) -> Traced[Context] | None:
        """The trace of the run of this object that ended last, None where none has."""
        return self._last

    def step(self) -> Reranking | TokenReducer | Refiner:
        """Return the step with the options as they are now."""
        made = self.made(**self._fields(), **self._models)
        return cast("Reranking | TokenReducer | Refiner", made)

    def as_tool(
        self,
        name: str | None = None,
        description: str = "Keep what matters in documents for a question.",
    ) -> FunctionTool:
        """Return a tool for agents, which answers with the numbered passages kept.

        Args:
            name: Name of the tool; None is that of the class.
            description: When an agent is to call it.

        Returns:
            A tool whose ``raw_output`` is the list of nodes.
        """

        return tool_of(
            self,
            AskedOfTexts,
            lambda question, documents: self.postprocess_nodes(
                nodes_of(documents), query_str=question
            ),
            lambda question, documents: self.apostprocess_nodes(
                nodes_of(documents), query_str=question
            ),
            name=name,
            description=description,
        )

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        flow = self._flow(nodes, query_bundle)
        with self._reduced(nodes, query_bundle) as kept:
            kept.extend(self._kept(nodes, run(flow)))
        return kept

    @dispatcher.span
    async def _apostprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        flow = self._flow(nodes, query_bundle)
        with self._reduced(nodes, query_bundle) as kept:
            kept.extend(self._kept(nodes, await arun(flow)))
        return kept

    def _flow(self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None) -> Flow[Context]:
        question, passages = question_of(query_bundle), passages_of(nodes)
        return self.step().context(question, passages)

    @contextmanager
    def _reduced(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None
    ) -> Iterator[list[NodeWithScore]]:
        """Report what is put into the list given out."""
        step, kept = self.step(), list[NodeWithScore]()
        if not isinstance(step, Reranking):
            yield kept
            tell_compressed(step, passages_of(nodes), kept)
            return
        with reranking(self.callback_manager, step, nodes, query_bundle, kept):
            yield kept

    def _kept(self, nodes: list[NodeWithScore], traced: Traced[Context]) -> list[NodeWithScore]:
        """Write what was kept, and behind it the images without text: nobody judged them."""
        self._last, context = traced, traced.value
        kept = [
            whole_node(one, context.method)
            if context.method == "rerank" and one.text == one.passage.text
            else piece_node(one, context.method)
            for one in context.excerpts
        ]
        judged = {node.node_id for node in kept}
        pictures = [
            found
            for found in nodes
            if isinstance(found.node, ImageNode)
            and not has_text(found.node.get_content(metadata_mode=MetadataMode.NONE) or "")
            and found.node_id not in judged
        ]
        return [*kept, *pictures]

    def explain(
        self,
        nodes: list[NodeWithScore],
        query_bundle: QueryBundle | None = None,
        query_str: str | None = None,
    ) -> Compression:
        """Run it on `nodes` for a query, and return what was kept and dropped, with the reasons.

        The query is `query_bundle` or, as in `postprocess_nodes`, a text `query_str`. The
        `Compression` prints in a few lines with `explain()` and shows itself in a notebook.
        """
        return run(self._explained(nodes, query_bundle, query_str)).value

    async def aexplain(
        self,
        nodes: list[NodeWithScore],
        query_bundle: QueryBundle | None = None,
        query_str: str | None = None,
    ) -> Compression:
        """Async version of `explain`, for `nodes` and `query_str`."""
        return (await arun(self._explained(nodes, query_bundle, query_str))).value

    def _explained(
        self, nodes: list[NodeWithScore], bundle: QueryBundle | None, text: str | None
    ) -> Flow[Compression]:
        if text is not None and bundle is not None:
            raise InputError.of("query_str", given=text, allowed="nothing beside query_bundle")
        asked = bundle if text is None else QueryBundle(check_text("query_str", text))
        return explained(self.step(), question_of(asked), passages_of(nodes))

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), **self._fields(), **self._models), ()

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        for name, value in self._fields().items():
            if value != type(self).model_fields[name].default:
                yield name, value
        for name, model in self._models.items():
            yield name, Named(model)

    def _fields(self) -> dict[str, Any]:
        values, own = vars(self), {each.name for each in settings_of(self.made)}
        return {name: values[name] for name in type(self).model_fields if name in own}


def question_of(query_bundle: QueryBundle | None) -> str:
    """Require a query with a visible character."""
    allowed = "a query: pass query_str or query_bundle"
    bundle = check_is("query_bundle", query_bundle, QueryBundle, allowed)
    return check_text("query_str", bundle.query_str, blank=False)
