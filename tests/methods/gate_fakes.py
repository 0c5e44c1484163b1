"""Gates and drafters that compute from the text they are given, and keep what they were asked."""

import asyncio
import threading

from fitrag_integrations.types import Draft

QUESTIONS = [f"How many bridges has the town number {n}?" for n in range(32)]


class LengthGate:
    """Call a question the better known the longer its draft is, or by its own last digit."""

    def __init__(self, *, threshold=None, draft_tokens=8, fitted=None, drafter=None):
        self.threshold = threshold
        self.draft_tokens = draft_tokens
        self.fitted = fitted
        self.drafter = drafter
        self.batches = []

    def p_known(self, questions, drafts):
        self.batches.append(list(zip(questions, drafts, strict=True)))
        return [self.one(question, draft) for question, draft in self.batches[-1]]

    def one(self, question, draft):
        return min(1.0, len(draft) / 10) if draft else int(question[-2]) / 10


class AsyncGate(LengthGate):
    """Answer async calls on the event loop, and keep which thread that was."""

    def __init__(self, **settings):
        super().__init__(**settings)
        self.threads = []

    async def ap_known(self, questions, drafts):
        await asyncio.sleep(0)
        self.threads.append(threading.get_ident())
        return self.p_known(questions, drafts)


class DigitDrafter:
    """Write as many letters as the question's last digit says."""

    name = "digits"

    def __init__(self):
        self.drafted, self.rescored = [], []

    def draft(self, questions):
        self.drafted.append(list(questions))
        return [self.measured("x" * (int(question[-2]) + 1)) for question in questions]

    def rescore(self, questions, drafts):
        self.rescored.append(list(drafts))
        return [self.measured(draft) for draft in drafts]

    def measured(self, text):
        count = len(text)
        return Draft(text, (-0.5,) * count, (1 / count, 0.5), (0.25,) * count)
