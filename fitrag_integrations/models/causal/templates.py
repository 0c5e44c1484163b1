"""Render chat templates in a process of their own, bounded in time, memory and size.

A template is a program that came with a model's files: it may loop for ever, or write a text of ten
thousand million characters in one operation that no thread can interrupt. The process starts with
the first template, serves all models, and is ended and replaced when a template oversteps.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from typing import Any

SECONDS = 20.0
"""Time limit of one rendering."""
START_SECONDS = 120.0
"""Time limit of the start of the process, in which it imports transformers."""
MEMORY = 2 << 30
"""Memory limit of the process in bytes, where the system has such limits."""
GROWTH = 1_000_000
"""Characters that a template may add to a text."""

_lock = threading.Lock()
_process: subprocess.Popen[bytes] | None = None
_owner = 0


class TemplateError(Exception):
    """A template failed or overstepped a limit."""


def render_template(template: str, text: str, variables: Mapping[str, Any]) -> str:
    """Return a template rendered for one turn of a user.

    Args:
        template: Text of the template.
        text: What the user says.
        variables: Further variables of the template; JSON values.

    Raises:
        TemplateError: If the template fails, or needs more time or memory than is allowed.
    """
    global _process, _owner
    turn = [{"role": "user", "content": text}]
    asked = {"conversations": [turn], "chat_template": template, "add_generation_prompt": True}
    line = json.dumps({**asked, **variables}).encode() + b"\n"
    with _lock:
        if _process is None or _owner != os.getpid() or _process.poll() is not None:
            _process = subprocess.Popen(
                [sys.executable, "-P", __file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, **{"USE_TORCH": "0", "TRANSFORMERS_VERBOSITY": "error"}},
            )
            _owner = os.getpid()
            _within(START_SECONDS, b"")
        reply = json.loads(_within(SECONDS, line))
    if "error" in reply:
        raise TemplateError(reply["error"])
    return str(reply["text"])


def _within(seconds: float, line: bytes) -> bytes:
    """Send a line and return the reply; end the process where it comes too late."""
    global _process
    process = _process
    assert process is not None and process.stdin is not None and process.stdout is not None
    timer = threading.Timer(seconds, process.kill)
    timer.start()
    try:
        process.stdin.write(line)
        process.stdin.flush()
        reply = process.stdout.readline()
    except OSError:
        reply = b""
    finally:
        timer.cancel()
    if not reply:
        _process = None
        process.kill()
        process.communicate()
        raise TemplateError(
            f"it took more than {seconds:g} s, or more than {MEMORY >> 30} GB of memory"
        )
    return reply


def _serve() -> None:
    """Answer lines with JSON until there are none; for the process alone."""
    from transformers.utils.chat_template_utils import render_jinja_template

    with contextlib.suppress(ImportError, ValueError, OSError):  # not on Windows
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    out = sys.stdout.buffer
    out.write(b"{}\n")
    out.flush()
    for line in sys.stdin.buffer:
        asked = json.loads(line)
        try:
            rendered: Any = render_jinja_template(**asked)
            text = rendered[0][0]
            over = len(text) - len(asked["conversations"][0][0]["content"])
            said = {"text": text}
            if over > GROWTH:
                said = {"error": f"it adds {over} characters, allowed {GROWTH}"}
        except MemoryError:
            said = {"error": f"it takes more than {MEMORY >> 30} GB of memory"}
        except Exception as error:  # a template is a program of others
            said = {"error": str(error) or type(error).__name__}
        out.write(json.dumps(said).encode() + b"\n")
        out.flush()


if __name__ == "__main__":
    _serve()
