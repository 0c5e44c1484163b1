"""An application that answers with its process, at once or after the seconds that are its path."""

import asyncio
import json
import os


def create():
    """Build it; a process may be told to fail, or to take its time."""
    if os.path.exists(os.environ.get("BROKEN", "")):
        raise RuntimeError("broken")
    return answer


async def answer(scope, receive, send):
    """Answer (ASGI)."""
    if scope["type"] == "lifespan":
        while True:
            kind = (await receive())["type"]
            await send({"type": f"{kind}.complete"})
            if kind == "lifespan.shutdown":
                return
    more = True
    while more:
        more = (await receive()).get("more_body")
    await asyncio.sleep(float(scope["path"][1:] or 0))
    body = json.dumps(os.getpid()).encode()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})
