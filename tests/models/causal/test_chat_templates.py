"""Prompts of chat models, token for token as transformers writes them, and what may go wrong."""

import json

import pytest
import torch
from tiny_causal import CPU, QUESTIONS, write_gpt2, write_llama
from transformers import AutoModelForCausalLM, AutoTokenizer

from fitrag_integrations.errors import InputError, ModelLoadError
from fitrag_integrations.models import LocalGenerator, NecessityJudge
from fitrag_integrations.models.causal import templates
from fitrag_integrations.models.causal.loading import shared_causal
from fitrag_integrations.models.words import cut_at

PHI = "{% for m in messages %}<|user|>{{ m['content'] }}<|end|>{% endfor %}<|pad|>"
"""Phi-3's shape: the prompt ends with <|end|><|assistant|>, both of them end-of-text ids."""
QWEN = (
    "{% for m in messages %}<|user|>{{ m['content'] }}<|end|>{% endfor %}"
    "{% if enable_thinking is defined and enable_thinking is false %}<think></think>{% endif %}"
)
R1 = "{% for m in messages %}<|user|>{{ m['content'] }}{% endfor %}<think>\n"


def chat(folder, template, *, eos=(0,)):
    """Write a tiny chat model with a template and end-of-text ids; return its folder."""
    path = write_llama(folder, chat=True)
    tokenizer = AutoTokenizer.from_pretrained(path)
    tokenizer.chat_template = template
    tokenizer.save_pretrained(path)
    generation = folder / "generation_config.json"
    generation.write_text(json.dumps({"eos_token_id": list(eos)}))
    return path


def test_the_prompt_of_phi_3_keeps_its_end_and_assistant_tokens(tmp_path):
    base = chat(tmp_path, PHI, eos=(0, 1))
    tokenizer, model = (
        AutoTokenizer.from_pretrained(base),
        AutoModelForCausalLM.from_pretrained(base),
    )
    engine = shared_causal(base, CPU)
    made = LocalGenerator(engine, max_new_tokens=6)
    for question in QUESTIONS:
        turn = [{"role": "user", "content": question}]
        ids = tokenizer.apply_chat_template(turn, add_generation_prompt=True, return_dict=False)
        assert ids[-2:] == [0, 1]
        assert engine.encode([engine.render(question)]) == [ids]
        out = model.generate(torch.tensor([ids]), max_new_tokens=6, do_sample=False)
        expected = tokenizer.decode(out[0, len(ids) :], skip_special_tokens=True).strip()
        assert made.generate([question]) == [expected]


