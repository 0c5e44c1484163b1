"""Measure how much of a token budget is used, and the answers kept, by how it is filled.

    python benchmarks/budgets.py DATA [--sets nq wikipool] [-n 60] [--seed 7] [--json out.json]

Sentences are scored in one pass, as by default, and ranked once; each rule then keeps of them what
50, 100, 200 and 400 tokens hold:

- prefix: the longest prefix that fits, the next excerpt shortened where it is too long alone.
- filled: as shipped, the same and then whatever fits behind it, best first.
- skipping: filled, without shortening.
- shortened last: filled, and then the best excerpt left out shortened to the room that is left.

The use is the fraction of the budget that the rendered excerpts cost, over questions whose passages
cost as much. Differences of answers kept are to `prefix`, paired, with 95 % bootstrap intervals.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from compression_rows import SETS, Asked, load

from fitrag_integrations.evaluation.figures.figure import paired_interval
from fitrag_integrations.flow import Flow, run
from fitrag_integrations.methods.budget import Budget, BudgetFit
from fitrag_integrations.methods.fitrag.reducer import TokenReducer
from fitrag_integrations.types import Excerpt
from fitrag_integrations.values.selected import Selection
from fitrag_integrations.values.windows import by_score, merge

BUDGETS = (50, 100, 200, 400)


class Prefix(Budget):
    """Budget that stops at the first excerpt that does not fit."""

    def _filling(self, kept: Any, rest: Sequence[Excerpt]) -> tuple[list[int], list[int]]:
        return [], list(range(len(rest)))


class Skipping(Budget):
    """Budget that shortens nothing."""

    def _narrowed(self, excerpt: Any, before: Any, ask: Any) -> Flow[Excerpt | None]:
        yield from ()
        return None


class ShortenedLast(Budget):
    """Budget whose last room goes to a part of the best excerpt left out."""

    def fitted(self, excerpts: Sequence[Excerpt], ask: Any = None) -> Flow[BudgetFit]:
        """Fill the budget, and shorten one more to what is left."""
        fitted = yield from super().fitted(excerpts, ask)
        for one in fitted.left[:1]:
            ends = [at for at, sign in enumerate(one.text, one.start) if sign.isspace()]
            parts = [Excerpt(one.passage, one.start, end, one.score) for end in ends]
            fitting = [part for part in parts if self.fits([*fitted.kept, part])]
            fitted.kept.extend(fitting[-1:])
        return fitted


RULES = {"prefix": Prefix, "filled": Budget, "skipping": Skipping, "shortened last": ShortenedLast}


def main() -> None:
    """Measure every set, and all of them together."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--sets", nargs="+", default=[*SETS[:5], "wikipool"])
    parser.add_argument("-n", type=int, default=60, help="questions a set, 0 for all")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--json", type=Path, default=None)
    args = parser.parse_args()
    found: dict[str, Any] = {}
    every: dict[tuple[int, str], list[tuple[float | None, bool]]] = {}
    for name in args.sets:
        kept: dict[tuple[int, str], list[tuple[float | None, bool]]] = {}
        for row in load(args.data, name, n=args.n, seed=args.seed):
            for key, value in _measured(row):
                kept.setdefault(key, []).append(value)
        for key, values in kept.items():
            every.setdefault(key, []).extend(values)
        found[name] = _figures(name, kept)
    found["all"] = _figures("all", every)
    if args.json is not None:
        args.json.write_text(json.dumps(found, indent=1) + "\n")


def _measured(row: Asked) -> Iterator[tuple[tuple[int, str], tuple[float | None, bool]]]:
    resolved = TokenReducer(window=1, per_passage=None, scoring="one_pass").resolved
    asked = resolved.scoring.about(row.question, {}, Selection())
    cut = [window for passage in row.passages for window in resolved.cut(passage, {})]
    ordered = by_score(run(asked.windows(cut)).value)
    whole = Budget().cost([Excerpt.whole(passage) for passage in row.passages])
    for most in BUDGETS:
        for name, rule in RULES.items():
            budget = rule(most)
            kept = merge(run(budget.fitted(ordered, asked.windows)).value.kept)
            used = budget.cost(kept) / most if whole >= most else None
            yield (most, name), (used, row.holds(kept))


def _figures(name: str, kept: dict[tuple[int, str], list[tuple[float | None, bool]]]) -> Any:
    told: dict[str, Any] = {}
    for (most, rule), values in kept.items():
        used = [use for use, _ in values if use is not None]
        answers = [float(held) for _, held in values]
        before = [float(held) for _, held in kept[most, "prefix"]]
        gain = [fmean(answers) - fmean(before), *paired_interval(answers, before)]
        told[f"{most} {rule}"] = {
            "questions": len(answers),
            "use": fmean(used) if used else None,
            "kept": fmean(answers),
            "gain": gain,
        }
        use = f"{fmean(used):.3f}" if used else "none"
        low, high = gain[1:]
        print(
            f"{name}, {most} tokens, {rule}: use {use}, kept {fmean(answers):.3f}, "
            f"{gain[0]:+.3f} [{low:+.3f}, {high:+.3f}], {len(answers)} questions",
            flush=True,
        )
    return told


if __name__ == "__main__":
    main()
