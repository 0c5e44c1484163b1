"""A little world: a passage for each person, and a language model that reads, counts and dies."""

import math
import re

from fitrag_integrations.types import BiLabelScore, Draft, Passage

CITIES = ("Oslo", "Lima", "Cairo", "Quito", "Hanoi", "Turin", "Perth", "Kyoto", "Minsk", "Accra")
FIRST = ("Ada", "Bela", "Cleo", "Dora", "Emil", "Finn", "Gerd", "Hugo")
LAST = ("Falk", "Grant", "Hill", "Iver", "Jonas", "Kern")
FILLER = "The weather of that year was mild and nobody had much to say about it afterwards. " * 2
BORN = re.compile(r"(\w+ \w+) was born in (\w+)")


def people(count=48):
    names = [f"{first} {last}" for last in LAST for first in FIRST]
    return [(name, CITIES[at % len(CITIES)]) for at, name in enumerate(names[:count])]


def passages(count=48):
    return [
        Passage(str(at), f"{FILLER}{name} was born in {city}. {FILLER}", name)
        for at, (name, city) in enumerate(people(count))
    ]


def questions(count=48):
    return [{"question": f"Where was {n} born?", "answers": [c]} for n, c in people(count)]


def retriever(queries, count=48):
    """Find the passage of the person asked for, after one of somebody else."""
    found = passages(count)
    at = {name: place for place, (name, _) in enumerate(people(count))}
    return [
        [found[at[name] - 1], found[at[name]], found[at[name] - 2]]
        for query in queries
        for name in [re.search(r"Where was (\w+ \w+)", query)[1]]
    ]


class Reading:
    """Answer where the prompt tells; by itself it knows whoever is called Ada or Bela.

    It keeps every prompt in `asked`, and dies before it answers number `dies`.
    """

    name = "reading"

    def __init__(self, dies=None):
        self.asked, self.dies = [], dies

    def generate(self, prompts):
        return [self.one(prompt) for prompt in prompts]

    def one(self, prompt):
        if self.dies is not None and len(self.asked) >= self.dies:
            raise KeyboardInterrupt
        self.asked.append(prompt)
        told = dict(BORN.findall(prompt))
        if prompt.startswith("Write one question"):
            (name, city), *_ = told.items()
            return f"Question: Where was {name} born?\nAnswer: {city}"
        name = re.search(r"Where was (\w+ \w+) born", prompt)[1]
        knows = name.startswith(("Ada", "Bela"))
        if "Answer Yes or No" in prompt:
            return "Yes" if knows else "No"
        return told.get(name, dict(people())[name] if knows else "nobody knows")


class Overlap:
    """Score by the share of the question's words; stands for the embedded models."""

    name = "overlap"

    @classmethod
    def embedded(cls):
        return cls()

    def score(self, pairs):
        return [self.one_of(question, passage.text) for question, passage in pairs]

    def score_sentences(self, items):
        return [
            (self.one_of(q, p.text), [self.one_of(q, p.text[a:b]) for a, b in spans])
            for q, p, spans in items
        ]

    def one_of(self, question, text):
        words = set(re.findall(r"\w+", question))
        share = len(words & set(re.findall(r"\w+", text))) / len(words)
        return BiLabelScore(share, share)


class Bank:
    """Know of each question whether it was answered, nearest by its words."""

    def __init__(self, questions, known):
        self.rows = [(set(q.split()), k) for q, k in zip(questions, known, strict=True)]

    @classmethod
    def build(cls, questions, known):
        return cls(questions, known)

    def save(self, folder):
        """Leave nothing behind."""

    def neighbours(self, questions, k):
        return [
            [known for _, known in sorted(self.rows, key=lambda row: -len(row[0] & own))[:k]]
            for own in (set(q.split()) for q in questions)
        ]


class Telling(Reading):
    """Tell of its tokens too, surely of those whom it knows; it dies as it reads."""

    def draft(self, asked):
        """Write a token and how sure it is."""
        sure = [self.sure("draft", each) for each in asked]
        return [Draft("a city", (math.log(p),), (p,), (1 - p,)) for p in sure]

    def rescore(self, asked, drafts):
        """Do the same."""
        return self.draft(asked)

    def p_yes(self, prompts):
        """Tell how likely Yes is."""
        return [self.sure("yes", each) for each in prompts]

    def sure(self, what, text):
        if self.dies is not None and len(self.asked) >= self.dies:
            raise KeyboardInterrupt
        self.asked.append(f"{what} {text}")
        knows = re.search(r"Where was (\w+)", text)[1] in ("Ada", "Bela")
        return 0.9 if knows else 0.2
