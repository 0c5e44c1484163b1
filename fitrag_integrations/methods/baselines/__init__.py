"""What the papers compare with, each a method on the same flow engine; names load on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fitrag_integrations.core.extras import lazy_names

if TYPE_CHECKING:
    from fitrag_integrations.methods.baselines._continuing import Continuer as Continuer
    from fitrag_integrations.methods.baselines._reflections import Reflection as Reflection
    from fitrag_integrations.methods.baselines._reflections import Reflector as Reflector
    from fitrag_integrations.methods.baselines.cot import CoT as CoT
    from fitrag_integrations.methods.baselines.direct import Direct as Direct
    from fitrag_integrations.methods.baselines.flare import Flare as Flare
    from fitrag_integrations.methods.baselines.gated import Gated as Gated
    from fitrag_integrations.methods.baselines.genread import GenRead as GenRead
    from fitrag_integrations.methods.baselines.iter_retgen import IterRetgen as IterRetgen
    from fitrag_integrations.methods.baselines.refeed import Refeed as Refeed
    from fitrag_integrations.methods.baselines.replug import Replug as Replug
    from fitrag_integrations.methods.baselines.self_ask import SelfAsk as SelfAsk
    from fitrag_integrations.methods.baselines.self_eval import SelfEval as SelfEval
    from fitrag_integrations.methods.baselines.self_rag import SelfRag as SelfRag
    from fitrag_integrations.methods.baselines.skr_knn import SkrKnn as SkrKnn
    from fitrag_integrations.methods.baselines.targ import Targ as Targ
    from fitrag_integrations.methods.baselines.vanilla import Vanilla as Vanilla
    from fitrag_integrations.values.decision import Continuation as Continuation

_MODULE_OF = {
    "CoT": "cot",
    "Continuation": "_continuing",
    "Continuer": "_continuing",
    "Direct": "direct",
    "Flare": "flare",
    "GenRead": "genread",
    "Gated": "gated",
    "IterRetgen": "iter_retgen",
    "Refeed": "refeed",
    "Reflection": "_reflections",
    "Reflector": "_reflections",
    "Replug": "replug",
    "SelfAsk": "self_ask",
    "SelfEval": "self_eval",
    "SelfRag": "self_rag",
    "SkrKnn": "skr_knn",
    "Targ": "targ",
    "Vanilla": "vanilla",
}

__all__ = list(_MODULE_OF)

__getattr__, __dir__ = lazy_names(__name__, _MODULE_OF)
