"""Fill disks, forbid writing and start two writers: does a verb end in one line and harm nothing?

    python benchmarks/disks.py [VERB ...] [--full 50] [--read-only 50] [--writers 50] [--out FILE]

Needs Linux and the right to mount. The verbs and their world are those of benchmarks/killed.py,
with the models that ship. Each is run in a child process of its own:

- *full*: into a tmpfs with room for a random part of what it writes. It has to fail in one line
  that is no traceback, and with more room the same command has to end as a run in one go does.
- *read-only*: over what an earlier run left. It has to fail in one line and change nothing.
- *writers*: twice at once, the second one under the same name, through a symbolic link or a hard
  link. One may be refused in one line, and the files have to be those of a run in one go.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from functools import cache
from multiprocessing import get_context
from pathlib import Path

from killed import Job, jobs_in, prepare, unlike

from fitrag_integrations.commands.engine import models

LEFT_OUT = ("fit", "growing index")  # which run without the command line and its one line
LINKS = ("same name", "symbolic link", "hard link")


def main() -> int:
    """Run every attack the wished number of times over the verbs in turn."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("verbs", nargs="*")
    parser.add_argument("--full", type=int, default=50)
    parser.add_argument("--read-only", type=int, default=50)
    parser.add_argument("--writers", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    chance, wrong, counts = random.Random(args.seed), list[dict[str, str]](), dict[str, int]()
    with tempfile.TemporaryDirectory() as place:
        home = Path(place)
        jobs = {n: j for n, j in jobs_in(home, bundled=True).items() if n not in LEFT_OUT}
        names = args.verbs or list(jobs)
        prepare(home, bundled=True)
        for name in filter(lambda name: name.startswith("load_"), dir(models)):
            setattr(models, name, cache(getattr(models, name)))  # once, and not in every child
        # a folder names the model in it, so that all have one name
        wholes = {name: home / "whole" / name.replace(" ", "-") / "out" for name in names}
        for name, folder in wholes.items():
            code, said = child(jobs[name], folder)
            assert code == 0, f"{name} does not run: {said}"
        attacks = [("full", args.full, full), ("read-only", args.read_only, read_only)]
        attacks += [("writers", args.writers, writers)]
        for at in range(max(count for _, count, _ in attacks)):
            for attack, count, run in attacks:
                if at >= count:
                    continue
                name = names[at % len(names)]
                found = run(jobs[name], wholes[name], home / "runs" / f"{attack}-{at}", chance)
                wrong += [{"attack": attack, "verb": name, "found": one} for one in found]
                counts[attack] = counts.get(attack, 0) + 1
                print(json.dumps({"attack": attack, "verb": name, "found": found}), flush=True)
                if args.out:
                    row = {"seed": args.seed, "runs": counts, "wrong": wrong}
                    args.out.write_text(json.dumps(row, indent=1) + "\n")
    print(f"{counts}, wrong: {len(wrong)}")
    return int(bool(wrong))


def full(job: Job, done: Path, folder: Path, chance: random.Random) -> list[str]:
    """Run a job where its files do not fit, then again with room."""
    size = sum(file.stat().st_size for file in done.rglob("*") if file.is_file())
    room = max(4096, int(chance.uniform(0.0, 0.95) * size) // 4096 * 4096)
    with mounted(folder, f"size={room}"):
        code, line = child(job, folder / "out")
        found = failed(code, line)
        subprocess.run(["mount", "-o", "remount,size=4g", str(folder)], check=True)
        code, line = child(job, folder / "out")
        found += (
            [f"again: exit {code}: {line}"] if code else sorted(unlike(job, done, folder / "out"))
        )
        return found


def read_only(job: Job, done: Path, folder: Path, chance: random.Random) -> list[str]:
    """Run a job on a disk that takes nothing, empty or with an earlier run's first rows."""
    with mounted(folder, "size=4g"):
        (folder / "out").mkdir()
        subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
        code, line = child(job, folder / "out")
        subprocess.run(["mount", "-o", "remount,rw", str(folder)], check=True)
        left = [str(file.relative_to(folder)) for file in (folder / "out").rglob("*")]
        return [*failed(code, line), *(f"wrote {name}" for name in left)]


def writers(job: Job, done: Path, folder: Path, chance: random.Random) -> list[str]:
    """Start a job twice; rows go to one file under two names, folders to one folder."""
    how, out = chance.choice(LINKS), folder / "out"
    out.mkdir(parents=True)
    (folder / "linked").mkdir()
    other = folder / "linked" / "out"  # the name of a folder is the name of the model in it
    rows = job.files[0].endswith(".jsonl") and len(job.files) == 1
    if how == "same name" or (how == "hard link" and not rows):
        other = out
    elif not rows:
        other.symlink_to(out, target_is_directory=True)
    else:
        other.mkdir()
        (out / job.files[0]).touch()
        link = os.link if how == "hard link" else os.symlink
        link(out / job.files[0], other / job.files[0])
    second = get_context("fork").Process(target=quiet, args=(job, other, folder / "second.txt"))
    second.start()
    time.sleep(chance.uniform(0.0, 0.3))
    code, line = child(job, out)
    second.join()
    told = (folder / "second.txt").read_text().strip()
    found = [] if 0 in (code, second.exitcode) else [f"{how}: both failed: {line} / {told}"]
    for end, text in ((code, line), (second.exitcode, told)):
        found += [f"{how}: {one}" for one in failed(end, text)] if end else []
    place = out if code == 0 else other
    return found + [f"{how}: {name} differs" for name in sorted(unlike(job, done, place))]


def failed(code: int | None, said: str) -> list[str]:
    """Check that a run failed, and with nothing but lines of ours."""
    if not code:
        return ["did not fail"]
    lines = [line for line in said.splitlines() if line.strip()]
    foreign = [line for line in lines if not line.startswith("fitrag")]  # notes may come before
    if foreign or not lines:
        return [f"no line of ours: {said[-600:]}"]
    return []


def child(job: Job, folder: Path) -> tuple[int | None, str]:
    """Run a job in a process; return its exit code and what it wrote to standard error."""
    with tempfile.TemporaryDirectory() as beside:
        said = Path(beside) / "said.txt"
        process = get_context("fork").Process(target=quiet, args=(job, folder, said))
        process.start()
        process.join()
        return process.exitcode, said.read_text().strip()


def quiet(job: Job, folder: Path, said: Path) -> None:
    """Run a job; errors go to a file, as a terminal would show them, notes and bars left out."""
    os.environ["FITRAG_LOG_LEVEL"] = "ERROR"
    warnings.simplefilter("ignore")  # libraries warn of each other
    with said.open("w") as errors:
        os.dup2(errors.fileno(), 2)
        with contextlib.redirect_stderr(errors), contextlib.suppress(FileExistsError):
            folder.mkdir(parents=True, exist_ok=True)
            job.run(folder)


@contextlib.contextmanager
def mounted(folder: Path, options: str) -> Iterator[None]:
    """Mount a tmpfs at a folder for as long."""
    folder.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


if __name__ == "__main__":
    sys.exit(main())
