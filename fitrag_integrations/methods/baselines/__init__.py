"""Baselines of the papers, each a method; names load on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fitrag_integrations.core.extras import lazy_names

if TYPE_CHECKING:
    from fitrag_integrations.methods.baselines.closed_book import CoT as CoT
    from fitrag_integrations.methods.baselines.closed_book import GenRead as GenRead
    from fitrag_integrations.methods.baselines.closed_book import Vanilla as Vanilla
    from fitrag_integrations.methods.baselines.flare import Continuer as Continuer
    from fitrag_integrations.methods.baselines.flare import Flare as Flare
    from fitrag_integrations.methods.baselines.gated import Gated as Gated
    from fitrag_integrations.methods.baselines.gated import SelfEval as SelfEval
    from fitrag_integrations.methods.baselines.gated import SkrKnn as SkrKnn
    from fitrag_integrations.methods.baselines.gated import Targ as Targ
    from fitrag_integrations.methods.baselines.iter_retgen import IterRetgen as IterRetgen
    from fitrag_integrations.methods.baselines.refeed import Refeed as Refeed
    from fitrag_integrations.methods.baselines.replug import Replug as Replug
    from fitrag_integrations.methods.baselines.self_ask import SelfAsk as SelfAsk
    from fitrag_integrations.methods.baselines.self_rag import Reflection as Reflection
    from fitrag_integrations.methods.baselines.self_rag import Reflector as Reflector
    from fitrag_integrations.methods.baselines.self_rag import SelfRag as SelfRag
    from fitrag_integrations.methods.direct import Direct as Direct
    from fitrag_integrations.values.decision import Continuation as Continuation

MODULE_OF = {
    "CoT": "closed_book",
    "Flare": "flare",
    "Gated": "gated",
    "GenRead": "closed_book",
    "IterRetgen": "iter_retgen",
    "Refeed": "refeed",
    "Replug": "replug",
    "SelfAsk": "self_ask",
    "SelfEval": "gated",
    "SelfRag": "self_rag",
    "SkrKnn": "gated",
    "Targ": "gated",
    "Vanilla": "closed_book",
}
"""The module of each method; `--method` takes their names in lower case."""

__all__, __getattr__, __dir__ = lazy_names(
    __name__,
    {
        **MODULE_OF,
        "Continuation": "flare",
        "Continuer": "flare",
        "Direct": ".direct",
        "Reflection": "self_rag",
        "Reflector": "self_rag",
    },
)
