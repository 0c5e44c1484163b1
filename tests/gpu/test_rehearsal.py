"""The rehearsal of a GPU, in a process of its own: what it registers stays there."""

import os
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent / "rehearsal"


def test_everything_runs_on_a_device_that_is_not_the_cpu():
    plain = ["-p", "no:cacheprovider", "-p", "no:benchmark", "-p", "no:xdist"]
    command = [sys.executable, "-m", "pytest", "-q", *plain, str(FOLDER)]
    ran = subprocess.run(
        command,
        env={**os.environ, "FITRAG_REHEARSAL": "1"},
        cwd=FOLDER.parents[2],
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert ran.returncode == 0, ran.stdout[-12000:] + ran.stderr[-2000:]
    assert " passed" in ran.stdout and "skipped" not in ran.stdout
