"""What each verb adds to a row."""

import json

import pytest
from command_fakes import passages, read, write
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda
from tiny import write_cross_encoder, write_pruner

from fitrag_integrations.commands.engine import models
from fitrag_integrations.commands.run.answering import PLAIN_MARKS, shown
from fitrag_integrations.methods import approximate_tokens
from fitrag_integrations.methods.prompts import RETRIEVAL
from fitrag_integrations.models import BiLabelScorer, OnePassScorer
from fitrag_integrations.types import Passage

TEXT = "Rain falls. It is wet. Ann wrote it. She was paid. It sold."
ROW = {
    "id": 1,
    "question": "ann wrote",
    "passages": [
        {"id": "x", "title": "A", "text": TEXT},
        {"id": "x", "title": "A", "text": TEXT},  # the same id, title and text once more
        {"id": "y", "title": "B", "text": "Nothing here."},
    ],
}


@pytest.fixture
def one(tmp_path, scorer, fitrag):
    """Run a verb over one row and give the row that comes back."""

    def run(verb, *arguments, row=ROW):
        source = write(tmp_path / "in.jsonl", [row])
        done = fitrag(verb, source, tmp_path / "out.jsonl", "--overwrite", *arguments)
        assert done[0] == 0, done
        return read(tmp_path / "out.jsonl")[0]

    return run


def test_score_in_passage_order(one):
    assert one("score")["scores"] == [
        {"has_answer": 1.0, "llm_prefer": 1 / 14},
        {"has_answer": 1.0, "llm_prefer": 1 / 14},
        {"has_answer": 0.0, "llm_prefer": 1 / 3},
    ]


def test_compress_names_the_place_of_each_excerpt(one):
    got = one("compress", "--window", 3, "--no-deduplicate")
    slices = [
        (e["passage"], ROW["passages"][e["passage"]]["text"][e["start"] : e["end"]])
        for e in got["excerpts"]
    ]
    best = "Rain falls. It is wet. Ann wrote it."
    assert slices == [(0, best), (1, best), (2, "Nothing here.")]
    assert [e["score"] for e in got["excerpts"]] == pytest.approx([5 / 9, 5 / 9, 1 / 6])
    shown = "1. A: {0}\n2. A: {0}\n3. B: Nothing here."
    assert got["tokens_in"] == approximate_tokens(shown.format(TEXT))
    assert got["tokens_out"] == approximate_tokens(shown.format(best))


def sliced(text, start, end, unit):
    """Slice as Python does, or as JavaScript does."""
    if unit == "codepoints":
        return text[start:end]
    return text.encode("utf-16-le")[2 * start : 2 * end].decode("utf-16-le")


@pytest.mark.parametrize("unit", ["codepoints", "utf16"])
def test_compress_gives_text_beside_offsets_in_the_unit_named(one, unit):
    smiling = "\U0001f600\U0001f600 \u00c4h. \U0001f468\u200d\U0001f469 Ann wrote it. Rain."
    ports = "# Ports\n\n| name | port |\n| --- | --- |\n| \U0001f310 Ann | wrote it |\n| b | 2 |\n"
    row = {**ROW, "passages": [{"text": smiling}, {"text": ports}]}
    got = one("compress", "--offsets", unit, "--explain", "--max-tokens", 200, row=row)
    assert got["offsets"] == unit and got["notes"] == []
    assert {e["passage"] for e in got["excerpts"]} == {0, 1}
    for e in got["excerpts"]:
        text = row["passages"][e["passage"]]["text"]
        spans = [*e.get("lead", ()), (e["start"], e["end"])]
        places = [e["text"].index(sliced(text, *span, unit).strip()) for span in spans]
        assert places == sorted(places)
    for each in got["selection"]:
        if each["whole"]:
            text = row["passages"][int(each["passage"])]["text"]
            assert sliced(text, each["start"], each["end"], unit) == text


def test_compress_within_a_budget_after_a_reranking_cut(one):
    assert [e["passage"] for e in one("compress", "--top-n", 1)["excerpts"]] == [0]
    got = one("compress", "--max-tokens", 20, "--window", 1)
    assert [e["passage"] for e in got["excerpts"]] == [0, 2]
    assert got["tokens_out"] <= 20
    assert 0 < one("compress", "--max-tokens", 5)["tokens_out"] <= 5  # the first words alone


@pytest.mark.parametrize("words", ["compress", "compress --top-n 1", "answer"])
def test_compress_and_answer_explain_where_asked(one, words):
    plain, explained = one(*words.split()), one(*words.split(), "--explain")
    assert "selection" not in plain.get("trace", plain)
    selection = explained.get("trace", explained)["selection"]
    rows = [row for row in selection if row["whole"]]
    assert [row["at"] for row in rows] == [0, 1, 2]
    assert [row["kept"] for row in rows][:2] == [True, False]
    assert rows[1]["reason"] == "duplicate" and rows[1]["detail"] == "same text as A"


@pytest.mark.parametrize(("prior", "best"), [(0, 2), (1, 0)])
def test_compress_ranks_by_scores_and_by_a_prior(one, prior, best):
    kept = one("compress", "--prior", prior, "--top-n", 1, "--weight", 1)["excerpts"]
    assert {each["passage"] for each in kept} == {best}


def test_read_gives_the_best_span_of_all_passages(one):
    got = one("read")
    place = {k: got[k] for k in ("answer", "passage", "start", "end", "score")}
    assert place == {"answer": "Rain", "passage": 0, "start": 0, "end": 4, "score": 0.59}


