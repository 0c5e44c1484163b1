"""Write a line about each question that a chain answers, for `fitrag evaluate drift`."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler

from fitrag_integrations.flow import Traced
from fitrag_integrations.langchain.base.convert import Documents
from fitrag_integrations.langchain.whole import Answer
from fitrag_integrations.methods.explaining import TraceFile, trace_row
from fitrag_integrations.types import Context


class TraceHandler(BaseCallbackHandler):
    """Callback handler that appends a JSON line for each run of a retriever or method of this
    package.

    Runs of other components are not written.

    Args:
        path: File to append to.
        questions: Whether to write the questions.

    Example:
        >>> chain.invoke(question, {"callbacks": [TraceHandler("traces.jsonl")]})
    """

    run_inline = True  # lines stay in the order of the runs

    def __init__(self, path: str | Path, *, questions: bool = True) -> None:
        self._file = TraceFile(path, questions=questions)

    def on_retriever_end(self, documents: object, *, run_id: UUID, **kwargs: object) -> None:
        """Write what a retriever of this package found.

        Args:
            documents: What the retriever returned.
            run_id: Id of the run; not used.
            **kwargs: Not used.
        """
        if isinstance(documents, Documents):
            self._file.add(trace_row(documents.context))

    def on_chain_end(self, outputs: object, *, run_id: UUID, **kwargs: object) -> None:
        """Write what a whole method found.

        Args:
            outputs: What the method returned.
            run_id: Id of the run; not used.
            **kwargs: Not used.
        """
        if isinstance(outputs, Answer):
            self._file.add(trace_row(outputs.context))
        elif isinstance(outputs, Traced) and isinstance(outputs.outcome, Context):
            self._file.add(trace_row(outputs.outcome))
