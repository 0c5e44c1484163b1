"""Load what a pair model is trained from: an encoder, and how rare its tokens are in the rows."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from fitrag_integrations.models.encoder.encoders import MAX_LENGTH, load_base, load_encoder
from fitrag_integrations.models.encoder.pairs import PairTokenizer
from fitrag_integrations.models.encoder.trunk import Trunk
from fitrag_integrations.models.evidence.lexical import inverse_document_frequency
from fitrag_integrations.models.runtime.folder import read_manifest


def start_encoder(base: str) -> tuple[Trunk, PairTokenizer, str]:
    """Load an encoder by name, or a model folder's, tuned; gives the base's name with it."""
    folder = Path(base)
    if (folder / "model.json").is_file():
        manifest = read_manifest(folder, "model.json", kind="reader", needs=("encoder", "base"))
        trunk, tokenizer = load_encoder(folder / manifest["encoder"], attention="eager")
        return trunk, tokenizer, manifest["base"]
    trunk, plain = load_base(base, attention="eager")  # the fastest backward on a CPU
    return trunk, PairTokenizer(plain, max_length=MAX_LENGTH), base


def rarity_of(texts: Iterable[str], tokenizer: PairTokenizer) -> list[float]:
    """Count how rare each token is, by the texts it stands in."""
    sets = tokenizer.vocabularies(sorted(set(texts)))
    return inverse_document_frequency(sets, tokenizer.vocabulary)
