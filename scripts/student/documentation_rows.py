"""Build lists of passages with questions from the pages of `documentation.py` and licensed sets.

    python scripts/student/documentation_rows.py PAGES DATA OUT

Passages of 20 to 600 words are laid out as Markdown, reStructuredText, a man page or plain text.
A list has 12 to 18 of one project: what answers, two near misses or more, neighbors by MiniLM and
by BM25, in one list of eight nothing that answers. OUT/docs.jsonl has items to train on, shaped
as those of `rows.py` with the kind "doc"; OUT/docs_held.jsonl those of projects that are held
out, in which no other passage holds an answer's words: {"question", "answers", "passages",
"kind", "rule"}.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import re
import sys
import textwrap
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
from dense import dense_search  # noqa: E402
from documentation_questions import (  # noqa: E402
    Block,
    asked,
    chosen,
    copied,
    short_term,
)

from fitrag_integrations.evaluation.answers import contains_answer, normalize  # noqa: E402
from fitrag_integrations.text.sentences import split_sentences  # noqa: E402
from fitrag_integrations.training.negatives import searching  # noqa: E402
from fitrag_integrations.training.rows import read_jsonl, write_jsonl  # noqa: E402
from fitrag_integrations.types import Passage  # noqa: E402

HELD = frozenset(
    """tmux ripgrep openssh-client python-requests-doc python-click-doc sqlite3-doc nodejs-doc dash
    python-pytest-doc xz-utils python-tornado-doc fastapi express commander httpx varnish-doc
    python-jinja2-doc redis-tools unbound python-h5py-doc mypy-doc alembic winston typer zstd
    loguru python-peewee-doc nsd""".split()  # noqa: SIM905
)
MOST, LARGE = 170, {"python3.11-doc": 1000}
LARGE |= dict.fromkeys(("python-django-doc", "postgresql-doc-15", "apache2-doc"), 400)
SIZES = (25, 45, 70, 70, 100, 130, 180, 260, 450)
CROPPED = 200  # words, in training
NOTHING, NEAR = 0.12, 0.35
SETS = {"fairytaleqa": 900, "medquad_pairs": 700, "tatqa_text": 450}


def main() -> None:
    """Build the rows of all projects and sets from one seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=29)
    parser.add_argument("--projects", nargs="+", help="only these")
    args = parser.parse_args()
    (args.out / "dense").mkdir(parents=True, exist_ok=True)
    by: dict[str, list[Any]] = defaultdict(list)
    for page in read_jsonl(args.pages):
        by[page["project"]].append(page)
    hand = defaultdict(list)
    for line in Path(__file__).with_name("asked_by_hand.tsv").read_text().splitlines():
        project, term, question = line.split("\t")
        hand[project].append((term, question))
    train: list[Any] = []
    held: list[Any] = []
    for project in sorted(args.projects or by):
        chance = random.Random(f"{args.seed} {project}")
        pool = shown(by[project], LARGE.get(project, MOST), chance)
        rows = [*asked(by[project], pool, hand[project], chance)]
        found = chosen(rows, project, project in LARGE, chance)
        if len(pool) < 14 or not found:
            continue
        rows = [*lists(found, pool, args.out / "dense" / f"{project}.safetensors", chance)]
        (held if project in HELD else train).extend(rows)
        print(project, len(pool), len(rows), flush=True)
    if not args.projects:
        for row, out in licensed(args.data, args.out / "dense", random.Random(args.seed)):
            (held if out else train).append(row)
    random.Random(args.seed).shuffle(train)
    write_jsonl(
        args.out / "docs.jsonl", (cropped(row, random.Random(i)) for i, row in enumerate(train))
    )
    write_jsonl(args.out / "docs_held.jsonl", filter(None, map(clean, held)))
    for name, some in (("train", train), ("held", held)):
        print(name, len(some), Counter(row["rule"] for row in some).most_common())


# Passages


