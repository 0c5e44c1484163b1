"""Kill every long verb at random moments, and let it go on: is a row lost, doubled or torn?

    python benchmarks/killed.py [VERB ...] [--kills 200] [--bundled] [--seed 0] [--out FILE]

A verb runs in a child process over a little world of its own, with random models of a few thousand
weights, `fit` with those that ship; with --bundled every verb with those. It is killed (SIGKILL) at
a random moment of its time, and the
same command is given again until it ends; then it begins anew. After each kill every whole line
of the output has to be that of a run in one go, and at each end all files. Of `fit` is told too how
many prompts were asked of the language model, and how many were answered twice; a prompt that was
under way as the kill came has no answer yet and is asked again.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import random
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path

from fitrag_integrations import cli
from fitrag_integrations.commands.engine import models
from fitrag_integrations.core.jsonl import write_jsonl
from fitrag_integrations.training.fitted import Wish, fit
from fitrag_integrations.training.fitted.fitting import JOURNAL
from fitrag_integrations.types import Passage
from fitrag_integrations.values.thresholds import ActionThresholds

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "models"))
PEOPLE, PLACES = 40, ("Oslo", "Lima", "Cairo", "Quito", "Hanoi")
NAMES = [f"Person{at} Name{at}" for at in range(PEOPLE)]
BORN = {name: PLACES[at % len(PLACES)] for at, name in enumerate(NAMES)}
DULL = "The weather of that year was mild and nobody had much to say about it. "
SLOW = 0.02  # seconds an answer of the language model of `fit`
CLOCKS = re.compile(rb'"(seconds|ms|time)": ?[0-9.e-]+')
LONG = re.compile(rb"\d\.\d{5,}")
ROWS = "out.jsonl"
TRAINED = ("model.json", "head.safetensors", "run/log.jsonl")
STEPS = "--steps 40 --base {home}/bert --save-seconds 0 --log-every 1"
SCORER = "--model {home}/scorer"
READS = "{home}/many.jsonl {to}/out.jsonl"
LABELS = "{home}/few.jsonl --out {to}/out.jsonl"
COMMANDS = {  # what is run, and the files that are compared
    "score": (f"score {READS} {SCORER}", (ROWS,)),
    "route": (f"route {READS} --model {{home}}/evaluator", (ROWS,)),
    "gate": (f"gate {READS} --model {{home}}/ik --threshold 0.5", (ROWS,)),
    "compress": (f"compress {READS} {SCORER} --detector none", (ROWS,)),
    "read": (f"read {READS} --model {{home}}/reader", (ROWS,)),
    "retrieve": (f"retrieve {READS} --index {{home}}/index --encoder {{home}}/bert", (ROWS,)),
    "answer": (f"answer {READS} {SCORER} --reader {{home}}/reader", (ROWS,)),
    "label bilabel": (f"label bilabel {LABELS} --llm {{home}}/reader", (ROWS,)),
    "label ik": (f"label ik {LABELS} --llm {{home}}/llama --max-new-tokens 4", (ROWS,)),
    "label eligibility": (
        f"label eligibility {LABELS} --llm {{home}}/reader --scorer {{home}}/scorer",
        (ROWS,),
    ),
    "train bilabel": (f"train bilabel {{home}}/few.jsonl --out {{to}} {STEPS}", TRAINED),
    "train evaluator": (f"train evaluator {{home}}/few.jsonl --out {{to}} {STEPS}", TRAINED),
}
INDEX = "index {home}/corpus.jsonl {to} --encoder {home}/bert"
FITTED = ("fitted.json", "questions.jsonl", "report.html", "corpus.json")


@dataclass(frozen=True)
class Job:
    """Say how a verb runs into a folder, and the files it leaves there."""

    run: Callable[[Path], None]
    files: tuple[str, ...]
    told: Callable[[Path], dict[str, int]] = field(default=lambda folder: {})


def main() -> int:
    """Kill all verbs, and tell."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("verbs", nargs="*")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--bundled", action="store_true", help="use the models that ship")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home, told = Path(folder), dict[str, dict[str, object]]()
        jobs = jobs_in(home, bundled=args.bundled)
        prepare(home, bundled=args.bundled)
        for name in filter(lambda name: name.startswith("load_"), dir(models)):
            setattr(models, name, cache(getattr(models, name)))  # once, and not in every child
        names = args.verbs or list(jobs)
        for at, name in enumerate(names):
            kills = (args.kills + at) // len(names)  # which add up to all of them
            chance = random.Random(f"{args.seed} {name}")
            told[name] = killed(jobs[name], home / "runs" / name.replace(" ", "-"), kills, chance)
            print(json.dumps({name: told[name]}), flush=True)
            if args.out:
                args.out.write_text(json.dumps({"seed": args.seed, "verbs": told}, indent=1) + "\n")
    wrong = [name for name, one in told.items() if one["wrong"]]
    print(f"{args.kills} kills, wrong: {', '.join(wrong) or 'none'}")
    return int(bool(wrong))


