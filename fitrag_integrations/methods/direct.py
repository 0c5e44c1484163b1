"""Direct retrieval, the papers' starting point: put all retrieved passages into the prompt.

There is no ranking and no budget; passages keep the retriever's order.
"""

from __future__ import annotations

from dataclasses import dataclass

from fitrag_integrations.core.checks import Checked, Count, check_text
from fitrag_integrations.flow import Flow
from fitrag_integrations.ports import Ports
from fitrag_integrations.types import Context, Excerpt
from fitrag_integrations.values.selected import Selection
from fitrag_integrations.values.windows import usable


@dataclass(frozen=True)
class Direct(Checked):
    """Method that keeps the first `k` passages whole, in the order of retrieval; None keeps all.

    The papers' plain retrieval (CRAG, section 5.2). Blank and repeated passages are left out before
    counting, with a note.
    """

    k: Count | None = None

    def __call__(self, question: str, ports: Ports) -> Flow[Context]:
        """Return the flow that ends in the context for one question.

        The flow raises `InputError` for a blank question.
        """
        check_text("question", question, blank=False)
        (found,) = yield from ports.retrieve.ask([question])
        selection = Selection()
        passages, notes = usable(found, selection=selection)
        kept = tuple(selection.first(list(map(Excerpt.whole, passages)), self.k, "k"))
        details, rows = {"usable": len(passages), "kept": len(kept)}, selection.rows(kept)
        return Context(
            question, kept, notes=notes, method="direct", details=details, selection=rows
        )
