"""Write a line about each question that is answered, for `fitrag evaluate drift`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from pydantic import PrivateAttr

from fitrag_integrations.llama_index.base.events import TraceEvent
from fitrag_integrations.methods.explaining import TraceFile


class TraceHandler(BaseEventHandler):
    """Event handler that appends a JSON line for each question that a component answers.

    Events of other packages' components are not written.

    Args:
        path: File to append to.
        questions: Whether to write the questions.

    Example:
        >>> get_dispatcher().add_event_handler(TraceHandler("traces.jsonl"))
    """

    _file: TraceFile = PrivateAttr()

    def __init__(self, path: str | Path, *, questions: bool = True) -> None:
        super().__init__()
        self._file = TraceFile(path, questions=questions)

    @classmethod
    def class_name(cls) -> str:
        """Return the name of the handler in serialized form."""
        return "TraceHandler"

    def handle(self, event: Any, **kwargs: Any) -> None:
        """Write a row where a question has ended."""
        if isinstance(event, TraceEvent):
            self._file.add(event.row)
