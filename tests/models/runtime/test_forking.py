"""A model that was loaded before a fork answers in the child as in the parent."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest
from closed_book import GATE

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")

SECONDS = 90  # far more than it takes; before, the child hung for ever
LOADED = """
    import multiprocessing, os, sys, threading
    from fitrag_integrations import Passage
    from fitrag_integrations.models import BiLabelScorer, IKClassifier

    PAIRS = [
        ("Where does the Danube rise?", Passage("1", "The Danube rises in the Black Forest. " * n))
        for n in (1, 3, 60)
    ]
    scorer = BiLabelScorer.embedded(device="cpu")
    gate = IKClassifier.from_pretrained(os.environ["GATE"], device="cpu")

    def answers():
        scores = scorer.score(PAIRS)
        known = gate.p_known(["Who wrote Faust?"], [""])
        return [round(s.has_answer, 5) for s in scores] + [round(known[0], 5)]
"""


def run(folder, script, *command, threads=2, **how):
    """Run a script that loads models; gives the process when it has ended."""
    path = folder / "served.py"
    path.write_text(textwrap.dedent(LOADED) + textwrap.dedent(script))
    environment = os.environ | {
        "OMP_NUM_THREADS": str(threads),
        "GATE": str(GATE),
        "PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]),
    }
    return subprocess.Popen(
        [sys.executable, *(command or [str(path)])],
        env=environment,
        cwd=folder,
        text=True,
        start_new_session=True,  # so that its children end with it
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **how,
    )


def ended(process):
    try:
        out, err = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        stop(process)
        pytest.fail("it hangs")
    assert process.returncode == 0, err
    return out


def stop(process):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def wait_for(path, process):
    until = time.monotonic() + SECONDS
    while not path.exists():
        assert process.poll() is None and time.monotonic() < until
        time.sleep(0.1)


def test_multiprocessing_by_fork_and_a_fork_amid_calls_of_other_threads(tmp_path):
    script = """
    def child(results):
        results.put(answers())

    def busy():
        while not enough.is_set():
            answers()

    if __name__ == "__main__":
        before = answers()
        fork = multiprocessing.get_context("fork")
        results = fork.SimpleQueue()
        children = [fork.Process(target=child, args=(results,)) for _ in range(2)]
        for each in children:
            each.start()
        found = [results.get() for _ in children]
        for each in children:
            each.join()
        assert found == [before, before], (before, found)
        enough = threading.Event()
        threads = [threading.Thread(target=busy) for _ in range(2)]
        for each in threads:
            each.start()
        for _ in range(3):
            child = os.fork()
            if child == 0:
                os._exit(0 if answers() == before else 1)
            assert os.waitpid(child, 0)[1] == 0
        enough.set()
        for each in threads:
            each.join()
        assert answers() == before
    """
    ended(run(tmp_path, script))


def test_a_gpu_is_not_taken_through_a_fork():
    from fitrag_integrations.errors import ModelLoadError
    from fitrag_integrations.models.runtime.worker import Worker

    worker = Worker("model", bound=True)
    assert worker.call(list, [1]) == [1]
    child = os.fork()
    if child == 0:
        try:
            worker.call(list, [1])
        except ModelLoadError as error:
            os._exit(0 if "load it after the fork" in str(error) else 2)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    assert worker.call(list, [1]) == [1]
    worker.close()


def test_gunicorn_that_preloads(tmp_path):
    pytest.importorskip("gunicorn")
    script = """
    import json
    BEFORE = answers()

    def app(environ, start):
        start("200 OK", [("Content-Type", "application/json")])
        return [json.dumps([os.getpid(), BEFORE, answers()]).encode()]
    """
    socket = tmp_path / "s"
    command = ["-m", "gunicorn", "--preload", "--workers", "2", "--bind", f"unix:{socket}"]
    process = run(tmp_path, script, *command, "--timeout", "100", "served:app")
    try:
        for _ in range(2):
            found = json.loads(asked(socket, process))
            assert found[0] != process.pid
            assert found[1] == found[2]
    finally:
        stop(process)


def asked(path, process):
    """Ask a server on a socket in the file system, once it is there."""
    import http.client
    import socket

    wait_for(path, process)
    connection = http.client.HTTPConnection("localhost", timeout=SECONDS)
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.settimeout(SECONDS)
    connection.sock.connect(str(path))
    connection.request("GET", "/")
    body = connection.getresponse().read()
    connection.close()
    return body


def test_a_celery_worker_that_forks(tmp_path):
    pytest.importorskip("celery")
    script = """
    import json
    from celery import Celery
    from celery.signals import worker_ready
    app = Celery("served", broker="memory://")  # so only this process can send

    @app.task(name="served.ask")
    def ask(parent, before):
        with open("part", "w") as file:
            json.dump([os.getpid() == parent, before == answers()], file)
        os.rename("part", "answered")

    BEFORE = answers()
    worker_ready.connect(lambda **_: ask.delay(os.getpid(), BEFORE), weak=False)
    app.worker_main(["worker", "--pool=prefork", "--concurrency=1", "--loglevel=ERROR"])
    """
    process = run(tmp_path, script)
    try:
        wait_for(tmp_path / "answered", process)
        assert json.loads((tmp_path / "answered").read_text()) == [False, True]
    finally:
        stop(process)
