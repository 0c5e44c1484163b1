"""Processes are replaced within seconds, ended together, and connections are bounded."""

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import httpx
import pytest

resource = pytest.importorskip("resource", reason="workers are tested on POSIX")

PATIENCE = 90.0  # seconds on a loaded machine; uvicorn's supervisor took 120 and more
PROGRAM = """
import os, random, sys, time
from fitrag_integrations.commands.serve.workers import Workers

if "JUMPS" in os.environ:
    clock = time.time
    time.time = lambda: clock() + random.uniform(-1e6, 1e6)
if __name__ == "__main__":
    options = dict(app="small_app:create", factory=True, port=int(sys.argv[1]), ws="none")
    options |= dict(http="fitrag_integrations.commands.serve.workers:BoundedProtocol")
    grace = int(sys.argv[3])
    options |= dict(timeout_graceful_shutdown=grace, log_level="critical")
    sys.exit(Workers(options, int(sys.argv[2]), grace=grace).run())
"""


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


class Service:
    """A supervisor in a process of its own."""

    def __init__(self, folder, count, *, grace=3, files=None, **environment):
        (folder / "program.py").write_text(PROGRAM)
        self.port = free_port()
        path = os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])
        words = [folder / "program.py", self.port, count, grace]
        self.process = subprocess.Popen(
            [sys.executable, *map(str, words)],
            env={**os.environ, "PYTHONPATH": path, **environment},
            preexec_fn=files
            and partial(resource.setrlimit, resource.RLIMIT_NOFILE, (files, files)),
        )

    def call(self, path="/"):
        url = f"http://127.0.0.1:{self.port}{path}"
        try:  # urllib and http.client leave the socket of a reset connection open
            return httpx.get(url, timeout=PATIENCE, trust_env=False).raise_for_status().json()
        except httpx.HTTPError as error:
            raise ConnectionError(str(error)) from None

    def workers(self):
        """Return the processes that listen, from the children that the system lists."""
        listed = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return {int(pid) for pid in listed.split() if "spawn_main" in command(pid)}

    def serving(self, count, *, without=()):
        """Wait until so many workers answer; return them."""
        until, seen = time.monotonic() + PATIENCE, set()
        while time.monotonic() < until:
            with contextlib.suppress(OSError):
                seen.add(self.call())
            seen &= self.workers()
            if len(seen) >= count and not seen & set(without):
                return seen
        raise AssertionError(f"only {seen} of {self.workers()} answer")

    def stop(self, number=signal.SIGTERM):
        """Send a signal and return the exit status."""
        workers = self.workers()
        self.process.send_signal(number)
        code = self.process.wait(timeout=PATIENCE)
        assert not [pid for pid in workers if "spawn_main" in command(pid)]
        return code


