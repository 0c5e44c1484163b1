"""Write lists to train on: documentation as a splitter cuts it, entries, options, records.

    python scripts/student/lists.py PAGES DATA OUT [--wiki ROWS/train.jsonl]
        [--seed 29]

PAGES is what `documentation.py` wrote, DATA the shared sets, of which only the lists are used that
`benchmarks/real_questions.py` sets apart for training. `teach.py` stores the targets: most lists of
documentation need no label. OUT/train.jsonl has the items, OUT/held.jsonl those of projects that
are held out, OUT/wiki.jsonl lists of `rows.py`. An item is

    {"kind", "rule", "set", "weight", "question", "answers", "passages": [{"title", "text", "has",
     "right", "spans"}]}

`has` is whether a passage answers, null where that is not known; `spans` are the characters of the
answers, [] where there are none, null where they are not known; `weight` is the cosine's in the
target. The kinds:

- docs: pages cut by a plain splitter, mostly at 1,000 characters, beside half of the lists passages
  of a second project; asked by headings, rules of `documentation_questions.py`, first sentences,
  messages of errors and sentences that announce code;
- faq: entries in the layouts of `ENTRIES`, asked word for word or in other words;
- options: the options of one page, each with its description;
- rows: rows of tables as loaders lay them out, asked by any cell;
- real: the shared sets.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

HOME = Path(__file__).resolve().parent
sys.path[:0] = [str(HOME), str(HOME.parents[1] / "benchmarks")]

from dense import dense_search  # noqa: E402
from documentation_questions import (  # noqa: E402
    DEFAULT,
    QUESTION,
    STOP,
    asked,
    chosen,
    phrase,
    reworded,
    sentence,
    short_term,
)  # fmt: skip
from real_questions import lists as real_lists  # noqa: E402

from fitrag_integrations.evaluation.answers import normalize  # noqa: E402
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
MEASURING = HOME.parents[1] / "benchmarks" / "packages.tsv"  # these never train
WEIGHTS = {"docs": 7.0, "faq": 7.0, "options": 7.0, "rows": 4.0, "wiki": 0.0}
REAL = {"faq_docs": 7.0, "meetings_qmsum": 4.0, "tables_tatqa": 2.0}
SIZES = (300, 600, 800, 1000, 1000, 1000, 1000)  # characters of a passage
MOST, LARGE = 140, {"python3.11-doc": 700}  # passages of a project
LARGE |= dict.fromkeys(("python-django-doc", "postgresql-doc-15", "apache2-doc"), 350)
NOTHING = 0.1  # of labeled lists have no answer
LOOSE = 12  # questions of a kind without a label, for each 140 passages
ENTRIES = (
    "Q: {q}\nA: {a}", "## {q}\n\n{a}", "Question: {q}\nAnswer: {a}", "**{q}**\n\n{a}", "{q}\n{a}",
    "{q} {a}", "question: {q}\nanswer: {a}", "- **{q}** {a}", "{q}\n----\n{a}",
    '{{"q": {j}, "a": "{a}"}}',
)  # fmt: skip
ERROR = re.compile(
    r"(?i)\b(error|fail(s|ed|ure)?|cannot|can't|unable|warning|denied|invalid|crash)"
)
Chance = random.Random
Item = dict[str, Any]


def main() -> None:
    """Build everything from one seed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("pages", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--wiki", type=Path, help="items of rows.py")
    parser.add_argument("--most", type=int, default=3000, help="lists of Wikipedia")
    parser.add_argument("--seed", type=int, default=29)
    args = parser.parse_args()
    (args.out / "dense").mkdir(parents=True, exist_ok=True)
    chance = random.Random(args.seed)
    if args.wiki:
        ranks = [item for item in read_jsonl(args.wiki) if item["kind"] == "rank"]
        some = chance.sample(ranks, min(args.most, len(ranks)))
        write_jsonl(args.out / "wiki.jsonl", ({**i, "kind": "wiki", "weight": 0.0} for i in some))
    by: dict[str, list[Any]] = defaultdict(list)
    kept_from = {plain(line.split("\t")[0]) for line in MEASURING.read_text().splitlines()}
    for page in read_jsonl(args.pages):
        if plain(page["project"]) not in kept_from:
            by[page["project"]].append(page)
    items = [*documentation(by, args.out / "dense", args.seed)]
    items += [*options(by, chance), *entries(by, args.data, chance), *records(chance, 700)]
    items += [*real(args.data, chance)]
    items = [said(item, chance) for item in items]
    held = [*filter(None, (clear(item) for item in items if item["set"] in HELD))]
    train = [item for item in items if item["set"] not in HELD]
    chance.shuffle(train)  # so that each of teach.py's parts has all kinds
    for name, some in (("train", train), ("held", held)):
        write_jsonl(args.out / f"{name}.jsonl", some)
        print(name, len(some), Counter(f"{i['kind']} {i['rule']}" for i in some).most_common())


def plain(project: str) -> str:
    """Return a project's name without what its packagers put around it."""
    return re.sub(r"^python3?(\.\d+)?-|^lib|[-_]?doc(s|-\d+)?$|\d[\d.]*$", "", project.lower())


def clear(item: Item) -> Item | None:
    """Return a list without the passages of which nobody knows whether they answer."""
    passages = [p for p in item["passages"] if p["has"] is not None]
    known = any(p["has"] for p in passages) and len(passages) > 6
    return {**item, "passages": passages} if known else None


def item(kind: str, rule: str, project: str, question: str, passages: Any, **more: Any) -> Item:
    """Return an item."""
    return {"kind": kind, "rule": rule, "set": project, "weight": WEIGHTS.get(kind),
            "question": question, "answers": [], "passages": passages, **more}  # fmt: skip


def made(title: str, text: str, has: int | None, spans: Any = None) -> dict[str, Any]:
    """Return a passage of an item; what does not answer has no place of an answer."""
    return {"title": title, "text": text, "has": has, "right": has,
            "spans": [] if has == 0 else spans}  # fmt: skip


def said(item: Item, chance: Chance) -> Item:
    """Ask as people type, in small letters; take out what answers some of the labeled lists."""
    question, passages = item["question"], item["passages"]
    if item["rule"] != "exact":
        if chance.random() < 0.2:
            question = question.rstrip("?.")
        if chance.random() < 0.15:
            question = question.lower()
    if item["set"] not in HELD and chance.random() < NOTHING:
        without = [p for p in passages if not p["has"]]
        passages = without if 4 < len(without) < len(passages) else passages
    return {**item, "question": question, "passages": passages}


# Documentation


def documentation(by: dict[str, list[Any]], vectors: Path, seed: int) -> Iterator[Item]:
    """Yield lists of each project, in turn with those of the project before it."""
    before: tuple[str, Any] | None = None
    order = sorted(by)
    random.Random(seed).shuffle(order)
    order.sort(key=lambda project: project in HELD)  # a held one beside a held one
    for project in order:
        chance = random.Random(f"{seed} {project}")
        pool = [one for n, page in enumerate(by[project]) for one in cut(page, n, chance)]
        chance.shuffle(pool)
        pool = pool[: LARGE.get(project, MOST)]
        if len(pool) < 12:
            continue
        find = finder(pool, vectors / f"{project}.safetensors")
        rows = chosen([*asked(by[project], pool, chance)], project, project in LARGE, chance)
        rows += [*loose(pool, project, chance)]
        own = [one for one in find([row["q"] for row in rows])]
        other = before[1]([row["q"] for row in rows]) if before else [[]] * len(rows)
        for row, near, far in zip(rows, own, other, strict=True):
            if made_one := listed(row, project, near, far if chance.random() < 0.5 else [], chance):
                yield made_one
        print(project, len(pool), len(rows), flush=True)
        before = project, find


def finder(pool: list[Any], vectors: Path) -> Callable[[Sequence[str]], list[list[Any]]]:
    """Return what ranks a pool by BM25 and MiniLM in turn."""
    given = [Passage(str(i), one["text"], one["title"]) for i, one in enumerate(pool)]
    depth = min(20, len(pool))
    dense, lexical = dense_search(given, vectors, depth=depth), searching(given, depth=depth)

    def find(questions: Sequence[str]) -> list[list[Any]]:
        both = zip(dense(questions), lexical(questions), strict=True)
        turns = [[p.id for pair in zip(*each, strict=True) for p in pair] for each in both]
        return [[pool[int(i)] for i in dict.fromkeys(ids)] for ids in turns]

    return find


def cut(page: Any, number: int, chance: Chance) -> Iterator[Any]:
    """Cut a page into passages as a plain splitter does."""
    man = len(page["title"].split()) == 1 and page["source"] == "deb" and chance.random() < 0.8
    layout = "man" if man else chance.choice(["markdown", "markdown", "rst", "text"])
    gap = "\n\n" if layout in ("markdown", "rst") else "\n"
    text, starts, path = "", list[int](), list[str]()
    paths = list[list[str]]()
    for block in page["blocks"]:
        if block["k"] == "head":
            path = [*path[: block["lvl"] - 1], block["t"]]
        starts.append(len(text))
        paths.append(path)
        text += laid(block, layout) + gap
    size, overlap = chance.choice(SIZES), chance.choice((0, 0, 100, 200))
    marks = chance.choice((("\n\n", "\n", " "), ("\n\n", "\n", " "), ("\n", " "), ()))
    title = chance.choice(("", "", page["title"], page["project"], "file", "path"))
    at = 0
    while at < len(text) - 60:
        end = at + size
        if end < len(text):
            end = next((e for m in marks if (e := text.rfind(m, at + size // 3, end)) > 0), end)
        held = [i for i, start in enumerate(starts) if at <= start < end - 40]
        way = paths[held[0]] if held else []
        shown = {
            "file": f"{re.sub(r'[^a-z0-9]+', '-', page['title'].lower())}.md",
            "path": f"{page['project']}: {' > '.join(dict.fromkeys(way))}",
        }.get(title, title)
        yield {"page": number, "held": held, "title": shown, "layout": layout,
               "blocks": page["blocks"], "text": text[at:end].strip(),
               "project": page["project"]}  # fmt: skip
        at = max(at + 60, end - min(overlap, size // 4)) if end < len(text) else len(text)


def laid(block: Any, layout: str) -> str:
    """Lay out a block of a page."""
    text, kind, deep = block["t"], block["k"], "    " * min(2, len(block["own"]))
    if kind == "head":
        forms = {
            "markdown": f"{'#' * block['lvl']} {text}",
            "rst": f"{text}\n{'=-~^'[block['lvl'] % 4] * len(text)}",
            "man": text.upper(),
        }
        return forms.get(layout, text)
    if kind == "code":
        inside = "\n".join(f"    {line}" for line in text.split("\n"))
        return f"```\n{text}\n```" if layout == "markdown" else inside
    if kind == "table":
        bar = " | " if layout in ("markdown", "rst") else "   "
        lines = [bar.join(row) for row in block["rows"][:40]]
        if layout != "markdown":
            return "\n".join(lines)
        rule = "|".join(["---"] * len(block["rows"][0]))
        return "\n".join([f"| {lines[0]} |", f"|{rule}|", *(f"| {each} |" for each in lines[1:])])
    if kind == "item":
        return f"{deep}- {text}"
    if kind == "term":
        return f"**{text}**" if layout == "markdown" else f"{deep}{text}"
    return f"{deep}    {text}" if layout == "man" else f"{deep}{text}"


def loose(pool: list[Any], project: str, chance: Chance) -> Iterator[Any]:
    """Yield questions whose answer nobody marked, at most so many of a project."""
    found = list[Any]()
    name = re.sub(r"^python-|-doc.*$|\d[\d.]*$", "", project)
    for one in pool:
        for at in one["held"]:
            block, after = one["blocks"][at], one["blocks"][at + 1 : at + 2]
            text = re.sub(r"^[\d.\s]+|[¶#:]+$", "", block["t"]).strip()
            words, kind = text.split(), block["k"]
            if kind == "head" and 1 < len(words) < 12:
                forms: tuple[str, ...] = (
                    "{t}",
                    "{t}",
                    "{n} {t}",
                    "What about {t}?",
                    "{t} in {n}",
                    "help with {t}",
                )
                found.append(("heading", chance.choice(forms).format(t=text, n=name)))
            elif kind in ("para", "item") and len(words) > 8:
                first = sentence(text)
                if ERROR.search(first) and len(first.split()) < 30:
                    forms = ("I get this: {t}", "{t} Why?", "{n}: {t} What can I do?", "{t}")
                    found.append(("message", chance.choice(forms).format(t=first, n=name)))
                elif block["t"].endswith(":") and after and after[0]["k"] in ("code", "item"):
                    last = text[[*split_sentences(text)][-1][0] :]
                    found.append(("announced", reworded(last, chance, 0.5)))
                elif len(first.split()) < 25 and chance.random() < 0.12:
                    found.append(("sentence", reworded(first, chance)))
    chance.shuffle(found)
    count = Counter[str]()
    for rule, question in found:
        count[rule] += 1
        if count[rule] <= LOOSE * max(1, len(pool) // MOST):
            yield {"rule": rule, "q": question, "answers": []}


def listed(row: Any, project: str, near: list[Any], far: list[Any], chance: Chance) -> Item | None:
    """Make one list of what a retriever finds, what answers among it where that is known."""
    gold, answers = row.get("gold"), row["answers"]
    size = chance.randint(8, 11)
    passages, question = [], row["q"]
    named = bool(far) and chance.random() < 0.5  # the product is in question and title alone
    if named:
        name = plain(project).replace("_", " ")
        question = chance.choice(("{q} ({n})", "{n}: {q}", "{n} {q}")).format(q=question, n=name)

    def titled(one: Any) -> str:
        return one["title"] or (one["project"] if named else "")

    if gold is not None:
        spans = places(gold["text"], answers)
        if not spans or row.get("term", "") not in gold["text"]:
            return None
        short = len(answers[0].split()) <= 12 and len(spans) == 1
        passages.append((gold, made(titled(gold), gold["text"], 1, spans if short else None)))
    turns = [one for pair in zip(near, far, strict=False) for one in pair] if far else near
    for one in dict.fromkeys(map(id, turns)):
        other = next(each for each in turns if id(each) == one)
        if other is gold or len(passages) >= size:
            continue
        has: int | None = 0
        if gold is None or other["page"] == gold["page"] and set(other["held"]) & set(gold["held"]):
            has = None  # overlaps what answers
        elif places(other["text"], answers) or alike(other["text"], gold["text"]):
            has = None
        passages.append((other, made(titled(other), other["text"], has)))
    if len(passages) < 5:
        return None
    chance.shuffle(passages)
    return item("docs", row["rule"], project, question, [p for _, p in passages], answers=answers)


def places(text: str, answers: Sequence[str]) -> list[list[int]]:
    """Find the answers' characters, blanks and line breaks alike."""
    found = []
    for answer in answers:
        inside = r"\s+".join(map(re.escape, answer.split()))
        found += [[m.start(), m.end()] for m in re.finditer(rf"(?<![\w-]){inside}(?![\w-])", text)]
    return found[:6]


def alike(one: str, other: str) -> bool:
    """Check whether two texts share a quarter of their runs of eight words."""
    runs = [
        {tuple(words[i : i + 8]) for i in range(len(words) - 7)}
        for words in (normalize(one).split(), normalize(other).split())
    ]
    return len(runs[0] & runs[1]) > 0.25 * max(1, min(map(len, runs)))


# Options


def options(by: dict[str, list[Any]], chance: Chance) -> Iterator[Item]:
    """Yield lists of a page's options, each with its description."""
    for project, pages in sorted(by.items()):
        for page in chance.sample(pages, min(len(pages), 12)):
            found = [*defined(page["blocks"])]
            if len(found) < 8:
                continue
            layout = chance.choice(["markdown", "rst", "text", "man"])
            title = chance.choice(("", page["title"], project))
            shown = ["\n".join(laid(b, layout) for b in blocks)[:700] for _, blocks in found]
            bodies = [" ".join(b["t"] for b in blocks[1:]) for _, blocks in found]
            matched = [DEFAULT.search(body) for body in bodies]
            defaults = {i: m.group(1).strip(".") for i, m in enumerate(matched)
                        if m and m.group(1).lower() not in STOP}  # fmt: skip
            asked_for = chance.sample([*defaults], min(4, len(defaults)))
            asked_for += chance.sample(range(len(found)), min(3, len(found) // 3))
            for at in dict.fromkeys(asked_for):
                term, done = found[at][0], phrase(sentence(bodies[at]))
                asks = [f"What does {term} do?", term, f"{page['title']} {term}"]
                asks += [f"How can I {reworded(done, chance)}?"] * 2 if done else []
                wanted = [defaults[at]] if at in defaults and chance.random() < 0.8 else []
                if wanted:
                    asks = [f"What is the default of {term}?", f"default value of {term}",
                            f"{term}: what happens by default?"]  # fmt: skip
                question = chance.choice(asks)
                low = max(0, min(at - 4, len(found) - 8))
                some = [
                    at,
                    *range(low, low + 8),
                    *chance.sample([*defaults], min(4, len(defaults))),
                ]
                some = [i for i in dict.fromkeys(some) if i == at or found[i][0] != term][:11]
                passages = [
                    made(title, shown[i], int(i == at),
                         places(shown[at], wanted)[-1:] or None if i == at else [])
                    for i in chance.sample(some, len(some))
                ]  # fmt: skip
                yield item("options", "default" if wanted else "option", project, question,
                           passages, answers=wanted)  # fmt: skip


def defined(blocks: list[Any]) -> Iterator[tuple[str, list[Any]]]:
    """Yield each term of a page with its blocks."""
    for at, block in enumerate(blocks):
        term = short_term(block["t"]) if block["k"] == "term" else ""
        if len(term) < 2:
            continue
        own = [block]
        for other in blocks[at + 1 : at + 6]:
            if other["k"] in ("term", "head"):
                break
            own.append(other)
        if len(own) > 1 and len(own[1]["t"].split()) > 4:
            yield term, own


# Entries


def entries(by: dict[str, list[Any]], data: Path, chance: Chance) -> Iterator[Item]:
    """Yield lists of entries in one layout, asked word for word or in other words."""
    pages: dict[str, dict[str, str]] = defaultdict(dict)
    for one in real_lists(data):
        if one.kind == "faq_docs" and one.trains() and sum(one.gold) == 1:
            pages[f"real {one.page}"][one.row.question] = one.row.passages[one.gold.index(1)].text
    for project, some in by.items():
        for page in some:
            for question, answer in headed(page["blocks"]):
                pages[project][question] = answer
    for project, found in sorted(pages.items()):
        every = [*found.items()]
        if len(every) < 5:
            continue
        search = searching([Passage(str(i), f"{q} {a}", "") for i, (q, a) in enumerate(every)],
                           depth=min(len(every), 12))  # fmt: skip
        for at in chance.sample(range(len(every)), min(len(every), 40)) * 2:
            question, answer = every[at]
            near = [int(p.id) for p in search([question])[0]]
            rest = chance.sample(range(len(every)), min(len(every), 12))
            some = [*dict.fromkeys([at, *near[: chance.randint(3, 8)], *rest])][
                : chance.randint(7, 11)
            ]
            form, most = chance.choice(ENTRIES), chance.choice((300, 500, 700))
            name = re.sub(r"^real .*/|^python-|-doc.*$", "", project)
            title = chance.choice(("", name, "FAQ", f"{name} faq"))
            shown = {
                i: form.format(q=every[i][0], a=every[i][1][:most], j=json.dumps(every[i][0]))
                for i in some
            }
            draw = chance.random()
            exact = draw < 0.4
            asks = question if draw < 0.6 else reworded(question, chance, 0.8)
            chance.shuffle(some)
            yield item("faq", "exact" if exact else "entry", project, asks,
                       [made(title, shown[i], int(i == at)) for i in some],
                       answers=[sentence(answer)])  # fmt: skip


def headed(blocks: list[Any]) -> Iterator[tuple[str, str]]:
    """Yield headings that ask, each with the text below it."""
    for at, block in enumerate(blocks):
        text = re.sub(r"^[\d.\s]+|[¶#:]+$", "", block["t"]).strip()
        if block["k"] != "head" or not (QUESTION.match(text) and text.endswith("?")):
            continue
        own = []
        for other in blocks[at + 1 : at + 9]:
            if other["k"] == "head":
                break
            own.append(other["t"])
        if len(" ".join(own).split()) > 8:
            yield text, "\n".join(own)


# Records

NAMES = """anchor birch cedar delta ember falcon garnet harbor indigo jasper kestrel lagoon maple
nectar onyx pebble quartz raven sable timber umber violet willow xenon yarrow zephyr cobalt copper
granite basalt marlin osprey heron lynx otter badger comet nova orbit pulsar""".split()  # noqa: SIM905
THINGS = """pump valve filter sensor cable adapter bracket gasket motor switch relay lamp hose panel
server router printer scanner monitor keyboard parser client driver proxy cache queue logger
scheduler plugin toolkit""".split()  # noqa: SIM905
UPPER = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
MONTHS = """January February March April May June July August September October November
December""".split()  # noqa: SIM905
WORDS = {
    "license": ["MIT", "BSD-3-Clause", "Apache-2.0", "GPL-3.0", "ISC", "MPL-2.0", "LGPL-2.1"],
    "status": ["active", "retired", "pending", "shipped", "cancelled", "on hold", "open", "closed"],
    "city": ["Lisbon", "Oslo", "Leeds", "Turin", "Ghent", "Malaga", "Graz", "Cork", "Bergen",
             "Nice", "Porto", "Bremen", "Gdansk", "Aarhus", "Lyon", "Basel"],
    "owner": ["sales", "finance", "platform", "support", "research", "legal", "security", "design"],
    "type": ["string", "integer", "boolean", "list", "path", "duration", "float"],
    "color": ["red", "blue", "green", "black", "white", "silver", "orange", "grey"],
}  # fmt: skip


def records(chance: Chance, count: int) -> Iterator[Item]:
    """Yield lists of neighboring rows of a made-up table, laid out as loaders do."""
    kinds: dict[str, Callable[[], str]] = {
        "name": lambda: "-".join(chance.sample(NAMES, chance.choice((1, 1, 2)))),
        "product": lambda: f"{chance.choice(NAMES).title()} {chance.choice(THINGS)}",
        "version": lambda: f"{chance.randint(0, 30)}.{chance.randint(0, 30)}{chance.choice(tails)}",
        "code": lambda: f"{''.join(chance.sample(UPPER, 2))}-{chance.randint(10, 9999)}",
        "number": lambda: f"{chance.randint(0, 99_999_999):08d}",
        "id": lambda: str(chance.randint(1, 999)),
        "date": lambda: chance.choice((
            f"{chance.randint(2009, 2026)}-{chance.randint(1, 12):02d}-{chance.randint(1, 28):02d}",
            f"{chance.choice(MONTHS)} {chance.randint(1, 28)}, {chance.randint(2009, 2026)}")),
        "price": lambda: f"{chance.randint(1, 900)}.{chance.randint(0, 99):02d}",
        "size": lambda: f"{chance.randint(1, 999)} {chance.choice(('KB', 'MB', 'GB'))}",
        "port": lambda: str(chance.randint(1024, 65535)),
        "address": lambda: ".".join(str(chance.randint(1, 254)) for _ in range(4)),
        **{name: lambda some=some: chance.choice(some) for name, some in WORDS.items()},  # type: ignore[misc]
    }  # fmt: skip
    tails = ("", *(f".{i}" for i in range(12)))
    keys = ("name", "product", "code", "number", "version")
    for _ in range(count):
        key = chance.choice(keys)
        others = [k for k in kinds if k != key]
        columns = [key, *chance.sample(others, chance.randint(2, 5))]
        if chance.random() < 0.3:
            columns = chance.sample(columns, len(columns))
        shown = (str.lower, str.lower, str.upper, str.title)
        names = {c: chance.choice(shown)(c) for c in columns}
        rows: dict[str, dict[str, str]] = {}
        while len(rows) < 11:
            made_row = {c: kinds[c]() for c in columns}
            rows.setdefault(made_row[key], made_row)
        table = [*rows.values()]
        at = chance.randrange(len(table))
        own = table[at]
        others = [c for c in columns if c != key]
        column = chance.choice(others)
        single = [c for c in others if sum(r[c] == own[c] for r in table) == 1]
        if single and chance.random() < 0.45:  # by its cell
            by, wanted = chance.choice(single), key
            asks: tuple[str, ...] = ("Which {k} has {c} {v}?", "{v}", "what is {v}?")
            asks += ("{k} with {c} {v}", "Which one is {v}?", "Who or what has the {c} {v}?")
        else:
            by, wanted = key, column
            asks = ("What is the {w} of {v}?", "{v} {w}", "{w} for {v}", "{v}", "tell me about {v}",
                    "What {w} does {v} have?", "Which {w} is {v}?")  # fmt: skip
        question = chance.choice(asks).format(k=key, c=by, v=own[by], w=wanted)
        shape = chance.choice(("csv", "csv", "json", "markdown", "comma", "prose"))
        text = [record(row, names, shape) for row in table]
        title = chance.choice(("", "", "table.csv", f"{key}s", "inventory"))
        if shape != "prose" and chance.random() < 0.25:  # three rows in a passage
            groups = [range(i, min(i + 3, len(table))) for i in range(0, len(table), 3)]
            gap = "\n\n" if shape == "csv" else "\n"
            text, at = [gap.join(text[i] for i in g) for g in groups], at // 3
        spans = [[m.start(), m.end()] for m in re.finditer(
            rf"(?<![\w.-]){re.escape(own[wanted])}(?![\w-])", text[at])][:1]  # fmt: skip
        passages = [made(title, t, int(i == at), spans or None) for i, t in enumerate(text)]
        if chance.random() < 0.5:
            chance.shuffle(passages)
        yield item("rows", shape, "records", question, passages, answers=[own[wanted]])


def record(row: dict[str, str], names: dict[str, str], shape: str) -> str:
    """Lay out a row."""
    if shape == "csv":
        return "\n".join(f"{names[c]}: {v}" for c, v in row.items())
    if shape == "json":
        return json.dumps({names[c]: v for c, v in row.items()})
    if shape == "markdown":
        head = " | ".join(names[c] for c in row)
        rule = "|".join(["---"] * len(row))
        return f"| {head} |\n|{rule}|\n| {' | '.join(row.values())} |"
    if shape == "comma":
        return f"{','.join(names[c] for c in row)}\n{','.join(row.values())}"
    return "; ".join(f"{names[c]} is {v}" for c, v in row.items()) + "."


# The shared sets


def real(data: Path, chance: Chance, page: int = 60) -> Iterator[Item]:
    """Yield the lists that people asked and that may train, at most so many of a page."""
    pages = defaultdict[str, list[Any]](list)
    for one in real_lists(data):
        if one.trains():
            pages[one.page].append(one)
    for some in pages.values():
        for one in chance.sample(some, min(page, len(some))):
            both = [*zip(one.row.passages, one.gold, strict=True)]
            golds = [p for p, gold in both if gold][:3]
            rest = [p for p, gold in both if not gold]
            rest = chance.sample(rest, min(len(rest), 10 - len(golds)))
            answers = [a for a in one.row.answers if len(a.split()) <= 12]
            passages = [made(p.title, p.text[:1000], 1, places(p.text[:1000], answers)[:1] or None)
                        for p in golds]  # fmt: skip
            passages += [made(p.title, p.text[:1000], 0) for p in rest]
            chance.shuffle(passages)
            yield item("real", one.kind, one.kind, one.row.question, passages, answers=answers,
                       weight=REAL[one.kind])  # fmt: skip


if __name__ == "__main__":
    main()
