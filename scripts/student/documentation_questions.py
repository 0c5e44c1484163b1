"""Find questions in pages of documentation: what each rule asks, in other words than the source's.

Words come from `documentation_words.txt`: those that carry no meaning, groups that mean alike,
verbs. A question whose words mostly stand in the sentence that answers it is dropped (`chosen`).
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import Stemmer

from fitrag_integrations.evaluation.answers import normalize
from fitrag_integrations.text.sentences import split_sentences

Block = dict[str, Any]
EACH = {"defined": 22, "means": 8, "table": 14, "default": 14, "version": 12}
"""Rows of a rule and project; `MANY` times as many of a large project, all others `OTHERWISE`."""
MANY, OTHERWISE = 5, 40
STEM = Stemmer.Stemmer("english")
STOP, GROUPS, VERBS = (
    part.splitlines() if "|" in part else part.split()
    for part in Path(__file__).with_name("documentation_words.txt").read_text().split("\n\n")
)
OTHERS = {word: group.split("|") for group in GROUPS for word in group.split("|")}
QUESTION = re.compile(
    r"(?i)^(how|why|what|when|where|which|who|can|does|do|is|are|should|will|could|may)\b"
)
DEFAULT = re.compile(
    r"(?i)(?:\bdefaults? (?:is|to|value is|value of)|\bby default,? (?:it |this )?is|"
    r"\(default(?: is|:|s to)?|\bdefault:) ?(?:set to )?[\"'“`]?([^\s,;()\"'”`]{1,40}"
    r"(?: (?:seconds|minutes|hours|bytes|days|milliseconds|MB|KB))?)"
)
VERSION = re.compile(
    r"(?i)(?:^|\. )(?:(new|changed|deprecated|added|removed|introduced|available)"
    r"(?: in| since)(?: version)?:?|since(?: version)?) v?(\d+\.\d+(?:\.\d+)*)"
)
PREAMBLE = re.compile(r"^\s*(import |from \S+ import|#|//|/\*|<\?|\.\.\.)|\brequire\(")


def asked(pages: list[Any], pool: list[Any], chance: random.Random) -> Iterator[Any]:
    """Yield questions with the block that answers, by every rule."""
    where = {(one["page"], at): one for one in pool for at in one["held"]}
    for number, page in enumerate(pages):
        blocks = page["blocks"]
        name = page["title"] if len(page["title"].split()) == 1 else page["project"]
        name = re.sub(r"^python-|\d[\d.]*|-doc.*$|\(\d\)$", "", name)
        for at, block in enumerate(blocks):
            follow = [(i, b) for i, b in enumerate(blocks[at + 1 : at + 5], at + 1)]
            for row in (*by_head(block, follow, chance), *by_text(block, blocks, at, name, chance)):
                where_at = row.pop("at", at)
                if one := where.get((number, where_at)):
                    yield {**row, "gold": one, "block": where_at, "name": name}


def by_head(block: Block, follow: Any, chance: random.Random) -> Iterator[Any]:
    """Yield what a heading asks, or what it says how to do."""
    if block["k"] != "head":
        return
    text = re.sub(r"^[\d.\s]+|[¶#:]+$", "", block["t"]).strip()
    body = next(((i, b) for i, b in follow if b["k"] in ("para", "item")), None)
    code = next(((i, b) for i, b in follow[:3] if b["k"] == "code"), None)
    if body is None or len(text.split()) < 2 or len(body[1]["t"].split()) < 8:
        return
    first = sentence(body[1]["t"])
    word = text.split()[0].lower()
    verb = base(word) if word in VERBS or word.endswith("ing") else ""  # no "Changes in ..."
    if re.match(r"change|to do|release", text, re.I):
        verb = ""
    if verb and verb != "require" and 1 < len(text.split()) < 9:
        rest = " ".join(text.split()[1:])
        rest = rest if rest[:2].isupper() else rest[:1].lower() + rest[1:]
        lines = [] if code is None else code[1]["t"].splitlines()
        line = next((x.strip() for x in lines if x.strip() and not PREAMBLE.search(x)), "")
        shown = line if 1 < len(line.split()) < 14 else ""
        asks = chance.choice(
            ["How do I {}?", "How can I {}?", "What is the way to {}?", "I want to {}"]
        )
        yield {
            "rule": "howto",
            "q": asks.format(reworded(f"{verb} {rest}", chance)),
            "answers": [shown or first],
            "at": code[0] if code and shown else body[0],
        }


def by_text(
    block: Block, blocks: list[Block], at: int, name: str, chance: random.Random
) -> Iterator[Any]:
    """Yield what can be asked of a block by its words."""
    text, kind = block["t"], block["k"]
    if kind == "table":
        yield from by_table(block, name, chance)
    if kind not in ("para", "item"):
        return
    term = short_term(block["own"][-1]) if block["own"] else ""
    head = next((b["t"] for b in reversed(blocks[max(0, at - 6) : at]) if b["k"] == "head"), "")
    subject = term or (
        head if re.fullmatch(r"[\w.]+\(.*\)|[A-Z_]{4,}|[\w]+[._][\w.]+", head) else ""
    )
    if subject and (found := DEFAULT.search(text)):
        value = found.group(1).strip(".'\"")
        asks = [
            "What is the default of {}?",
            "What does {} default to?",
            "What is used if I leave {} out?",
        ]
        if value.lower() not in STOP and value.lower() not in ("behavior", "value", "all", "any"):
            yield {
                "rule": "default",
                "q": chance.choice(asks).format(subject),
                "answers": [value],
                "term": subject,
            }
    if subject and (found := VERSION.search(text)):
        verb = (found.group(1) or "added").lower()
        by_verb = {
            "changed": "In which version did {} change?",
            "deprecated": "Since when is {} deprecated?",
            "removed": "In which version was {} dropped?",
        }
        shown = by_verb.get(
            verb,
            chance.choice(["Which version do I need for {}?", "Since which release is there {}?"]),
        )
        yield {
            "rule": "version",
            "q": shown.format(subject),
            "answers": [found.group(2)],
            "term": subject,
        }
    previous = blocks[at - 1] if at else block
    if previous["k"] == "term" and block["own"] and (said := phrase(sentence(text))):
        bare = re.sub(r"\([^)]*\)?|\[[^\]]*\]?", "", previous["t"])  # arguments are no aliases
        aliases = [a for a in re.split(r",\s+|\s\|\s", bare) if a][:3]
        aliases = [a for a in map(short_term, aliases) if len(a) > 1]
        option = previous["t"].startswith("-")
        call = "(" in previous["t"]
        what = (
            "option"
            if option
            else "function"
            if call
            else "setting"
            if re.search(r"[_A-Z]", term)
            else "name"
        )
        asks = {
            "option": [
                "Which option of {n} do I need to {p}?",
                "How do I make {n} {p}?",
                "{n}: {p}",
            ],
            "function": [
                "What do I call to {p}?",
                "How do I {p} in {n}?",
                "Which function is there to {p}?",
            ],
            "setting": ["What do I set to {p}?", "Which setting is for this: {p}?"],
            "name": ["What is there in {n} to {p}?", "How do I {p} with {n}?"],
        }[what]
        shown = min((reworded(said, chance) for _ in range(5)), key=lambda one: copied(one, text))
        if aliases and copied(shown, text) <= 0.67:
            yield {
                "rule": "defined",
                "q": chance.choice(asks).format(n=name, p=shown),
                "answers": aliases,
                "term": aliases[0],
            }
        if aliases and len(aliases[0]) > 2:
            yield {
                "rule": "means",
                "q": f"What is {aliases[-1]} good for in {name}?",
                "answers": [sentence(text)],
                "term": aliases[-1],
            }


def by_table(block: Block, name: str, chance: random.Random) -> Iterator[Any]:
    """Yield what stands in a cell, asked by its row and its column."""
    head, *rows = block["rows"]
    if not head[0] or head[0].endswith(":"):  # names and values, without a header
        return
    for row in chance.sample(rows, min(5, len(rows))):
        column = chance.randrange(1, len(row))
        cell, label, same = row[column], row[0], [r for r in rows if r[0] == row[0]]
        if (
            not (head[column] and 0 < len(cell.split()) < 9 and 0 < len(label.split()) < 8)
            or len(same) > 1
        ):
            continue
        plain = head[column][:1].lower() + head[column][1:]
        back = [r for r in rows if r[column] == cell]
        if len(back) == 1 and len(cell.split()) > 2 and chance.random() < 0.5:
            asks = f"Which {head[0].lower()} is it: {reworded(cell, chance)}?"
            yield {"rule": "table", "q": asks, "answers": [label]}
        else:
            asks = chance.choice(
                ["What is the {c} of {r}?", "{r}: which {c}?", "{c} for {r} in {n}"]
            )
            yield {
                "rule": "table",
                "q": asks.format(c=plain, r=label, n=name),
                "answers": [cell],
                "term": label,
            }


def short_term(term: str) -> str:
    """Return the name that a term begins with, without arguments and kind."""
    kind = r"^(class|exception|async|static|classmethod|property|abstract|method|attribute) +"
    term = re.sub(kind, "", term)
    return re.split(r"[\s=(\[<:|]", term)[0].strip(",.")


def sentence(text: str) -> str:
    """Return the first sentence."""
    spans = split_sentences(text)
    return text[spans[0][0] : spans[0][1]].strip() if spans else text


@cache
def base(word: str) -> str:
    """Return the verb that a word is a form of, else nothing."""
    word = word.lower()
    for form in (
        word,
        word[:-1],
        word[:-2],
        word[:-3],
        word[:-3] + "e",
        word[:-3] + "y",
        word[:-4],
        word[:-2] + "e",
        word[:-1],
    ):
        if form in VERBS and (form == word or word.endswith(("s", "ing", "ed"))):
            return form
    return ""


def phrase(text: str) -> str:
    """Return what is done, as a verb and what follows, up to the first clause."""
    text = re.sub(r"\([^)]*\)|^[\w-]+ only:", "", text).strip(" .")
    text = re.sub(
        r"^(This|The) (option|function|method|setting|flag|command|directive|parameter) ", "", text
    )
    text = re.sub(
        r"^(can be used|is used|used|allows you|tells \w+|causes \w+|makes \w+|whether) to ",
        "",
        text,
        flags=re.I,
    )
    words = re.split(r"[,;:—]| which | that is | where ", text)[0].split()
    verb = base(words[0]) if words else ""
    return " ".join([verb, *words[1:13]]) if verb and 3 < len(words) < 18 else ""


def reworded(text: str, chance: random.Random, often: float = 0.7) -> str:
    """Put other words for some, and leave out some that carry little."""
    made = list[str]()
    for word in text.rstrip(".?").split():
        named = made and word[:1].isupper()  # "a Replica Set"
        plain = word.lower().rstrip("s") if word.lower() not in OTHERS else word.lower()
        if plain in OTHERS and not named and chance.random() < often:
            other = chance.choice([o for o in OTHERS[plain] if o != plain])
            word = other + (
                "s" if word.endswith("s") and plain != word.lower() and " " not in other else ""
            )
        if (
            word.lower() in ("the", "a", "an", "given", "specified", "also", "all")
            and chance.random() < often / 2
        ):
            continue
        made.append(word)
    return " ".join(made) + ("?" if text.endswith("?") else "")


def stems(text: str) -> set[str]:
    """Return the stems of the words that carry meaning."""
    return set(
        STEM.stemWords([w for w in re.findall(r"[a-z][a-z0-9]+", text.lower()) if w not in STOP])
    )


def copied(question: str, text: str) -> float:
    """Return the fraction of a question's words that stand in a text."""
    own = stems(question)
    return len(own & stems(text)) / max(1, len(own))


def chosen(rows: list[Any], project: str, large: bool, chance: random.Random) -> list[Any]:
    """Drop what copies, and all but some of each rule."""
    chance.shuffle(rows)
    count: Counter[str] = Counter()
    seen, kept = set[str](), []
    for row in rows:
        row["project"] = project
        gold = row["gold"]["blocks"][row["block"]]["t"]
        bare = row["q"].replace(row.get("term") or "\0", " ").replace(row["name"], " ")
        limit = {"table": 1, "default": 1, "version": 1, "means": 1}.get(row["rule"], 0.7)
        most = EACH.get(row["rule"], OTHERWISE) * (MANY if large else 1)
        answer = row["answers"][0]
        if copied(bare, gold) > limit or count[row["rule"]] >= most or row["q"] in seen:
            continue
        if not normalize(answer) or len(answer.split()) > 45 or len(row["q"].split()) > 24:
            continue
        seen.add(row["q"])
        count[row["rule"]] += 1
        kept.append(row)
    return kept
