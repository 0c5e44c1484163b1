"""Write lists to train on out of questions that people asked, from the shared data folder.

    python scripts/student/real_rows.py DATA OUT [--tables]

Only the lists that `benchmarks/real_questions.py` sets apart for training: of FAQ pages, meetings
and tables under licenses that allow it, three pages of four of its choosing half. OUT is what
`train.py --docs` reads. Beside a list's own neighbors stands, where the question names something,
what answers it with another name, number or version in its place: a near miss. With `--tables`
OUT has 104 lists of tables of the choosing half that do not train: from them `fitrag calibrate
scores` fits the line of tables of a bundled scorer whose manifest has none yet.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HOME = Path(__file__).resolve().parent
sys.path[:0] = [str(HOME), str(HOME.parents[1] / "benchmarks")]

from documentation_rows import made, places  # noqa: E402
from real_questions import drawn, lists  # noqa: E402

from fitrag_integrations.training.rows import write_jsonl  # noqa: E402

MOST = 12  # passages of a list
PAGE = 60  # lists of a project, so that none drowns the others
TIMES = {"faq_docs": 2, "meetings_qmsum": 1, "tables_tatqa": 2}  # a list with others beside it
NAMED = re.compile(r"(?<!^)\b(?:[A-Z][\w.+-]*\w|\w*\d[\w.]*|\w+[_./-]\w[\w./-]*|--?\w[\w-]+)")


def main() -> None:
    """Write every list, some twice with other passages beside the same answer."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--tables", action="store_true", help="tables with labels to calibrate by")
    args = parser.parse_args()
    args.out.parent.mkdir(parents=True, exist_ok=True)
    if args.tables:
        chosen = [one for one in drawn(args.data, "choose", 40, 7) if "tables" in one.kind]
        write_jsonl(args.out, map(labeled, chosen))
        return
    chance = random.Random(args.seed)
    pages = defaultdict[str, list[Any]](list)
    for one in lists(args.data):
        if one.trains():
            pages[one.page].append(one)
    chosen = [one for some in pages.values() for one in chance.sample(some, min(PAGE, len(some)))]
    items = [item(one, chance) for one in chosen for _ in range(TIMES[one.kind])]
    chance.shuffle(items)
    write_jsonl(args.out, items)
    print(dict(Counter(one["set"] for one in items)))


def labeled(one: Any) -> dict[str, Any]:
    """Return a list as `fitrag calibrate scores` reads it."""
    both = zip(one.row.passages, one.gold, strict=True)
    passages = [{"title": p.title, "text": p.text, "has_answer": gold} for p, gold in both]
    return {"question": one.row.question, "passages": passages}


def item(one: Any, chance: random.Random) -> dict[str, Any]:
    """Return a list as `train.py` reads it, in an order by chance."""
    question, answers = one.row.question, list(one.row.answers)
    both = [*zip(one.row.passages, one.gold, strict=True)]
    golds = [p for p, gold in both if gold]
    rest = [p for p, gold in both if not gold]
    passages = []
    for p in golds:
        spans = places(p.text, answers)
        passages.append(made(p.title, p.text, 1, spans or None))
    near = [
        made(p.title, other, 0, [])
        for p in golds[:1]
        if chance.random() < 0.6
        and (other := renamed(question, p.text, [r.text for r in rest], chance))
    ]
    chosen = chance.sample(rest, max(0, min(len(rest), MOST - len(golds) - len(near))))
    passages += near + [made(p.title, p.text, 0, []) for p in chosen]
    chance.shuffle(passages)
    return {"kind": "doc", "rule": "real", "set": one.kind, "text_kind": one.kind,
            "question": question, "answers": answers, "passages": passages}  # fmt: skip


def renamed(question: str, text: str, others: Sequence[str], chance: random.Random) -> str | None:
    """Return a text about another name than the question's; None where it names nothing."""
    own = [m for m in dict.fromkeys(NAMED.findall(question)) if m in text and len(m) > 1]
    if not own:
        return None
    name = max(own, key=len)
    found = {m for other in others for m in NAMED.findall(other)}
    like = sorted(
        m for m in found
        if m not in text and m not in question and m[:1].isdigit() == name[:1].isdigit()
        and m[:1].isupper() == name[:1].isupper() and len(m) > 1
    )  # fmt: skip
    if not like:
        return None
    other = chance.choice(like)
    return re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", lambda _: other, text)


if __name__ == "__main__":
    main()
