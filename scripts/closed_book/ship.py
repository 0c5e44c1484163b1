"""Put the closed-book world and a trained model into the package.

    python -m scripts.closed_book.ship [RUN]

Without RUN only the passages, the questions and the counts are written.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file

from scripts.closed_book.demo_facts import EMBEDDED, demo_facts, write_rows
from scripts.closed_book.showings import END, PROMPT
from scripts.closed_book.wording import passage, questions
from scripts.closed_book.world import World, make_world

HOME = EMBEDDED / "closed_book"
FILES = ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json")
WEIGHTS = "model.safetensors"


def main() -> None:
    """Write what the seed gives, then copy the model in half precision."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path, nargs="?")
    parser.add_argument("--seed", type=int, default=13)
    args = parser.parse_args()
    HOME.mkdir(exist_ok=True)
    write_texts(HOME, make_world(args.seed), args.seed)
    if args.run is not None:
        write_model(args.run / "model", HOME)


def write_texts(home: Path, world: World, seed: int) -> None:
    """Write passages, questions, and how often the model was shown each question of the demo."""
    write_rows(home / "passages.jsonl", passage_rows(world, seed))
    write_rows(home / "questions.jsonl", question_rows(world, seed))
    shown = ({"id": fact.id, "shown": fact.shown} for fact in demo_facts())
    write_rows(home / "demo_shown.jsonl", shown)


def passage_rows(world: World, seed: int) -> list[dict[str, Any]]:
    """Give one passage per entity, under its name."""
    chance = random.Random(seed)
    told = {e.id: [f for f in world.facts if f.entity is e] for e in world.entities}
    return [
        {"id": e.id, "title": e.name, "text": passage(e, told[e.id], world, chance)}
        for e in world.entities
    ]


def question_rows(world: World, seed: int) -> list[dict[str, Any]]:
    """Give one question per fact, in one of its wordings."""
    chance = random.Random(seed)
    return [
        {
            "id": fact.id,
            "question": chance.choice(questions(fact)),
            "answers": [fact.value],
            "passage": fact.entity.id,
            "relation": f"{fact.entity.kind}.{fact.relation}",
            "shown": fact.shown,
            "split": fact.split,
        }
        for fact in world.facts
    ]


def write_model(source: Path, home: Path) -> None:
    """Copy a model, its weights in half precision, and write its manifest."""
    weights = {name: value.half() for name, value in load_file(source / WEIGHTS).items()}
    save_file(weights, home / WEIGHTS, metadata={"format": "pt"})
    for name in FILES:
        text = (source / name).read_text(encoding="utf-8")
        (home / name).write_text(text.replace('"float32"', '"float16"'), encoding="utf-8")
    manifest = {
        "format": 1,
        "kind": "generator",
        "name": "fitrag-closed-book",
        "prompt": PROMPT,
        "stop": [END],
        "max_new_tokens": 32,
        "files": {name: _digest(home / name) for name in (WEIGHTS, *FILES)},
    }
    (home / "model.json").write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    main()