def test_read_abstains_when_asked_to(one):
    row = {**ROW, "passages": passages("  Short.")}
    assert one("read", row=row)["answer"] == "Short."
    assert one("read", row=row)["start"] == 2
    got = one("read", "--abstain", row=row)
    assert (got["answer"], got["passage"], got["start"], got["end"]) == ("", None, None, None)
    assert got["score"] == 0.08


def test_answer_gives_context_prompt_answer_and_trace(one):
    row = {**ROW, "question": "ann wrote Nothing", "passages": [ROW["passages"][0], *passages("z")]}
    got = one("answer", "--top-n", 1, row=row)
    excerpt = got["context"][0]
    assert (excerpt["passage"], excerpt["id"], excerpt["title"]) == (0, "x", "A")
    assert excerpt["text"] == TEXT[excerpt["start"] : excerpt["end"]]
    lines = f"1. A: {excerpt['text']}"
    assert got["prompt"] == RETRIEVAL.text.format(passages=lines, question=row["question"])
    assert got["answer"] == ""  # FirstWord trusts 36 characters less than half
    ports = [step["port"] for step in got["trace"]["steps"]]
    assert ports == ["retrieve", "score", "score", "read"]
    left = "1 of 2 passages left out by top_n=1"
    assert got["trace"]["notes"] == [left, "no answer: the reader found none it trusts"]


def test_answer_through_a_chat_model(one, monkeypatch):
    chat = RunnableLambda(lambda prompt: AIMessage(f" {len(prompt)} "))
    monkeypatch.setattr(models, "load_chat_model", lambda name: chat)
    got = one("answer", "--llm", "some:model")
    assert got["answer"] == str(len(got["prompt"]))


def test_answer_from_an_index_unless_the_row_has_passages(one, index):
    got = one("answer", "--index", index.folder, row={"question": "who wrote"})
    assert (got["context"][0]["id"], got["context"][0]["passage"]) == ("p1", None)
    assert got["answer"] == "Ann"
    assert got["trace"]["source"]["text"] == "Ann"
    assert one("answer", "--index", index.folder)["context"][0]["id"] == "x"


def test_answer_to_a_question_in_words(scorer, fitrag, index):
    code, out, _ = fitrag("answer", "who wrote it", "--index", index.folder, "--explain")
    assert code == 0
    assert out.splitlines()[0] == "Ann"
    assert "question: who wrote it" in out and "kept 1 excerpts" in out and "**Ann**" in out
    told = json.loads(fitrag("answer", "who wrote it", "--index", index.folder, "--json")[1])
    assert told["answer"] == "Ann"
    code, _, err = fitrag("answer", " ", "--index", index.folder)
    assert code == 2 and "question" in err


ROWS = [
    {"question": f"who wrote part {i}?", "answers": ["king"], "passages": passages("the king", "b")}
    for i in range(3)
]


@pytest.fixture(scope="module")
def cross(tmp_path_factory):
    return write_cross_encoder(tmp_path_factory.mktemp("published"))


FIRST = ROWS[0]["question"], Passage("", ROWS[0]["passages"][0]["text"], "T0")


@pytest.mark.parametrize("kind", ["reranker", "pruner"])
def test_score_and_compress_take_a_published_model(cross, fitrag, tmp_path, kind):
    if kind == "reranker":
        folder, load = cross, BiLabelScorer.from_reranker
    else:
        (tmp_path / "pruner").mkdir()
        folder = write_pruner(tmp_path / "pruner", default_threadshold=0.0)
        load = OnePassScorer.from_pruner
    source = write(tmp_path / "in.jsonl", ROWS)
    for verb in ("score", "compress"):
        out = tmp_path / f"{verb}.jsonl"
        code, _, err = fitrag(verb, source, out, "--model", folder, "--quiet")
        assert code == 0, err
    first = read(tmp_path / "score.jsonl")[0]["scores"][0]
    (expected,) = load(folder).score([FIRST])
    assert first["has_answer"] == pytest.approx(expected.has_answer, abs=1e-6)
    assert (first["llm_prefer"] is None) == (expected.llm_prefer is None)


def test_arguments_for_transformers_reach_it(cross, fitrag, tmp_path, monkeypatch):
    rows = write(tmp_path / "rows.jsonl", ROWS)
    given = ("score", rows, tmp_path / "out.jsonl", "--model", cross)
    made, load = [], BiLabelScorer.from_reranker

    def loaded(name, **how):
        made.append(load(name, **how))
        return made[-1]

    monkeypatch.setattr(BiLabelScorer, "from_reranker", loaded)
    code, _, err = fitrag(*given, "--model-kwargs", '{"attn_implementation": "eager"}')
    assert code == 0, err
    assert made[0]._engine.trunk.encoder.config._attn_implementation == "eager"
    for wrong in ("eager", "[1]", "{"):
        code, _, err = fitrag(*given, "--overwrite", "--model-kwargs", wrong)
        assert code == 2 and "--model-kwargs" in err and "a JSON object" in err


def test_an_answer_is_marked_as_a_whole_word():
    assert shown("An ant and an\nANT.", "ant", PLAIN_MARKS) == "An **ant** and an **ANT**."
    assert shown("Some text.", " ", PLAIN_MARKS) == "Some text."
    assert shown("It cost 3.5 (net).", "3.5 (net)", PLAIN_MARKS) == "It cost **3.5 (net)**."
