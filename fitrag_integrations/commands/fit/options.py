"""Options that `fitrag try` and `fitrag fit` share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from fitrag_integrations.commands.engine import options
from fitrag_integrations.commands.engine.options import EncoderHardware
from fitrag_integrations.commands.label.options import Server
from fitrag_integrations.core.option import Argument
from fitrag_integrations.defaults import DEFAULTS


@dataclass(frozen=True)
class OwnFiles:
    """Options of `fitrag try` and `fitrag fit`: your files, and how they are searched."""

    corpus: options.Corpus
    questions: Annotated[
        Path | None,
        Argument(
            "JSON Lines with question and answers, or a text file with one question per line. "
            "By default, questions are written from the corpus."
        ),
    ] = None
    k: options.Retrieved = DEFAULTS.k
    server: Server = Server()
    price_in: options.PriceIn = None
    hardware: EncoderHardware = EncoderHardware()
    quiet: options.Quiet = False
    json: options.AsJson = False
