"""The local generator: greedy, measured token by token, streamed."""

import hashlib
import json
import math
import shutil

import pytest
import torch
from tiny_causal import TEXTS, plainly, write_gpt2, write_llama

from fitrag_integrations.errors import (
    ChecksumError,
    InputError,
    MissingExtraError,
    ModelLoadError,
)
from fitrag_integrations.methods.prompts import ITRG_REFRESH, PLAIN
from fitrag_integrations.models import LocalGenerator
from fitrag_integrations.models.causal import decoding as causal_decoding
from fitrag_integrations.models.causal.decoding import sure_part
from fitrag_integrations.models.runtime.folder import write_manifest
from fitrag_integrations.types import Context, Draft
from fitrag_integrations.values.prompt import (
    LINE_TOKENS,
    PARAGRAPH,
    USUAL_TOKENS,
    LimitedPrompt,
    with_shots,
)

KNOWN = {
    "who wrote the score of the film?": "a king of Rome wrote it",
    "what sea is the Danube in?": "the Black Sea",
}


def teach(folder, texts=TEXTS[:2]):
    """Teach a tiny model its two answers, so that what it writes is text."""
    model, tokenizer = plainly(folder)
    rows = [torch.tensor([tokenizer(text)["input_ids"]]) for text in texts]
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(60):
        loss = sum(model(input_ids=row, labels=row).loss for row in rows)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module", params=[write_llama, write_gpt2], ids=["llama", "gpt2"])
def base(request, tmp_path_factory):
    torch.manual_seed(0)
    return teach(request.param(tmp_path_factory.mktemp("taught")))


@pytest.fixture(scope="module")
def generator(base):
    made = LocalGenerator.from_pretrained(base, device="cpu", max_new_tokens=24)
    yield made
    made.unload()


def test_answers_stop_at_the_end_of_the_line(generator):
    assert generator.answer(list(KNOWN)) == list(KNOWN.values())
    prompts = [generator.question_prompt(question) for question in KNOWN]
    assert prompts[0] == "Question: who wrote the score of the film?\nAnswer:"
    assert "Question: what is {question}?" in generator.question_prompt("what is {question}?")
    assert generator.generate(prompts) == list(KNOWN.values())


def test_blanks_before_an_answer_do_not_end_it(tmp_path):
    question, answer = "what sea is the Danube in?", "the Black Sea"
    texts = [f"Question: {question}\nAnswer:\n\n {answer}\nQuestion: who wrote the score?\n"]
    made = LocalGenerator.from_pretrained(teach(write_llama(tmp_path), texts), device="cpu")
    assert made.answer([question]) == ["the Black Sea"]
    (draft,) = made.draft([question])
    assert draft.text == answer and draft.logprobs
    assert "".join(made.stream(made.question_prompt(question))) == answer


def test_what_has_ended_leaves_its_batch(generator):
    """The others go on where they were, with the same tokens and as sure of them."""
    questions = [*KNOWN, "what sea is the Danube in?", "the river and the ocean and the city"]
    alone, rows = [generator.draft([question])[0] for question in questions], []
    hook = generator._engine.model.register_forward_pre_hook(
        lambda _, given, named: rows.append(len(named["input_ids"])), with_kwargs=True
    )
    together = generator.draft(questions)
    hook.remove()
    assert rows[0] == 4 and rows == sorted(rows, reverse=True) and rows[-1] < 3
    for one, other in zip(together, alone, strict=True):
        assert one.text == other.text
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-4)
        assert one.entropies == pytest.approx(other.entropies, abs=1e-4)


def test_a_line_is_not_as_long_as_a_document(tmp_path):
    made = LocalGenerator.from_pretrained(write_llama(tmp_path), device="cpu", stop=())
    line, document = made.generate([LimitedPrompt("Rome", one_line=True), "Rome"])
    assert (line.cut, document.cut) == (LINE_TOKENS, USUAL_TOKENS)


