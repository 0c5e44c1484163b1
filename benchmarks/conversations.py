"""Measure what routers retrieve for the last question of a conversation, with and without condense.

    python benchmarks/conversations.py

Each of 40 follow-up questions, written for this benchmark, ends a conversation of a hundred
messages about other passages of the demo; only the turn before it names its subject. Ways to make
one question of it: none, the last two questions joined, and a rewriting by hand, which stands for a
capable model. Routers of LlamaIndex are called by its `CondenseQuestionChatEngine`. Printed is how
often the follow-up's passage is handed on, as Markdown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from importlib import resources
from typing import Any, TypeAlias

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from llama_index.core.chat_engine import CondenseQuestionChatEngine
from llama_index.core.indices import EmptyIndex
from llama_index.core.llms import (
    ChatMessage,
    CompletionResponse,
    CustomLLM,
    LLMMetadata,
    MessageRole,
    MockLLM,
)
from llama_index.core.llms.callbacks import llm_completion_callback
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.prompts import PromptTemplate
from llama_index.core.query_engine import RetrieverQueryEngine, RouterQueryEngine
from llama_index.core.tools import QueryEngineTool

from fitrag_integrations import langchain as lc
from fitrag_integrations import llama_index as li
from fitrag_integrations.langchain.base.conversation import PROMPT
from fitrag_integrations.methods import FitRag
from fitrag_integrations.models import IKClassifier

Condense: TypeAlias = Callable[[str], str]
Component: TypeAlias = Callable[[list[list[BaseMessage]]], Sequence[set[str]]]
"""What finds the titles that are handed on at the end of each conversation."""

ROWS = """
Danube|Where does it end?|Where does the Danube end?
Danube: dams and navigation|And which of its tributaries is the longest?|Which tributary of the Danube is the longest?
Rhine|Where does it rise?|Where does the Rhine rise?
Volga|Which tributary of it is the biggest?|Which tributary of the Volga is the biggest?
Rhone|What wetland lies between its arms?|What wetland lies between the arms of the Rhone?
Nile|Where do its two branches meet?|Where do the two branches of the Nile meet?
Amazon|Who sailed all of it first?|Who first sailed all of the Amazon?
Congo|How deep is it?|How deep is the Congo?
Yangtze|Which animal lived nowhere else?|Which animal lived only in the Yangtze?
Mekong|Which of its tributaries turns round in the wet season?|Which tributary of the Mekong turns round in the wet season?
Lake Baikal|What is the seal there called?|What is the seal of Lake Baikal called?
Lake Superior|Which ship sank there in 1975?|Which ship sank in Lake Superior in 1975?
Lake Victoria|Which fish did people bring there?|Which fish did people bring to Lake Victoria?
Lake Titicaca|What are the boats there made of?|What are the boats on Lake Titicaca made of?
Caspian Sea|Which of its fish gives caviar?|Which fish of the Caspian Sea gives caviar?
Sahara|What is the highest peak there?|What is the highest peak of the Sahara?
Gobi|Who found dinosaur nests there?|Who found dinosaur nests in the Gobi?
Atacama|Why does it hardly ever rain there?|Why does it hardly ever rain in the Atacama?
Namib|Which strange plant grows there?|Which strange plant grows in the Namib?
Mount Everest|Who computed that nothing is higher?|Who computed that nothing is higher than Everest?
K2|Who named it?|Who named K2?
Kilimanjaro|Which of its cones is the highest?|Which cone of Kilimanjaro is the highest?
Denali|Who stood on its top first?|Who stood on the top of Denali first?
Mont Blanc|Who offered a prize for a way up?|Who offered a prize for a way up Mont Blanc?
Mount Etna|Which city did its lava reach in 1669?|Which city did the lava of Etna reach in 1669?
Krakatoa|What is the young cone there called?|What is the young cone at Krakatoa called?
Mount Tambora|Which summer did it spoil?|Which summer did the eruption of Tambora spoil?
Mauna Loa|Which gas is measured on it?|Which gas is measured on Mauna Loa?
Mount St. Helens|Who died while he watched it?|Who died while he watched Mount St. Helens?
Mount Pinatubo|Which storm came with its eruption?|Which storm came with the eruption of Pinatubo?
Mercury (planet)|Which probe went round it first?|Which probe went round the planet Mercury first?
Venus|What landed on it first?|What landed on Venus first?
Mars|Who discovered its two moons?|Who discovered the two moons of Mars?
Jupiter|Which comet hit it in 1994?|Which comet hit Jupiter in 1994?
Saturn|What shape do the clouds at its pole have?|What shape do the clouds at the pole of Saturn have?
Uranus|Where did its discoverer live?|Where did the discoverer of Uranus live?
Pluto|Who proposed its name?|Who proposed the name of Pluto?
Titan|What is its largest sea called?|What is the largest sea of Titan called?
Cassini-Huygens|When was it destroyed?|When was Cassini destroyed?
Rosetta|What was its lander called?|What was the lander of Rosetta called?
"""  # noqa: E501
FOLLOWING = [line.split("|") for line in ROWS.strip().splitlines()]
BY_HAND = {asked: alone for _, asked, alone in FOLLOWING}


def read(name: str) -> list[dict[str, Any]]:
    """Return the rows of a file of the demo."""
    file = resources.files("fitrag_integrations") / "embedded" / "demo" / f"{name}.jsonl"
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


def conversation(
    at: int, asked: str, subject: str, others: list[dict[str, Any]]
) -> list[BaseMessage]:
    """Return 99 messages: 48 other turns, one that names the subject, and the follow-up."""
    turns = [others[(at * 7 + step * 5) % len(others)] for step in range(48)]
    pairs = [(row["question"], row["answers"][0]) for row in turns]
    pairs.append((f"Tell me about {subject.partition(':')[0]}.", "With pleasure."))
    messages = [
        kind(text)
        for pair in pairs
        for kind, text in zip((HumanMessage, AIMessage), pair, strict=True)
    ]
    return [*messages, HumanMessage(asked)]


def joined(prompt: str) -> str:
    """Return the last two questions of a conversation, as a way that needs no model."""
    before = re.findall(r"^(?:Human|user): (.*)$", prompt, re.MULTILINE)[-1]
    return f"{before} {last(prompt)}"


def last(prompt: str) -> str:
    """Return the last question of the prompt of `condense`."""
    return prompt.rpartition("Last question: ")[2].partition("\n")[0]


WAYS: dict[str, Condense | None] = {
    "without": None,
    "last two questions": joined,
    "rewritten by hand": lambda prompt: BY_HAND[last(prompt)],
}


class Remembered:
    """Bundled gate that drafts and decides once for each question, whichever router calls it."""

    draft_tokens = 0

    def __init__(self) -> None:
        self.gate = IKClassifier.embedded()
        self.threshold = self.gate.threshold
        self.known: dict[str, float] = {}

    def p_known(self, questions: Sequence[str], drafts: Sequence[str]) -> list[float]:
        """Return how likely each question is known, in [0, 1]."""
        new = [question for question in dict.fromkeys(questions) if question not in self.known]
        if new:
            assert self.gate.drafter is not None, "the embedded gate has one"
            written = [draft.text for draft in self.gate.drafter.draft(new)]
            self.known.update(zip(new, self.gate.p_known(new, written), strict=True))
        return [self.known[question] for question in questions]


def runnables(index: object, gate: Remembered, condense: Condense | None) -> dict[str, Component]:
    """Return what takes a conversation in LangChain."""
    base = lc.FaissRetriever(index=index, k=3)
    method = lc.MethodRunnable(method=FitRag(), retriever=base, condense=condense) | (
        lambda traced: {one.passage.title for one in traced.value.excerpts}
    )

    def graded(given: dict[str, Any]) -> set[str]:
        return {document.metadata["title"] for document in given["documents"]}

    knowledge = lc.KnowledgeRouter(
        gate=gate, known=lambda _: set(), unknown=method, condense=condense
    )
    corrective = lc.CorrectiveRouter(correct=graded, incorrect=graded, base=base, condense=condense)
    return {
        "`MethodRunnable(FitRag())`": method.batch,
        "`KnowledgeRouter`": knowledge.batch,
        "`CorrectiveRouter`": corrective.batch,
    }


class Rewriter(CustomLLM):
    """Language model of LlamaIndex that condenses with a function."""

    condense: Condense

    @property
    def metadata(self) -> LLMMetadata:
        """The model's limits: a context that holds all messages."""
        return LLMMetadata(model_name="rewriter", context_window=32_000)

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        """Return the rewritten question."""
        return CompletionResponse(text=self.condense(prompt))

    @llm_completion_callback()
    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        """Yield the rewritten question."""
        yield self.complete(prompt)


