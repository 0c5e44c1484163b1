"""Base classes of the models that are loaded from a folder: calls, unloading, pickling."""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial, wraps
from importlib import resources
from pathlib import Path
from typing import Any, ClassVar, Concatenate, Generic, ParamSpec, Self, TypeVar, cast

from fitrag_integrations.core.generic import A, Q
from fitrag_integrations.core.progress import bar
from fitrag_integrations.core.record import Keywords, Row
from fitrag_integrations.errors import ModelLoadError
from fitrag_integrations.models.runtime.worker import Task, Worker

P = ParamSpec("P")
M = TypeVar("M", bound="SavedModel")
E = TypeVar("E", bound=Any)  # a `Shared` with a device and a dtype


_log = logging.getLogger("fitrag_integrations.models")


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a model was loaded from: a folder or a name, and the options."""

    source: str
    options: Keywords


def remembered(
    load: Callable[Concatenate[type[M], str | Path, P], M],
) -> Callable[Concatenate[type[M], str | Path, P], M]:
    """Decorate a `from_pretrained` so that the model keeps its arguments and can be pickled."""

    @wraps(load)
    def loaded(cls: type[M], name_or_dir: str | Path, *args: P.args, **options: P.kwargs) -> M:
        made = load(cls, name_or_dir, *args, **options)
        made._origin = Origin(str(name_or_dir), options)
        return made

    return cast("Callable[Concatenate[type[M], str | Path, P], M]", loaded)


class SavedModel:
    """Model loaded with `from_pretrained(folder)`, which can be loaded again.

    Its worker is that of the engine; `_release` is what goes when it is unloaded.
    """

    kind: ClassVar[str]
    from_pretrained: ClassVar[Callable[..., Any]]
    _engine: Any

    def __init__(self, manifest: Row | None = None) -> None:
        self.manifest = dict(manifest or {})
        self._origin: Origin | None = None
        self._unloaded = False

    def unload(self) -> None:
        """Free the memory of the weights; a later call raises `ModelLoadError`.

        Models that share its weights are not affected.
        """
        if not self._unloaded:
            self._unloaded = True
            self._release()

    def _release(self) -> None:
        self._engine.release()

    def _check_loaded(self) -> None:
        if self._unloaded:
            raise ModelLoadError(f"{self!r} was unloaded: load it again to use it")

    def _worker(self) -> Worker:
        self._check_loaded()
        return cast(Worker, self._engine.worker)

    def _call(self, task: Task[Q, A], items: Sequence[Q], show: bool | None = False) -> list[A]:
        """Call a task, under a progress bar if it is shown, which moves by token batch."""
        with bar(f"{type(self).__name__}, inputs", show=show) as on_progress:
            return self._worker().call(task, items, on_progress=on_progress)

    async def _acall(self, task: Task[Q, A], items: Sequence[Q]) -> list[A]:
        return await self._worker().acall(task, items)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle as the folder and the options; the weights stay where they are."""
        if self._origin is None:
            raise TypeError(f"{type(self).__name__}: save_pretrained it before pickling it")
        return partial(type(self).from_pretrained, self._origin.source, **self._origin.options), ()

    def __repr__(self) -> str:
        origin = Path(self._origin.source).name if self._origin else "in memory"
        return f"{type(self).__name__}({', '.join([repr(origin), *self._details()])})"

    def _details(self) -> list[str]:
        return []


class Shared:
    """Engine that several models may use."""

    worker: Worker
    _users = 0

    def retain(self) -> Self:
        """Count one more model that uses this engine."""
        self._users += 1
        return self

    def release(self) -> None:
        """Count one model less; the last one stops the worker."""
        self._users -= 1
        if self._users <= 0:
            self.worker.close()


class Pool(Generic[E]):
    """Pool of engines, each kept as long as a model uses it."""

    def __init__(self) -> None:
        self._engines = weakref.WeakValueDictionary[tuple[str, Hashable], E]()
        self._renew()
        if hasattr(os, "register_at_fork"):  # another thread of the parent may hold the lock
            os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        self._loading = threading.Lock()

    def take(self, source: str, options: Hashable, load: Callable[[], E]) -> E:
        """Return an engine, loading it if necessary, and count one more user."""
        with self._loading:
            engine = self._engines.get((source, options))
            if engine is None or engine.worker.closed:
                began = time.monotonic()
                engine = self._engines[source, options] = load()
                dtype, seconds = str(engine.dtype).removeprefix("torch."), time.monotonic() - began
                _log.info("loaded %s on %s in %s, %.1f s", source, engine.device, dtype, seconds)
            engine.retain()
            return engine


class Bundled(SavedModel):
    """Model of a kind that ships with the package."""

    ships_as: ClassVar[str | None] = None  # its folder in the package, where it is not the kind's

    @classmethod
    def embedded(cls, **options: Any) -> Self:
        """Load the bundled model; an encoder-based one loads MiniLM.

        `options` are those of `from_pretrained`. MiniLM comes with the extra `offline`, or from the
        hub.
        """
        return cast(Self, cls.from_pretrained(embedded_folder(cls.ships_as or cls.kind), **options))


def embedded_folder(name: str) -> Path:
    """Return the folder of a model that ships with the package."""
    return Path(str(resources.files("fitrag_integrations") / "embedded" / name))