def shown(pages: list[Any], most: int, chance: random.Random) -> list[Any]:
    """Cut pages into passages, each in the layout of its page."""
    made: list[Any] = []
    for number, page in enumerate(pages):
        man = len(page["title"].split()) == 1 and page["source"] == "deb" and chance.random() < 0.8
        layout = "man" if man else chance.choice(["markdown", "markdown", "rst", "text", "text"])
        path: list[str] = []
        held: list[int] = []
        words, target = 0, chance.choice(SIZES)
        for at, block in enumerate([*page["blocks"], {"k": "head", "lvl": 1, "t": ""}]):
            size = len(block["t"].split())
            ends = block["k"] == "head" and (block["lvl"] <= 2 or words > target / 2)
            if ends or (words > 15 and words + size > max(target, 40) * 1.25):
                if words >= 12:
                    made.append(passage(page, number, held, path, layout, chance))
                held, words, target = [], 0, chance.choice(SIZES)
            if block["k"] == "head":
                path = [*path[: block["lvl"] - 1], block["t"]]
            held.append(at)
            words += size
    chance.shuffle(made)
    return made[:most]


def passage(
    page: Any, number: int, held: list[int], path: list[str], layout: str, chance: random.Random
) -> Any:
    """Make one passage; titles are missing, short or the whole way to the section."""
    part = path[-1] if path else page["title"]
    title = chance.choice(
        [
            "",
            page["title"],
            page["title"],
            f"{page['project']}: {' > '.join(dict.fromkeys(path))}",
            part,
        ]
    )
    return {
        "page": number,
        "held": held,
        "title": title,
        "layout": layout,
        "blocks": page["blocks"],
    }


def text_of(one: Any, without: frozenset[int] = frozenset(), rows: Any = None) -> str:
    """Lay out a passage, some blocks left out; `rows` is which rows of a table are shown."""
    parts = []
    for at in one["held"]:
        if at in without:
            continue
        block, layout = one["blocks"][at], one["layout"]
        text, kind, deep = block["t"], block["k"], " " * (7 * min(2, 1 + len(block["own"])))
        if kind == "head":
            lines = {
                "markdown": f"{'#' * block['lvl']} {text}",
                "rst": f"{text}\n{'=-~^'[block['lvl'] % 4] * len(text)}",
            }
            text = lines.get(layout, text.upper() if layout == "man" else text)
        elif kind == "item":
            text = f"- {text}" if layout != "man" else f"{deep}*   {text}"
        elif kind == "code":
            code = textwrap.indent(text, "    ")
            text = f"```\n{text}\n```" if layout == "markdown" else code
        elif kind == "table":
            shown_rows = [
                r for r in block["rows"] if rows is None or r in rows or r == block["rows"][0]
            ]
            bar = " | " if layout in ("markdown", "rst") else "   "
            cells = [bar.join(row) for row in shown_rows[:25]]
            text = "\n".join(f"| {c} |" if layout == "markdown" else c for c in cells)
        elif kind == "term":
            text = (
                f"**{text}**"
                if layout == "markdown"
                else deep[7:] + text
                if layout == "man"
                else text
            )
        elif layout == "man":
            text = textwrap.fill(text, 78, initial_indent=deep, subsequent_indent=deep)
        elif block["own"] and layout == "rst":
            text = textwrap.fill(text, 80, initial_indent="    ", subsequent_indent="    ")
        parts.append(text)
    return ("\n\n" if one["layout"] in ("markdown", "rst") else "\n").join(parts)


# Lists


def lists(rows: list[Any], pool: list[Any], vectors: Path, chance: random.Random) -> Iterator[Any]:
    """Yield an item for each question whose answer its passage shows."""
    texts = [text_of(one) for one in pool]
    given = [
        Passage(str(i), text, one["title"])
        for i, (text, one) in enumerate(zip(texts, pool, strict=True))
    ]
    questions = [row["q"] for row in rows]
    depth = min(24, len(given))
    both = zip(
        dense_search(given, vectors, depth=depth)(questions),
        searching(given, depth=depth)(questions),
        strict=True,
    )
    for row, (dense, lexical) in zip(rows, both, strict=True):
        if item := listed(row, pool, texts, dense, lexical, chance):
            yield item


