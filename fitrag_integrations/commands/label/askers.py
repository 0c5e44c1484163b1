"""Load whoever `fitrag label bilabel` asks, by what the name names."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from fitrag_integrations.commands.engine import models, options
from fitrag_integrations.commands.label.asked import EMBEDDED, load_llm
from fitrag_integrations.training.asking_llm import Asker, AskLLM, AskReader
from fitrag_integrations.training.labels.llm_calls import RemoteAnswers


def load_asker(
    name: str,
    url: str | None,
    api: str,
    prompt: str,
    max_new_tokens: int,
    how: options.ModelOptions,
    asking: dict[str, Any],
) -> Asker:
    """Load who is asked, by what the name names."""
    if url is not None:
        return AskLLM(remote(url, name, api, max_new_tokens, asking), prompt=prompt, **asking)
    if name == EMBEDDED or models.model_kind(Path(name)) == "reader":
        chosen = None if name == EMBEDDED else name
        reader = models.load_reader(
            options.ModelOptions(chosen, how.device, how.dtype, how.batch_tokens)
        )
        return AskReader(reader, name)
    if ":" in name and not Path(name).exists():
        return AskLLM(models.load_chat_model(name), name=name, prompt=prompt, **asking)
    given = {"device": how.device, "dtype": how.dtype, "batch_tokens": how.batch_tokens}
    model = load_llm(name, max_new_tokens=max_new_tokens, **given)
    return AskLLM(model, prompt=prompt, **asking)


def remote(url: str, name: str, api: str, max_new_tokens: int, asking: dict[str, Any]) -> Any:
    """Make the client of a server; its key is read from OPENAI_API_KEY."""
    return RemoteAnswers(
        url,
        name,
        api="completions" if api == "completions" else "chat",
        api_key=os.environ.get("OPENAI_API_KEY"),
        max_new_tokens=max_new_tokens,
        max_retries=asking["retries"],
        timeout=asking["timeout"],
        concurrency=asking["concurrency"],
    )