def test_an_end_that_the_tokenizer_appends_is_removed(tmp_path):
    base = write_llama(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(base)
    plain = tokenizer(QUESTIONS[0])["input_ids"]
    engine = shared_causal(base, CPU)
    engine.tokenizer = lambda texts, **_: {"input_ids": [[*plain, 0] for _ in texts]}
    for name in ("eos_token", "eos_token_id", "bos_token_id"):
        setattr(engine.tokenizer, name, getattr(tokenizer, name))
    assert engine.encode([QUESTIONS[0]]) == [plain]
    engine.release()


def test_a_thinking_model_answers_at_once_unless_it_is_to_think(tmp_path):
    base = chat(tmp_path, QWEN)
    quick, slow = (
        LocalGenerator.from_pretrained(base, chat_template_kwargs=kwargs)
        for kwargs in (None, {"enable_thinking": True})
    )
    assert quick.question_prompt("who?").endswith("<think></think>")
    assert "<think>" not in slow.question_prompt("who?")
    opened = LocalGenerator.from_pretrained(chat(tmp_path / "r1", R1))
    assert opened.question_prompt("who?").endswith("<think>\n\n</think>\n\n")


def test_a_gate_keeps_the_template_arguments_it_was_fitted_with(tmp_path):
    judge = NecessityJudge.from_pretrained(
        chat(tmp_path / "base", QWEN), chat_template_kwargs={"enable_thinking": True}
    )
    judge.save_pretrained(tmp_path / "judge")
    again = NecessityJudge.from_pretrained(tmp_path / "judge")
    assert again._engine.render("x") == judge._engine.render("x")
    assert again.p_known(["who?"], ["the king"]) == judge.p_known(["who?"], ["the king"])


@pytest.mark.parametrize(
    ("template", "message"),
    [("{{ raise_exception('System role not supported') }}", "System role"), ("{% if %}", "fails")],
)
def test_a_template_that_raises_is_reported_at_load_with_a_remedy(tmp_path, template, message):
    base = chat(tmp_path, template)
    with pytest.raises(ModelLoadError, match=f"(?s){message}.*tokenizer_kwargs"):
        LocalGenerator.from_pretrained(base)
    plain = LocalGenerator.from_pretrained(base, tokenizer_kwargs={"chat_template": PHI})
    assert plain.generate(["who?"])


LOOP = (
    "{% for a in range(9999) %}{% for b in range(9999) %}{% for c in range(9999) %}{% endfor %}"
    "{% endfor %}{% endfor %}"
)
GROWING = "{% set ns = namespace(x='a') %}" + (
    "{% for n in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}"
)
OVERSTEPPING = {
    "loops": LOOP,
    "product": "{{ 'a' * 10**10 }}",
    "power": "{{ 10 ** (10 ** 10) }}",
    "doubling": GROWING,
    "padding": "{{ 'a'.ljust(10**10) }}",
    "format": "{{ '%10000000000d' % 1 }}",
    "list": "{{ [0] * 10**10 }}",
    "late": "{% if messages[0].content == 'Who wrote Faust?' %}" + LOOP + "{% endif %}",
    "long": "{{ 'ab' * 10**6 }}",
}


@pytest.mark.parametrize("name", OVERSTEPPING)
def test_a_template_has_limits_of_time_memory_and_size(name, monkeypatch):
    monkeypatch.setattr(templates, "SECONDS", 1.0)
    with pytest.raises(templates.TemplateError, match="more than|allowed|exceeds"):
        templates.render_template(OVERSTEPPING[name], "Who wrote Faust?", {})
    monkeypatch.undo()
    assert templates.render_template("{{ messages[0].content }}{{ a }}", "x", {"a": 1}) == "x1"


def test_a_folder_with_an_endless_template_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(templates, "SECONDS", 1.0)
    with pytest.raises(ModelLoadError, match="its chat template fails .*more than 1 s"):
        LocalGenerator.from_pretrained(chat(tmp_path, LOOP))


def test_an_argument_for_transformers_reaches_it(tmp_path):
    base = write_llama(tmp_path)
    made = LocalGenerator.from_pretrained(base, model_kwargs={"attn_implementation": "eager"})
    assert made._engine.model.config._attn_implementation == "eager"
    with pytest.raises(ModelLoadError, match="nonsense"):
        LocalGenerator.from_pretrained(base, model_kwargs={"attn_implementation": "nonsense"})
    with pytest.raises(InputError, match="model_kwargs"):
        LocalGenerator.from_pretrained(base, model_kwargs=["eager"])
    ran = LocalGenerator.from_pretrained(base, model_kwargs={"trust_remote_code": True})
    assert ran.generate(["who?"]) == made.generate(["who?"])
    for given in ("bfloat16", torch.bfloat16):
        named = LocalGenerator.from_pretrained(base, model_kwargs={"torch_dtype": given})
        assert named._engine.dtype == torch.bfloat16
    static = {"cache_implementation": "static"}
    fixed = LocalGenerator.from_pretrained(base, generation_kwargs=static, max_new_tokens=9)
    grown = LocalGenerator.from_pretrained(base, max_new_tokens=9)
    assert fixed._engine.model.generation_config.cache_implementation == "static"
    for texts in (QUESTIONS, ["what sea?"], ["the river " * 9, *QUESTIONS]):
        assert fixed.generate(texts) == grown.generate(texts)
        assert list(fixed.stream(texts[0])) == list(grown.stream(texts[0]))
    for one, other in zip(fixed.draft(QUESTIONS), grown.draft(QUESTIONS), strict=True):
        assert one.text == other.text and one.logprobs == pytest.approx(other.logprobs, abs=1e-4)
    with pytest.raises(InputError, match="cache_implementation.*greedy.*do_sample"):
        LocalGenerator.from_pretrained(base, generation_kwargs={"do_sample": True})
    with pytest.raises(TypeError, match="unexpected"):
        LocalGenerator.from_pretrained(base, nonsense=1)


@pytest.mark.parametrize("stop", ["\n", "king", "the r", "zz"])
@pytest.mark.parametrize("kind", [write_llama, write_gpt2])
def test_stop_texts_found_step_by_step_are_those_of_the_whole_text(tmp_path, kind, stop):
    made = LocalGenerator.from_pretrained(kind(tmp_path, seed=3), max_new_tokens=60, stop=[])
    ended = LocalGenerator.from_pretrained(tmp_path, max_new_tokens=60, stop=[stop])
    prompts = [f"{question} 👩‍🚀 ünïcode אב" for question in QUESTIONS]
    for free, cut in zip(made.generate(prompts), ended.generate(prompts), strict=True):
        assert cut == cut_at(free, [stop]).strip()
        assert list(ended.stream(prompts[0]))
