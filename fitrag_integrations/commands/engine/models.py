"""Load what a verb needs, when it runs: the one place in which commands meet the models."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, cast

from fitrag_integrations import models as library
from fitrag_integrations import retrieval
from fitrag_integrations.commands.engine.batch import Verb
from fitrag_integrations.commands.engine.options import (
    Hardware,
    ModelOptions,
    Searching,
    Server,
)
from fitrag_integrations.commands.engine.rows import question_of, rows_as
from fitrag_integrations.core import jsonl
from fitrag_integrations.core.extras import (
    SEARCH,
    installed,
    require_extra,
    require_extras,
    torch_needed,
)
from fitrag_integrations.core.files import read_file
from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import (
    InputError,
    MissingExtraError,
    ModelLoadError,
    refuse_if,
)
from fitrag_integrations.flow import Flow
from fitrag_integrations.methods import defaults
from fitrag_integrations.methods.ik.gates import own_gate
from fitrag_integrations.ports import Evaluator, Gate, Ports, Reader, Retriever, Scorer, port_of
from fitrag_integrations.training.rows import passage_row
from fitrag_integrations.types import Passage

WEB_RESULTS = 5  # of a query, as CRAG's search gives
GATE_KINDS = {"ik": "IKClassifier", "necessity": "NecessityJudge"}
"""The class of a gate by the kind in its `model.json`."""


def load_scorer(options: ModelOptions) -> Scorer:
    """Load the bi-label scorer, or a published reranker; the bundled one also scores sentences."""
    if options.model is not None and options == ModelOptions(options.model):
        given = manifest_of(Path(options.model))
        if (given.get("kind"), given.get("source")) == ("calibrated", "embedded"):
            return cast(Scorer, defaults.kind_of("scorer").from_pretrained(options.model))
    if options.model is not None and installed("torch"):
        from fitrag_integrations.models.runtime.sources import model_folder

        folder = model_folder(options.model)
        if (folder / "config.json").is_file() and not (folder / "model.json").is_file():
            config = jsonl.loads((folder / "config.json").read_text(encoding="utf-8"))
            if isinstance(config, dict) and config.get("model_type") == "open_provence":
                return cast(
                    Scorer, library.OnePassScorer.from_pruner(options.model, **_how(options))
                )
            return load_reranker(options.model, None, options)
    return cast(Scorer, _load("BiLabelScorer", options))


def load_evaluator(options: ModelOptions) -> Evaluator:
    """Load the retrieval evaluator."""
    return cast(Evaluator, _load("RetrievalEvaluator", options))


def load_reader(options: ModelOptions) -> Reader:
    """Load the extractive reader."""
    return cast(Reader, _load("ExtractiveReader", options))


def load_gate(options: ModelOptions) -> Gate:
    """Load the gate of a folder by the kind in its `model.json`; IK where that says none.

    A language model's own folder is judged by its draft, as `own_gate` does.
    """
    if options.model is None:
        raise InputError("Pass `--model`, the folder of a gate; `fitrag gate` also takes `--llm`.")
    refuse_if(
        options.backend is not None,
        "--backend",
        options.backend,
        "none for a gate, whose language model runs in torch",
    )
    kind = model_kind(Path(options.model)) or ""
    if is_language_model(Path(options.model)):
        return own_gate(_load("LocalGenerator", options))
    return cast(Gate, _load(GATE_KINDS.get(kind, "IKClassifier"), options))


def load_detector(name: str | None) -> Any:
    """Load a detector from its folder; None is the embedded one where it fits, "none" no one."""
    if name is None or name == "none":
        return None if name is None else False
    return library.EligibilityDetector.from_pretrained(name)


def model_kind(folder: Path) -> str | None:
    """Read from `model.json` what a folder holds; None where there is none to be read."""
    kind = manifest_of(folder).get("kind")
    return None if kind is None else str(kind)


def is_language_model(folder: Path) -> bool:
    """Check whether a folder holds a language model itself, and no gate or other model over one."""
    return (folder / "config.json").is_file() and model_kind(folder) in (None, "generator")


def manifest_of(folder: Path) -> dict[str, Any]:
    """Read a folder's `model.json`; empty where there is none to be read."""
    try:
        manifest = jsonl.loads(read_file(folder / "model.json"))
    except (OSError, ValueError):
        return {}
    return manifest if isinstance(manifest, dict) else {}


def model_name(name: str) -> str:
    """Return the name of a language model: that of the folder itself, where it is one."""
    folder = Path(name).expanduser()
    if folder.is_dir():
        return str(manifest_of(folder).get("name") or folder.resolve().name)
    return folder.stem if folder.suffix == ".gguf" else name


def _load(name: str, options: ModelOptions) -> Any:
    role = next((role for role, kind in defaults.ROLES.items() if kind == name), "")
    light = defaults.kind_of(role).__name__ == defaults.BUNDLED.get(role) if role else False
    if light and options == ModelOptions():
        return defaults.default_model(role)
    if not installed("torch"):
        raise torch_needed(
            ModuleNotFoundError(name="torch"),
            "a model of one's own, and --device, --dtype and --backend",
        )
    kind = getattr(library, name)
    # transformers would draw its own bar into ours, and into what --quiet keeps quiet
    importlib.import_module("transformers.utils.logging").disable_progress_bar()
    load = kind.embedded if options.model is None else partial(kind.from_pretrained, options.model)
    return load(**_how(options))


def _how(options: Hardware) -> dict[str, Any]:
    """Return the options under their names; kinds that torch alone can run have no `backend`."""
    given = {**asdict(options), "model_kwargs": model_kwargs(options.model_kwargs)}
    left = {"model", *(name for name in ("backend", "model_kwargs") if given.get(name) is None)}
    return {name: value for name, value in given.items() if name not in left}


