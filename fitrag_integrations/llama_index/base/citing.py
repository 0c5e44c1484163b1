"""Number nodes for a prompt, and find what an answer cites of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from llama_index.core.schema import BaseNode, NodeWithScore

from fitrag_integrations.core.checks import trait
from fitrag_integrations.llama_index.base.convert import node_of, passages_of
from fitrag_integrations.methods.answering import Cited
from fitrag_integrations.methods.citing import cite, restored
from fitrag_integrations.types import Excerpt, Passage
from fitrag_integrations.values.prompt import numbered


def numbered_nodes(
    nodes: Sequence[NodeWithScore], *, sources: Sequence[BaseNode | NodeWithScore] = ()
) -> str:
    """Return nodes as the numbered lines of a prompt, one number for each.

    A line begins with the node's title, else its source or file, else its id unless that was
    generated (a UUID). Pieces of one source share a number where `sources` holds it; the numbers
    are those `cite_nodes` resolves when it is given the same. Sources and ids are not counted in
    the `max_tokens` of a drop-in.

    Args:
        nodes: The nodes to show, in the order of their numbers.
        sources: The nodes or documents that these were cut from.

    Returns:
        One text; "(No passage was found.)" where there are no nodes.

    Raises:
        InputError: If something is no node.
    """
    return numbered(_excerpts(nodes, sources))


def cite_nodes(
    nodes: Sequence[NodeWithScore],
    answer: str,
    *,
    sources: Sequence[BaseNode | NodeWithScore] = (),
    by_source: bool = False,
) -> Cited:
    """Find what an answer cites of the nodes that its prompt numbered.

    Args:
        nodes: The nodes of the prompt, in its order.
        answer: The answer, with numbers such as [1].
        sources: Nodes or documents that these were cut from: a citation then shows the whole
            source, if it has the node's text in the place that the node names.
        by_source: Whether all pieces of a source have one number, as in the prompts of
            `MethodQueryEngine`.

    Raises:
        InputError: For anything that is not a node.
    """
    return cite(_excerpts(nodes, sources), answer, by_source=by_source)


def _excerpts(
    nodes: Sequence[NodeWithScore], sources: Sequence[BaseNode | NodeWithScore]
) -> list[Excerpt]:
    bare = [NodeWithScore(node=one) if isinstance(one, BaseNode) else one for one in sources]
    named = {passage.id: passage for passage in passages_of(bare)}
    return [restored(passage, named, _places(passage)) for passage in passages_of(nodes)]


def _places(passage: Passage) -> Iterator[tuple[str, int]]:
    """Return where a node says it begins in its SOURCE, besides where this package cut it."""
    node = node_of(passage)
    start = trait(node, "start_char_idx", int)
    if node.ref_doc_id and start is not None:
        yield node.ref_doc_id, start
