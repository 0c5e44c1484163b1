"""What runs an encoder in place of torch gives what torch gives, or says that it does not run."""

import warnings

import pytest
import torch
from tiny import PAIRS, make_scorer, write_bert

from fitrag_integrations.errors import InputError, MissingExtraError
from fitrag_integrations.models import BiLabelScorer
from fitrag_integrations.models.encoder.encoders import load_base
from fitrag_integrations.models.runtime import backends, engine
from fitrag_integrations.models.runtime.backends import BACKENDS
from fitrag_integrations.models.runtime.engine import Options
from fitrag_integrations.retrieval import Encoder

OTHERS = [name for name in BACKENDS if name != "torch"]


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FITRAG_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def saved(bert, tmp_path_factory):
    folder = tmp_path_factory.mktemp("scorer")
    make_scorer(bert, evidence=True).save_pretrained(folder)
    return folder


@pytest.mark.parametrize("name", OTHERS)
def test_scores_are_those_of_torch(saved, name):
    plain = BiLabelScorer.from_pretrained(saved, device="cpu", dtype="float32")
    other = BiLabelScorer.from_pretrained(saved, backend=name, dtype="float32")
    for one, two in zip(other.score(PAIRS), plain.score(PAIRS), strict=True):
        assert one.has_answer == pytest.approx(two.has_answer, abs=1e-4)
        assert one.llm_prefer == pytest.approx(two.llm_prefer, abs=1e-4)
    assert len(list((backends.cache_folder() / "graphs").iterdir())) == 1  # both run one graph


def test_vectors_are_those_of_torch(bert):
    plain, other = Encoder(bert, device="cpu"), Encoder(bert, backend="onnx")
    texts = ["the danube", "a king " * 40, ""]
    assert other.encode(texts) == pytest.approx(plain.encode(texts), abs=1e-4)


def test_a_t5_runs_too(t5):
    trunk, _ = load_base(t5)
    run = backends.compiled(trunk.eval(), "onnx", torch.float32, what="t5")
    ids, mask, types = backends.sample(trunk, (3, 21))
    with torch.inference_mode():
        wanted = trunk(ids, mask, types)
    assert torch.allclose(run(ids, mask, types)[mask.bool()], wanted[mask.bool()], atol=1e-4)


def test_what_differs_from_torch_is_told_and_not_used(bert, monkeypatch):
    trunk, _ = load_base(bert)
    wrong = lambda inputs: trunk(*map(torch.from_numpy, inputs)).detach().numpy() * 1.01  # noqa: E731
    monkeypatch.setattr(backends, "_onnx", lambda *_: wrong)
    with pytest.warns(RuntimeWarning, match="tiny: backend 'onnx' lies 0.01.* runs in torch"):
        assert backends.compiled(trunk.eval(), "onnx", torch.float32, what="tiny") is None


def test_what_cannot_be_exported_is_told_and_runs_in_torch(saved, monkeypatch):
    def fails(*_, **__):
        raise ValueError("no such operator")

    monkeypatch.setattr(backends, "exported", fails)
    with pytest.warns(RuntimeWarning, match="ValueError: no such operator"):
        scorer = BiLabelScorer.from_pretrained(saved, backend="onnx")
    assert len(scorer.score(PAIRS)) == len(PAIRS)


def test_a_damaged_graph_is_exported_anew_and_other_weights_are_another_graph(
    bert, tmp_path, monkeypatch
):
    trunk, _ = load_base(bert)
    path = backends.exported(trunk.eval(), backends.sample(trunk, (3, 21)), extra="onnx")
    whole = path.read_bytes()
    monkeypatch.setattr(backends, "_export", lambda module, inputs, out: out.write_bytes(whole))
    path.write_bytes(b"no graph")
    assert backends.compiled(trunk, "onnx", torch.float32, what="tiny") is not None
    assert path.read_bytes() == whole
    one, two = (load_base(at)[0] for at in (bert, write_bert(tmp_path, seed=1)))
    assert backends.digest(one) != backends.digest(two)
    assert backends.digest(one) == backends.digest(load_base(bert)[0])


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"backend": "jax"}, "backend.*must be one of torch, onnx, openvino"),
        ({"backend": "onnx", "device": "cuda"}, "device.*must be cpu"),
        ({"backend": "onnx", "dtype": "bfloat16"}, "dtype.*must be float32 with"),
        ({"backend": "openvino", "dtype": "float16"}, "dtype.*must be float32, bfloat16 with"),
    ],
)
def test_what_a_backend_does_not_run_on_is_refused(given, match):
    with pytest.raises(InputError, match=match):
        Options(**given).resolved()


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_backend_has_a_precision_that_it_runs_in_where_the_processor_has_bfloat16(
    backend, monkeypatch
):
    monkeypatch.setattr(engine, "multiplies_bfloat16", lambda device: True)
    usual = torch.float32 if backend == "onnx" else torch.bfloat16
    assert Options(device="cpu", backend=backend).resolved()[1] is usual


def test_a_backend_that_is_not_installed_names_its_extra(bert, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "openvino", None)
    trunk, _ = load_base(bert)
    with warnings.catch_warnings(), pytest.raises(MissingExtraError, match=r"\[openvino\]"):
        backends.compiled(trunk, "openvino", torch.float32, what="tiny")
