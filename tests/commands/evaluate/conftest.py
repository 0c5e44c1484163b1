"""`fitrag evaluate` in this process."""

import pytest


@pytest.fixture
def evaluate(fitrag):
    """Run a verb; gives standard output, or standard error where it exits with another `code`."""

    def run(*arguments, code=0):
        done = fitrag("evaluate", *arguments)
        assert done[0] == code, done
        return done[1] if code == 0 else done[2]

    return run
