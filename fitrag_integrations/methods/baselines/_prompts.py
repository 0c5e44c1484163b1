"""Prompts of the baselines.

The formats are the papers' ("Let's think step by step", "Follow up:", "So the final answer is:");
the sentences around them, and all examples, are our own. The examples are about invented people
and places, so that no model gains by having read them.
"""

from __future__ import annotations

from fitrag_integrations.values.prompt import PromptTemplate

_THINKING = (
    "Question: Which of the towns Arlow and Besk was founded first?\n"
    "Answer: Let's think step by step. Arlow was founded in 1712. Besk was founded in 1694. 1694 "
    "is before 1712. So the answer is Besk.\n"
    "Question: In which country was the architect of the Tirva bridge born?\n"
    "Answer: Let's think step by step. The architect of the Tirva bridge was Ilse Marbach. Ilse "
    "Marbach was born in Norland. So the answer is Norland.\n"
)
_PASSAGES = "Passages:\n{passages}\n"
_THINK = "Question: {question}\nAnswer: Let's think step by step."

STEPS = PromptTemplate("steps", _THINKING + _THINK, one_line=True)
READ_STEPS = PromptTemplate(
    "read_steps",
    "Answer the question from the passages below. Reason step by step, and end with the words: So "
    "the answer is ...\n" + _PASSAGES + _THINK,
    one_line=True,
)
BACKGROUND = PromptTemplate(
    "background",
    "Write a background document with the facts that are needed to answer the question.\n"
    "Question: {question}\nDocument:",
)
REFINE = PromptTemplate(
    "refine",
    "An earlier answer to the question was written without looking anything up, and may be wrong. "
    "Check it against the passages below and give the right answer, as briefly as you can.\n"
    + _PASSAGES
    + "Question: {question}\nEarlier answer: {draft}\nAnswer:",
    one_line=True,
)
SENTENCES = PromptTemplate(
    "sentences",
    "Answer the question in a few short sentences; the passages below may help.\n"
    + _PASSAGES
    + "Question: {question}\nAnswer:",
    one_line=True,
)
SELF_ASK = PromptTemplate(
    "self_ask",
    "Answer the last question by way of follow-up questions and intermediate answers. Where none "
    "is needed, give the final answer at once.\n"
    "Question: Which of the towns Arlow and Besk was founded first?\n"
    "Are follow up questions needed here: Yes.\n"
    "Follow up: When was Arlow founded?\n"
    "Intermediate answer: Arlow was founded in 1712.\n"
    "Follow up: When was Besk founded?\n"
    "Intermediate answer: Besk was founded in 1694.\n"
    "So the final answer is: Besk\n"
    "Question: In which country was the architect of the Tirva bridge born?\n"
    "Are follow up questions needed here: Yes.\n"
    "Follow up: Who was the architect of the Tirva bridge?\n"
    "Intermediate answer: The architect of the Tirva bridge was Ilse Marbach.\n"
    "Follow up: In which country was Ilse Marbach born?\n"
    "Intermediate answer: Ilse Marbach was born in Norland.\n"
    "So the final answer is: Norland\n"
    "Question: {question}\n"
    "Are follow up questions needed here:{draft}",
)
READ_BRIEFLY = PromptTemplate(
    "read_briefly",
    "Answer the last question in one short sentence, from the passages below and from nothing "
    "else.\n"
    + _PASSAGES
    + "Question: When was Arlow founded?\nAnswer: Arlow was founded in 1712.\n"
    "Question: Who was the architect of the Tirva bridge?\n"
    "Answer: The architect of the Tirva bridge was Ilse Marbach.\n"
    "Question: {question}\nAnswer:",
    one_line=True,
)
