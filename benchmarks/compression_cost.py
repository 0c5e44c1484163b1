"""What compressing costs beside reranking: processor time, in one run, on one thread.

    python benchmarks/compression_cost.py PASSAGES [QUESTION]

PASSAGES is JSON Lines with title and text, of which the first hundred are taken. Three jobs take
turns, as often as `--rounds` says: reranking a hundred passages; reranking them with the windows
of all of them judged in the same pass, cutting them included; and the windows of ten of them, read
by themselves. Told are the least times, and the shares they add.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch  # noqa: E402  # after the number of threads is set

from fitrag_integrations.flow import run  # noqa: E402
from fitrag_integrations.methods.fitrag.reducer import TokenReducer, score_port  # noqa: E402
from fitrag_integrations.methods.fitrag.scoring import Windows  # noqa: E402
from fitrag_integrations.models import OnePassScorer  # noqa: E402
from fitrag_integrations.training.rows import read_jsonl  # noqa: E402
from fitrag_integrations.types import Passage  # noqa: E402

QUESTION = "who wrote the score of the film that won the first prize"
MOST_WINDOWS, MOST_ONE_PASS = 0.30, 0.05


def main() -> None:
    """Time the jobs in turns and say what each adds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("passages", type=Path)
    parser.add_argument("question", nargs="?", default=QUESTION)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--model", help="A one-pass scorer's folder.", default=None)
    parser.add_argument("--dtype", default=None)
    parser.add_argument("--check", action="store_true", help="Fail above the shares wanted.")
    args = parser.parse_args()
    torch.set_num_threads(1)
    load = OnePassScorer.embedded
    if args.model is not None:
        load = lambda **how: OnePassScorer.from_pretrained(args.model, **how)  # noqa: E731
    scorer = load(device="cpu", dtype=args.dtype)
    passages = taken(args.passages)
    least = timed(jobs(args.question, passages, scorer), args.rounds)
    said = {name: seconds / least["rerank"] for name, seconds in least.items()}
    windows, one_pass = said["windows of the top 10"], said["with one pass"] - 1
    print(f"reranking {len(passages)} passages takes {least['rerank']:.3f} s of processor time")
    print(f"windows of the top 10 cost {windows:.1%} of it, one pass {one_pass:.1%} on top")
    if args.check and (windows > MOST_WINDOWS or one_pass > MOST_ONE_PASS):
        raise SystemExit(f"wanted at most {MOST_WINDOWS:.0%} and {MOST_ONE_PASS:.0%}")


def jobs(
    question: str, passages: list[Passage], scorer: OnePassScorer
) -> dict[str, Callable[[], object]]:
    """Name the jobs; each does the whole of its work anew."""
    how: dict[str, object] = {"scorer": scorer, "top_n": None, "detector": False}
    ranking = Windows(score_port(scorer), question=question)
    once = TokenReducer(window=3, scoring="one_pass", **how)
    top = TokenReducer(scoring="windows", **how)
    return {
        "rerank": lambda: run(ranking.wholes(passages)),
        "with one pass": lambda: run(once.context(question, passages)),
        "windows of the top 10": lambda: run(top.context(question, passages[:10])),
    }


def timed(given: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Take the least processor time of each job over rounds in which they take turns."""
    least = dict.fromkeys(given, float("inf"))
    for job in given.values():
        job()
    for _ in range(rounds):
        for name, job in given.items():
            began = time.process_time()
            job()
            least[name] = min(least[name], time.process_time() - began)
    return least


def taken(path: Path) -> list[Passage]:
    """Read a hundred passages, each under an id of its own."""
    rows = [row for _, row in zip(range(100), read_jsonl(path), strict=False)]
    return [Passage(str(i), row["text"], row.get("title") or "") for i, row in enumerate(rows)]


if __name__ == "__main__":
    main()
