"""SlimPLM's prompts (SlimPLM, sections 3.2, 3.3 and appendix A, Table 9).

`JUDGE` and `REWRITE_PAPER` are what the paper's own models were fine-tuned on, `REWRITE_RELEASED`
is what the released weights learnt. `REWRITE` asks any instruction model for the same claims and
queries, by the rules the paper gave GPT-4 (Table 8), and is in our own words. So are `PROXY`, which
the paper does not print, and `RAG_SHORT` and `RAG_LONG`, which keep its brackets.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from fitrag_integrations.values import slimplm as _slimplm
from fitrag_integrations.values.prompt import PromptTemplate

PROXY = PromptTemplate(
    "slimplm_proxy",
    "Answer the question from what you know, in one paragraph. Name the facts the answer rests "
    "on.\nQuestion: {question}\nAnswer:",
)
JUDGE = PromptTemplate("slimplm_judge", _slimplm.JUDGE_PAPER, one_line=True)
REWRITE_PAPER = PromptTemplate("slimplm_rewrite_paper", _slimplm.REWRITE_PAPER)
REWRITE_RELEASED = PromptTemplate("slimplm_rewrite_released", _slimplm.REWRITE_RELEASED)
REWRITE = PromptTemplate(
    "slimplm_rewrite",
    "Below are a question and an answer that may be wrong. First part the question into the "
    "simple questions it is made of. Then part the answer into brief claims, one fact each, that "
    "can be understood alone: write names in place of words such as he, this or that. Add nothing "
    "and leave nothing out. Write a search query for each that would find or check it; it is not "
    "needed (False, and the query empty) for common sense, and for what has nothing to do with "
    "the question. Write only this, and nothing after it:\n"
    "<Questions> <Question(question 1)> <NeedSearch(True/False)> <Query(query 1)> ... </Questions> "
    "<Claims> <Claim(claim 1)> <NeedSearch(True/False)> <Query(query 1)> ... </Claims>\n\n"
    "Question: {question}\nAnswer: {draft}\nOutput:",
)
_REFERENCE = (
    "Answer the question, which stands in triple round brackets, from the reference in triple "
    "square brackets and from what you know, briefly and to the point. {rule}\n"
    "Reference: [[[{{passages}}]]]\nQuestion: ((({{question}})))\nAnswer:"
)
RAG_SHORT = PromptTemplate(
    "slimplm_short", _REFERENCE.format(rule="Give every answer that may be meant.")
)
RAG_LONG = PromptTemplate(
    "slimplm_long", _REFERENCE.format(rule="Invent nothing, and add nothing you are not sure of.")
)
REWRITES: Mapping[str, PromptTemplate] = MappingProxyType(
    {"instruct": REWRITE, "paper": REWRITE_PAPER, "released": REWRITE_RELEASED}
)
SLIMPLM = (PROXY, JUDGE, REWRITE, REWRITE_PAPER, REWRITE_RELEASED, RAG_SHORT, RAG_LONG)
"""All of them, for the table of `prompts`."""
