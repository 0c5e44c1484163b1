"""An evaluator that reads its grade out of the text, and passages that say theirs."""

import re

from fitrag_integrations.methods.crag.evaluator import ActionThresholds
from fitrag_integrations.types import Passage

THRESHOLDS = ActionThresholds(0.5, -0.5, -0.2, "by-eye")


class ByEye:
    """Give a text the best grade written in it as ``<0.7>``, -1 where there is none."""

    name = "by-eye"
    thresholds = THRESHOLDS

    def __init__(self):
        self.asks = []

    def evaluate(self, pairs):
        self.asks.append([(question, passage.text) for question, passage in pairs])
        return [graded(passage.text) for _, passage in pairs]


class ByEyeAsync(ByEye):
    """The same, by its async call alone in an async run."""

    async def aevaluate(self, pairs):
        return self.evaluate(pairs)


def graded(text):
    return max(map(float, re.findall(r"<(-?[\d.]+)>", text)), default=-1.0)


def passage(name, *grades, title="", **metadata):
    """Make a passage of one sentence per grade."""
    text = " ".join(f"Fact {at} of {name} is <{grade}>." for at, grade in enumerate(grades))
    return Passage(name, text, title, metadata=metadata)


def texts(excerpts):
    return [excerpt.text for excerpt in excerpts]
