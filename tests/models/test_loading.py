"""No folder's code runs and no pickle is read, whichever way a folder comes in."""

import ast
import importlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tiny import make_evaluator, make_onepass, make_reader, make_scorer, write_bert
from tiny_causal import write_ik, write_judge, write_llama

import fitrag_integrations
from fitrag_integrations.errors import ModelLoadError
from fitrag_integrations.models import LocalGenerator
from fitrag_integrations.models.encoder.encoders import load_base, load_encoder, save_encoder
from fitrag_integrations.training.encoder import with_lora

# what peft asks of transformers
pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")

ROOT = Path(fitrag_integrations.__file__).parent
AUTO = ("AutoConfig", "AutoModel", "AutoModelForCausalLM", "AutoModelForSequenceClassification")
PLAIN = {
    name: f"{call}(folder, device='cpu')"
    for name, call in {
        "Encoder": "retrieval.Encoder.from_pretrained",
        "LocalGenerator": "models.LocalGenerator.from_pretrained",
        "QueryRewriter": "models.QueryRewriter.from_pretrained",
        "RetrievalEvaluator": "models.RetrievalEvaluator.from_pretrained",
        "from_reranker": "models.BiLabelScorer.from_reranker",
    }.items()
}
PLAIN["own_engine"] = "causal.own_engine(folder, 'cpu')"
KINDS = ("BiLabelScorer", "ExtractiveReader", "IKClassifier", "NecessityJudge", "OnePassScorer")
OVER_A_BASE = {name: f"models.{name}.from_pretrained(folder, device='cpu')" for name in KINDS}
OVER_A_BASE["BiLabelScorer, late"] = OVER_A_BASE["BiLabelScorer"]
OVER_A_BASE["own evaluator"] = PLAIN["RetrievalEvaluator"]
DRIVER = """
import json
from fitrag_integrations import models, retrieval
from fitrag_integrations.errors import ModelLoadError
from fitrag_integrations.training.causal import adapter as causal
told = {}
def attempt(name, load):
    try:
        load()
    except ModelLoadError as error:
        told[name] = str(error)
    except BaseException as error:
        told[name] = f"raw {error!r}"
    else:
        told[name] = "loaded"
"""


