"""A server on loopback that gives scripted replies, one after the other, the last one for good."""

import json
import threading
import time
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

HANG = object()
"""A reply that does not come before the server is closed."""


def drip(handler):
    """Send a blank from time to time, for longer than any test waits."""
    handler.send_response(200)
    handler.end_headers()
    with suppress(OSError):  # the client has left
        for _ in range(200):
            handler.wfile.write(b" ")
            time.sleep(0.05)


class Scripted:
    """Hold the replies to come, ``(status, body)`` or ``(status, body, headers)``, and the asks."""

    def __init__(self, *replies):
        self.replies, self.asked, self.headers = list(replies), [], []
        self.closing, self.lock = threading.Event(), threading.Lock()
        self.url = ""

    def next_reply(self, path, headers):
        with self.lock:
            self.asked.append({name: values[0] for name, values in parse_qs(path.query).items()})
            self.headers.append({name.lower(): value for name, value in headers.items()})
            return self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]


@contextmanager
def serving(*replies):
    """Serve on 127.0.0.1; a body that is no bytes is sent as JSON, or called with the query.

    A reply may be a function of the handler instead, which then sends it all.
    """
    script = Scripted(*replies)

    class Handler(BaseHTTPRequestHandler):
        def handle(self):
            with suppress(ConnectionError):  # else a client that leaves leaves our socket open
                super().handle()

        def do_GET(self):
            path = urlsplit(self.path)
            reply = script.next_reply(path, self.headers)
            if reply is HANG:
                script.closing.wait(10)
                return
            if callable(reply):
                return reply(self)
            status, body, headers = (*reply, {})[:3]
            body = body(script.asked[-1]) if callable(body) else body
            body = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", **headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    script.url = f"http://127.0.0.1:{server.server_address[1]}/"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield script
    finally:
        script.closing.set()
        server.shutdown()
        server.server_close()
        thread.join()
