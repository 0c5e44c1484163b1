"""Search with whatever finds passages: a retriever of either framework, of ours, or a callable.

Frameworks are told by where their classes come from, and none is imported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, TypeAlias

from fitrag_integrations.core.checks import check_is
from fitrag_integrations.errors import InputError
from fitrag_integrations.flow import run
from fitrag_integrations.methods.adapting import first_text, made_id
from fitrag_integrations.ports import port_of
from fitrag_integrations.types import Passage
from fitrag_integrations.values.windows import usable

Find: TypeAlias = Callable[[Sequence[str]], list[list[Passage]]]


def finder(retriever: Any, k: int) -> Find:
    """Return the search for several questions: the first `k` usable passages of each."""
    found: Find
    homes = {kind.__module__.partition(".")[0] for kind in type(retriever).__mro__}
    if "langchain_core" in homes:
        found = partial(_each, retriever.invoke, _of_document)
    elif "llama_index" in homes:
        found = partial(_each, retriever.retrieve, _of_node)
    else:
        port = port_of("retrieve", retriever, "retrieve")
        found = partial(_asked, port)

    def find(questions: Sequence[str]) -> list[list[Passage]]:
        return [list(usable(passages)[0][:k]) for passages in found(questions)]

    return find


def _asked(port: Any, questions: Sequence[str]) -> list[list[Passage]]:
    def flow() -> Any:
        return (yield from port.ask(questions))

    return [list(passages) for passages in run(flow()).value]


def _each(
    call: Callable[[str], Iterable[Any]], read: Callable[[Any], Passage], questions: Sequence[str]
) -> list[list[Passage]]:
    return [[read(one) for one in call(question)] for question in questions]


def _of_document(document: Any) -> Passage:
    text, metadata = document.page_content, document.metadata
    return _passage(document.id or made_id(text), text, metadata)


def _of_node(found: Any) -> Passage:
    node = getattr(found, "node", None)
    if node is None:
        raise InputError.of("nodes", given=found, allowed="nodes with scores")
    return _passage(node.node_id, node.get_content(), node.metadata)


def _passage(name: str, text: str, metadata: Any) -> Passage:
    title, source = (first_text(metadata, (key,)) for key in ("title", "source"))
    return Passage(name, check_is("text", text, str), title, source)
