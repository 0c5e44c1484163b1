"""The package's own errors, in one tree.

::

    FitRagError
    ├── InputError (also ValueError)         an argument or a row is not what is allowed
    ├── MissingExtraError (also ImportError) an optional dependency is not installed
    ├── StorageError (also OSError)          a disk is full, read-only or broken
    ├── EngineError                          the workers that answer rows elsewhere failed
    ├── DeviceMemoryError (also MemoryError) a GPU has no room for weights or for one input
    ├── ModelLoadError                       a model or adapter could not be loaded
    │   └── ChecksumError                    its file is not the published one
    ├── PortError                            a port is missing, or broke its promise
    │   ├── RefusedError                     a service refuses one item, such as a long document
    │   └── SearchError                      a web search or a page failed; ``kind`` says how
    ├── ThresholdMismatchError               a threshold meets a model it was not fitted on
    └── TrainingError                        a training failed

Catch ``FitRagError`` for all of them. An error that your own backend raises is never wrapped.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Callable
from functools import partial

_NAMES = re.compile(r"[\w'./:-]+(, [\w'./:-]+)+")


def shown(value: object) -> str:
    """Return a value for a message, shortened."""
    short = reprlib.Repr()
    short.maxstring = short.maxother = 80
    return short.repr(value)


class FitRagError(Exception):
    """Base class of the package's own errors."""


class InputError(FitRagError, ValueError):
    """Invalid argument.

    Args:
        message: What is wrong.
        field: Name of the argument, option or field of a row; empty if the message has none.
        given: Its value.
        allowed: What is allowed, in a few words.
    """

    def __init__(
        self, message: str, field: str = "", given: object = None, allowed: str = ""
    ) -> None:
        super().__init__(message)
        self.field, self.given, self.allowed = field, given, allowed

    @classmethod
    def of(cls, field: str, *, given: object, allowed: str) -> InputError:
        """Build the error; long values are shortened in the message.

        Args:
            field: Name of the argument, after its place if it has one ("row 2: question").
            given: Its value.
            allowed: What is allowed, as it follows "must be"; names separated by commas are
                alternatives.
        """
        one = "one of " if _NAMES.fullmatch(allowed) else ""
        place, colon, name = field.rpartition(": ")
        message = f"{place}{colon}`{name}` must be {one}{allowed}, got {shown(given)}"
        return cls(message, field, given, allowed)

    @classmethod
    def missing(cls, field: str, path: object) -> InputError:
        """Build the error for a file or folder that does not exist.

        Args:
            field: Name of the argument.
            path: The path given.
        """
        return cls(f"{field} not found: {path}", field, path, "a path that exists")

    def at(self, place: str) -> InputError:
        """Return the same error with its place, such as "row 2: ", in front of the message."""
        return type(self)(f"{place}{self}", self.field, self.given, self.allowed)


def refuse_if(wrong: object, field: str, given: object = None, allowed: str = "") -> None:
    """Raise `InputError` if an argument, an option or a field is wrong.

    Args:
        wrong: Whether it is.
        field: Its name; without `allowed` the whole message, in sentences.
        given: Its value.
        allowed: What is allowed instead, as it follows "must be".
    """
    if wrong:
        raise InputError.of(field, given=given, allowed=allowed) if allowed else InputError(field)


def raise_if(wrong: object, error: Callable[..., Exception], message: str, **more: object) -> None:
    """Raise an error if a file, a reply or a model is wrong; `refuse_if` is for arguments.

    Args:
        wrong: Whether it is.
        error: Class of the error.
        message: What is wrong, and what to do, in sentences.
        **more: Further arguments of the error, such as the kind of a `SearchError`.
    """
    if wrong:
        raise error(message, **more)


class MissingExtraError(FitRagError, ImportError):
    """A missing optional dependency; the message names the extra that installs it."""


class StorageError(FitRagError, OSError):
    """A file could not be written: the disk is full, over quota, read-only or broken.

    Attributes:
        reason: The system's own words.
        path: File that was being written; None if it is not known.
        needed: Bytes that were to be written; None if they are not known.
    """

    reason: str = ""
    path: str | None = None
    needed: int | None = None

    @classmethod
    def of(cls, reason: str, path: object = None, needed: int | None = None) -> StorageError:
        """Build the error from the system's message.

        Args:
            reason: The system's own words, such as "No space left on device".
            path: File that was being written, if it is known.
            needed: Bytes that were to be written, if they are known.
        """
        what = "a file" if path is None else str(path)
        size = "" if needed is None else f" ({needed:,} bytes)"
        error = cls(
            f"{what}{size} could not be written: {reason}; nothing written before is lost: "
            "make room or choose another disk, then run the same command again"
        )
        error.reason, error.path, error.needed = reason, None if path is None else what, needed
        return error


class EngineError(FitRagError):
    """Rows that were sent to other workers have no answers; rows already written are kept."""


class DeviceMemoryError(FitRagError, MemoryError):
    """A device has no memory for a model's weights, or for one of its inputs."""


class ModelLoadError(FitRagError):
    """A model could not be loaded; names the model and the reason."""


class ChecksumError(ModelLoadError):
    """A file whose digest is not the published one."""


class PortError(FitRagError):
    """A missing port, or a port whose answer has the wrong form."""


class RefusedError(PortError):
    """One item that a service refuses for its size or content, and not the others.

    A scorer or an evaluator may return it in place of an answer: that document is left out, with
    this message as the reason, and the other documents are ranked.
    """

    status: int | None = None
    """Status code of the response; None if there was none."""


class SearchError(PortError):
    """A failed web search, or a page that could not be read.

    Args:
        message: What happened.
        kind: One of ``KINDS``: the quota is spent, the service rejects the key or the project, a
            temporary fault that a retry may fix, an empty result, or a rejected address.
    """

    KINDS = ("quota", "auth", "transient", "empty", "blocked")

    def __init__(self, message: str, *, kind: str) -> None:
        refuse_if(kind not in self.KINDS, "kind", kind, ", ".join(self.KINDS))
        super().__init__(message)
        self.kind = kind

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle with the kind, which plain exceptions would drop."""
        return partial(SearchError, kind=self.kind), (str(self),)


class ThresholdMismatchError(FitRagError):
    """A threshold that was fitted on another model's scores."""


class TrainingError(FitRagError):
    """A failed training: it diverged, or its result is unusable."""