def test_a_draft_is_measured_token_by_token(generator, base):
    """Compare with the model asked by hand, one token after another."""
    model, tokenizer = plainly(base)
    for question, draft in zip(KNOWN, generator.draft(list(KNOWN)), strict=True):
        ids, told = tokenizer(generator.question_prompt(question))["input_ids"], []
        for _ in draft.logprobs:
            with torch.no_grad():
                chances = model(torch.tensor([ids])).logits[0, -1].softmax(-1)
            top = chances.topk(2).values.tolist()
            entropy = -sum(p * math.log(p) for p in chances.tolist() if p > 0)
            told.append((math.log(top[0]), top[0] - top[1], entropy))
            ids.append(int(chances.argmax()))
        assert tokenizer.decode(ids).endswith(KNOWN[question]) and draft.text == KNOWN[question]
        expected = list(zip(*told, strict=True))
        found = (draft.logprobs, draft.margins, draft.entropies)
        for a, b in zip(found, expected, strict=True):
            assert a == pytest.approx(b, abs=1e-4)


def test_a_step_decodes_a_few_tokens_and_measures_only_drafts(base, monkeypatch):
    made = LocalGenerator.from_pretrained(base, max_new_tokens=60, stop=["zzz"])
    tokenizer, measure = made._engine.tokenizer, causal_decoding.token_facts
    decode, sizes, measured = tokenizer.decode, [], []
    monkeypatch.setattr(
        tokenizer, "decode", lambda ids, **how: sizes.append(len(ids)) or decode(ids, **how)
    )
    monkeypatch.setattr(
        causal_decoding, "token_facts", lambda *given: measured.append(1) or measure(*given)
    )
    (text,) = made.generate(["The king of"])
    assert text and max(sizes[:-1]) < 12 <= len(sizes) and not measured
    made.draft(["who?"])
    assert measured


def test_rescoring_a_draft_is_drafting_it_and_tells_a_wrong_one(generator):
    drafts = generator.draft(list(KNOWN))
    again = generator.rescore(list(KNOWN), [draft.text for draft in drafts])
    for one, other in zip(drafts, again, strict=True):
        assert one.text == other.text and len(one.logprobs) == len(other.logprobs)
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-4)
        assert one.entropies == pytest.approx(other.entropies, abs=1e-4)

    question = "what sea is the Danube in?"
    right, wrong, none = generator.rescore(
        [question] * 3, ["the Black Sea", "the city wrote it", " \n "]
    )
    assert sum(right.logprobs) > sum(wrong.logprobs) + 1 and none == Draft("")


@pytest.mark.parametrize("tokens", [1, 3])
def test_drafts_are_as_short_as_asked(base, tokens):
    generator = LocalGenerator.from_pretrained(base, device="cpu", draft_tokens=tokens)
    for draft, text in zip(generator.draft(list(KNOWN)), KNOWN.values(), strict=True):
        assert len(draft.logprobs) == tokens and text.startswith(draft.text)


def test_first_tokens(generator):
    assert generator.first_tokens(["the Black Sea", ""], 100) == ["the Black Sea", ""]
    (cut,) = generator.first_tokens(["the Black Sea, the Black Sea, the Black Sea"], 2)
    assert cut and "the Black Sea".startswith(cut)


def test_streaming_gives_what_generate_gives_and_may_be_left(generator, base):
    for question, answer in KNOWN.items():
        pieces = list(generator.stream(generator.question_prompt(question)))
        assert "".join(pieces) == answer and len(pieces) > 1

    generator = LocalGenerator.from_pretrained(base, device="cpu", max_new_tokens=300, stop=())
    stream = generator.stream("Question: what sea is the Danube in?\nAnswer:")
    assert next(stream)
    stream.close()
    assert len(generator.draft(list(KNOWN))) == 2


