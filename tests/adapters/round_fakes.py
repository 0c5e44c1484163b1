"""A proxy, a judge, a rewriter and a writer that compute from what they are given."""

from fakes import QUESTIONS
from langchain_core.runnables import RunnableLambda

LEFT_OPEN = "mouth of the river Danube"
CLAIMS = (
    "<Claims> <Claim(It ends in a sea)> <NeedSearch(True)> <Query(mouth of the river Danube)> "
    "<Claim(This is known)> <NeedSearch(True)> <Query(length of the river)> </Claims>"
)


class Proxy:
    def __init__(self):
        self.calls = []

    def answer(self, questions):
        self.calls.append(len(questions))
        return [f"A guess about {question}" for question in questions]


class Judge:
    """Know the first question, and claims that say so."""

    def __init__(self):
        self.calls = []

    def judge(self, questions, drafts):
        self.calls.append(len(questions))
        pairs = zip(questions, drafts, strict=True)
        return [question == QUESTIONS[0] or "known" in draft for question, draft in pairs]


class Rewriter:
    def __init__(self):
        self.calls = []

    def rewrite(self, questions, drafts):
        self.calls.append(len(questions))
        return [CLAIMS for _ in questions]


class Writer:
    """Write a document that counts the earlier ones; fail where the prompt holds ``bad``."""

    def __init__(self, bad=None):
        self.bad, self.calls, self.written = bad, [], []

    def generate(self, prompts):
        self.calls.append(len(prompts))
        return [self.one(prompt) for prompt in prompts]

    def one(self, prompt):
        if self.bad is not None and self.bad in prompt.rsplit("Question:", 1)[1]:
            raise RuntimeError("the writer is broken")
        self.written.append("Document 2." if "Document 1." in prompt else "Document 1.")
        return self.written[-1]

    def runnable(self):
        """Give a Runnable that counts its batches here."""
        return Counted(self.one, self.calls)


class Counted(RunnableLambda):
    def __init__(self, one, calls):
        super().__init__(one)
        self.calls = calls

    def batch(self, inputs, *args, **kwargs):
        self.calls.append(len(inputs))
        return super().batch(inputs, *args, **kwargs)