def listed(
    row: Any, pool: list[Any], texts: list[str], dense: Any, lexical: Any, chance: random.Random
) -> Any:
    """Make one list: what answers, near misses, neighbors."""
    gold, hide = row["gold"], row.get("hide")
    place = next(i for i, one in enumerate(pool) if one is gold)
    headed = frozenset(i for i in gold["held"] if gold["blocks"][i]["t"] == hide)
    headed = headed if hide and chance.random() < 0.85 else frozenset()
    rows = None
    if row["rule"] == "table":
        every = gold["blocks"][row["block"]]["rows"][1:]
        some = chance.sample(every, min(len(every), chance.randint(2, 9)))
        rows = [r for r in every if r in some or r == row["row"]]
    text = text_of(gold, headed, rows)
    spans = nearest(text, places(text, row["answers"]), gold["blocks"][row["block"]], row)
    needs = row.get("needs") or (
        row.get("term") if row["rule"] in ("default", "version", "means") else None
    )
    if not spans or (needs and not re.search(re.escape(needs), text)):
        return None
    title = "" if hide and hide in gold["title"] and chance.random() < 0.7 else gold["title"]
    items = [made(title, text, 1, spans)]
    # The same passage without what answers; of a table, without the row
    cut = (
        without(text, row["answers"])
        if row["rule"] != "table"
        else text_of(gold, headed, [r for r in rows or [] if r != row["row"]])
    )
    near = [(gold["title"], cut)] if cut and not places(cut, row["answers"]) else []
    # A name changed: what another is, has or does
    term = row.get("term")
    others = [short_term(b["t"]) for b in gold["blocks"] if b["k"] == "term"][:60]
    others = [o for o in others if term and len(o) > 2 and o != term and o not in text]
    if (
        others
        and row["rule"] in ("default", "version", "means", "defined")
        and chance.random() < NEAR
    ):
        other = chance.choice(others)  # may hold a backslash
        changed = re.sub(rf"(?<![\w-]){re.escape(term)}(?!\w)", lambda _: other, text)
        if row["rule"] != "defined" and changed != text and term not in changed:
            near.append((gold["title"] if term not in gold["title"] else "", changed))
    # A passage that repeats the question and does not answer it
    ranked = [int(p.id) for pair in zip(dense, lexical, strict=True) for p in pair]
    page = [i for i, one in enumerate(pool) if one["page"] == gold["page"]]
    chance.shuffle(page)
    order = dict.fromkeys([*page[:2], *ranked, *chance.sample(range(len(pool)), 6)])
    free = [i for i in order if i != place and stranger(row, texts[i], text)]
    if free and chance.random() < 0.8:
        i = free.pop(chance.randrange(min(3, len(free))))
        repeat = chance.choice(
            [
                f"This part is about another matter. {row['q']}",
                row["q"],
                f"See also: {hide or row['q']}",
                f"{hide or row['q']} is described elsewhere.",
            ]
        )
        parts = [repeat, texts[i]] if chance.random() < 0.5 else [texts[i], repeat]
        near.append((pool[i]["title"], "\n".join(parts)))
    items += [made(t, x, 0, []) for t, x in near[:3] if len(x.split()) >= 10]
    size = chance.randint(12, 18)
    items += [made(pool[i]["title"], texts[i], 0, []) for i in free[: size - len(items)]]
    if len(items) < 10:
        return None
    if chance.random() < NOTHING:
        items = items[1:]
    chance.shuffle(items)
    long = len(text.split()) >= 220
    return {
        "kind": "doc",
        "rule": row["rule"],
        "set": row["project"],
        "text_kind": "long" if long else row["kind"],
        "question": typed(row["q"], chance),
        "answers": row["answers"],
        "passages": items,
    }


def made(title: str, text: str, has: int, spans: Any) -> dict[str, Any]:
    """Make a passage of an item."""
    return {"title": title, "text": text, "has": has, "right": has, "spans": spans}


