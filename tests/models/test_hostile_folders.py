"""Whatever the files of a model folder say, it loads or raises `ModelLoadError`, and soon."""

import copy
import hashlib
import json
import os
import random
import resource
import shutil
import time
from contextlib import contextmanager
from importlib import resources
from pathlib import Path

import pytest
from tiny import write_bert, write_modernbert, write_t5
from tiny_causal import write_llama

from fitrag_integrations import Passage
from fitrag_integrations.errors import (
    ChecksumError,
    InputError,
    ModelLoadError,
    ThresholdMismatchError,
)
from fitrag_integrations.models import (
    BiLabelScorer,
    EligibilityDetector,
    ExtractiveReader,
    LocalGenerator,
    OnePassScorer,
    RetrievalEvaluator,
)
from fitrag_integrations.models.encoder.encoders import load_base, load_encoder, save_encoder
from fitrag_integrations.models.encoder.pairs import PairTokenizer
from fitrag_integrations.models.runtime.sources import verify
from fitrag_integrations.training.encoder import with_lora
from fitrag_integrations.types import BiLabelScore

pytestmark = [
    # what peft asks of transformers
    pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")
]
HOME = Path(str(resources.files("fitrag_integrations"))) / "embedded"
PASSAGE = Passage("1", "The Danube rises in the Black Forest.", "Danube")
PAIRS = [("Where does the Danube rise?", PASSAGE)]
SCORE = BiLabelScore(0.5, 0.5, 0.0, 0.0)
ASK = {
    "bilabel": (BiLabelScorer, lambda model: model.score(PAIRS)),
    "evaluator": (RetrievalEvaluator, lambda model: model.evaluate(PAIRS)),
    "onepass": (OnePassScorer, lambda model: model.score_sentences([(*PAIRS[0], [(0, 10)])])),
    "reader": (ExtractiveReader, lambda model: model.read(PAIRS)),
    "eligibility": (EligibilityDetector, lambda model: model.eligible([[SCORE]])),
}
VALUES = [None, True, -1, 0, 3, 10**9, 1e308, float("nan"), "", "x", "\x00"]
VALUES += [[], {}, [[]], {"a": {}}]
SECONDS = 20.0  # for one of them, on a machine that is busy


def places(fields, path=()):
    """Give the way to each field, at any depth; `trained` is only told, never read."""
    inside = fields.items() if isinstance(fields, dict) else enumerate(fields)
    for name, value in inside:
        if name == "trained":
            continue
        yield (*path, name)
        if isinstance(value, dict | list):
            yield from places(value, (*path, name))


def changed(fields, path, value):
    made = copy.deepcopy(fields)
    at = made
    for name in path[:-1]:
        at = at[name]
    at[path[-1]] = value
    return made


@pytest.fixture
def folder(request, tmp_path):
    """A copy of a folder that ships, whose encoder, scorer or base stays where it is."""
    kind = request.param
    home, made = HOME / kind, tmp_path / kind
    shutil.copytree(home, made, ignore=shutil.ignore_patterns("encoder"))
    fields = json.loads((made / "model.json").read_text())
    for name in ("encoder", "scorer", "base"):
        if isinstance(fields.get(name), str) and (home / fields[name]).is_dir():
            fields[name] = str((home / fields[name]).resolve())
    (made / "model.json").write_text(json.dumps(fields))
    return made


def loads_or_is_refused(kind, folder):
    """Load and ask; whether it was refused, which has to be told as it is promised."""
    cls, ask = ASK[kind]
    began = time.monotonic()
    try:
        model = cls.from_pretrained(folder)
    except (ModelLoadError, ThresholdMismatchError):
        return True
    else:
        ask(model)
        model.unload()
        return False
    finally:
        assert time.monotonic() - began < SECONDS


@pytest.mark.parametrize("folder", ASK, indirect=True)
def test_any_field_of_a_manifest_may_be_anything(folder):
    kind = folder.name
    cls, _ = ASK[kind]
    kept = cls.embedded()  # holds the weights that all of them share
    given = json.loads((folder / "model.json").read_text())
    assert not loads_or_is_refused(kind, folder)
    refused = 0
    for path in places(given):
        for value in VALUES:
            (folder / "model.json").write_text(json.dumps(changed(given, path, value)))
            try:
                refused += loads_or_is_refused(kind, folder)
            except Exception as error:
                raise AssertionError(f"{path} = {value!r}: {error!r}") from error
    assert refused > 25
    kept.unload()


