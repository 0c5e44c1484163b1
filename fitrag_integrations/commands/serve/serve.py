"""`fitrag serve`: the models behind HTTP."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from fitrag_integrations.commands.engine import models
from fitrag_integrations.commands.engine.options import EncoderHardware, Model, ModelOptions
from fitrag_integrations.commands.serve.door import (
    HEADER_BYTES,
    HEALTHCHECK_SECONDS,
    PREFIX,
    Bounds,
    Settings,
)
from fitrag_integrations.core.extras import require_extra
from fitrag_integrations.core.option import Option
from fitrag_integrations.defaults import DEFAULTS
from fitrag_integrations.errors import refuse_if


@dataclass(frozen=True)
class ServePlan:
    """Serve the models over HTTP, in the shapes that rerank clients know.

    POST /rerank answers `texts` as TEI does and `documents` as Jina does, /v1/rerank as Jina and
    vLLM, /v2/rerank as Cohere, with relevant_spans; /compress, /route and, with --gate, /gate add
    to a row what the verbs of these names add. GET /health, /info, /metrics. The key that every
    route but /health asks for is read from FITRAG_SERVE_API_KEY; without one the service is open.
    SIGTERM lets what is being answered end. With --mcp, the tools rerank, compress, grade and, with
    --index, retrieve are offered to one agent.
    """

    host: Annotated[str, Option("Address to listen on.")] = "127.0.0.1"
    port: Annotated[int, Option("Port to listen on.", min=0, max=65535)] = 8000
    workers: Annotated[int, Option("Processes, each with its own models.", min=1)] = 1
    model: Model = None
    evaluator: Annotated[str | None, Option("Its folder.", default="the embedded one")] = None
    gate: Annotated[str | None, Option("Its folder.", default="none, and no /gate")] = None
    hardware: EncoderHardware = EncoderHardware()
    mcp: Annotated[
        bool, Option("Offer tools over the Model Context Protocol on stdin and stdout instead.")
    ] = False
    index: Annotated[Path | None, Option("Index that the tool `retrieve` searches.")] = None
    bounds: Bounds = Bounds()

    def settings(self) -> Settings:
        """Build the settings from the options; the key comes from the environment and is in no
        plan.
        """
        named = {"model": self.model, "evaluator": self.evaluator, "gate": self.gate}
        given = {name: value for name, value in (named | asdict(self.hardware)).items() if value}
        return Settings(**given, **asdict(self.bounds), api_key=os.environ.get(f"{PREFIX}API_KEY"))

    def run(self) -> None:
        """Serve until SIGTERM, or as tools until the client is gone."""
        refuse_if(self.index is not None and not self.mcp, "--index", str(self.index), "with --mcp")
        for module in ("fastapi", "prometheus_client", "uvicorn"):
            require_extra(module, extra="serve", feature="fitrag serve")
        if self.mcp:
            from fitrag_integrations.commands.serve.tools import serve_tools

            index = None
            if self.index is not None:
                index = models.load_retriever(self.index, ModelOptions(), k=DEFAULTS.candidates)
            return serve_tools(self.settings(), index)
        import uvicorn
        from uvicorn.config import STARTUP_FAILURE
        from uvicorn.supervisors import Multiprocess

        settings = self.settings()
        if not settings.api_key.found and self.host not in ("127.0.0.1", "localhost", "::1"):
            print(
                f"fitrag serve: {self.host} is reachable from outside and no key is required: set "
                f"{PREFIX}API_KEY, or listen on 127.0.0.1",
                file=sys.stderr,
            )
        os.environ.update(settings.to_environment())  # where each process reads them
        options: dict[str, Any] = {
            "app": "fitrag_integrations.commands.serve:create_app",
            "factory": True,
            "host": self.host,
            "port": self.port,
            "http": "fitrag_integrations.commands.serve.connections:BoundedProtocol",
            "h11_max_incomplete_event_size": HEADER_BYTES,
            "ws": "none",
            "timeout_graceful_shutdown": int(self.bounds.deadline) + 1,
            "timeout_worker_healthcheck": HEALTHCHECK_SECONDS,
            "access_log": False,
        }
        if self.workers == 1:
            return uvicorn.run(**options)

        class Closing(Multiprocess):
            """Supervisor that listens no longer once its processes are asked to end."""

            def terminate_all(self) -> None:
                for each in self.sockets:
                    each.close()
                super().terminate_all()

        config = uvicorn.Config(**options, workers=self.workers)  # uvicorn.run would exit with 0
        supervisor = Closing(config, sockets=[config.bind_socket()])
        supervisor.run()
        if any(each.exitcode == STARTUP_FAILURE for each in supervisor.processes):
            sys.exit(STARTUP_FAILURE)
        return None
