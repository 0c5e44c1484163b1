"""A proxy, a judge, a rewriter and a retriever that compute from what they are given."""

from fitrag_integrations.ports import Ports
from fitrag_integrations.types import Passage

QUESTIONS = [f"How long is the river number {n}?" for n in range(32)]
CLAIMS = (
    "<Questions> <Question(How long is it?)> <NeedSearch(True)> <Query({q} length)> </Questions> "
    "<Claims> <Claim({q} is long)> <NeedSearch(True)> <Query({q} miles)> "
    "<Claim({q} is known)> <NeedSearch(True)> <Query({q} source)> "
    "<Claim(Rivers are wet)> <NeedSearch(False)> <Query()> </Claims>"
)


def number(text):
    return int("".join(sign for sign in text if sign.isdigit()) or 0)


class Proxy:
    """Answer `questions` at length; what `odd` says instead for a number, which may be an error."""

    def __init__(self, odd=None):
        self.odd, self.asked = odd or {}, []

    def answer(self, questions):
        self.asked.append(list(questions))
        return [self.odd.get(number(q), f"river {number(q)} is long") for q in questions]


class Judge:
    """Know even questions, and claims that say so."""

    def __init__(self, odd=None, even=True):
        self.odd, self.even, self.asked = odd or {}, even, []

    def judge(self, questions, drafts):
        pairs = list(zip(questions, drafts, strict=True))
        self.asked.append(pairs)
        return [self.one(*pair) for pair in pairs]

    def one(self, question, draft):
        if number(question) in self.odd:
            return self.odd[number(question)]
        if question.startswith("How"):
            return self.even and number(question) % 2 == 0
        return "known" in draft


class Rewriter:
    """Write claims on river numbers."""

    def __init__(self, odd=None, text=CLAIMS):
        self.odd, self.text, self.asked = odd or {}, text, []

    def rewrite(self, questions, drafts):
        self.asked.append(list(zip(questions, drafts, strict=True)))
        return [
            self.odd.get(number(q), self.text.replace("{q}", f"river {number(q)}"))
            for q in questions
        ]


class Library:
    """Find two passages for a query, one of them common to all queries of a river."""

    def __init__(self):
        self.asked = []

    def retrieve(self, queries):
        self.asked.append(list(queries))
        return [
            [Passage(q, f"All about {q}."), Passage(f"r{number(q)}", f"River {number(q)}.")]
            for q in queries
        ]


class World:
    """Hold one of each."""

    def __init__(self, *, proxy=None, judge=None, rewriter=None, generate=None):
        self.proxy, self.judge = proxy or Proxy(), judge or Judge()
        self.rewriter, self.library = rewriter or Rewriter(), Library()
        self.ports = Ports(retrieve=self.library, generate=generate)

    @property
    def calls(self):
        parts = (self.proxy, self.judge, self.rewriter, self.library)
        return [len(part.asked) for part in parts]
