"""The contract of ``Retriever``: lists of passages for queries, best first."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fitrag_integrations.ports import Retriever
from fitrag_integrations.testing.batches import ODD_QUESTIONS, QUESTIONS, Batched, Check, promise
from fitrag_integrations.types import Passage


def retriever_checks(
    make: Callable[[], Retriever], queries: Sequence[str] = QUESTIONS
) -> list[Check]:
    """Return the checks of ``ports.Retriever``.

    A query finds the same passages alone and in a batch and no passage twice, and changes to what
    was found are not seen by the next caller.

    Args:
        make: Builds a new retriever for each check.
        queries: Queries that must find something.
    """
    numbers: dict[str, float] = {}

    def numbered(found: Sequence[Passage]) -> Sequence[float]:
        return [numbers.setdefault(passage.id, float(len(numbers))) for passage in found]

    batched = Batched[str, Sequence[Passage]](
        make, lambda it: getattr(it, "retrieve", None), lambda it: getattr(it, "aretrieve", None),
        queries, ODD_QUESTIONS, numbered, _wrong, 0.0,
    )  # fmt: skip
    return [
        *batched.checks(),
        Check(
            "finds_something",
            lambda: promise(
                any(map(len, make().retrieve(queries))), f"nothing was found for {list(queries)}"
            ),
        ),
        Check("hands_out_what_nobody_else_changes", lambda: _apart(make(), queries)),
    ]


def _wrong(found: Sequence[Passage]) -> str | None:
    if not all(isinstance(passage, Passage) for passage in found):
        return "not a list of Passage"
    ids = [passage.id for passage in found]
    return None if len(set(ids)) == len(ids) else "two passages of one id"


def _apart(retriever: Retriever, queries: Sequence[str]) -> None:
    found = retriever.retrieve(queries)
    before = [list(each) for each in found]
    for each in found:
        if isinstance(each, list):
            each.clear()
    again = [list(each) for each in retriever.retrieve(queries)]
    promise(again == before, "a caller who empties its list empties that of the next one")