def model_kwargs(text: str | None) -> dict[str, Any] | None:
    """Parse the value of --model-kwargs; raises `InputError` for anything but a JSON object."""
    try:
        found = None if text is None else jsonl.loads(text)
    except ValueError:
        found = text
    if found is None or isinstance(found, dict):
        return found
    raise InputError.of(
        "--model-kwargs",
        given=text,
        allowed="""a JSON object, such as '{"attn_implementation": "sdpa"}'""",
    )


def load_reranker(name: str, scale: str | None, options: ModelOptions) -> Scorer:
    """Load a published reranker as a scorer of one label, or two."""
    return cast(
        Scorer, library.BiLabelScorer.from_reranker(name, scale=cast(Any, scale), **_how(options))
    )


def load_writer(name: str, server: Server, hardware: Hardware) -> Any:
    """Load who continues prompts: served, a LangChain PROVIDER:MODEL, or a local model."""
    if (served := server.generator(name)) is not None:
        return served
    if is_chat_model(name):
        chat, shots = load_chat_model(name), server.examples()
        return Ports(generate=chat, shots=shots).generate if shots else chat
    return load_llm(name, server, hardware)


def is_chat_model(name: str) -> bool:
    """Check whether a name is LangChain's PROVIDER:MODEL, and no path."""
    return ":" in name and not Path(name).exists()


def load_llm(name: str, server: Server, hardware: Hardware, **options: Any) -> Any:
    """Load a local language model."""
    how = {"shots": server.examples(), **_how(hardware), **options}
    refuse_if(
        "backend" in how,
        "--backend",
        how.get("backend"),
        "none for a language model, which runs in torch",
    )
    try:
        return library.LocalGenerator.from_pretrained(name, **how)
    except ModelLoadError as error:
        if Path(name).exists():
            raise
        raise ModelLoadError(
            f"--llm: given {name}, allowed a folder, a hub name, PROVIDER:MODEL, or with --url a "
            f"name of the server. {error}"
        ) from error


def load_chat_model(name: str) -> Any:
    """Build a LangChain chat model from `PROVIDER:MODEL`; keys come from the environment."""
    provider, colon, model = name.partition(":")
    refuse_if(
        not (provider and colon and model),
        "--llm",
        name,
        "PROVIDER:MODEL, such as openai:gpt-5-mini",
    )
    home = require_extra("langchain.chat_models", extra="agents", feature="--llm")
    try:
        return home.init_chat_model(name)
    except ImportError as error:  # it says which package brings the provider
        raise MissingExtraError(f"--llm {name}: {error}", name=error.name) from error
    except Exception as error:  # each provider has errors of its own; a missing key is the usual
        raise InputError.of(
            "--llm",
            given=name,
            allowed=f"a model {provider} can start: {type(error).__name__}: {error}",
        ) from error


def new_index(options: ModelOptions, kind: str = "flat") -> Any:
    """Make an empty index over an encoder."""
    require_extras(SEARCH, feature="an index")
    return retrieval.FaissIndex(_encoder(options), kind=kind)


def load_index(folder: Path, options: ModelOptions) -> Any:
    """Open an index, with the encoder it was built with unless another is given."""
    require_extras(SEARCH, feature="an index")
    encoder = None if options == ModelOptions() else _encoder(options)
    return retrieval.FaissIndex.load(folder, encoder=encoder)


def load_retriever(folder: Path, options: ModelOptions, *, k: int) -> Retriever:
    """Open an index as a retriever of `k` passages a question."""
    return cast(Retriever, load_index(folder, options).as_retriever(k))


def searching_words(passages: Sequence[Passage], *, k: int) -> Retriever:
    """Search passages by words, BM25's `k` best."""
    require_extra("bm25s", extra="train", feature="searching by words")
    from fitrag_integrations.training.negatives import searching

    return cast(Retriever, searching(passages, depth=k))


def load_web(place: str) -> Any:
    """Load what stands for the web: a SearXNG server, an index, or a file of passages."""
    if place.startswith(("http://", "https://")):
        from fitrag_integrations.web import PageReader, SearxngSearch, WebSearch

        return WebSearch(SearxngSearch(place), pages=PageReader())
    folder = Path(place)
    refuse_if(
        not folder.exists(),
        "--web",
        place,
        "the address of a SearXNG server, an index, or a .jsonl file of title and text",
    )
    if folder.is_dir():
        return load_retriever(folder, ModelOptions(), k=WEB_RESULTS).retrieve
    return searching_words(rows_as([folder], passage_row), k=WEB_RESULTS)


def _encoder(options: ModelOptions) -> Any:
    how = {name: value for name, value in _how(options).items() if value is not None}
    return retrieval.Encoder(*(() if options.model is None else (options.model,)), **how)


def searched(verb: Verb, search: Searching) -> Verb:
    """Wrap a verb so that it retrieves for rows without passages, and keeps what it found."""
    if search.index is None:
        return verb
    retriever = load_retriever(search.index, ModelOptions(search.encoder), k=search.k)
    port = port_of("retrieve", retriever, "retrieve")

    def flow(row: Row) -> Flow[Row]:
        own: Row = {}
        if "passages" not in row:
            (found,) = yield from port.ask([question_of(row)])
            own = {"passages": list(map(passage_json, found))}
        return {**own, **(yield from verb.flow({**row, **own}))}

    return Verb(flow, ("passages", *verb.adds), verb.empty)


def passage_json(passage: Passage) -> Row:
    """Write a passage as rows hold it, with the retriever's score where it gives one."""
    fields = {"id": passage.id, "title": passage.title, "text": passage.text}
    score = passage.metadata.get("retrieval_score")
    return fields if score is None else {**fields, "score": float(score)}
