"""The application: routes over the models of this process.

A factory, so that uvicorn, gunicorn or Ray Serve can host it:
``uvicorn --factory fitrag_integrations.commands.serve:create_app``. Settings then come from the
environment, `Settings.from_environment`.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from prometheus_client import generate_latest
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from fitrag_integrations import __version__
from fitrag_integrations.commands.serve.door import Door, Metrics, Settings, worded
from fitrag_integrations.commands.serve.service import (
    CompressRow,
    Ranked,
    Rerank,
    Row,
    Service,
    wrong,
)
from fitrag_integrations.core import jsonl
from fitrag_integrations.errors import FitRagError, InputError


class SafeJson(JSONResponse):
    """JSON in UTF-8, or in ASCII where a text has half a surrogate pair."""

    def render(self, content: Any) -> bytes:
        """Return the body (Starlette)."""
        try:
            return super().render(content)
        except UnicodeEncodeError:
            return jsonl.dump(content)


def create_app(settings: Settings | None = None) -> FastAPI:
    """Build the application; `settings` come from the environment where they are not given.

    Models load before the first request is taken. Raises `ModelLoadError` at start where one
    cannot be loaded, so that a broken service never listens.
    """
    given = settings or Settings.from_environment()
    metrics = Metrics()
    service = Service(given, metrics)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await asyncio.to_thread(service.load)  # the event loop stays free
        yield
        service.stop()

    app = FastAPI(title="fitrag", version=__version__, lifespan=lifespan)
    app.add_middleware(Door, settings=given, metrics=metrics)

    @app.post("/rerank")
    async def rerank(asked: Rerank) -> Response:
        """Answer `texts` as TEI does, with a bare list, and `documents` as Jina does."""
        ranked = await service.rerank(asked)
        if asked.texts is None:
            return await _jina(ranked, asked, service)
        return SafeJson([asked.row(one, "score") for one in ranked])

    @app.post("/v1/rerank")
    async def jina(asked: Rerank) -> Response:
        """Answer as Jina, vLLM and Infinity do."""
        return await _jina(await service.rerank(asked), asked, service)

    @app.post("/v2/rerank")
    async def cohere(asked: Rerank) -> Response:
        """Answer as Cohere does, with `relevant_spans` where they are asked for."""
        rows = [asked.row(one) for one in await service.rerank(asked)]
        meta = {"api_version": {"version": "2"}, "billed_units": {"search_units": 1}}
        return SafeJson({"id": str(uuid.uuid4()), "results": rows, "meta": meta})

    @app.post("/compress")
    async def compress(row: CompressRow) -> Response:
        """Add to a row what `fitrag compress` adds."""
        return SafeJson(await service.row("compress", row.model_dump()))

    @app.post("/route")
    async def route(row: Row) -> Response:
        """Add to a row what `fitrag route` adds."""
        return SafeJson(await service.row("route", row.model_dump()))

    @app.post("/gate")
    async def gate(row: Row) -> Response:
        """Add to a row what `fitrag gate` adds."""
        if not given.gate:
            reason = "this service has no gate: start it with --gate FOLDER"
            return SafeJson(worded("NotFound", reason), 404)
        return SafeJson(await service.row("gate", row.model_dump()))

    @app.get("/health")
    async def health() -> Response:
        """Check whether requests are taken."""
        return SafeJson({"status": "ready"})

    @app.get("/info")
    async def info() -> Response:
        """Return the names of the models and the limits."""
        return SafeJson(service.info())

    @app.get("/metrics")
    async def figures() -> Response:
        """Return the figures that Prometheus reads."""
        return Response(generate_latest(metrics.registry), media_type="text/plain; version=0.0.4")

    @app.exception_handler(RequestValidationError)
    @app.exception_handler(FitRagError)
    @app.exception_handler(HTTPException)
    async def failed(request: Request, error: Exception) -> Response:
        """Answer what a route raises with a status and a reason."""
        if isinstance(error, HTTPException):
            return SafeJson(worded("Request", str(error.detail)), error.status_code)
        sent = request.headers.get("content-type", "")
        if isinstance(error, RequestValidationError) and "json" not in sent.lower():
            reason = (
                f"the body has {f'the content type {sent[:50]}' if sent else 'no content type'}"
            )
            return SafeJson(
                worded("Request", f"{reason}: send Content-Type: application/json"), 415
            )
        if isinstance(error, RequestValidationError):
            return SafeJson(worded("Validation", wrong(error)), 422)
        kind, status = ("Validation", 422) if isinstance(error, InputError) else ("Backend", 503)
        return SafeJson(worded(kind, str(error)), status)

    return app


async def _jina(ranked: list[Ranked], asked: Rerank, service: Service) -> SafeJson:
    """Answer with the fields of Jina, vLLM and Infinity together."""
    tokens = await asyncio.to_thread(service.tokens, asked)  # of long texts, this takes a while
    return SafeJson(
        {
            "object": "rerank",
            "id": str(uuid.uuid4()),
            "created": int(time.time()),
            "model": asked.model or service.name,
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
            "results": [asked.row(one) for one in ranked],
        }
    )
