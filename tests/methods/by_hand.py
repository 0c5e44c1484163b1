"""A flow driven by hand: what it asks, and what it returns."""

import pytest


def asked(ask):
    """Give the port of an ask and its items; of pairs, the texts of their passages."""
    items = [item[1].text if isinstance(item, tuple) else item for item in ask.items]
    return ask.port.name, items


def finished(flow, reply):
    """Answer the last ask of a flow; gives what it returns."""
    with pytest.raises(StopIteration) as stopped:
        flow.send(reply)
    return stopped.value.value
