"""Measure how many answers survive compression in documentation: lists, tables and code.

Each question of ``layout.jsonl`` is asked of its document and of three others. An answer is kept
if it is in the text that a prompt shows, and readable if what it depends on (a heading, a header
row, the other lines of the code) is shown as well.

    python benchmarks/layout.py              # the table of docs/methods/fit-rag.md
    python benchmarks/layout.py --show 10    # and ten excerpts
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from fitrag_integrations import Passage
from fitrag_integrations.flow import run
from fitrag_integrations.methods.fitrag.method import TokenReducer
from fitrag_integrations.methods.prompts import render_excerpts
from fitrag_integrations.models.bundled import BundledScorer

ROWS = Path(__file__).with_name("layout.jsonl")
OTHERS = 3  # documents beside that of the question
BUDGETS: list[dict[str, Any]] = [
    {"max_tokens": 30},
    {"max_tokens": 60},
    {"max_tokens": 120},
    {"max_share": 0.3},
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--show", type=int, default=0, help="Number of excerpts to print.")
    parser.add_argument("--missed", action="store_true", help="Print what was missed at .3.")
    options = parser.parse_args()
    documents = [json.loads(line) for line in ROWS.read_text(encoding="utf-8").splitlines()]
    passages = [Passage(str(n), row["text"]) for n, row in enumerate(documents)]
    scorer = BundledScorer()
    print("| budget | questions | kept | readable | mean tokens |\n| --- | --- | --- | --- | --- |")
    for budget in BUDGETS:
        kept = readable = tokens = count = 0
        for n, row in enumerate(documents):
            some = [passages[(n + 7 * k) % len(passages)] for k in range(OTHERS + 1)]
            for asked in row["questions"]:
                reducer = TokenReducer(scorer=scorer, top_n=None, **budget)
                found = run(reducer.context(asked["question"], some)).value
                own = [one for one in found.excerpts if one.passage is passages[n]]
                shown = _words(render_excerpts(own)) if own else ""
                has = _words(asked["answer"]) in shown
                kept += has
                readable += has and _words(asked["needs"]) in shown
                tokens += found.details["tokens_out"]
                count += 1
                if budget is BUDGETS[0] and count * options.show % 86 < options.show:
                    print(f"\n{asked['question']}\n{render_excerpts(found.excerpts)}\n")
                if options.missed and budget is BUDGETS[-1] and not has:
                    print(f"\n{asked['question']} ({asked['answer']})\n{shown}\n")
        name = " ".join(f"{key}={value}" for key, value in budget.items())
        shares = f"{kept / count:.3f} | {readable / count:.3f} | {tokens / count:.1f}"
        print(f"| {name} | {count} | {shares} |")


def _words(text: str) -> str:
    return " ".join(text.split())


if __name__ == "__main__":
    main()