@pytest.mark.parametrize("folder", ["bilabel", "eligibility"], indirect=True)
def test_any_byte_of_the_weights_may_be_another(folder):
    kind = folder.name
    kept = ASK[kind][0].embedded()
    manifest = json.loads((folder / "model.json").read_text())
    name = "head" if "head" in manifest else "weights"
    path = folder / manifest[name]["file"]
    whole, chance = path.read_bytes(), random.Random(13)
    for _ in range(40):
        bad = bytearray(whole[: chance.choice([len(whole), len(whole) // 2, 9, 0])])
        for _ in range(chance.randint(0, 3)):
            if bad:
                bad[chance.randrange(min(len(bad), 2000))] = chance.randrange(256)
        path.write_bytes(bad)
        manifest[name]["sha256"] = hashlib.sha256(bad).hexdigest()
        (folder / "model.json").write_text(json.dumps(manifest))
        try:
            loads_or_is_refused(kind, folder)
        except InputError:  # numbers that are none, told when they are asked about
            pass
        except ValueError as error:
            assert "nan" in str(error).lower()
    kept.unload()


@pytest.mark.parametrize(
    "content", ["", "[]", "null", "{", "[" * 100_000, '{"format": 1}', "\x00", "9" * 5000]
)
def test_any_text_may_be_a_manifest(content, tmp_path):
    (tmp_path / "model.json").write_text(content)
    for kind in ASK:
        assert loads_or_is_refused(kind, tmp_path)


ENCODER_FIELDS = ["max_length", "pooling", "base", "tuned", "adapter", "rounded"]


@pytest.mark.parametrize("field", ENCODER_FIELDS)
def test_any_field_of_an_encoder_may_be_anything(field, bert, tmp_path):
    save_encoder(load_base(bert)[0], tmp_path, base=bert)
    given = json.loads((tmp_path / "encoder.json").read_text())
    for value in [-1, 0, 1, 2, 3, "x", [], {}, [[]], {"a": {}}, 1.5, True]:
        (tmp_path / "encoder.json").write_text(json.dumps({**given, field: value}))
        try:
            _, tokenizer = load_encoder(tmp_path)
        except ModelLoadError:
            continue
        assert tokenizer.encode(PAIRS)


@pytest.mark.parametrize("length", [16, 17, 40, 96, 150])
def test_a_short_input_ends(length, bert):
    tokenizer = PairTokenizer(load_base(bert)[1], max_length=length)
    long = Passage("1", "the danube is a river of the black sea " * 40, "the danube " * 9)
    (chunks,) = tokenizer.encode([("what river is in the city " * 9, long)])
    seen = {place for chunk in chunks for place in chunk.offsets if place is not None}
    assert (0, 3) in seen and max(end for _, end in seen) >= len(long.text) - 2


def test_more_layers_than_weights_are_refused_at_once(tmp_path):
    for write, load in ((write_bert, load_base), (write_llama, LocalGenerator.from_pretrained)):
        folder = Path(write(tmp_path / write.__name__))
        fields = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(fields | {"num_hidden_layers": 10**6}))
        began = time.monotonic()
        with pytest.raises(ModelLoadError, match="asks for 1000000 layers"):
            load(str(folder))
        assert time.monotonic() - began < SECONDS


GIGABYTE = 1 << 20  # of what getrusage counts in


@contextmanager
def small():
    """Check that the block takes little time and memory."""
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    assert time.monotonic() - began < SECONDS
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < GIGABYTE


FAMILIES = {
    "bert": (write_bert, load_base),
    "modernbert": (write_modernbert, load_base),
    "t5": (write_t5, load_base),
    "llama": (write_llama, LocalGenerator.from_pretrained),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_configuration_larger_than_the_weights_is_refused_unmade(tmp_path, family):
    write, load = FAMILIES[family]
    folder = Path(write(tmp_path))
    given = json.loads((folder / "config.json").read_text())
    tables = {"vocab_size", "max_position_embeddings", "intermediate_size", "d_ff"} & set(given)
    if family in ("llama", "modernbert"):  # whose positions have no weights
        tables -= {"max_position_embeddings"}
    for name in tables:
        (folder / "config.json").write_text(json.dumps(given | {name: 40_000_000}))
        with small(), pytest.raises(ModelLoadError, match="its weights are"):
            load(str(folder))
    (folder / "config.json").write_text(json.dumps(given))
    load(str(folder))


def replacing(pattern, content):
    return {"type": "Replace", "pattern": pattern, "content": content}


DOUBLING = [replacing({"String": "a"}, "aa")] * 30
GROWING = [
    ("normalizer", {"type": "Sequence", "normalizers": DOUBLING}),
    ("normalizer", replacing({"Regex": "."}, "a" * 5000)),
    ("normalizer", {"type": "Sequence", "normalizers": [replacing({"Regex": ""}, "aaa")] * 9}),
    ("decoder", {"type": "Sequence", "decoders": DOUBLING}),
]


@pytest.mark.parametrize(("part", "value"), GROWING)
def test_a_tokenizer_that_lengthens_texts_is_refused(tmp_path, part, value):
    for name, (write, load) in FAMILIES.items():
        path = Path(write(tmp_path / name)) / "tokenizer.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {part: value}))
        with small(), pytest.raises(ModelLoadError, match=f"its {part} may make a text"):
            load(str(path.parent))


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "tokenizer_config.json"])
def test_a_file_of_thirty_gigabytes_is_not_read(bert, tmp_path, name):
    shutil.copytree(bert, tmp_path / "base")
    os.truncate(tmp_path / "base" / name, 30 << 30)  # of which nothing is on the disk
    with small(), pytest.raises(ModelLoadError, match=f"{name} has 32,212,254,720 bytes"):
        load_base(str(tmp_path / "base"))


@pytest.mark.parametrize("folder", ASK, indirect=True)
def test_nor_is_one_of_our_own(folder):
    fields = json.loads((folder / "model.json").read_text())
    for entry in (fields.get("head"), {"file": "model.json"}):
        if entry:
            os.truncate(folder / entry["file"], 30 << 30)
            with small(), pytest.raises(ModelLoadError, match="32,212,254,720 bytes"):
                ASK[folder.name][0].from_pretrained(folder)


@pytest.mark.parametrize(("field", "value"), [("r", 10**7), ("rank_pattern", {"query": 10**7})])
def test_an_adapter_of_any_rank_is_refused_unmade(field, value, bert, tmp_path):
    trunk, _ = load_base(bert)
    trunk.encoder = with_lora(trunk.encoder)
    save_encoder(trunk, tmp_path, base=bert)
    path = tmp_path / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {field: value}))
    with small(), pytest.raises(ModelLoadError, match="r is more than"):
        load_encoder(tmp_path)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("target_modules", "(.+)+(.+)+(.+)+x"),
        ("exclude_modules", "(.+)+(.+)+(.+)+x"),
        ("target_modules", [".*.*.*.*x"]),
        ("rank_pattern", {"(.+)+(.+)+x": 4}),
        ("alpha_pattern", {"(.+)+(.+)+x": 4}),
    ],
)
def test_a_regular_expression_in_an_adapter_is_refused(field, value, bert, tmp_path):
    trunk, _ = load_base(bert)
    trunk.encoder = with_lora(trunk.encoder)
    save_encoder(trunk, tmp_path, base=bert)
    path = tmp_path / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {field: value}))
    with pytest.raises(ModelLoadError, match=f"{field} is .* must be names of layers"):
        load_encoder(tmp_path)


def test_a_file_swapped_at_equal_size_and_time_is_refused(tmp_path):
    path = tmp_path / "weights"
    path.write_bytes(b"right")
    digest = hashlib.sha256(b"right").hexdigest()
    verify(path, digest)
    stat = path.stat()
    path.write_bytes(b"wrong")
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    with pytest.raises(ChecksumError):
        verify(path, digest)