def stranger(row: Any, text: str, gold: str) -> bool:
    """Check that a neighbor does not answer as well, as far as words show."""
    words = normalize(gold).split()
    runs = {tuple(words[i : i + 8]) for i in range(len(words) - 7)}
    other = normalize(text).split()
    shared = sum(tuple(other[i : i + 8]) in runs for i in range(len(other) - 7))
    if shared > 0.25 * max(1, min(len(runs), len(other) - 7)):
        return False
    if not places(text, row["answers"]):
        return True
    term = row.get("term")
    if row["rule"] in ("default", "version", "table") and term:
        return term not in text
    return (
        len(normalize(row["answers"][0])) < 3
        or copied(row["q"], text) < 0.35
        and row["rule"] == "defined"
    )


def places(text: str, answers: list[str]) -> list[list[int]]:
    """Find the answers' characters, blanks and line breaks alike."""
    found = []
    for answer in answers:
        inside = r"\s+".join(map(re.escape, answer.split()))
        found += [[m.start(), m.end()] for m in re.finditer(rf"(?<![\w-]){inside}(?![\w-])", text)]
    return found[:6]


def nearest(text: str, spans: list[list[int]], block: Block, row: Any) -> list[list[int]]:
    """Return of several places the one at the block that answers; of a table all."""
    if row["rule"] == "table":
        return spans
    start = r"\s+".join(map(re.escape, block["t"].split()[:5]))
    found = re.search(start, text)
    if not found:
        return []
    at, end = found.start(), found.start() + int(1.5 * len(block["t"])) + 40
    if row["rule"] in ("defined", "hand"):  # a term stands before what defines it
        return sorted((s for s in spans if at - 200 <= s[0] <= at), key=lambda s: at - s[0])[:1]
    return [s for s in spans if at - 5 <= s[0] < end][:1]


def without(text: str, answers: list[str]) -> str:
    """Return a text without the sentences that hold an answer, nothing if little is left."""
    parts = [text[a:b] for a, b in split_sentences(text)]
    kept = " ".join(part for part in parts if not places(part, answers))
    return kept if len(kept.split()) > 14 else ""


def typed(question: str, chance: random.Random) -> str:
    """Write as people type: small letters, no question mark, a slip, a word left out."""
    if chance.random() < 0.2:
        question = question.rstrip("?")
        question = question[:1].lower() + question[1:]
    words = question.split()
    long = [i for i, w in enumerate(words) if len(w) > 5 and w.isalpha()]
    if long and chance.random() < 0.07:
        i = chance.choice(long)
        at = chance.randrange(1, len(words[i]) - 2)
        word = words[i]
        words[i] = word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    return " ".join(words)


def cropped(row: Any, chance: random.Random) -> Any:
    """Cut passages that are long to a stretch, round the answer where one is; to train on."""
    passages = []
    for one in row["passages"]:
        words = [*re.finditer(r"\S+", one["text"])]
        if len(words) > CROPPED * 1.15:
            size = chance.randint(120, CROPPED)
            at = one["spans"][0][0] if one["spans"] else None
            mark = next((i for i, w in enumerate(words) if at is not None and w.end() > at), None)
            last = len(words) - size
            low, high = (0, last) if mark is None else (max(0, mark - size + 20), min(mark, last))
            first = chance.randint(min(low, high), high)
            start, end = words[first].start(), words[first + size - 1].end()
            spans = one["spans"] and [
                [a - start, b - start] for a, b in one["spans"] if a >= start and b <= end
            ]
            one = {
                **one,
                "text": one["text"][start:end],
                "spans": spans if one["spans"] is None or not one["has"] or spans else None,
            }
        passages.append(one)
    return {**row, "passages": passages}


