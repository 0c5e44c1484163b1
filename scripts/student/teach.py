"""Store what the teachers say of lists: the student that ships, and the cosines of its base.

    python scripts/student/teach.py LISTS.jsonl... [--shard 50]

LISTS is what `lists.py` wrote. Beside it, LISTS.taught/N.safetensors has for each `--shard` lists
in a row, in the order of their passages: `labels`, the four logits of what ships; `cosine` of the
untouched `all-MiniLM-L6-v2`, question with "title. text"; and of each token (`tokens`) the logits
of start, end and keep of what ships and the cosine of its sentence, whose vector is the mean over
its tokens in one pass over the passage. What is there is not computed again.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

sys.path.insert(0, str(Path(__file__).resolve().parent))
from model import batched, shipped_student  # noqa: E402

from fitrag_integrations.models.bundled import Engine, Graph  # noqa: E402
from fitrag_integrations.models.encoder.pairs import Batch, EncodedPair, PairTokenizer  # noqa: E402
from fitrag_integrations.models.runtime.batching import token_batches  # noqa: E402
from fitrag_integrations.text.sentences import split_sentences  # noqa: E402
from fitrag_integrations.training.rows import read_jsonl  # noqa: E402
from fitrag_integrations.types import Passage  # noqa: E402

BUDGET = 4096  # padded tokens of one pass
CLS, SEP = 101, 102
Item = dict[str, Any]


def main() -> None:
    """Compute every shard that is missing, in an order by chance."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("lists", type=Path, nargs="+")
    parser.add_argument("--shard", type=int, default=50)
    args = parser.parse_args()
    torch.set_num_threads(1)
    shards = []
    for path in args.lists:
        items, folder = [*read_jsonl(path)], path.with_suffix(".taught")
        folder.mkdir(exist_ok=True)
        (folder / "shards.json").write_text(json.dumps({"size": args.shard}))
        for number, first in enumerate(range(0, len(items), args.shard)):
            file = folder / f"{number}.safetensors"
            shards.append((file, items[first : first + args.shard]))
    random.Random(1).shuffle(shards)
    teacher = Teacher()
    for done, (file, some) in enumerate(shards, 1):
        if not file.exists():
            save_file(teacher.of(some), file.with_suffix(".new"))
            file.with_suffix(".new").replace(file)
            print(done, "of", len(shards), flush=True)


def encoded(items: Sequence[Item], tokenizer: PairTokenizer) -> list[EncodedPair]:
    """Encode every pair of some items."""
    return tokenizer.encode_cut(
        [
            (item["question"], Passage("", p["text"], p["title"]))
            for item in items
            for p in item["passages"]
        ]
    )


class Eight(nn.Module):
    """An encoder by the package's graph of whole numbers, several times as fast as by torch."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.graph = graph

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> Any:
        """Return the states, as an encoder of transformers does."""
        tokens = np.full((5, *input_ids.shape), -1, np.int32)
        tokens[0], tokens[1] = input_ids, token_type_ids
        (found,) = self.graph.run(("states",), Batch((), tokens, attention_mask.sum(1).numpy()))
        return SimpleNamespace(last_hidden_state=torch.from_numpy(found))


class Teacher:
    """The student that ships, by what runs it, and the base it was made from, rounded alike."""

    def __init__(self) -> None:
        self.model, self.tokenizer = shipped_student()
        engine = Engine("int8")
        self.model.encoder, self.base = (Eight(engine.over(name)[0]) for name in ("trunk", "base"))

    @torch.inference_mode()
    def of(self, items: Sequence[Item]) -> dict[str, Tensor]:
        """Return the tensors of some lists."""
        pairs = encoded(items, self.tokenizer)
        labels, tokens = torch.zeros(len(pairs), 4), [torch.empty(0)] * len(pairs)
        for some in token_batches([*map(len, pairs)], budget=BUDGET):
            found, marks = self.model(**batched([pairs[i] for i in some]))
            labels[list(some)] = found
            for row, i in enumerate(some):
                tokens[i] = marks[row, : len(pairs[i])]
        sides = [[side(pair, segment) for pair in pairs] for segment in (1, 2)]
        states = self.states([*sides[0], *sides[1]])
        texts = [p["text"] for item in items for p in item["passages"]]
        cosine = torch.zeros(len(pairs))
        for i, pair in enumerate(pairs):
            asked = F.normalize(states[sides[0][i]].mean(0), dim=0)
            own = states[sides[1][i]]
            cosine[i] = F.normalize(own.mean(0), dim=0) @ asked
            near = torch.zeros(len(pair))
            inner = np.flatnonzero(pair.tokens[2] == 2).tolist()
            places = {k: at for at, k in enumerate(inner, 1)}  # behind [CLS]
            for inside in sentences(pair, texts[i]):
                rows = own[[places[k] for k in inside]]
                near[inside] = F.normalize(rows.mean(0), dim=0) @ asked
            tokens[i] = torch.cat([tokens[i], near.unsqueeze(1)], dim=1)
        return {
            "lengths": torch.tensor([*map(len, pairs)]),
            "labels": labels.half(),
            "cosine": cosine.half(),
            "tokens": torch.cat(tokens).half(),
        }

    def states(self, texts: Sequence[tuple[int, ...]]) -> dict[tuple[int, ...], Tensor]:
        """Return the base's states of each text, given as its tokens."""
        every, made = [*dict.fromkeys(texts)], {}
        for some in token_batches([*map(len, every)], budget=BUDGET):
            ids = pad_sequence([torch.tensor(every[i]) for i in some], batch_first=True)
            mask = (ids > 0).long()
            found = self.base(ids, mask, torch.zeros_like(ids)).last_hidden_state
            for row, i in enumerate(some):
                made[every[i]] = found[row, : len(every[i])]
        return made


def side(pair: EncodedPair, segment: int) -> tuple[int, ...]:
    """Return the tokens of the question or the passage of a pair, as a text of its own."""
    both = zip(pair.ids, pair.segments, strict=True)
    return (CLS, *(i for i, own in both if own == segment), SEP)


def sentences(pair: EncodedPair, text: str) -> Iterator[list[int]]:
    """Yield the tokens of each sentence of a pair's passage."""
    spans, at = split_sentences(text), 0
    found: list[list[int]] = [[] for _ in spans]
    for k, place in enumerate(pair.offsets):
        if place is not None:
            while at + 1 < len(spans) and place[0] >= spans[at][1]:
                at += 1
            if found:
                found[at].append(k)
    yield from filter(None, found)


if __name__ == "__main__":
    main()
