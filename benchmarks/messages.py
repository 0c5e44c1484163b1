"""Count the answers kept of messages that ask several things, as support mails and chats do.

    python benchmarks/messages.py [--budgets 60 120] [--best] [--show]

`messages.jsonl` has shelves of passages, and messages with an answer for each thing they ask. Every
message is compressed over its shelf with the bundled models. `--best` scores each of its sentences
that ask by itself and takes the best, in place of reading them joined. `--show` prints what is read
of each message, and which answers were left out.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from fitrag_integrations import compress
from fitrag_integrations.core.jsonl import read_jsonl
from fitrag_integrations.methods.defaults import default_model
from fitrag_integrations.methods.prompts import render_excerpts
from fitrag_integrations.text import question
from fitrag_integrations.text.sentences import split_sentences

ROWS = Path(__file__).with_name("messages.jsonl")


class Best:
    """The bundled scorer, asked with each sentence of a message: the best of all scores counts."""

    def __init__(self) -> None:
        self._scorer = default_model("scorer")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._scorer, name)

    def score(self, pairs: Any) -> Any:
        return [self._best([(part, p) for part in parts(q)], self._scorer.score) for q, p in pairs]

    def score_sentences(self, items: Any) -> Any:
        found = []
        for asked, passage, spans in items:
            each = self._scorer.score_sentences([(part, passage, spans) for part in parts(asked)])
            wholes, sentences = zip(*each, strict=True)
            best = [
                max(several, key=lambda one: one.relevance())
                for several in zip(*sentences, strict=True)
            ]
            found.append((max(wholes, key=lambda one: one.relevance()), best))
        return found

    async def ascore(self, pairs: Any) -> Any:
        return self.score(pairs)

    async def ascore_sentences(self, items: Any) -> Any:
        return self.score_sentences(items)

    @staticmethod
    def _best(pairs: Any, score: Any) -> Any:
        return max(score(pairs), key=lambda one: one.relevance())


def parts(message: str) -> list[str]:
    """Return the questions of a message, each with what it refers to; a short message whole."""
    read, found = question.asked_of(message), list[str]()
    for start, end in split_sentences(read):
        refers = found and question._points_back(read[start:end])
        found.append(f"{found[-1]} {read[start:end]}" if refers else read[start:end])
    return found


def main() -> None:
    """Print the answers kept for each budget."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--budgets", type=int, nargs="+", default=[60, 120])
    parser.add_argument("--best", action="store_true", help="the best of the sentences that ask")
    parser.add_argument("--show", action="store_true", help="what is read, and what is lost")
    args = parser.parse_args()
    own = {"scorer": Best(), "prior": 0.1} if args.best else {}
    for budget in args.budgets:
        kept = asked = whole = count = 0
        for shelf in read_jsonl(ROWS):
            for message in shelf["messages"]:
                found = compress(message["text"], shelf["passages"], max_tokens=budget, **own)
                shown = render_excerpts(found)
                lost = [one for one in message["answers"] if one not in shown]
                kept, asked = (
                    kept + len(message["answers"]) - len(lost),
                    asked + len(message["answers"]),
                )
                whole, count = whole + (not lost), count + 1
                if args.show:
                    print(f"{budget}: {question.asked_of(message['text'])!r} lost {lost}")
        print(f"{budget} tokens: {kept} of {asked} answers, {whole} of {count} messages with all")


if __name__ == "__main__":
    main()
