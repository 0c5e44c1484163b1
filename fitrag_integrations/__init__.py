"""FIT-RAG, Corrective RAG and their relatives as drop-ins for LangChain and LlamaIndex.

Names load on first use: importing the package loads neither torch nor a framework.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fitrag_integrations.core.extras import lazy_names

if TYPE_CHECKING:
    from fitrag_integrations.errors import (
        ChecksumError,
        FitRagError,
        InputError,
        MissingExtraError,
        ModelLoadError,
        PortError,
        SearchError,
        ThresholdMismatchError,
        TrainingError,
    )
    from fitrag_integrations.flow import (
        Ask,
        Flow,
        Port,
        Step,
        Traced,
        arun,
        arun_many,
        run,
        run_many,
    )
    from fitrag_integrations.methods.plain import compress, rerank
    from fitrag_integrations.ports import Ports
    from fitrag_integrations.types import (
        Action,
        BiLabelScore,
        Context,
        Draft,
        Excerpt,
        Passage,
        RetrievalDecision,
    )

__version__ = "0.1.0"

_HOME = {
    "errors": (
        "ChecksumError FitRagError InputError MissingExtraError ModelLoadError PortError "
        "SearchError ThresholdMismatchError TrainingError"
    ),
    "flow": "Ask Flow Port Step Traced arun arun_many run run_many",
    "methods.plain": "compress rerank",
    "ports": "Ports",
    "types": "Action BiLabelScore Context Draft Excerpt Passage RetrievalDecision",
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names.split()}

__all__ = [
    "Action",
    "Ask",
    "BiLabelScore",
    "ChecksumError",
    "Context",
    "Draft",
    "Excerpt",
    "FitRagError",
    "Flow",
    "InputError",
    "MissingExtraError",
    "ModelLoadError",
    "Passage",
    "Port",
    "PortError",
    "Ports",
    "RetrievalDecision",
    "SearchError",
    "Step",
    "ThresholdMismatchError",
    "Traced",
    "TrainingError",
    "__version__",
    "arun",
    "arun_many",
    "compress",
    "rerank",
    "run",
    "run_many",
]

__getattr__, __dir__ = lazy_names(__name__, _MODULE_OF)