def command(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


@pytest.fixture
def start(tmp_path):
    made = []

    def started(count, **options):
        made.append(Service(tmp_path, count, **options))
        return made[-1]

    yield started
    for service in made:
        for pid in (
            [*service.workers(), service.process.pid] if service.process.poll() is None else []
        ):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        service.process.wait()


@pytest.mark.parametrize("circumstances", [{}, {"JUMPS": "1"}, {"files": 64}], ids=str)
def test_a_worker_killed_before_it_answers_the_supervisor_is_replaced_and_sigterm_ends(
    start, circumstances
):
    service = start(2, **circumstances)  # clocks that jump, few files that may be open
    first = service.serving(2)
    victim = min(first)
    os.kill(victim, signal.SIGSTOP)  # as one that a loaded machine leaves no time
    time.sleep(2)
    os.kill(victim, signal.SIGKILL)
    service.serving(2, without=[victim])
    assert service.stop() == 0


def test_kills_at_random_moments_under_load(start):
    busy = "import sys\nwhile True: sum(range(10**6))"
    load = [subprocess.Popen([sys.executable, "-c", busy]) for _ in range(4)]
    try:
        service, chance = start(2), random.Random(3)
        for _ in range(6):
            victim = chance.choice(sorted(service.serving(2)))
            time.sleep(chance.uniform(0.0, 1.2))
            os.kill(victim, signal.SIGKILL)
            begun = time.monotonic()
            while victim in service.workers() or len(service.workers()) < 2:
                assert time.monotonic() < begun + PATIENCE
                time.sleep(0.01)
        os.kill(chance.choice(sorted(service.serving(2))), signal.SIGKILL)
        assert service.stop() == 0
    finally:
        for each in load:
            each.kill()
            each.wait()


def test_sigterm_lets_what_is_begun_end_and_kills_what_does_not(start):
    service = start(2)
    service.serving(2)
    address = ("127.0.0.1", service.port)
    with ThreadPoolExecutor() as pool, socket.create_connection(address, PATIENCE) as half:
        half.sendall(b"GET / HTTP/1.1\r\n")  # a request that the signal comes into the middle of
        asked = pool.submit(service.call, "/1.5")
        time.sleep(0.5)
        stuck = pool.submit(service.call, "/100")
        time.sleep(0.5)
        stopped = pool.submit(service.stop)
        time.sleep(0.5)
        half.sendall(b"Host: localhost\r\n\r\n")
        answer = b"".join(iter(lambda: half.recv(1000), b""))
        assert answer.startswith(b"HTTP/1.1 200")
        assert stopped.result() == 0 and asked.result() > 0
        with pytest.raises(OSError):
            stuck.result()


def test_a_stopped_worker_does_not_outlive_the_grace_nor_a_second_signal(start):
    service = start(2)
    os.kill(min(service.serving(2)), signal.SIGSTOP)
    assert service.stop() == 0
    service = start(2, grace=600)
    os.kill(min(service.serving(2)), signal.SIGSTOP)
    service.process.send_signal(signal.SIGTERM)
    time.sleep(0.5)
    assert service.stop(signal.SIGINT) == 0


def test_sighup_replaces_all_without_a_gap(start, tmp_path):
    broken = tmp_path / "broken"
    service = start(2, BROKEN=str(broken))
    old = service.serving(2)
    failed, ended = [], threading.Event()

    def ask():
        while not ended.is_set():
            try:
                service.call()
            except OSError as error:
                failed.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    service.process.send_signal(signal.SIGHUP)
    new = service.serving(2, without=old)
    broken.touch()  # the next ones cannot start: those that serve stay
    service.process.send_signal(signal.SIGHUP)
    time.sleep(3)
    ended.set()
    asking.join()
    assert service.workers() == new and not failed
    assert service.stop() == 0


def test_an_application_that_cannot_start_ends_the_service(start, tmp_path):
    (tmp_path / "broken").touch()
    assert start(2, BROKEN=str(tmp_path / "broken")).process.wait(timeout=PATIENCE) == 1


def test_workers_end_when_the_supervisor_was_killed(start):
    service = start(2)
    left = service.serving(2)
    service.process.kill()
    until = time.monotonic() + PATIENCE
    while any("spawn_main" in command(pid) for pid in left):
        assert time.monotonic() < until
        time.sleep(0.1)


def test_half_headers_are_closed_and_hold_nobody_up(start):
    service = start(1, files=64)  # 32 connections
    service.serving(1)
    with contextlib.ExitStack() as closing:
        opened = []
        for count in range(1, 81):
            one = socket.create_connection(("127.0.0.1", service.port), timeout=PATIENCE)
            opened.append(closing.enter_context(one))
            one.sendall(b"GET / HTTP/1.1\r\nHost:")
            if count in (24, 80):
                assert service.call()
        for one in opened:  # the first had to make room, the others were silent for too long
            with contextlib.suppress(ConnectionResetError):
                assert one.recv(1) == b""
    assert service.call() and service.stop() == 0