@pytest.mark.parametrize(
    ("text", "stop", "sure"),
    [
        (" Rome", (), "Rome"),
        ("Rome ", (), "Rome"),
        ("Rome\nQuestion", ("\n",), "Rome"),
        ("\n \nRome\nQuestion", ("\n",), "Rome"),
        ("\nQuestion: who?", ("\nQuestion:",), ""),
        ("Rome Q", ("Question:",), "Rome"),
        ("Rome Quest", ("Question:", "\n"), "Rome"),
        ("Rome Quick", ("Question:",), "Rome Quick"),
        ("Rome\ufffd", (), "Rome"),
    ],
)
def test_what_may_still_change_is_held_back(text, stop, sure):
    assert sure_part(text, stop) == sure


def test_p_yes_is_a_share_of_two(generator, base):
    model, tokenizer = plainly(base)
    prompt = "Do you know the answer by yourself? Yes or No:"
    with torch.no_grad():
        last = model(torch.tensor([tokenizer(prompt)["input_ids"]])).logits[0, -1]
    yes, no = (last[tokenizer(word)["input_ids"][0]] for word in (" Yes", " No"))
    expected = float(yes.exp() / (yes.exp() + no.exp()))
    assert generator.p_yes([prompt]) == pytest.approx([expected], abs=1e-5)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"max_new_tokens": 0}, "max_new_tokens` must be"),
        ({"draft_tokens": 0}, "draft_tokens` must be"),
        ({"prompt": "Answer:"}, r"prompt` must be .*a text with \{question\}"),
        ({"stop": "\n"}, "stop` must be"),
        ({"device": "nowhere"}, "device` must be"),
    ],
)
def test_a_wrong_option_is_named(base, options, named):
    with pytest.raises(InputError, match=named):
        LocalGenerator.from_pretrained(base, **options)


@pytest.fixture
def chat(tmp_path):
    made = LocalGenerator.from_pretrained(write_llama(tmp_path / "chat", chat=True), device="cpu")
    yield made
    made.unload()


def test_a_chat_model_is_written_to_in_its_template(chat):
    rendered = chat.question_prompt("what sea?")
    assert rendered == "<|user|>\nwhat sea?<|end|>\n<|assistant|>\n"
    assert chat.generate(["what sea?"]) == chat.generate([rendered]) == chat.answer(["what sea?"])
    assert chat.stop == ()
    (reply,) = chat.generate([LimitedPrompt("what sea?", tokens=15, one_line=True)])
    assert reply.cut in (None, USUAL_TOKENS)  # it may think before a short answer
    assert reply == chat.generate(["what sea?"])[0]


def test_a_reply_is_as_long_as_its_prompt_asks(tmp_path):
    """A document is no answer: neither 64 tokens nor the end of a line cut it."""
    made = LocalGenerator.from_pretrained(write_llama(tmp_path / "base"), device="cpu")
    document, usual = made.generate([LimitedPrompt("Rome", tokens=200), "Rome"])
    assert (document.cut, usual.cut) == (200, USUAL_TOKENS)
    short = LocalGenerator.from_pretrained(tmp_path / "base", device="cpu", max_new_tokens=5)
    (five,) = short.generate([LimitedPrompt("Rome", tokens=200)])
    assert five.cut == 5 and document.startswith(five)
    tight = LocalGenerator.from_pretrained(write_llama(tmp_path / "tight", positions=64))
    (reply,) = tight.generate(["the river and the city of Rome " * 2])  # fills the input
    assert reply.cut is not None and reply.cut < 64


def test_only_a_prompt_of_one_line_ends_with_it(base):
    made = LocalGenerator.from_pretrained(base, device="cpu")
    prompt = "Question: what sea is the Danube in?\nAnswer:"
    line, more = made.generate(
        [LimitedPrompt(prompt, one_line=True), LimitedPrompt(prompt, tokens=30)]
    )
    assert line == "the Black Sea" and line.cut is None
    assert more.startswith("the Black Sea\n") and more.cut == 30
    (draft,) = made.draft([LimitedPrompt("what sea is the Danube in?", tokens=2)])
    assert len(draft.logprobs) == 2


