"""Connections are bounded, also where clients do not read, and killed processes are replaced."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
import uvicorn

from fitrag_integrations.commands.serve.connections import BoundedProtocol
from fitrag_integrations.commands.serve.door import HEADER_BYTES, Door, Metrics, Settings

KEY = "sk-serve-0123456789"
PATIENCE = 90.0  # seconds on a loaded machine
MOST = 20
WRONG = b"GET /rerank HTTP/1.1\r\nHost: x\r\n\r\n"
HEALTH = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
LONG = b"GET /long HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + KEY.encode() + b"\r\n\r\n"


class Quick(BoundedProtocol):
    """Limits of a second, and few connections."""

    header_seconds, reply_seconds, unread_seconds, most = 1.0, 1.0, 0.6, MOST
    all_open = set()


async def application(scope, receive, send):
    """Answer with 8 MB at /long, 20 in parts at /parts, else with the size of the body."""
    if scope["type"] != "http":
        return
    size, more = 0, True
    while more:
        message = await receive()
        size, more = size + len(message.get("body", b"")), message.get("more_body")
    body = b"x" * 8_000_000 if scope["path"] == "/long" else str(size).encode()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    if scope["path"] == "/parts":
        for _ in range(40):
            await send({"type": "http.response.body", "body": b"x" * 500_000, "more_body": True})
    await send({"type": "http.response.body", "body": body})


@pytest.fixture(scope="module")
def address():
    """Serve behind the door, over connections with small limits."""
    door = Door(application, Settings(api_key=KEY, payload=1_000_000), Metrics())
    config = uvicorn.Config(door, port=0, http=Quick, ws="none", lifespan="off", log_level="error")
    server = uvicorn.Server(config)
    running = threading.Thread(target=server.run)
    running.start()
    Quick.all_open = server.server_state.connections
    while not server.started:
        time.sleep(0.01)
    yield server.servers[0].sockets[0].getsockname()
    server.should_exit = True
    running.join()


def opened(address, sent=b"", buffer=4096):
    """Connect as a client that buffers little and reads nothing."""
    one = socket.socket()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    one.settimeout(PATIENCE)
    one.connect(address)
    with contextlib.suppress(OSError):
        one.sendall(sent)
    return one


def health(address):
    url = f"http://{address[0]}:{address[1]}/health"
    return httpx.get(url, timeout=PATIENCE, trust_env=False).status_code


def ended(one):
    """Read to the end; returns what was read, also where the connection was reset."""
    read = b""
    with contextlib.suppress(ConnectionError):
        while part := one.recv(1 << 20):
            read += part
    return read


def read_slowly(address, sent=LONG, most=8_000_000):
    """Ask with the key, and read the reply in parts; returns how much came."""
    size = 0
    with opened(address, sent, buffer=1 << 18) as one, contextlib.suppress(ConnectionError):
        while size < most and (part := one.recv(1 << 18)):
            size += len(part)
            time.sleep(0.03)
    return size


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET / HTTP/1.1\r\nHost:",
        LONG,
        LONG * 5,
        WRONG * 2000,
    ],
    ids=["silent", "half a header", "unread", "unread, pipelined", "unread 401s"],
)
def test_clients_that_do_not_act_hold_nobody_up_and_are_closed(address, sent):
    with contextlib.ExitStack() as closing:
        silent = [closing.enter_context(opened(address, sent)) for _ in range(3 * MOST)]
        assert health(address) == 200
        until = time.monotonic() + PATIENCE
        while Quick.all_open:  # nobody reads or sends meanwhile
            assert time.monotonic() < until
            time.sleep(0.1)
        for one in silent:
            assert len(ended(one)) < len(LONG) + 8_000_000  # what its system had buffered
        assert health(address) == 200


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost:", WRONG, HEALTH * 50])
def test_nobody_without_a_key_cuts_the_reply_of_one_who_has_it(address, sent, monkeypatch):
    monkeypatch.setattr(Quick, "reply_seconds", PATIENCE)
    monkeypatch.setattr(Quick, "unread_seconds", 10.0)  # a busy machine reads slowly
    with contextlib.ExitStack() as closing:
        with ThreadPoolExecutor(8) as pool:
            replies = [pool.submit(read_slowly, address) for _ in range(8)]
            crowd = [closing.enter_context(opened(address, sent)) for _ in range(3 * MOST)]
            assert [reply.result() >= 8_000_000 for reply in replies] == [True] * 8
        assert health(address) == 200 and len(crowd) == 3 * MOST


def test_a_reply_that_is_read_in_bursts_is_not_cut_although_it_takes_longer(address):
    sent, began = LONG.replace(b"/long", b"/parts"), time.monotonic()
    assert read_slowly(address, sent, most=20_000_000) >= 20_000_000
    assert time.monotonic() - began > Quick.reply_seconds


def test_a_reply_that_is_not_read_is_closed_where_there_is_no_room(address):
    with contextlib.ExitStack() as closing:
        unread = [closing.enter_context(opened(address, LONG)) for _ in range(MOST)]
        time.sleep(0.8)  # more than may be unread
        assert all(health(address) == 200 for _ in range(3))
        assert sum(len(ended(one)) < 8_000_000 for one in unread) > 0


def test_the_end_of_a_401_is_that_of_the_connection(address):
    with opened(address, WRONG * 2) as one:
        read = ended(one)
    assert read.count(b"HTTP/1.1 401") == 1 and b"connection: close" in read.lower()


@pytest.mark.parametrize("size", [17_000, 40_000, 60_000])
def test_a_long_header_in_one_piece_is_refused(address, size):
    head = b"GET /health HTTP/1.1\r\nHost: x\r\nX-Long: " + b"x" * size + b"\r\n\r\n"
    with opened(address, head) as one:
        status = ended(one).split()[1]
    assert status == b"431" and size > HEADER_BYTES


@pytest.mark.parametrize("key", [KEY, "wrong"])
def test_a_client_that_is_still_sending_gets_the_reply(address, key):
    head = (
        f"POST /rerank HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer {key}\r\n"
    )
    body = b"x" * 1_900_000
    with opened(address, head.encode() + f"Content-Length: {len(body)}\r\n\r\n".encode()) as one:
        for at in range(0, len(body), 100_000):  # a reset connection cannot be written to
            one.sendall(body[at : at + 100_000])
            time.sleep(0.02)
        assert ended(one).split()[1] == (b"413" if key == KEY else b"401")


PROGRAM = """
from fitrag_integrations.cli import main
from fitrag_integrations.commands.serve import serve
serve.HEALTHCHECK_SECONDS = 5  # in which a process that could not load is missed
main()
"""


class Service:
    """`fitrag serve` as a program with two processes."""

    def __init__(self, *options):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            self.address = taken.getsockname()
        words = ["serve", "--workers", "2", *options, "--port", str(self.address[1])]
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *words],
            env={**os.environ, "FITRAG_SERVE_API_KEY": KEY},
        )

    def workers(self):
        """Return the processes that listen, from the children that the system lists."""
        listed = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return {int(pid) for pid in listed.split() if "spawn_main" in command(pid)}

    def rerank(self):
        body = {"query": "Where does the Danube rise?", "texts": ["In the Black Forest."] * 200}
        url, key = f"http://127.0.0.1:{self.address[1]}/rerank", {"Authorization": f"Bearer {KEY}"}
        return httpx.post(url, json=body, headers=key, timeout=PATIENCE).status_code

    def refuses(self):
        """Return the seconds until a new client is refused."""
        began = time.monotonic()
        with contextlib.suppress(ConnectionRefusedError):
            while time.monotonic() - began < PATIENCE:
                socket.create_connection(self.address).close()
                time.sleep(0.01)
        return time.monotonic() - began

    def ready(self):
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            with contextlib.suppress(httpx.TransportError):
                if self.rerank() == 200:
                    return
            time.sleep(0.2)
        raise AssertionError("nobody answers")


def command(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


@pytest.mark.skipif(sys.platform != "linux", reason="reads the list of processes of Linux")
def test_a_killed_process_is_replaced_and_what_is_begun_is_answered_before_the_end():
    service = Service()
    try:
        service.ready()
        before = service.workers()
        for victim in sorted(before):
            os.kill(victim, signal.SIGKILL)
        until = time.monotonic() + PATIENCE
        while len(service.workers() - before) < 2:
            assert time.monotonic() < until
            time.sleep(0.1)
        service.ready()
        with ThreadPoolExecutor() as pool:
            asked = [pool.submit(service.rerank) for _ in range(4)]
            time.sleep(0.5)
            service.process.terminate()
            refused = pool.submit(service.refuses)
            assert [one.result() for one in asked] == [200] * 4
            assert refused.result() < 2.0
        left = service.workers()
        assert service.process.wait(timeout=PATIENCE) == 0
        assert not [pid for pid in left if "spawn_main" in command(pid)]
    finally:
        service.process.terminate()
        service.process.wait(timeout=PATIENCE)


def test_models_that_cannot_be_loaded_end_the_service(tmp_path):
    service = Service("--model", str(tmp_path / "none"))
    assert service.process.wait(timeout=PATIENCE) != 0