def jobs_in(home: Path, *, bundled: bool) -> dict[str, Job]:
    """Return the jobs by their names, over random models or those that ship."""
    words = {name: (shipped(words) if bundled else words) for name, (words, _) in COMMANDS.items()}
    jobs = {name: Job(partial(command, words[name], home), COMMANDS[name][1]) for name in COMMANDS}
    index = shipped(INDEX) if bundled else INDEX
    jobs["index"] = Job(partial(build, index, home), ("index.faiss", "passages.jsonl"))
    jobs["fit"] = Job(fit_in, FITTED, asked_twice)
    return jobs


def shipped(words: str) -> str:
    """Leave out the random models of a command, so that it takes those that ship."""
    words = re.sub(r" --(model|reader|scorer|encoder|base) \{home\}/\w+", "", words)
    return re.sub(r"--llm \{home\}/\w+", "--llm embedded", words).replace("--steps 40", "--steps 8")


def killed(job: Job, home: Path, kills: int, chance: random.Random) -> dict[str, object]:
    """Kill one job so often; gives what was found wrong in any of its files."""
    whole, again = (home / name / "made" for name in ("whole", "again"))  # a folder names its model
    wrong = set[str]()
    quietly(job, whole)  # here, so that modules and models are loaded in every child
    began = time.monotonic()
    assert ended(child(job, again)) == 0
    shutil.rmtree(again)
    span, hits, ends = time.monotonic() - began, 0, 0
    told: dict[str, int] = {}
    while hits < kills or again.exists():
        wait = chance.uniform(0.02, 1.0) * span if hits < kills else None
        code = ended(child(job, again), wait)
        if code is None:
            hits, span = hits + 1, 1.2 * span
            wrong |= torn(whole, again)
            continue
        wrong |= {f"exit {code}"} if code else unlike(job, whole, again)
        told, ends, span = job.told(again), ends + 1, 0.7 * span  # other times on a busy machine
        shutil.rmtree(again)
    return {"kills": hits, "ends": ends, **told, "wrong": sorted(wrong)}


def child(job: Job, folder: Path) -> BaseProcess:
    """Start a job in a process of its own."""
    process = get_context("fork").Process(target=quietly, args=(job, folder))
    process.start()
    return process


def quietly(job: Job, folder: Path) -> None:
    """Run a job; what it says goes nowhere."""
    folder.mkdir(parents=True, exist_ok=True)
    with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stderr(nowhere):
        job.run(folder)


def ended(process: BaseProcess, wait: float | None = None) -> int | None:
    """Wait so long and kill; gives the exit code, None where it was killed."""
    process.join(wait)
    if process.is_alive():
        process.kill()
        process.join()
        return None
    return process.exitcode


def torn(whole: Path, again: Path) -> set[str]:
    """Compare the whole lines that a killed run has written with those of one in one go."""
    written = again / ROWS
    kept = plain(written.read_bytes()).splitlines(keepends=True) if written.exists() else []
    lines = [line for line in kept if line.endswith(b"\n")]
    first = (
        plain((whole / ROWS).read_bytes()).splitlines(keepends=True)[: len(lines)] if lines else []
    )
    return set() if lines == first else {f"{ROWS}, as it was killed"}


def unlike(job: Job, whole: Path, again: Path) -> set[str]:
    """Name the files that are not those of a run in one go."""
    here, there = bytes(again), bytes(whole)
    return {
        name
        for name in job.files
        if plain((whole / name).read_bytes())
        != plain((again / name).read_bytes().replace(here, there))
    }


def plain(content: bytes) -> bytes:
    """Leave out what a clock says, and the last digits, which depend on a batch's other rows."""
    return LONG.sub(lambda one: b"%.4f" % float(one[0]), CLOCKS.sub(b"", content))


