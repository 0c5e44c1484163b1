"""Draw the README's picture: passages in grey, what is kept marked, tokens before and after.

    python scripts/readme_picture.py docs/images/before-after.svg

The documents and the question are those of `fitrag demo`, the retriever and FIT-RAG run with their
defaults and a budget of 30 tokens.
"""

import argparse
from html import escape
from itertools import groupby
from pathlib import Path

from fitrag_integrations.flow import run
from fitrag_integrations.methods import FitRag
from fitrag_integrations.ports import Ports
from fitrag_integrations.retrieval import FaissIndex, IndexRetriever, read_corpus

EMBEDDED = Path(__file__).parent.parent / "fitrag_integrations" / "embedded"
DOCUMENTS = EMBEDDED / "handbook" / "documents"
QUESTION = "How long do the snapshots of a removed client stay?"
WIDE, SIZE, LINE = 108, 13, 19  # characters, and pixels
STEP = SIZE * 0.602  # a character of a monospaced face
STYLE = """
text { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; fill: #8b949e }
.kept { fill: #1f2328 } .mark { fill: #ffe58a } .told { fill: #1f2328; font-weight: bold }
.page { fill: #ffffff; stroke: #d0d7de }
@media (prefers-color-scheme: dark) {
  .page { fill: #0d1117; stroke: #30363d } .told { fill: #e6edf3 } text { fill: #6e7681 }
}
"""


def lines_of(text: str, kept: list[tuple[int, int]]) -> list[list[tuple[str, bool]]]:
    """Break a passage into lines of stretches, each told whether it is kept."""
    flags = [any(start <= at < end for start, end in kept) for at in range(len(text))]
    lines: list[list[tuple[str, bool]]] = []
    at = 0
    while at < len(text):
        end = len(text) if len(text) - at <= WIDE else text.rindex(" ", at, at + WIDE + 1)
        together = groupby(range(at, end), key=lambda place: flags[place])
        lines.append([("".join(text[i] for i in places), flag) for flag, places in together])
        at = end + 1
    return lines


def main() -> None:
    """Write the picture, and print its sentence."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--question", default=QUESTION)
    parser.add_argument("--passages", type=int, default=5)
    parser.add_argument("--max-tokens", type=int, default=30)
    given = parser.parse_args()
    index = FaissIndex()
    index.add(list(read_corpus(DOCUMENTS)))
    retriever = IndexRetriever(index, given.passages)
    ports = Ports(retrieve=retriever)
    context = run(
        FitRag(top_n=given.passages, max_tokens=given.max_tokens)(given.question, ports)
    ).value
    (found,) = retriever.retrieve([given.question])
    before, after = context.details["tokens_in"], context.details["tokens_out"]
    told = f"{before} -> {after} tokens"
    rows, y = [], 62
    for passage in found:
        kept_here = (e for e in context.excerpts if e.passage.id == passage.id)
        places = [span for excerpt in kept_here for span in excerpt.spans]
        for line in lines_of(passage.text.replace("\n", " "), places):
            x = 20.0
            for words, kept in line:
                if kept:
                    rows.append(
                        f'<rect class="mark" x="{x:.1f}" y="{y - 14}" height="18" '
                        f'width="{len(words) * STEP:.1f}"/>'
                    )
                rows.append(
                    f'<text class="{"kept" if kept else "left"}" x="{x:.1f}" y="{y}" '
                    f'textLength="{len(words) * STEP:.1f}" xml:space="preserve">'
                    f"{escape(words)}</text>"
                )
                x += len(words) * STEP
            y += LINE
        y += LINE // 2
    width = round(40 + WIDE * STEP)
    title = f'<text class="told" x="20" y="30">{escape(given.question)}</text>'
    end = f'<text class="told" x="{width - 20}" y="30" text-anchor="end">{escape(told)}</text>'
    body = "\n".join(rows)
    given.out.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {y}" role="img" '
        f'aria-label="{escape(given.question)} {escape(told)}">\n<style>{STYLE}</style>\n'
        f'<rect class="page" width="{width - 1}" height="{y - 1}" x=".5" y=".5" rx="8"/>\n'
        f"{title}{end}\n{body}\n</svg>\n",
        encoding="utf-8",
    )
    print(f"{given.question} {told}, of {len(found)} passages")


if __name__ == "__main__":
    main()
