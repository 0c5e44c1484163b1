"""Walk with a question through `FitRag`: the files it enters, and the calls it costs.

    python benchmarks/way.py [--calls]

Three passages, a scorer that counts words, no model. Told are all calls within the package, those
that count tokens and those that check a value; and the way of the question itself, by the calls
that are given it: the files it enters, and how often it comes back to one it had left. With
`--calls` every function is named with the number of its calls.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from types import FrameType
from typing import Any

import fitrag_integrations
from fitrag_integrations.flow import run
from fitrag_integrations.methods import FitRag
from fitrag_integrations.ports import Pair, Ports
from fitrag_integrations.types import BiLabelScore, Passage

ROOT = Path(fitrag_integrations.__file__).parent
QUESTION = "Who wrote the score of Amarcord?"
PASSAGES = (
    Passage(
        "film",
        "Amarcord is a film of 1973. Nino Rota wrote the score. It won a prize in America. Many "
        "know its tune. It was shot in Rome. The town in it was built in a studio.",
        "Amarcord",
    ),
    Passage(
        "rota",
        "Nino Rota was born in Milan. He wrote an oratorio as a child. Later he taught in Bari. "
        "Films made him famous. He died in Rome in 1979.",
        "Nino Rota",
    ),
    Passage(
        "rain",
        "Rain falls on the hills. The river carries it to the sea. Nobody minds. Boats wait at "
        "the quay. In autumn the water is high.",
        "Weather",
    ),
)


class Words:
    """Score a text by the words it shares with the question."""

    def score(self, pairs: Sequence[Pair]) -> list[BiLabelScore]:
        """Give the share of the question's words, for both labels."""
        asked = [
            (set(question.lower().split()), set(passage.text.lower().split()))
            for question, passage in pairs
        ]
        shares = [len(words & text) / len(words) for words, text in asked]
        return [BiLabelScore(share, share) for share in shares]

    def score_sentences(self, items: Sequence[Any]) -> list[Any]:
        """Give the shares of each passage, and of each of its spans."""
        return [
            (
                self.score([(question, passage)])[0],
                self.score([(question, Passage("", passage.text[a:b])) for a, b in spans]),
            )
            for question, passage, spans in items
        ]


class Walk:
    """Write down every call within the package, and those that are given the question."""

    def __init__(self) -> None:
        self.calls: Counter[tuple[str, str]] = Counter()
        self.way: list[str] = []
        self.frames: set[FrameType] = set()  # a generator comes back to its own

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        """Note a call; what is resumed, as a generator is, was noted before."""
        code = frame.f_code
        path = Path(code.co_filename)
        if event != "call" or not path.is_relative_to(ROOT) or frame in self.frames:
            return
        if code.co_name.startswith("<"):  # a comprehension is part of its function
            return
        self.frames.add(frame)
        file = str(path.relative_to(ROOT))
        self.calls[file, code.co_qualname] += 1
        given = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        if any(frame.f_locals.get(name) is QUESTION for name in given):
            self.way.append(file)


def main() -> None:
    """Walk once to load what is loaded lazily, then once to count."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--calls", action="store_true", help="name every function")
    named = parser.parse_args().calls
    method = FitRag(Words(), window=3, scoring="windows", max_tokens=60)
    ports = Ports(lambda queries: [list(PASSAGES) for _ in queries])
    _ = run(method(QUESTION, ports)).value
    walk = Walk()
    sys.setprofile(walk)
    traced = run(method(QUESTION, ports))
    sys.setprofile(None)
    files = {file for file, _ in walk.calls}
    tokens = sum(n for (file, _), n in walk.calls.items() if file.startswith("text/"))
    checks = sum(n for (file, _), n in walk.calls.items() if file == "core/checks.py")
    print(f"{len(files)} files, {walk.calls.total()} calls, {tokens} in text/, {checks} checks")
    entered = [file for file, _ in groupby(file for file in walk.way if file != "core/checks.py")]
    returns = len(entered) - len(set(entered))
    print(f"the question: {len(set(entered))} files entered, {returns} returns")
    print("  " + " > ".join(entered))
    print(f"kept {[excerpt.text for excerpt in traced.value.excerpts]}")
    if named:
        for (file, name), count in walk.calls.most_common():
            print(f"{count:5} {file}: {name}")


if __name__ == "__main__":
    main()