def prepare(home: Path, *, bundled: bool) -> None:
    """Write the rows, a corpus, its index and a tiny model to train."""
    from tiny import make_evaluator, make_reader, make_scorer, write_bert
    from tiny_causal import write_ik, write_llama

    bert = write_bert(home / "bert")
    for name, make in (
        ("scorer", make_scorer),
        ("reader", make_reader),
        ("evaluator", partial(make_evaluator, thresholds=ActionThresholds(0.3, -0.3))),
    ):
        make(bert).save_pretrained(home / name)
    write_ik(home / "ik", write_llama(home / "llama"), variant="head")
    corpus = [{"id": name, "text": text_of(name)} for name in NAMES]
    write_jsonl(home / "corpus.jsonl", corpus)
    for name, count in (("few", PEOPLE), ("many", (2 if bundled else 10) * PEOPLE)):
        write_jsonl(home / f"{name}.jsonl", map(row_of, range(count)))
    command(shipped(INDEX) if bundled else INDEX, home, home / "index")


def row_of(at: int) -> dict[str, object]:
    """Ask where somebody was born, with the passage that tells it and another, labelled."""
    name = NAMES[at % PEOPLE]
    texts = [text_of(NAMES[(at - gone) % PEOPLE]) for gone in (1, 0)]
    labels = [{"has_answer": int(gone == 0), "llm_prefer": int(gone == 0)} for gone in (1, 0)]
    passages = [{"text": text, **told} for text, told in zip(texts, labels, strict=True)]
    asked = {"question": f"Where was {name} born?", "answers": [BORN[name]], "id": at}
    return {**asked, "passages": passages}


def text_of(name: str) -> str:
    """Tell where somebody was born, amid other words."""
    return f"{DULL}{name} was born in {BORN[name]}."


def command(words: str, home: Path, to: Path) -> None:
    """Run a command of `fitrag`."""
    try:
        cli.main([word.format(home=home, to=to) for word in words.split()])
    except SystemExit as end:
        if end.code:
            raise


def build(words: str, home: Path, folder: Path) -> None:
    """Build an index, where it is not there already, whole."""
    if not (folder / "manifest.json").exists():
        command(words, home, folder)


def fit_in(folder: Path) -> None:
    """Fit to the little world, with a language model that answers from the prompt."""
    passages = [Passage(name, f"{DULL}{text_of(name)} {DULL}{DULL}") for name in NAMES]

    def retrieve(queries: list[str]) -> list[list[Passage]]:
        places = [NAMES.index(query[len("Where was ") : -len(" born?")]) for query in queries]
        return [[passages[at - 1], passages[at], passages[at - 2]] for at in places]

    def answer(prompts: list[str]) -> list[str]:
        with (folder / "asked.txt").open("a") as seen:
            seen.writelines(f"{named(prompt)}\n" for prompt in prompts)
        time.sleep(SLOW * len(prompts))
        return list(map(answered, prompts))

    rows = [{"question": f"Where was {n} born?", "answers": [BORN[n]]} for n in NAMES]
    wish = Wish(drop=0.2, confidence=0.8, k=3, depth=2)
    fit(retrieve, answer, rows, out=folder, wish=wish, passages=passages)


def answered(prompt: str) -> str:
    """Answer where the prompt tells, and for every fifth person without."""
    question = prompt.rpartition("Where was ")[2].partition(" born?")[0]
    knows = f"{question} was born in" in prompt or question.endswith("5")
    if "Answer Yes or No" in prompt:
        return "Yes" if question.endswith("5") else "No"
    return BORN[question] if knows else "nobody knows"


def named(prompt: str) -> str:
    """Name a prompt the same in every process."""
    return hashlib.sha256(prompt.encode()).hexdigest()[:16]


def asked_twice(folder: Path) -> dict[str, int]:
    """Count prompts, how often they were asked, and the answers that were written twice."""
    rows = [json.loads(line) for line in (folder / JOURNAL).read_bytes().splitlines()[1:]]
    asked = (folder / "asked.txt").read_text().split()
    twice = sum(n - 1 for n in Counter(row.get("prompt") for row in rows).values())
    return {"prompts": len(set(asked)), "asked": len(asked), "answered twice": twice}


if __name__ == "__main__":
    sys.exit(main())