def clean(row: Any) -> Any:
    """Return a held-out row in the measuring format, None where words cannot tell who answers."""
    answers = [a for a in row["answers"] if len(normalize(a)) > 1]
    if not answers:
        return None
    kept = [
        p
        for p in row["passages"]
        if p["has"] or not contains_answer(f"{p['title']} {p['text']}", answers)
    ]
    if (
        any(p["has"] and not contains_answer(f"{p['title']} {p['text']}", answers) for p in kept)
        or len(kept) < 8
    ):
        return None
    passages = [{"title": p["title"], "text": p["text"], "has": p["has"]} for p in kept]
    return {
        "question": row["question"],
        "answers": answers,
        "passages": passages,
        "kind": row["text_kind"],
        "rule": row["rule"],
        "set": row["set"],
    }


# Sets with a license


def licensed(data: Path, cache_at: Path, chance: random.Random) -> Iterator[tuple[Any, bool]]:
    """Yield lists of stories, medicine, reports and abstracts, and whether they are held."""
    for name, share in SETS.items():
        rows = [*read_jsonl(data / "reading" / f"{name}.jsonl.gz")]
        chance.shuffle(rows)
        texts = {r["passage"]["text"]: r for r in rows[:4000]}
        given = [
            Passage(str(i), t, r["passage"]["title"] or "")
            for i, (t, r) in enumerate(texts.items())
        ]
        some = [r for r in rows if r.get("negatives") and r["passage"]["text"] in texts][:share]
        questions = [r["question"] for r in some]
        dense = dense_search(given, cache_at / f"{name}.safetensors", depth=16)(questions)
        lexical = searching(given, depth=16)(questions)
        for row, *found in zip(some, dense, lexical, strict=True):
            own = row["passage"]
            spans = (
                [[row["answer_start"], row["answer_start"] + len(row["answers"][0])]]
                if row["answer_start"] is not None
                else None
            )
            items = [made(own["title"] or "", own["text"], 1, spans)]
            items += [made(n["title"] or "", n["text"], 0, []) for n in row["negatives"][:6]]
            for p in dict.fromkeys(p for pair in zip(*found, strict=True) for p in pair):
                other = texts[p.text]
                alike = (
                    other.get("qtype") == row.get("qtype")
                    and copied(row["question"], other["question"]) > 0.5
                )
                fresh = all(p.text != one["text"] for one in items)
                if (
                    fresh
                    and not (row["answers"] and contains_answer(p.text, row["answers"]))
                    and not (row.get("qtype") and alike)
                ):
                    items.append(made(p.title, p.text, 0, []))
            items = items[: chance.randint(12, 16)]
            if chance.random() < NOTHING:
                items = items[1:]
            chance.shuffle(items)
            item = {
                "kind": "doc",
                "rule": name,
                "set": name,
                "text_kind": "prose",
                "question": row["question"],
                "answers": row["answers"],
                "passages": items,
            }
            out = (
                int(hashlib.sha1((own["title"] or own["text"][:60]).encode()).hexdigest(), 16) % 5
                == 0
            )
            if len(items) > 9:
                yield item, out
    labeled: dict[str, tuple[str, str, str]] = {}
    for row in read_jsonl(data / "pubmedqa" / "pubmedqa_labeled.jsonl.gz"):
        for text, label in zip(row["contexts"], row["labels"], strict=True):
            labeled[text] = (row["id"], label, row["question"])
    given = [Passage(str(i), t, "") for i, t in enumerate(labeled)]
    own = {q: i for i, _, q in labeled.values()}
    for (question, number), found in zip(
        own.items(), searching(given, depth=30)([*own]), strict=True
    ):
        items = [
            made(
                "",
                t,
                int("RESULT" in label or "CONCLU" in label),
                None if "RESULT" in label else [],
            )
            for t, (i, label, _) in labeled.items()
            if i == number
        ]
        items += [made("", p.text, 0, []) for p in found if labeled[p.text][0] != number][
            : 14 - len(items)
        ]
        if any(one["has"] for one in items):
            chance.shuffle(items)
            yield (
                {
                    "kind": "doc",
                    "rule": "pubmedqa",
                    "set": "pubmedqa",
                    "text_kind": "prose",
                    "question": question,
                    "answers": [],
                    "passages": items,
                },
                int(str(number)[-1:] in "01") == 1,
            )


if __name__ == "__main__":
    main()
