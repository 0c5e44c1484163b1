"""Build methods by name, and compose them.

A gate takes the method behind it as `method`. `Over` passes the excerpts of one method to another
in place of retrieved passages.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, MISSING, dataclass, replace
from dataclasses import fields as dataclass_fields
from typing import Any, cast

from fitrag_integrations.core.checks import check_callable, meant
from fitrag_integrations.errors import refuse_if
from fitrag_integrations.flow import Flow, Port, run
from fitrag_integrations.methods.baselines import MODULE_OF
from fitrag_integrations.ports import Method, Ports
from fitrag_integrations.types import Context, Excerpt, Passage

HOME = "fitrag_integrations.methods"
PAPERS = {"fitrag": "fitrag", "crag": "crag", "iknow": "ik", "slimplm": "slimplm", "itrg": "itrg"}
NAMES: Mapping[str, str] = {
    **{name: f"{HOME}.{folder}.method" for name, folder in PAPERS.items()},
    "direct": f"{HOME}.direct",
    **{name.lower(): f"{HOME}.baselines.{module}" for name, module in MODULE_OF.items()},
}
"""The module of each method, by the name of its contexts."""


class MethodPort(Port[str, Sequence[Passage]]):
    """Port that answers each query with the excerpts kept by ``method`` (CRAG, appendix B.3).

    The inner method's requests belong to the outer flow: its driver answers them, joins them with
    those of other questions, and shows them in the trace. Notes and decisions of the inner method
    are not passed on. An error of the inner flow is raised in the outer flow.

    Args:
        method: The inner method.
        ports: What the inner method retrieves, searches and generates with.
        contexts: Receives the context of each query.
    """

    def __init__(
        self, method: Method, ports: Ports, *, contexts: list[Context] | None = None
    ) -> None:
        super().__init__("retrieve", lambda queries: run(self.ask(queries)).value, owner=method)
        self._method, self._ports = method, ports
        self._contexts = [] if contexts is None else contexts

    def ask(self, items: Sequence[str]) -> Flow[list[Sequence[Passage]]]:
        """Run the method inside the asking flow, query by query."""
        found: list[Sequence[Passage]] = []
        for query in items:
            context = yield from self._method(query, self._ports)
            found.append(list(map(as_passage, context.excerpts)))
            self._contexts.append(context)
        return found


def as_passage(excerpt: Excerpt) -> Passage:
    """Convert an excerpt to a passage, with the source and metadata of the original passage.

    ``source_id``, ``start_index``, ``end_index`` and ``relevance_score`` are added to these.
    """
    whole = excerpt.passage
    place = {
        "source_id": whole.id,
        "start_index": excerpt.start,
        "end_index": excerpt.end,
        "relevance_score": excerpt.score,
    }
    return replace(excerpt.as_passage(), source=whole.source, metadata={**whole.metadata, **place})


@dataclass(frozen=True)
class Over:
    """Method that runs over the excerpts of another method instead of retrieved passages.

    Both use the caller's search and language model, and share calls with other questions. The
    selection of the context begins with the items that the inner method dropped, with the reasons.

    Args:
        method: Method that ends in the context, such as `FitRag()`.
        retriever: Method whose excerpts `method` receives as passages.
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


def method_from(name: str, /, **fields: object) -> Method:
    """Build a method by its name, ignoring blanks, `-`, `_` and case.

    Args:
        name: Name of a method, such as "crag" or "self-ask".
        **fields: Fields of its class.

    Raises:
        InputError: If the name or a field is unknown; the message lists the valid ones.

    Example:
        >>> method_from("crag", top_n=3).top_n
        3
    """
    plain = re.sub(r"[\s_-]", "", name).lower() if isinstance(name, str) else ""
    refuse_if(plain not in NAMES, "method", name, ", ".join(NAMES) + meant(plain, NAMES))
    home = vars(importlib.import_module(NAMES[plain])).values()
    kind: Any = next(one for one in home if getattr(one, "__name__", "").lower() == plain)
    known = {spec.name: spec for spec in dataclass_fields(kind) if spec.init}
    for given, value in fields.items():
        refuse_if(given not in known, given, value, ", ".join(known))
    for field_name, spec in known.items():
        optional = spec.default is not MISSING or spec.default_factory is not MISSING
        allowed = f"an object, which {kind.__name__} is given in Python: it has no default"
        refuse_if(not (optional or field_name in fields), field_name, None, allowed)
    return cast(Method, kind(**fields))
