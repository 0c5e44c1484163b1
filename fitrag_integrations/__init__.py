"""FIT-RAG, Corrective RAG and their relatives as drop-ins for LangChain and LlamaIndex.

Names load on first use: importing the package loads neither torch nor a framework.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fitrag_integrations.core.extras import lazy_names

if TYPE_CHECKING:
    from fitrag_integrations.errors import ChecksumError as ChecksumError
    from fitrag_integrations.errors import FitRagError as FitRagError
    from fitrag_integrations.errors import InputError as InputError
    from fitrag_integrations.errors import MissingExtraError as MissingExtraError
    from fitrag_integrations.errors import ModelLoadError as ModelLoadError
    from fitrag_integrations.errors import PortError as PortError
    from fitrag_integrations.errors import SearchError as SearchError
    from fitrag_integrations.errors import ThresholdMismatchError as ThresholdMismatchError
    from fitrag_integrations.errors import TrainingError as TrainingError
    from fitrag_integrations.flow import Ask as Ask
    from fitrag_integrations.flow import Flow as Flow
    from fitrag_integrations.flow import Port as Port
    from fitrag_integrations.flow import Step as Step
    from fitrag_integrations.flow import Traced as Traced
    from fitrag_integrations.flow import arun as arun
    from fitrag_integrations.flow import arun_many as arun_many
    from fitrag_integrations.flow import run as run
    from fitrag_integrations.flow import run_many as run_many
    from fitrag_integrations.methods.fitrag.functional import compress as compress
    from fitrag_integrations.methods.fitrag.functional import rerank as rerank
    from fitrag_integrations.ports import Ports as Ports
    from fitrag_integrations.types import Action as Action
    from fitrag_integrations.types import BiLabelScore as BiLabelScore
    from fitrag_integrations.types import Context as Context
    from fitrag_integrations.types import Draft as Draft
    from fitrag_integrations.types import Excerpt as Excerpt
    from fitrag_integrations.types import Passage as Passage
    from fitrag_integrations.types import RetrievalDecision as RetrievalDecision

__version__ = "0.1.0"

_names, __getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Action": "types",
        "Ask": "flow",
        "BiLabelScore": "types",
        "ChecksumError": "errors",
        "Context": "types",
        "Draft": "types",
        "Excerpt": "types",
        "FitRagError": "errors",
        "Flow": "flow",
        "InputError": "errors",
        "MissingExtraError": "errors",
        "ModelLoadError": "errors",
        "Passage": "types",
        "Port": "flow",
        "PortError": "errors",
        "Ports": "ports",
        "RetrievalDecision": "types",
        "SearchError": "errors",
        "Step": "flow",
        "ThresholdMismatchError": "errors",
        "Traced": "flow",
        "TrainingError": "errors",
        "arun": "flow",
        "arun_many": "flow",
        "compress": "methods.fitrag.functional",
        "rerank": "methods.fitrag.functional",
        "run": "flow",
        "run_many": "flow",
    },
)

__all__ = ["__version__", *_names]
