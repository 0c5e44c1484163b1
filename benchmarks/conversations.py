"""Measure what routers retrieve for the last question of a conversation, with and without condense.

    python benchmarks/conversations.py

Each of 40 follow-up questions, written for this benchmark, ends a conversation of a hundred
messages about other passages of the demo; only the turn before it names its subject. Ways to make
one question of it: none, the last two questions joined, and a rewriting by hand, which stands for a
capable model. Printed is how often the follow-up's passage is handed on, as Markdown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from importlib import resources
from typing import Any

from langchain_core.documents import Document
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from fitrag_integrations.langchain import (
    CorrectiveRouter,
    FaissRetriever,
    MethodRunnable,
)
from fitrag_integrations.methods import FitRag

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
    before = re.findall(r"^Human: (.*)$", prompt, re.MULTILINE)[-1]
    return f"{before} {last(prompt)}"


def last(prompt: str) -> str:
    """Return the last question of the prompt of `condense`."""
    return prompt.rpartition("Last question: ")[2].partition("\n")[0]


WAYS: dict[str, Callable[[str], str] | None] = {
    "without": None,
    "last two questions": joined,
    "rewritten by hand": lambda prompt: BY_HAND[last(prompt)],
}


def components(base: Any, condense: Callable[[str], str] | None) -> dict[str, Any]:
    """Return each component, which gives the titles of what it hands on."""
    method = MethodRunnable(method=FitRag(), retriever=base, condense=condense)

    def titles(given: dict[str, list[Document]]) -> set[str]:
        return {document.metadata["title"] for document in given["documents"]}

    return {
        "`MethodRunnable(FitRag())`": method
        | (lambda traced: {one.passage.title for one in traced.value.excerpts}),
        "`CorrectiveRouter`": CorrectiveRouter(
            correct=titles, incorrect=titles, base=base, condense=condense
        ),
    }


def main() -> None:
    """Print the table."""
    passages, questions = read("passages"), [row for row in read("questions") if row["answerable"]]
    base = FaissRetriever.from_texts(
        [one["text"] for one in passages],
        metadatas=[{"title": one["title"]} for one in passages],
        k=3,
    )
    talks = [
        conversation(at, asked, subject, questions)
        for at, (subject, asked, _) in enumerate(FOLLOWING)
    ]
    found: dict[str, dict[str, int]] = {}
    for way, condense in WAYS.items():
        for name, component in components(base, condense).items():
            handed = component.batch(talks)
            hits = sum(row[0] in titles for row, titles in zip(FOLLOWING, handed, strict=True))
            found.setdefault(name, {})[way] = hits
    print("| component |", " | ".join(WAYS), "|")
    print("| --- " * (1 + len(WAYS)) + "|")
    for name, by_way in found.items():
        print(f"| {name} |", " | ".join(f"{by_way[way]} of {len(talks)}" for way in WAYS), "|")


if __name__ == "__main__":
    main()