def write_hostile(folder, *, by="config"):
    """Write a checkpoint whose configuration, tokenizer, model or part is to be a file of its."""
    folder.mkdir(parents=True)
    (folder / "hostile.py").write_text(f"open({str(folder / 'RAN')!r}, 'w').close()\n")
    named = {auto: f"hostile.{auto}" for auto in AUTO}
    config = {"model_type": "hostile", "auto_map": named, "num_labels": 1}
    tokenizer = {"auto_map": {"AutoTokenizer": ["hostile.Tokenizer", None]}}
    if by == "tokenizer":  # a kind that transformers knows, but for which it has no tokenizer
        config = {"model_type": "arcee"}
    if by in ("model", "part"):
        write_bert(folder)
        tokenizer = None
        config |= {"model_type": "vit"}
    if by == "part":
        part = {"model_type": "trocr", "auto_map": named, "_name_or_path": str(folder)}
        config = {"model_type": "llava", "text_config": part}
    (folder / "config.json").write_text(json.dumps(config))
    if tokenizer is not None:
        (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    return folder


def change(path, **fields):
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def over(home, base):
    """Name another base in a model folder, wherever it names one."""
    for path in (home / "model.json", home / "encoder" / "encoder.json"):
        if path.is_file() and "base" in json.loads(path.read_text()):
            change(path, base=str(base))
    return home


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("hostile")


@pytest.fixture(scope="module")
def model_folders(home):
    """Write one folder of each kind of ours, each over a hostile base of its own."""
    bert, llama = write_bert(home / "bert"), write_llama(home / "llama")
    make_scorer(bert).save_pretrained(home / "BiLabelScorer")
    make_scorer(bert, evidence=True).save_pretrained(home / "BiLabelScorer, late")
    make_reader(bert).save_pretrained(home / "ExtractiveReader")
    make_evaluator(bert).save_pretrained(home / "own evaluator")
    write_ik(home / "IKClassifier", llama)
    write_judge(home / "NecessityJudge", llama)
    make_onepass(bert).save_pretrained(home / "OnePassScorer")
    for name in OVER_A_BASE:
        base = write_hostile(home / "bases" / name.replace(", ", "_"))
        over(home / name / "scorer" if name == "OnePassScorer" else home / name, base)
    late = json.loads((home / "BiLabelScorer, late" / "encoder" / "encoder.json").read_text())
    late["base"] = bert  # only the untouched base beside it is the hostile one
    (home / "BiLabelScorer, late" / "encoder" / "encoder.json").write_text(json.dumps(late))
    return home


def run(command, home, *, given):
    """Run in a process whose standard input says yes to whoever asks."""
    environment = os.environ | {"HF_MODULES_CACHE": str(home / "modules")}
    how = {"capture_output": True, "text": True, "timeout": 300, "cwd": home}
    return subprocess.run(command, input=given, env=environment, **how)


def attempts(home, calls):
    """Load folders in one process; gives what each load told."""
    lines = [f"attempt({n!r}, lambda folder={f!r}: {call})" for n, (call, f) in calls.items()]
    script = "\n".join([DRIVER, *lines, "print(); print(json.dumps(told))"])
    done = run([sys.executable, "-c", script], home, given="y\n" * 200)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


HOSTILE = [
    *((by, name) for by in ("config", "tokenizer") for name in PLAIN),
    *(("model", name) for name in ("LocalGenerator", "RetrievalEvaluator", "from_reranker")),
    ("part", "Encoder"),
]


@pytest.fixture(scope="module")
def told(home, model_folders):
    """Load every kind of hostile folder through every entry point."""
    calls = {name: (call, str(home / name)) for name, call in OVER_A_BASE.items()}
    for by, name in HOSTILE:
        folder = write_hostile(home / "plain" / f"{by}_{name}", by=by)
        calls[f"{by} by {name}"] = PLAIN[name], str(folder)
    llama = Path(write_llama(home / "generating"))
    (llama / "custom_generate").mkdir()
    mark = f"open({str(llama / 'RAN')!r}, 'w').close()\n"
    code = f"{mark}def generate(*given, **named):\n    {mark}"
    (llama / "custom_generate" / "generate.py").write_text(code)
    call = "models.LocalGenerator.from_pretrained(folder).generate(['who'])"
    return attempts(home, {**calls, "generate": (call, str(llama))})


@pytest.mark.parametrize("name", OVER_A_BASE)
def test_a_model_over_a_hostile_base_is_refused(name, told, home):
    base = home / "bases" / name.replace(", ", "_")
    assert not (base / "RAN").exists()
    assert "brings code of its own (auto_map), which is never run" in told[name]
    assert str(base) in told[name]


@pytest.mark.parametrize(("by", "name"), HOSTILE)
def test_a_hostile_checkpoint_is_refused(name, by, told, home):
    folder = home / "plain" / f"{by}_{name}"
    assert not (folder / "RAN").exists()
    assert "brings code of its own" in told[f"{by} by {name}"]
    assert by == "part" or str(folder) in told[f"{by} by {name}"]


@pytest.mark.parametrize(("verb", "name"), [("score", "BiLabelScorer"), ("gate", "IKClassifier")])
def test_rows_on_stdin_never_answer_for_the_user(verb, name, model_folders, tmp_path):
    base = write_hostile(tmp_path / "base")
    folder = shutil.copytree(model_folders / name, tmp_path / "model")
    over(folder, base)
    row = {"question": "what river", "passages": [{"id": "1", "text": "The Danube is a river."}]}
    row |= {"draft": "the Danube"}
    command = [sys.executable, "-m", "fitrag_integrations.cli", verb, "-"]
    command += [str(tmp_path / "out.jsonl"), "--model", str(folder)]
    done = run(command, tmp_path, given=f"y\n{json.dumps(row)}\n")
    assert not (base / "RAN").exists()
    assert done.returncode not in (0, None)
    assert "brings code of its own" in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_a_generate_function_in_the_folder_is_never_run(told, home):
    assert told["generate"] == "loaded" and not (home / "generating" / "RAN").exists()


def test_an_architecture_transformers_has_loads_without_the_folders_code(tmp_path):
    folder = write_hostile(tmp_path / "bert")
    write_bert(folder)
    change(folder / "config.json", auto_map={auto: f"hostile.{auto}" for auto in AUTO})
    load_base(str(folder))
    assert not (folder / "RAN").exists()


def test_pickled_weights_are_refused(tmp_path):
    for write, load in ((write_bert, load_base), (write_llama, LocalGenerator.from_pretrained)):
        folder = Path(write(tmp_path / write.__name__))
        torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
        (folder / "model.safetensors").unlink()
        with pytest.raises(ModelLoadError, match=r"save_pretrained them as safetensors") as caught:
            load(str(folder))
        assert str(folder) in str(caught.value)


def test_a_kernel_named_by_a_configuration_is_refused(bert, tmp_path):
    folder = shutil.copytree(bert, tmp_path / "kernel")
    change(folder / "config.json", attn_implementation="someone/kernel")
    with pytest.raises(ModelLoadError, match="a kernel to fetch and run.*'someone/kernel'"):
        load_base(str(folder))


@pytest.mark.parametrize("weights", ["adapter_model.safetensors", "adapter_model.bin"])
def test_an_adapter_inside_a_checkpoint_is_refused(bert, adapted, tmp_path, weights):
    folder = shutil.copytree(bert, tmp_path / "both")
    shutil.copy(adapted / "adapter_config.json", folder)
    (folder / weights).write_bytes(b"")
    with pytest.raises(ModelLoadError, match=r"adapter_config.json is there.*merge_and_unload"):
        load_base(str(folder))


@pytest.fixture
def adapted(bert, tmp_path):
    """An encoder folder with a LoRA adapter."""
    trunk, _ = load_base(bert)
    trunk.encoder = with_lora(trunk.encoder)
    save_encoder(trunk, tmp_path / "adapted", base=bert)
    return tmp_path / "adapted"


def test_a_pickled_adapter_is_refused(adapted):
    load_encoder(adapted)
    weights = adapted / "adapter_model.safetensors"
    torch.save(load_file(weights), adapted / "adapter_model.bin")
    weights.unlink()
    with pytest.raises(ModelLoadError, match=r"adapter_model.safetensors is missing.*pickle"):
        load_encoder(adapted)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"peft_type": "PROMPT_TUNING"}, "is 'PROMPT_TUNING', not 'LORA'"),
        ({"megatron_config": {"a": 1}, "megatron_core": "megatron.core"}, "megatron_config"),
        ({"corda_config": {"cache_file": "x.pt"}}, "corda_config"),
    ],
)
def test_an_adapter_that_reaches_for_other_things_is_refused(adapted, fields, named):
    change(adapted / "adapter_config.json", **fields)
    with pytest.raises(ModelLoadError, match=f"adapter_config.json is not usable: .*{named}"):
        load_encoder(adapted)


