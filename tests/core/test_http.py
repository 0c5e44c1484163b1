"""One reader of Retry-After and one way to wait for coroutines, for the web and remote models."""

import asyncio
import os
import signal

import pytest

from fitrag_integrations.core.http import finish, retry_after


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("3", 3.0),
        (" 0 ", 0.0),
        ("0.5", 0.5),
        ("-1", None),
        ("nan", None),
        ("inf", None),
        ("\u0663", None),
        ("soon", None),
        ("", None),
        (None, None),
        ("Fri, 31 Dec 1999 22:5111111111111 GMT", None),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
        ("Wed, 21 Oct 2015 07:28:00 -0000", 0.0),
    ],
)
def test_it_is_seconds_or_a_date(value, seconds):
    assert retry_after(value) == seconds


def test_a_date_to_come_is_waited_for():
    assert retry_after("Wed, 21 Oct 2999 07:28:00 GMT") > 1e9


def test_a_coroutine_is_finished_from_anywhere():
    async def answer():
        await asyncio.sleep(0)
        return 7

    async def inside():
        return finish(answer)

    assert finish(answer) == asyncio.run(inside()) == 7


def test_an_interrupted_wait_cancels_the_coroutine():
    """As by Ctrl-C, which the main thread hears while it waits."""
    ended = []

    async def endless():
        os.kill(os.getpid(), signal.SIGINT)
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ended.append(True)
            raise

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in a background job
    try:
        with pytest.raises(KeyboardInterrupt):
            finish(endless)
    finally:
        signal.signal(signal.SIGINT, before)
    assert ended == [True]