def test_a_model_folder_may_say_how_to_ask(base, tmp_path):
    folder = tmp_path / "named"
    model, tokenizer = plainly(base)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    config = (folder / "config.json").read_bytes()
    digests = {"config.json": hashlib.sha256(config).hexdigest()}
    fields = {"name": "little", "prompt": "Q: {question}\nA:", "stop": ["."], "files": digests}
    write_manifest(folder, "model.json", kind="generator", fields={**fields, "max_new_tokens": 5})
    made = LocalGenerator.from_pretrained(folder, device="cpu")
    found = (made.name, made.prompt, made.stop, made.max_new_tokens)
    assert found == ("little", "Q: {question}\nA:", (".",), 5)
    other = LocalGenerator.from_pretrained(folder, device="cpu", max_new_tokens=7, stop=())
    assert (other.stop, other.max_new_tokens) == ((), 7)
    made.unload()
    other.unload()
    (folder / "config.json").write_text(json.dumps(json.loads(config)))
    with pytest.raises(ChecksumError, match="SHA-256"):
        LocalGenerator.from_pretrained(folder, device="cpu")


@pytest.mark.parametrize("added", ["chat_template.jinja", "additional_chat_templates/a.jinja"])
def test_a_file_added_to_a_folder_with_checksums_is_refused(base, tmp_path, added):
    folder = shutil.copytree(base, tmp_path / "listed")
    files = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}
    write_manifest(folder, "model.json", kind="generator", fields={"files": files})
    (folder / "README.md").write_text("A card.")
    LocalGenerator.from_pretrained(folder, device="cpu").unload()
    (folder / added).parent.mkdir(exist_ok=True)
    (folder / added).write_text("{{ messages }}")
    with pytest.raises(ModelLoadError, match=f"{added} has no checksum"):
        LocalGenerator.from_pretrained(folder, device="cpu")


ROWS = [{"question": "what sea is the Danube in?", "answer": "the Black Sea"}]
SHOWN = "Question: what sea is the Danube in?\nAnswer: the Black Sea\n\nQuestion: "


def test_examples_stand_in_every_prompt(base):
    shown = LocalGenerator.from_pretrained(base, device="cpu", shots=ROWS)
    plain = LocalGenerator.from_pretrained(base, device="cpu")
    question = "who wrote the score of the film?"
    prompt = f"{SHOWN}{question}\nAnswer:"
    assert shown.question_prompt(question) == prompt
    assert shown.answer([question]) == plain.generate([LimitedPrompt(prompt, one_line=True)])
    assert shown.draft([question])[0].text == shown.answer([question])[0]
    asked = PLAIN.render(Context(question))
    assert shown.generate([asked]) == plain.generate([with_shots(asked, shown.shots)])
    assert shown.p_yes([asked]) == plain.p_yes([prompt]) != plain.p_yes([asked])
    assert shown.generate([str(asked)]) == plain.generate([str(asked)])  # a prompt of the caller's
    shown.unload()
    plain.unload()


def test_a_document_ends_with_its_paragraph(base):
    made = LocalGenerator.from_pretrained(base, device="cpu")
    document = made._how(ITRG_REFRESH.render(Context("what sea?")))
    assert document.stop == PARAGRAPH
    assert "Question" not in made.generate([ITRG_REFRESH.render(Context("what sea?"))])[0]
    assert made._how(LimitedPrompt("what sea?")).stop == ()
    made.unload()


def test_a_gguf_file_is_packed_weights(tmp_path, base):
    file = tmp_path / "tiny-q4.gguf"
    file.write_bytes(b"GGUF")
    named = ("tiny-q4.gguf could not be loaded", "gguf is needed for tiny-q4.gguf: pip install")
    for source in (file, tmp_path):
        with pytest.raises((ModelLoadError, MissingExtraError)) as caught:
            LocalGenerator.from_pretrained(source)
        assert any(one in str(caught.value) for one in named), str(caught.value)
    (tmp_path / "other.gguf").write_bytes(b"GGUF")
    with pytest.raises(InputError, match=r"one of other.gguf, tiny-q4.gguf"):
        LocalGenerator.from_pretrained(tmp_path)