LIBRARIES = ("transformers", "peft", "tokenizers", "sentence_transformers")
LOADERS = ("from_pretrained", "from_config", "from_file", "load")
SOURCES = [
    path
    for folder in (ROOT, ROOT.parent / "scripts", ROOT.parent / "benchmarks")
    for path in sorted(folder.rglob("*.py"))
    if path.name != "architectures.py"  # the reference, which loads what it wrote itself
]


def loaders(tree):
    """Name what a file imports of these libraries that could load something."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(LIBRARIES):
            home = importlib.import_module(node.module)
            for alias in node.names:
                named = getattr(home, alias.name, None)
                if any(hasattr(named, loader) for loader in LOADERS):
                    yield alias.asname or alias.name


def annotations(node):
    """Give the places at which a class is only spoken of."""
    return [getattr(node, "annotation", None), getattr(node, "returns", None)]


def test_only_one_place_loads_and_it_says_what_it_trusts():
    assert len(SOURCES) > 300
    for path in SOURCES:
        check_loads(path, ast.parse(path.read_text(encoding="utf-8")))


def check_loads(path, tree):
    """Require that a file loads nothing, or says for each load what it trusts."""
    names = set(loaders(tree))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    if path == ROOT / "models" / "runtime" / "loading.py":
        said = [
            {word.arg: ast.unparse(word.value) for word in call.keywords}
            for call in calls
            if isinstance(call.func, ast.Attribute)
            and call.func.attr == "from_pretrained"
            and "Peft" not in ast.unparse(call.func)  # what runs code there is refused beforehand
        ]
        assert len(said) == 3
        assert all(words.get("trust_remote_code") == "False" for words in said)
        assert all(words.get("use_safetensors") == "True" for words in said if "config" in words)
        return
    hints = [h for node in ast.walk(tree) for h in annotations(node) if h is not None]
    fine = {id(call.func) for call in calls} | {id(n) for hint in hints for n in ast.walk(hint)}
    fine |= {  # JSON, which holds no code
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and ast.unparse(node) in {"Tokenizer.from_file", "Tokenizer.from_buffer"}
    }
    if path.name in ("gpu.py", "shapes.py"):  # they make models of random weights
        fine |= {id(given) for call in calls for given in call.args}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in names:
            assert id(node) in fine, f"{path.name}:{node.lineno}: load with models.loading"
        if isinstance(node, ast.Import | ast.ImportFrom):
            tops = {alias.name.partition(".")[0] for alias in node.names}
            assert not tops & {*LIBRARIES, "pickle", "joblib", "dill"}, f"{path.name}:{node.lineno}"
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            assert called not in {"torch.load", "pipeline"}, f"{path.name}:{node.lineno}"
            assert "trust_remote_code" not in {word.arg for word in node.keywords}


def test_notebooks_load_through_the_package():
    for path in (ROOT.parent / "notebooks").glob("*.ipynb"):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        code = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "code")
        imports = [line for line in code.splitlines() if line.startswith(("import ", "from "))]
        assert not [line for line in imports if line.split()[1].startswith(LIBRARIES)], path