def engines(index: object, gate: Remembered, condense: Condense | None) -> dict[str, Component]:
    """Return the query engines of LlamaIndex, behind its chat engine where there is `condense`."""
    base = li.FaissRetriever(index, similarity_top_k=3)
    method = li.MethodQueryEngine(FitRag(), base, llm=MockLLM())
    plain = RetrieverQueryEngine.from_args(base, llm=MockLLM())
    alone = EmptyIndex().as_query_engine(response_mode="generation", llm=MockLLM())
    tools = [QueryEngineTool.from_defaults(one, description="") for one in (alone, method)]
    made = {
        "`MethodQueryEngine(FitRag())`": method,
        "`KnowledgeRouterQueryEngine`": li.KnowledgeRouterQueryEngine(
            gate, retrieve=method, llm=MockLLM()
        ),
        "`KnowledgeSelector`": RouterQueryEngine(li.KnowledgeSelector(gate), tools, llm=MockLLM()),
        "`CorrectiveRouterQueryEngine`": li.CorrectiveRouterQueryEngine(
            base, correct=plain, incorrect=plain
        ),
    }

    def titles(engine: Any, talk: list[BaseMessage]) -> set[str]:
        *earlier, question = [
            ChatMessage(
                content=one.text,
                role=MessageRole.USER if isinstance(one, HumanMessage) else MessageRole.ASSISTANT,
            )
            for one in talk
        ]
        if condense is None:
            found = engine.query(question.content)
        else:
            chat = CondenseQuestionChatEngine(
                engine,
                PromptTemplate(PROMPT.replace("{history}", "{chat_history}")),
                ChatMemoryBuffer.from_defaults(token_limit=32_000),
                Rewriter(condense=condense),
            )
            found = chat.chat(str(question.content), earlier)
        return {each.node.metadata["title"] for each in found.source_nodes}

    def over(engine: Any) -> Any:
        return lambda talks: [titles(engine, talk) for talk in talks]

    return {name: over(engine) for name, engine in made.items()}


def main() -> None:
    """Print the table."""
    passages, questions = read("passages"), [row for row in read("questions") if row["answerable"]]
    index = lc.FaissRetriever.from_texts(
        [one["text"] for one in passages], metadatas=[{"title": one["title"]} for one in passages]
    ).index
    talks = [
        conversation(at, asked, subject, questions)
        for at, (subject, asked, _) in enumerate(FOLLOWING)
    ]
    found: dict[str, list[str]] = {}
    gate = Remembered()
    for condense in WAYS.values():
        made = runnables(index, gate, condense) | engines(index, gate, condense)
        for name, component in made.items():
            pairs = zip(FOLLOWING, component(talks), strict=True)
            hits = sum(row[0] in titles for row, titles in pairs)
            found.setdefault(name, []).append(f"{hits} of {len(talks)}")
    print("| component |", " | ".join(WAYS), "|")
    print("| --- " * (1 + len(WAYS)) + "|")
    for name, shown in found.items():
        print(f"| {name} |", " | ".join(shown), "|")


if __name__ == "__main__":
    main()
