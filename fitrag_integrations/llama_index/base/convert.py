"""Convert nodes to passages, and excerpts to new nodes.

Input nodes are never changed. A whole node that was only scored is returned as a copy with its id,
class and relationships, so that evaluators and document stores recognize it. A piece is returned as
a new ``TextNode`` with its own id, equal for equal pieces of equal nodes.

``start_char_idx`` and ``end_char_idx`` of a piece count in the text of its SOURCE node. If the
input node has its offsets in its own SOURCE document, that document stays the SOURCE and the
piece's offsets are shifted by ``start_char_idx``; otherwise the input node is the SOURCE. Offsets
that do not span exactly the node's text count as unknown. So do the offsets of a node with a
parent: LlamaIndex's hierarchical parser counts them in the parent but names the document.
``source_id`` in the metadata names the node cut from, ``source_start`` and ``source_end`` the place
in it; for a piece of a piece, they refer to the node that the first piece was cut from. Added
metadata is flat and plain, as vector stores require.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from llama_index.core.schema import (
    DEFAULT_TEXT_NODE_TMPL,
    BaseNode,
    ImageNode,
    MetadataMode,
    NodeRelationship,
    NodeWithScore,
    RelatedNodeInfo,
    TextNode,
)
from llama_index.core.vector_stores.utils import metadata_dict_to_node, node_to_metadata_dict

from fitrag_integrations.core.checks import check_many, trait
from fitrag_integrations.core.record import Row, plain, remade
from fitrag_integrations.methods.metadata import (
    MARKS,
    OWN,
    READ_AS,
    TITLE_KEYS,
    mark_name,
    marks,
    relevance_of,
    retitled,
    title_in,
)
from fitrag_integrations.text.cleaning import has_text
from fitrag_integrations.types import Context, Excerpt, Passage
from fitrag_integrations.values.passage import LEAD, derived_id, first_text, origin_of

BOOKKEEPING = (*MARKS, OWN, READ_AS)
"""The metadata keys written here; neither a language model nor an embedder gets to read them."""
Ids: TypeAlias = Literal["pieces", "source"]
_WEB_SHOWN = ("title", "source", "url", "web", "trust", "retrieved_at")
"""What a language model gets to read of a web node's metadata: the rest is a stranger's text."""
_ADDED = ("retrieval_score", "title", "web", "url", "trust", READ_AS)  # to what a node itself says
_PLACES = {key: at for at, key in enumerate(TITLE_KEYS)}
LONGEST = 120
"""Characters of a metadata value that is read; what is longer, such as a summary, is no title."""


@dataclass(frozen=True, slots=True)
class NodePassage(Passage):
    """Passage with the node it was made from, which equality and ``to_dict`` ignore."""

    node: BaseNode | None = field(default=None, compare=False, repr=False)

    @property
    def origin(self) -> tuple[Hashable, int] | None:
        """Return the document that the node was cut from, and the node's start in it."""
        if self.node is None or trait(self.node, "start_char_idx", int) is None:
            return super(NodePassage, self).origin
        source, start = _source(self.node, self.text)
        return (source.node_id,), start

    def to_dict(self) -> dict[str, Any]:
        """Return the fields of a plain passage."""
        names = ("id", "text", "title", "source", "metadata")
        return {name: plain(getattr(self, name)) for name in names}


def passages_of(nodes: Any, title_keys: Iterable[str] | None = None) -> list[Passage]:
    """Convert each node to a passage, in order; a node without text becomes a blank one.

    Args:
        nodes: Nodes with scores.
        title_keys: Metadata keys of the title. Defaults to the metadata that the node shows to an
            embedder (`MetadataMode.EMBED`).
    """
    given = check_many("nodes", nodes, NodeWithScore)
    return [retitled(_passage(found), title_keys) for found in given]


def page_of(node: NodeWithScore | BaseNode) -> Passage:
    """Convert a node of a search result."""
    found = _passage(node if isinstance(node, NodeWithScore) else NodeWithScore(node=node))
    return remade(found, title=title_in(found.metadata, ("title",)))


def _passage(found: NodeWithScore) -> NodePassage:
    node = found.node
    if node.metadata is None:  # as a store of nullable columns writes it
        node = node.model_copy(update={"metadata": {}})
    metadata = dict(node.metadata)
    if found.score is not None:
        metadata.setdefault("retrieval_score", float(found.score))  # an earlier step's stays
    return NodePassage(
        node.node_id,
        node.get_content(metadata_mode=MetadataMode.NONE) or "",
        _title(node),
        first_text(metadata, ("source", "url", "file_path", "file_name")),
        metadata,
        node,
    )


