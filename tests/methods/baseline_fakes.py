"""A world in which every question has a number, and whoever is asked answers with that number."""

import re

from fitrag_integrations.methods.baselines import Continuation, Reflection
from fitrag_integrations.ports import Ports
from fitrag_integrations.types import Draft, Passage

QUESTIONS = [f"How many bridges has the town number {n}?" for n in range(32)]
BAD = "number 13?"  # what one of them ends in
RUNAWAY = "and so on " * 2_000


def number(text):
    return int(re.findall(r"number (\d+)", text)[-1])


def passage(query):
    """Make the passage a query finds; words beside the question make another one."""
    n = number(query)
    more = " More." if len(query) > len(QUESTIONS[n]) else ""
    return Passage(f"p{n}{more}", f"The town number {n} has {n} bridges.{more}")


class World:
    """Answer prompts, queries, and what models of the methods are asked; keep the batches.

    `bad` says how the language model treats the question that ends in `BAD`: a text it writes
    instead, or an exception it raises.
    """

    name = "world"

    def __init__(self, bad=None):
        self.bad = bad
        self.batches = {}

    def asked(self, port, items):
        self.batches.setdefault(port, []).append(list(items))

    @property
    def calls(self):
        return {port: len(batches) for port, batches in self.batches.items()}

    @property
    def ports(self):
        return Ports(retrieve=self, generate=self)

    def retrieve(self, queries):
        self.asked("retrieve", queries)
        return [
            [passage(query), Passage("other", "Some towns have no bridge.")] for query in queries
        ]

    def generate(self, prompts):
        self.asked("generate", prompts)
        return [self.text(prompt, reply) for prompt in prompts]

    def continue_with_logprobs(self, prompts, beginnings):
        self.asked("continue", prompts)
        return [self.continued(prompt) for prompt in prompts]

    def reflect(self, items):
        self.asked("reflect", items)
        return [self.reflected(question, found) for question, found in items]

    def ensemble(self, items):
        self.asked("ensemble", items)
        return [self.text(prompts[0], reply) for prompts, _ in items]

    def draft(self, questions):
        self.asked("draft", questions)
        return [self.drafted(question) for question in questions]

    def rescore(self, questions, drafts):
        raise AssertionError("nobody gave a draft")

    def p_yes(self, prompts):
        self.asked("p_yes", prompts)
        return [0.9 if number(prompt) % 2 else 0.1 for prompt in prompts]

    def neighbours(self, questions, k):
        self.asked("neighbours", questions)
        return [[number(question) % 2 == 1] * k for question in questions]

    def text(self, prompt, write):
        tail = prompt.rsplit("Question: ", 1)[-1]
        if self.bad is None or BAD not in tail:
            return write(tail)
        if isinstance(self.bad, Exception):
            raise self.bad
        return self.bad

    def continued(self, prompt):
        text = self.text(prompt, reply)
        doubt = "Passages:" not in prompt and number(prompt) % 2 == 0
        return spelled(text, -3.0 if doubt else -0.01)

    def reflected(self, question, found):
        text = self.text(question, reply)
        if found is None:
            share = 0.1 if number(question) % 2 else 0.9
            tokens = {"[Retrieval]": share, "[No Retrieval]": 1 - share}
        else:
            tokens = {"[Relevant]": 0.9 if found.id != "other" else 0.2, "[Irrelevant]": 0.1}
        return Reflection(text, {} if text == self.bad else tokens, -0.5)

    def drafted(self, question):
        text = self.text(question, reply)
        sure = 0.9 if number(question) % 2 else 0.1
        return Draft(text, (-sure,), (sure,), (1 - sure,)) if text else Draft("")


def spelled(text, logprob):
    """Make a continuation of words, all alike likely."""
    words = tuple(re.findall(r"\s*\S+\s*", text))
    return Continuation(text, words, (logprob,) * len(words))


def reply(tail):
    """Write what the end of a prompt asks for."""
    n = number(tail)
    if "Answer Yes or No" in tail:
        return "Yes" if n % 2 else "No."
    if "follow up" in tail and "Intermediate answer" not in tail:
        return f" Yes.\nFollow up: Who knows of the town number {n}?\nIntermediate answer: I do."
    if "follow up" in tail:
        return f"So the final answer is: {n}"
    if "step by step" in tail:
        return f"There are few. So the answer is {n}."
    return f"{n}"
