"""Kill `fit` at random moments until it ends: is the folder the same, was anything asked twice?

    python benchmarks/fit_killed.py [--kills 20] [--seed 0]

A child process fits with the embedded scorer over a little world of its own; its language model
answers from the prompt, waits some milliseconds, and writes down every prompt before it answers. It
is killed (SIGKILL) at a random moment, and begun again. Told are the kills that hit, whether the
files are those of a run in one go, and the prompts that were answered into the journal and asked
again all the same. Prompts that were under way as the kill came have no answer yet, and are asked
again: at most one batch for each kill.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import tempfile
import time
from collections import Counter
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path

from fitrag_integrations.training.fitted import Wish, fit
from fitrag_integrations.training.fitted.fitting import JOURNAL
from fitrag_integrations.types import Passage

PEOPLE, PLACES = 40, ("Oslo", "Lima", "Cairo", "Quito", "Hanoi")
FILES = ("fitted.json", "questions.jsonl", "traces.jsonl", "report.html", "corpus.json")
SLOW = 0.02  # seconds an answer


def main() -> None:
    """Run once in one go, then through all the kills."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        whole, timed, killed = (Path(folder) / name for name in ("whole", "timed", "again"))
        fit_in(whole)  # here, so that the models are loaded in every child
        begun = time.monotonic()
        assert ended(child(timed)) == 0
        seconds = time.monotonic() - begun
        chance, hits = random.Random(args.seed), 0
        while hits < args.kills:
            process = child(killed)
            process.join(chance.uniform(0.02, 0.9) * seconds)
            if process.is_alive():
                process.kill()
                process.join()
                hits += 1
                continue
            for name in FILES:  # it ended before the kill: once more, from the answers alone
                (killed / name).unlink(missing_ok=True)
        assert ended(child(killed)) == 0
        print(json.dumps({"kills": hits, **compared(whole, killed)}))


def child(folder: Path) -> BaseProcess:
    """Start a fit in a process of its own."""
    process = get_context("fork").Process(target=fit_in, args=(folder,))
    process.start()
    return process


def ended(process: BaseProcess) -> int | None:
    """Wait for a process, and give its exit code."""
    process.join()
    return process.exitcode


def compared(whole: Path, killed: Path) -> dict[str, object]:
    """Compare the files, and count prompts that were asked again after they were answered."""
    same = all(
        (whole / name).read_bytes()
        == (killed / name).read_bytes().replace(bytes(killed), bytes(whole))
        for name in FILES
    )
    answered = [json.loads(line) for line in (killed / JOURNAL).read_bytes().splitlines()[1:]]
    twice = sum(n - 1 for n in Counter(row.get("prompt") for row in answered).values())
    asked = (killed / "asked.txt").read_text().split()
    return {
        "same files": same,
        "prompts": len(set(asked)),
        "asked": len(asked),
        "answered twice": twice,
    }


def fit_in(folder: Path) -> None:
    """Fit to the little world."""
    folder.mkdir(parents=True, exist_ok=True)
    people = [f"Person{at} Name{at}" for at in range(PEOPLE)]
    told = {name: PLACES[at % len(PLACES)] for at, name in enumerate(people)}
    dull = "The weather of that year was mild and nobody had much to say about it. " * 2
    passages = [
        Passage(name, f"{dull}{name} was born in {place}. {dull}") for name, place in told.items()
    ]

    def retrieve(queries: list[str]) -> list[list[Passage]]:
        places = [people.index(query[len("Where was ") : -len(" born?")]) for query in queries]
        return [[passages[at - 1], passages[at], passages[at - 2]] for at in places]

    def answer(prompts: list[str]) -> list[str]:
        with (folder / "asked.txt").open("a") as seen:
            seen.writelines(f"{named(prompt)}\n" for prompt in prompts)
        time.sleep(SLOW * len(prompts))
        return [answered(prompt, told) for prompt in prompts]

    rows = [{"question": f"Where was {n} born?", "answers": [told[n]]} for n in people]
    wish = Wish(drop=0.2, confidence=0.8, k=3, depth=2)
    fit(retrieve, answer, rows, out=folder, wish=wish, passages=passages)


def answered(prompt: str, told: dict[str, str]) -> str:
    """Answer where the prompt tells, and for every fifth person without."""
    question = prompt.rpartition("Where was ")[2].partition(" born?")[0]
    knows = f"{question} was born in" in prompt or question.endswith("5")
    if "Answer Yes or No" in prompt:
        return "Yes" if question.endswith("5") else "No"
    return told[question] if knows else "nobody knows"


def named(prompt: str) -> str:
    """Name a prompt the same in every process."""
    return hashlib.sha256(prompt.encode()).hexdigest()[:16]


if __name__ == "__main__":
    main()