def _title(node: BaseNode) -> str:
    """Return what an embedder reads of a node's metadata: the usual keys, then all others."""
    if READ_AS in node.metadata or node.metadata.get("web") is True:
        return title_in(node.metadata)
    hidden = {*node.excluded_embed_metadata_keys, *BOOKKEEPING}
    hidden |= {key for key, value in node.metadata.items() if len(str(value)) > LONGEST}
    shown = [key for key in node.metadata if key not in hidden]
    return title_in(node.metadata, sorted(shown, key=lambda key: _PLACES.get(key, len(_PLACES))))


def node_of(passage: Passage) -> BaseNode:
    """Return the node of a passage, or build one from its text and metadata."""
    if isinstance(passage, NodePassage) and passage.node is not None:
        return passage.node
    metadata = plain(passage.metadata)  # a search may give what no node can hold
    if "_node_content" in metadata:  # where vector stores keep a node they must give back
        node = metadata_dict_to_node(metadata, text=passage.text)
        node.metadata.update(_present(metadata, ("retrieval_score",)))
        return _hidden(node)
    for key in ("title", "source"):
        value = getattr(passage, key)
        if value and (key == "source" or value != title_in(metadata)):
            metadata.setdefault(key, value)
    return _hidden(TextNode(id_=passage.id, text=passage.text, metadata=metadata))


def stored_passage(node: BaseNode) -> Passage:
    """Convert a node to a passage from which ``node_of`` restores it, without its embedding."""
    made = _passage(NodeWithScore(node=node))
    kept = node_to_metadata_dict(node, remove_text=True)
    return Passage(made.id, made.text, made.title, made.source, kept)


def scored_nodes(passages: Iterable[Passage]) -> list[NodeWithScore]:
    """Convert the results of an index to nodes with scores."""
    return [
        NodeWithScore(node=node_of(passage), score=passage.metadata.get("retrieval_score"))
        for passage in passages
    ]


def whole_node(excerpt: Excerpt, method: str, answerable: float | None = None) -> NodeWithScore:
    """Copy the node of an excerpt that covers it, with scores added.

    Args:
        excerpt: Excerpt.
        method: Name of the method that returned it.
        answerable: Score of the whole list, if there is one.
    """
    node = node_of(excerpt.passage)
    copied = _copied(node, _metadata(node, excerpt, method, answerable))
    return NodeWithScore(node=copied, score=_score(excerpt, method))


def web_node(passage: Passage, method: str) -> NodeWithScore:
    """Copy the node of an ungraded passage from the web.

    Args:
        passage: Passage.
        method: Name of the method that returned it.
    """
    node, marked = node_of(passage), _present(passage.metadata, _ADDED)
    copied = _copied(node, {**node.metadata, **marked, "fitrag": method})
    return NodeWithScore(node=copied, score=marked.get("retrieval_score"))


def piece_node(
    excerpt: Excerpt, method: str, ids: Ids = "pieces", answerable: float | None = None
) -> NodeWithScore:
    """Build a new node from an excerpt.

    Args:
        excerpt: Excerpt.
        method: Name of the method that returned it.
        ids: "pieces" for an id of each piece, "source" for the source's id.
        answerable: Score of the whole list, if there is one.
    """
    node = node_of(excerpt.passage)
    source, base = _source(node, excerpt.passage.text)
    metadata = _metadata(node, excerpt, method, answerable)
    piece = TextNode(
        id_=origin_of(excerpt.passage)[0]
        if ids == "source"
        else derived_id(node.node_id, node.hash, excerpt.start, excerpt.end),
        text=excerpt.text,
        metadata=metadata,
        excluded_embed_metadata_keys=_excluded(node.excluded_embed_metadata_keys, metadata),
        excluded_llm_metadata_keys=_unread(node.excluded_llm_metadata_keys, metadata),
        metadata_template=node.metadata_template,
        metadata_separator=node.metadata_separator,
        text_template=getattr(node, "text_template", DEFAULT_TEXT_NODE_TMPL),
        relationships={NodeRelationship.SOURCE: source},
        start_char_idx=base + excerpt.start,
        end_char_idx=base + excerpt.end,
    )
    return NodeWithScore(node=piece, score=_score(excerpt, method))


