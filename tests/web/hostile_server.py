"""A web server on loopback whose pages behave as badly as the open web does."""

import socket
import threading
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PRIVATE = "127.0.0.1"


def public_address():
    """Give a loopback address other than the private one; some systems have only one IPv4."""
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.2", 0))
        except OSError:
            return "::1"
    return "127.0.0.2"


PUBLIC = public_address()

WORDS = (
    "The old mill stands at the bend of the river, where the keeper has ground rye since spring. "
    "Its wheel was cut from the oak that fell in the great storm."
)
GOOD = f"<html><head><title>The mill</title></head><body><article><p>{WORDS}</p></article></body>"


class Site:
    """Answer paths with handlers, ``handler(request)``, and note what was asked for."""

    def __init__(self, routes=None):
        self.routes = {"/good": page(GOOD), **(routes or {})}
        self.asked = []
        self.headers = []
        self.closing = threading.Event()
        self.port = 0
        self.waiting, self.most = 0, 0
        self._lock = threading.Lock()

    def paths(self):
        return [path for _, path in self.asked if path != "/robots.txt"]

    def answer(self, request):
        path = request.path.partition("?")[0]
        with self._lock:
            self.asked.append((request.headers.get("Host", ""), request.path))
            self.headers.append({name.lower(): value for name, value in request.headers.items()})
        self.routes.get(path, missing)(request)

    def linger(self, seconds):
        """Wait, and note how many wait at once."""
        with self._lock:
            self.waiting += 1
            self.most = max(self.most, self.waiting)
        self.closing.wait(seconds)
        with self._lock:
            self.waiting -= 1


@contextmanager
def serving(site, address, port=0):
    """Serve a site on a loopback address until the block ends; every thread ends with it."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 30

        def do_GET(self):
            with suppress(ConnectionError):  # whoever reads has had enough
                site.answer(self)

        def log_message(self, *arguments):
            pass

    class Server(ThreadingHTTPServer):
        address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
        daemon_threads = True  # those that wait for a client's next request

        def handle_error(self, request, client_address):
            pass

    Handler.site = site
    server = Server((address, port), Handler)
    site.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield site
    finally:
        site.closing.set()
        server.shutdown()
        server.server_close()
        thread.join()


def send(request, status, body=b"", **headers):
    request.send_response(status)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    for name, value in {"Content-Type": "text/html", "Content-Length": len(body), **named}.items():
        request.send_header(name, str(value))
    request.end_headers()
    request.wfile.write(body)


def page(html, status=200, **headers):
    body = html if isinstance(html, bytes) else html.encode()
    return lambda request: send(request, status, body, **headers)


def missing(request):
    send(request, 404)


def redirect(location, status=302):
    return lambda request: send(request, status, Location=location)


def in_turn(*handlers):
    """Answer with each handler once, the last for good."""
    waiting = list(handlers)
    return lambda request: (waiting.pop(0) if len(waiting) > 1 else waiting[0])(request)


def _begin(request):
    request.send_response(200)
    request.send_header("Content-Type", "text/html")
    request.send_header("Connection", "close")
    request.end_headers()
    request.wfile.write(b"<html><body><p>")


def endless(request):
    """Send words for as long as anybody takes them."""
    _begin(request)
    while not request.site.closing.is_set():
        request.wfile.write(b"and so on and on " * 4_000)


def drip(request):
    """Send one letter at a time, each in time for any read timeout, and never end."""
    _begin(request)
    while not request.site.closing.wait(0.02):
        request.wfile.write(b"a")


def silence(request):
    """Take the request and say nothing."""
    request.site.closing.wait(30)


def slowly(handler, seconds=0.05):
    """Answer after a while, so that requests made at once are there at once."""

    def answer(request):
        request.site.linger(seconds)
        handler(request)

    return answer
