"""The student: one encoder pass that gives every decision, clues and all inside the graph.

Out of the token states come four logits of the pair (`LABELS`) and three of each token (`TOKENS`).
`start` and `end` mark the answer against 0, the score of there being none (Rajpurkar et al., 2018,
mark the first token for that); `keep` says whether a token's sentence is worth keeping. Overlap of
question, title and text is counted inside the graph, from the token ids, as
`fitrag_integrations.models.clues` counts it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fitrag_integrations.models.encoder.encoders import load_encoder
from fitrag_integrations.models.encoder.lexical import AVERAGE_LENGTH, K1, WINDOW, B
from fitrag_integrations.models.encoder.pairs import EncodedPair, PairTokenizer
from fitrag_integrations.models.runtime.engine import multiplies_bfloat16
from fitrag_integrations.models.runtime.folder import read_manifest, read_tensors

LABELS = ("has_answer", "llm_prefer", "grade", "answered")
TOKENS = ("start", "end", "keep")
ANSWER_TOKENS = 24
FURTHEST, SPAN_SCALE = 20.0, 0.2
CLUES = 9
SEPARATOR = 102
LEVELS = 63  # of a layer's weight on each side of zero, where it ships as whole numbers
PACKAGE = Path(__file__).resolve().parents[2] / "fitrag_integrations" / "embedded"
SHIPPED = Path("shipped")
HALVES = multiplies_bfloat16(torch.device("cpu"))
"""Whether the processor multiplies bfloat16; emulated, it takes four times as long."""
ATTENTION = "eager" if HALVES else "sdpa"  # the fused one is slower in bfloat16


def halved(device: str = "cpu") -> torch.autocast:
    """Compute in bfloat16 where that is faster."""
    return torch.autocast(device, torch.bfloat16, enabled=HALVES or device != "cpu")


def rounded(encoder: nn.Module) -> nn.Module:
    """Let products of the layers be rounded as the bundled engine rounds them.

    Weights have seven bits with a scale for each output, activations eight bits with a scale for
    each token (`models/bundled.py`); gradients pass straight through (Bengio et al., 2013).
    """

    def near(x: Tensor, levels: int, lowest: int) -> Tensor:
        step = x.detach().abs().amax(-1, keepdim=True).clamp(min=1e-9) / levels
        return x + ((x / step).round().clamp(min=lowest) * step - x).detach()

    def product(layer: nn.Linear) -> Callable[[Tensor], Tensor]:
        wide = layer.in_features > layer.out_features  # behind GELU few numbers are below zero
        zero = 32 if wide else 128
        return lambda x: F.linear(
            near(x, 255 - zero, -zero), near(layer.weight, LEVELS, -LEVELS), layer.bias
        )

    for name, layer in encoder.named_modules():
        if isinstance(layer, nn.Linear) and "layer." in name:
            layer.forward = product(layer)  # type: ignore[method-assign,assignment]
    return encoder


class Clues(nn.Module):
    """Count overlap from the ids: the five numbers of `lexical`, the four about the title."""

    rarity: Tensor

    def __init__(self, rarity: Tensor, bracket: int) -> None:
        super().__init__()
        self.register_buffer("rarity", rarity)
        self.bracket = bracket

    def forward(self, ids: Tensor, mask: Tensor, types: Tensor, text: Tensor) -> Tensor:
        """Give the clues. Shapes: (batch, tokens) each; gives (batch, 9)."""
        inside = mask.bool() & (ids != SEPARATOR)
        passage = inside & (types == 1)
        place = torch.arange(ids.shape[1], device=ids.device)
        before = place.unsqueeze(0) < place.unsqueeze(1)
        equal = ids.unsqueeze(2) == ids.unsqueeze(1)
        asked = inside & (types == 0) & (place > 0)
        once = asked & ~(equal & asked.unsqueeze(1) & before).any(2)
        weights = self.rarity[ids] * once
        whole = weights.sum(1)
        scale = torch.where(whole > 0, whole, torch.ones_like(whole))
        hits = (equal & once.unsqueeze(2) & passage.unsqueeze(1)).float()
        counts = hits.sum(2)
        found = (counts > 0).float()
        length = passage.sum(1).float()
        damp = K1 * (1 - B + B * length / AVERAGE_LENGTH)
        lexical = [
            (weights * found).sum(1) / scale,
            found.sum(1) / once.sum(1).clamp(min=1),
            self._stretch(hits, weights) / scale,
            (weights * counts / (counts + damp.unsqueeze(1))).sum(1) / scale,
            torch.log1p(length) / 5,
        ]
        title = self._title(ids, passage, text.bool())
        own = self.rarity[ids] * (title & ~(equal & title.unsqueeze(1) & before).any(2))
        both = (equal & title.unsqueeze(2) & asked.unsqueeze(1)).float()
        return torch.stack([*lexical, *self._named(both, title, own, weights, whole)], dim=1)

    def _stretch(self, hits: Tensor, weights: Tensor) -> Tensor:
        """Give the most that 41 tokens in a row hold of the question."""
        total = hits.cumsum(2)
        gone = F.pad(total, (WINDOW, 0))[:, :, : hits.shape[2]]
        held = ((total - gone) > 0.5).float()
        return (held * weights.unsqueeze(2)).sum(1).amax(1)

    def _title(self, ids: Tensor, passage: Tensor, text: Tensor) -> Tensor:
        """Mark the title up to its bracket, or without the full stop that ends it."""
        title = passage & (text.cumsum(1) == 0)
        place = title.cumsum(1)
        bracket = title & (ids == self.bracket) & (place > 1)
        until = (bracket.cumsum(1) == 0) & (
            bracket.any(1, keepdim=True) | (place < title.sum(1, keepdim=True))
        )
        return title & until

    def _named(
        self, both: Tensor, title: Tensor, own: Tensor, weights: Tensor, whole: Tensor
    ) -> list[Tensor]:
        """Compare title and question; `both` has which tokens of the one are which of the other.

        A title that the question holds word for word is a diagonal of `both` as long as itself.
        """
        size = title.sum(1)
        there = (size > 0).float()
        shared = (weights * (both.sum(1) > 0)).sum(1)
        tokens = both.shape[1]
        skewed = F.pad(both.flip(1), (0, tokens)).flatten(1)[:, : tokens * (2 * tokens - 1)]
        runs = skewed.reshape(-1, tokens, 2 * tokens - 1).sum(1)
        holds = (runs > size.unsqueeze(1) - 0.5).any(1).float()
        return [
            there,
            there * holds,
            there * shared / own.sum(1).clamp(min=1e-6),
            there * shared / whole.clamp(min=1e-6),
        ]


class Student(nn.Module):
    """The encoder under all heads."""

    def __init__(self, encoder: Any, clues: Clues, *, units: int = 32) -> None:
        super().__init__()
        self.encoder, self.clues = encoder, clues
        width = encoder.config.hidden_size
        self.tokens = nn.Linear(width, len(TOKENS))
        self.labels = nn.Linear(width, len(LABELS))
        self.units = nn.Linear(CLUES + 1, units)
        self.mixed = nn.Linear(units, len(LABELS), bias=False)

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor, text_mask: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Give the pairs' logits and the tokens'. Shapes: (batch, tokens) each; gives (batch, 4)
        and (batch, tokens, 3).
        """
        states = self.encoder(
            input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids
        ).last_hidden_state.float()
        return self.heads(states, input_ids, attention_mask, token_type_ids, text_mask)

    def heads(
        self, states: Tensor, ids: Tensor, mask: Tensor, types: Tensor, text_mask: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Give what `forward` gives, from the encoder's states: (batch, tokens, width)."""
        clues = self.clues(ids, mask, types, text_mask)
        tokens = self.tokens(states)
        best = best_span(tokens, text_mask).clamp(-FURTHEST, FURTHEST) * SPAN_SCALE
        units = torch.tanh(self.units(torch.cat([clues, best.unsqueeze(1)], dim=1)))
        return self.labels(states[:, 0]) + self.mixed(units), tokens


def best_span(tokens: Tensor, text: Tensor) -> Tensor:
    """Give start and end of the best span of at most 24 tokens of the text, summed. (batch,)."""
    out = (1.0 - text.to(tokens.dtype)) * -1e4
    start, end = tokens[..., 0] + out, tokens[..., 1] + out
    padded = F.pad(end, (0, ANSWER_TOKENS - 1), value=-1e4).unsqueeze(1).unsqueeze(1)
    reach = F.max_pool2d(padded, (1, ANSWER_TOKENS), 1)  # the 1d one exports no dynamic length
    return (start + reach.squeeze(1).squeeze(1)).amax(1)


def fresh_student(
    encoder: Path, rarity: Tensor, *, attention: str = "sdpa"
) -> tuple[Student, PairTokenizer]:
    """Build a student over an encoder folder; nothing is ever left out of what it reads."""
    trunk, tokenizer = load_encoder(encoder, attention=attention)
    bracket = next(iter(next(tokenizer.vocabularies(["("]))))
    made = Student(trunk.encoder, Clues(rarity.float(), bracket))
    for part in made.encoder.modules():
        if isinstance(part, nn.Dropout):
            part.p = 0.0
    return made, tokenizer


def shipped_student(*, attention: str = "sdpa") -> tuple[Student, PairTokenizer]:
    """Build the student that ships from its parts; their labels are calibrated already.

    The reader's line over its answer's score is left out of `answered`: `fit.py` fits it anew.
    """
    parts = {
        name: {
            key.removeprefix("head."): tensor.float()
            for key, tensor in read_tensors(
                PACKAGE / name, read_manifest(PACKAGE / name, "model.json", kind=name)["head"]
            ).items()
        }
        for name in ("bilabel", "evaluator", "reader", "onepass")
    }
    both, grader, reader = parts["bilabel"], parts["evaluator"], parts["reader"]
    made, tokenizer = fresh_student(PACKAGE / "trunk", both["rarity"], attention=attention)
    with torch.no_grad():
        made.tokens.weight.copy_(parts["onepass"]["answers.weight"])
        made.tokens.bias.copy_(parts["onepass"]["answers.bias"])
        rows = [both["out.weight"], grader["out.weight"], reader["select.weight"]]
        made.labels.weight.copy_(torch.cat(rows))
        rows = [both["out.bias"], grader["out.bias"] + grader["mixed.bias"], reader["select.bias"]]
        made.labels.bias.copy_(torch.cat(rows))
        made.units.weight.copy_(both["units.weight"])
        made.units.weight[:, -1] /= SPAN_SCALE
        made.units.bias.copy_(both["units.bias"])
        rows = [both["mixed.weight"], grader["mixed.weight"], reader["mixed.weight"]]
        made.mixed.weight.copy_(torch.cat(rows))
    return made, tokenizer


def batched(pairs: Sequence[EncodedPair]) -> dict[str, Tensor]:
    """Pad encoded pairs into the graph's inputs."""
    width = max(map(len, pairs))
    rows = {
        "input_ids": [p.tokens[0].tolist() for p in pairs],
        "attention_mask": [[1] * len(p) for p in pairs],
        "token_type_ids": [p.tokens[1].tolist() for p in pairs],
        "text_mask": [[int(o is not None) for o in p.offsets] for p in pairs],
    }
    return {k: torch.tensor([r + [0] * (width - len(r)) for r in v]) for k, v in rows.items()}


def save(model: Student, folder: Path, told: dict[str, Any]) -> None:
    """Save all weights in half precision, and what is told of them."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    tensors = {
        n: t.to(torch.float16).contiguous()
        for n, t in model.state_dict().items()
        if t.is_floating_point()
    }
    save_file(tensors, folder / "student.safetensors")
    (folder / "student.json").write_text(json.dumps(told, indent=1))


def keep(run: Path, folder: Path, part: float, *, heads: bool = False) -> None:
    """Save a student that has come a part of the way from the start to a run's end."""
    told = json.loads((run / "student.json").read_text())
    save(kept(run, part, heads=heads)[0], folder, {**told, "kept": part})


def kept(
    run: Path, part: float, *, heads: bool = False, attention: str = "sdpa"
) -> tuple[Student, PairTokenizer]:
    """Load a run, its encoder a part of the way from the start's to the run's end.

    With `heads` so are its heads, for a start that was trained with these heads.
    """
    (start, _), (done, tokenizer) = shipped_student(), load(run, attention=attention)
    both = (start, done) if heads else (start.encoder, done.encoder)
    with torch.no_grad():
        for one, other in zip(*(model.parameters() for model in both), strict=True):
            other.lerp_(one, 1 - part)
    return done, tokenizer


def averaged(run: Path, other: Path, folder: Path) -> Path:
    """Save the mean of two runs' weights (Wortsman et al., 2022); gives the folder."""
    (one, _), (two, _) = load(run), load(other)
    with torch.no_grad():
        for mine, theirs in zip(one.parameters(), two.parameters(), strict=True):
            mine.lerp_(theirs, 0.5)
    save(one, folder, json.loads((run / "student.json").read_text()))
    return folder


def load(folder: Path, *, attention: str = "sdpa") -> tuple[Student, PairTokenizer]:
    """Load what `save` saved; "shipped" is the student that ships."""
    from safetensors.torch import load_file

    if folder == SHIPPED:
        model, tokenizer = shipped_student(attention=attention)
        return model.eval(), tokenizer
    found = {n: t.float() for n, t in load_file(folder / "student.safetensors").items()}
    rarity = found["clues.rarity"]
    model, tokenizer = fresh_student(PACKAGE / "trunk", rarity, attention=attention)
    model.load_state_dict(found)
    return model.eval(), tokenizer


def shipped_lines() -> dict[str, Any]:
    """Return what was fitted of the student that ships; its labels are calibrated already."""
    head = read_tensors(
        PACKAGE / "onepass",
        read_manifest(PACKAGE / "onepass", "model.json", kind="onepass")["head"],
    )
    reader = read_tensors(
        PACKAGE / "reader", read_manifest(PACKAGE / "reader", "model.json", kind="reader")["head"]
    )
    cuts = read_manifest(PACKAGE / "evaluator", "model.json", kind="evaluator")["thresholds"]
    return {
        "best_grade": {name: cuts[name] for name in ("upper", "lower")},
        "labels": {name: [1.0, 0.0] for name in LABELS},
        "answered": [0.0, 0.0, 0.0, 1.0, 2 * float(reader["line.weight"][0, -1]), 0.0],
        "sentence": [*head["line.weight"][0].tolist(), float(head["line.bias"][0])],
    }


def load_shared(folder: Path, fresh: Student) -> Student:
    """Fill a student with the weights that an exported graph shares."""
    from safetensors.torch import load_file

    found = load_file(folder / "weights.safetensors")
    words = "encoder.embeddings.word_embeddings."
    table, scale = found.pop(f"{words}table"), found.pop(f"{words}scale")
    tensors = {f"{words}weight": table.float() * scale.float()}
    tensors |= {
        n.removesuffix(".T"): t.float().T if n.endswith(".T") else t.float()
        for n, t in found.items()
    }
    fresh.load_state_dict(tensors)
    return fresh.eval()