def media_nodes(
    given: Sequence[NodeWithScore], context: Context, kept: Iterable[NodeWithScore]
) -> Iterator[NodeWithScore]:
    """Yield the images, audios and videos that were not kept, in order.

    Nodes without text are returned unchanged, because they were not scored. If a piece of a node's
    text was kept, the node is returned as a copy without text.

    Args:
        given: Input nodes.
        context: Context that was made of them.
        kept: Nodes that were made of the context.
    """
    shown = {node.node_id for node in kept}
    cut = {excerpt.passage.id for excerpt in context.excerpts}
    for found in given:
        node = found.node
        media = (getattr(node, f"{kind}_resource", None) for kind in ("image", "audio", "video"))
        if node.node_id in shown or not (isinstance(node, ImageNode) or any(media)):
            continue
        if not has_text(node.get_content(metadata_mode=MetadataMode.NONE)):
            yield found
        elif node.node_id in cut:
            bare = _copied(node, dict(node.metadata))
            bare.set_content("")
            yield NodeWithScore(node=bare, score=found.score)


def context_nodes(context: Context, ids: Ids = "pieces") -> list[NodeWithScore]:
    """Build a new node from each excerpt of a context, in its order.

    Args:
        context: Context.
        ids: As in `piece_node`.
    """
    return [
        piece_node(excerpt, context.method, ids, context.answerable) for excerpt in context.excerpts
    ]


def _score(excerpt: Excerpt, method: str) -> float | None:
    """Return the relevance in [0, 1], else the retriever's own score, where there is one."""
    relevance = relevance_of(excerpt, method)
    if relevance is not None:
        return relevance
    found = excerpt.passage.metadata.get("retrieval_score")
    return float(found) if isinstance(found, int | float) else None


def _copied(node: BaseNode, metadata: dict[str, Any]) -> BaseNode:
    """Copy a node with other metadata; nothing that may be written to is shared."""
    fresh = {"metadata": metadata, "relationships": dict(node.relationships)}
    return _hidden(node.model_copy(update=fresh))


def _source(node: BaseNode, text: str) -> tuple[RelatedNodeInfo, int]:
    """Find the node whose text the offsets of pieces count in, and what to add to them."""
    start, end = (trait(node, name, int) for name in ("start_char_idx", "end_char_idx"))
    parted = NodeRelationship.PARENT in node.relationships
    if parted or start is None or (end is not None and end - start != len(text)):
        return node.as_related_node_info(), 0
    document = node.relationships.get(NodeRelationship.SOURCE)
    known = document if isinstance(document, RelatedNodeInfo) else node.as_related_node_info()
    return known, start


def _metadata(
    node: BaseNode, excerpt: Excerpt, method: str, answerable: float | None
) -> dict[str, Any]:
    judged = "fitrag" in node.metadata and relevance_of(excerpt, method) is not None
    earlier = ("has_answer", "llm_prefer", "answerable") if judged else ()  # by another step
    gone = [mark_name(excerpt.passage, name) for name in (*earlier, LEAD)]
    return {
        **{key: value for key, value in node.metadata.items() if key not in gone},
        **_present(excerpt.passage.metadata, _ADDED),
        **marks(excerpt, method, answerable),
    }


def _present(values: Row, keys: Iterable[str]) -> dict[str, Any]:
    return {key: values[key] for key in keys if values.get(key) is not None}


def _excluded(keys: Iterable[str], metadata: Row) -> list[str]:
    """Return the keys that neither embedder nor language model reads: ``keys``, and those of ours.

    A node's own value under the name of one of ours stays shown.
    """
    own = str(metadata.get(OWN, "")).split()
    ours = (f"fitrag_{name}" if name in own else name for name in BOOKKEEPING)
    return list(dict.fromkeys((*keys, *ours)))


def _unread(keys: Iterable[str], metadata: Row) -> list[str]:
    """Return the keys no language model reads: of a web node all but a few."""
    web = [key for key in metadata if key not in _WEB_SHOWN] if metadata.get("web") is True else []
    return _excluded((*keys, *web), metadata)


def _hidden(node: BaseNode) -> BaseNode:
    """Hide the bookkeeping of a node made here from its readers, with new lists."""
    node.excluded_embed_metadata_keys = _excluded(node.excluded_embed_metadata_keys, node.metadata)
    node.excluded_llm_metadata_keys = _unread(node.excluded_llm_metadata_keys, node.metadata)
    return node
