"""Ask in other words than the passage that answers, by WordNet's synonyms.

WordNet (Miller, 1995) comes with a license that binds nobody: the Debian package `wordnet-base`,
in whose folder `usr/share/wordnet` lie the files read here. A word's synonyms are those of its
senses that are tagged at least a third as often as its first, else a tenth, of the part of speech
tagged most.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path

KINDS = {"noun": "1", "verb": "2", "adj": "3", "adv": "4"}
ENDINGS = {
    "noun": (("ies", "y"), ("ses", "s"), ("s", "")),
    "verb": (("ies", "y"), ("ied", "y"), ("es", ""), ("s", ""), ("ed", ""), ("ed", "e"),
             ("ing", ""), ("ing", "e")),
}  # fmt: skip
KEPT = frozenset(
    """what which when where whom whose does have with from that this there their they were your
    many much long into than then been will would could should about after before and are did how
    who why can has had its not first last name year time only mean make made call called use used
    kind type work want need like same more most""".split()  # noqa: SIM905
)


class Synonyms:
    """Synonyms of English words.

    Args:
        folder: WordNet's database files.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cached_property
    def tagged(self) -> dict[tuple[str, str], list[int]]:
        """How often each sense of a lemma is tagged, by part of speech, in WordNet's order."""
        found: dict[tuple[str, str], dict[int, int]] = defaultdict(dict)
        for line in (self.folder / "cntlist.rev").read_text().splitlines():
            key, sense, count = line.split()
            lemma, rest = key.split("%")
            found[lemma, rest[0].replace("5", "3")][int(sense)] = int(count)
        return {k: [v.get(i + 1, 0) for i in range(max(v))] for k, v in found.items()}

    def _rows(self, name: str, kind: str) -> Iterator[list[str]]:
        """Yield the fields of each line of a file that is no part of the license above them."""
        for line in (self.folder / f"{name}.{kind}").read_text().splitlines():
            if not line.startswith(" "):
                yield line.split()

    @cached_property
    def senses(self) -> dict[str, dict[str, list[str]]]:
        """The synsets of each lemma, by part of speech, the most frequent first."""
        return {
            kind: {row[0]: row[-int(row[2]) :] for row in self._rows("index", kind)}
            for kind in KINDS
        }

    @cached_property
    def members(self) -> dict[str, dict[str, list[str]]]:
        """The lemmas of each synset, by part of speech."""
        return {kind: {row[0]: lemmas(row) for row in self._rows("data", kind)} for kind in KINDS}

    @cached_property
    def past(self) -> dict[str, str]:
        """The past of irregular verbs."""
        lines = map(str.split, (self.folder / "verb.exc").read_text().splitlines())
        return {last: first for first, last, *_ in lines if not first.endswith("ing")}

    def of(self, word: str) -> list[str]:
        """Return the synonyms of a word in small letters, in its own form where that is regular."""
        best: tuple[int, list[str]] = (0, [])
        for kind, number in KINDS.items():
            for ending, instead in (("", ""), *ENDINGS.get(kind, ())):
                lemma = word.removesuffix(ending) + instead
                counts = self.tagged.get((lemma, number), [0])
                if not word.endswith(ending) or counts[0] <= best[0]:
                    continue
                ranked = [*zip(counts, self.senses[kind].get(lemma, ()), strict=False)]
                for least in (counts[0] / 3, counts[0] / 10):
                    some = [
                        formed(other, kind, ending, self.past.get(other.split(" ")[0]))
                        for count, synset in ranked
                        if count >= least
                        for other in self.members[kind][synset]
                        if other.islower() and lemma[:4] not in other and len(other.split()) < 3
                    ]
                    if some:
                        break
                best = counts[0], some
        return list(dict.fromkeys(best[1]))

    def reworded(
        self, question: str, texts: Iterable[str], kept: Iterable[str], chance: random.Random
    ) -> str:
        """Put synonyms in the place of a question's words that stand in the texts.

        Args:
            question: The question.
            texts: What answers it.
            kept: The answers, whose words stay.
            chance: What draws.

        Returns:
            The question, unchanged where no word of it has a synonym.
        """
        there = {w for text in texts for w in re.findall(r"[a-z]+", text.lower())}
        there -= {w for text in kept for w in re.findall(r"[a-z]+", text.lower())} | KEPT

        def other(found: re.Match[str]) -> str:
            word = found.group()
            some = self.of(word) if word in there and chance.random() < 0.85 else []
            return chance.choice(some) if some else word

        return re.sub(r"(?<![\w`'\"./_-])[a-z]{4,}(?![\w`'\"/_(-]|\.\w)", other, question)


def lemmas(row: list[str]) -> list[str]:
    """Return the lemmas of a synset: as many as the fourth field says, a number behind each."""
    words = row[4 : 4 + 2 * int(row[3], 16) : 2]
    return [re.sub(r"\(\w+\)$", "", word).replace("_", " ") for word in words]


def formed(lemma: str, kind: str, ending: str, past: str | None) -> str:
    """Put a word's ending on its synonym: on a noun's last word, on a verb's first.

    Args:
        lemma: The synonym, of one or two words.
        kind: Its part of speech.
        ending: What ended the word in whose place it is put.
        past: The past of a verb that is irregular.
    """
    words = lemma.split(" ")
    at = -1 if kind == "noun" else 0
    head = words[at]
    if ending.endswith("s"):
        head += "es" if re.search(r"(s|x|z|ch|sh)$", head) else "s"
    elif ending.endswith("ed"):
        head = past or head + ("d" if head.endswith("e") else "ed")
    elif ending == "ing":
        head = re.sub(r"(?<=[^e])e$", "", head) + "ing"
    words[at] = re.sub(r"([^aeiou])y(s|ed)$", r"\1ie\2", head).replace("ieed", "ied")
    return " ".join(words)
