"""The options that verbs share: one by one as types, and the groups a plan is put together from."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from fitrag_integrations.core import jsonl
from fitrag_integrations.core.option import Argument, Option
from fitrag_integrations.defaults import DEFAULTS
from fitrag_integrations.errors import refuse_if
from fitrag_integrations.values.prompt import Shot, check_shots

HERE, RAY = "local", "ray"
Model: TypeAlias = Annotated[
    str | None,
    Option(
        "Hub name, folder, or a Python file with a class of your own, which is run.",
        default="the embedded one",
    ),
]
PriceIn: TypeAlias = Annotated[float | None, Option("Price of a million input tokens.", min=0)]
PriceOut: TypeAlias = Annotated[float | None, Option("Price of a million output tokens.", min=0)]
Retrieved: TypeAlias = Annotated[
    int, Option("Passages to retrieve per question.", name="--k", min=1)
]
Overwrite: TypeAlias = Annotated[bool, Option("Replace the output instead of continuing it.")]
Quiet: TypeAlias = Annotated[bool, Option("Print only errors.")]
AsJson: TypeAlias = Annotated[bool, Option("Print the summary as JSON on standard output.")]
MaxTokens: TypeAlias = Annotated[
    int | None, Option("Token budget for the excerpts.", min=1, default="none")
]
CutWindow: TypeAlias = Annotated[
    int | None,
    Option(
        "Sentences per excerpt; 3 gives the windows of the FIT-RAG paper.",
        min=1,
        default=f"{DEFAULTS.window}",
    ),
]
Threshold: TypeAlias = Annotated[
    float | None,
    Option(
        "Decision threshold; a higher p_known means known.",
        min=0,
        max=1,
        default="the gate's, or 0.5",
    ),
]
ReaderName: TypeAlias = Annotated[
    str | None, Option("Reader: a hub name or a folder.", default="the embedded one")
]
ScorerFolder: TypeAlias = Annotated[
    str | None, Option("Bi-label scorer's folder.", default="the embedded one")
]
TemplateName: TypeAlias = Annotated[
    str,
    Option("Prompt: equal (one for all methods), a template's name, or own (each method's)."),
]
Depth: TypeAlias = Annotated[int, Option("Passages per question.", min=1)]
Tokenizer: TypeAlias = Annotated[str, Option("Token counter: approximate, or a tiktoken encoding.")]


@dataclass(frozen=True, slots=True)
class Files:
    """Rows to read, and where they go."""

    source: Annotated[str, Argument("Input rows: .jsonl, .jsonl.gz, or - for standard input.")]
    target: Annotated[str, Argument("Output rows: .jsonl, .jsonl.gz, or - for standard output.")]


@dataclass(frozen=True, slots=True)
class Searching:
    """Index to search for a row without passages of its own."""

    index: Annotated[Path | None, Option("Index to search for rows without passages.")] = None
    k: Annotated[int, Option("Passages to retrieve from the index.", name="--k", min=1)] = (
        DEFAULTS.candidates
    )
    encoder: Annotated[str | None, Option("Encoder of the index.", default="its own")] = None


@dataclass(frozen=True, slots=True)
class Hardware:
    """Device, data type and batch size of a model; None leaves the choice to the model."""

    device: Annotated[
        str | None, Option("Device, e.g. cpu or cuda:0.", default="a GPU if there is one")
    ] = None
    dtype: Annotated[
        str | None, Option("Data type, e.g. float32 or bfloat16.", default="the model's own")
    ] = None
    batch_tokens: Annotated[
        int | None, Option("Padded tokens per model batch.", min=1, default="by device")
    ] = None
    model_kwargs: Annotated[
        str | None,
        Option(
            "Keyword arguments of the model's from_pretrained in transformers, such as "
            '{"attn_implementation": "sdpa"}.',
            metavar="JSON",
            default="none",
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class EncoderHardware(Hardware):
    """Device, data type, batch size and backend of an encoder."""

    backend: Annotated[
        str | None,
        Option("Backend of an encoder on a CPU: torch, onnx or openvino.", default="torch"),
    ] = None

    def of(self, model: str | None) -> ModelOptions:
        """Return the options with a model."""
        return ModelOptions(model=model, **asdict(self))


@dataclass(frozen=True, slots=True)
class ModelOptions(EncoderHardware):
    """Model to load, and how; None leaves the choice to the model."""

    model: Model = None


@dataclass(frozen=True, slots=True)
class GateOptions(ModelOptions):
    """Gate to load, and how."""

    model: Annotated[
        str | None,
        Option("Gate: a folder, or a Python file with a class of your own, which is run."),
    ] = None


@dataclass(frozen=True, slots=True)
class Server:
    """How a language model is called: the examples it is shown, and its server, if any."""

    shots: Annotated[
        Path | None,
        Option(
            "Rows of question, answer and passages[{title, text}] that the prompts of the language "
            "model show as examples; a base model often writes nothing without.",
            default="none",
        ),
    ] = None
    url: Annotated[
        str | None,
        Option("OpenAI-compatible server of the --llm; its key is read from OPENAI_API_KEY."),
    ] = None
    api: Annotated[str, Option("The server's endpoint: chat, or completions for a base model.")] = (
        "chat"
    )
    concurrency: Annotated[int, Option("Maximum concurrent prompts.", min=1)] = 8
    timeout: Annotated[float, Option("Timeout of a request in seconds.", min=0.001)] = 60.0

    def __post_init__(self) -> None:
        refuse_if(self.api not in ("chat", "completions"), "--api", self.api, "chat or completions")
        refuse_if(
            self.shots is not None and not self.shots.is_file(),
            "--shots",
            str(self.shots),
            "a .jsonl or .jsonl.gz file",
        )

    def examples(self) -> tuple[Shot, ...]:
        """Read the rows of --shots."""
        return check_shots("--shots", () if self.shots is None else jsonl.read_jsonl(self.shots))

    def generator(self, name: str, kind: Any = None, **options: Any) -> Any:
        """Make the client of a served model, `kind` or a `RemoteGenerator`; None without --url."""
        if self.url is None:
            return None
        from fitrag_integrations.models.remote.generator import RemoteGenerator

        own: dict[str, Any] = {"api": self.api, "concurrency": self.concurrency}
        own |= {"timeout": self.timeout, **options}
        key, shots = os.environ.get("OPENAI_API_KEY"), self.examples()
        return (kind or RemoteGenerator)(self.url, name, api_key=key, shots=shots, **own)


@dataclass(frozen=True, slots=True)
class RunSettings:
    """Rows to process in this process, and what is reported."""

    overwrite: Overwrite = False
    keep_going: Annotated[
        bool,
        Option("Exit with code 0 although rows failed; they are in the output, with `error`."),
    ] = False
    quiet: Quiet = False
    json: AsJson = False


@dataclass(frozen=True, slots=True)
class RunOptions(RunSettings):
    """Rows to process, here or by the workers of a Ray cluster, and what is reported."""

    engine: Annotated[
        str, Option("Where rows are processed: local (this process) or ray (a Ray cluster).")
    ] = HERE
    workers: Annotated[
        int | None,
        Option("Number of workers of --engine ray.", min=1, default="one per GPU, else per CPU"),
    ] = None

    def __post_init__(self) -> None:
        refuse_if(self.engine not in (HERE, RAY), "--engine", self.engine, f"{HERE} or {RAY}")
