"""What holds for every model alike: batches, async calls, pickles, wrong input, and its end."""

import pickle
from dataclasses import astuple, is_dataclass

import pytest
from scorer.test_ready_rerankers import write_monot5
from tiny import (
    PAIRS,
    make_evaluator,
    make_onepass,
    make_reader,
    make_scorer,
    write_bert,
    write_cross_encoder,
    write_pruner,
    write_t5,
    write_t5_classifier,
)
from tiny_causal import DRAFTS, QUESTIONS, write_gpt2, write_ik, write_judge, write_llama

from fitrag_integrations import Passage
from fitrag_integrations.errors import InputError, ModelLoadError
from fitrag_integrations.models import (
    BiLabelScorer,
    ExtractiveReader,
    IKClassifier,
    LocalGenerator,
    NecessityJudge,
    OnePassScorer,
    ReplugGenerator,
    RetrievalEvaluator,
)

ITEMS = [(question, passage, [(0, 4)]) for question, passage in PAIRS]
ENSEMBLES = [(QUESTIONS, (0.2, 0.5, 0.3)), (QUESTIONS[:1], (1.0,)), (QUESTIONS[:2], (0.5, 0.5))]
WRITING = {"max_new_tokens": 8, "draft_tokens": 4, "stop": ()}

# What is refused, and the field that is named.
WRONG_PAIRS = {
    "a blank question": (("  ", PAIRS[0][1]), r"pairs\[1\].question` must be"),
    "no question": ((None, PAIRS[0][1]), r"pairs\[1\].question` must be"),
    "a blank passage": (("who", Passage("1", " \n")), r"pairs\[1\].passage.text"),
    "no passage": (("who", "rome"), r"pairs\[1\]` must be a \(question, Passage\) tuple"),
    "a list": (["who", PAIRS[0][1]], r"pairs\[1\]` must be"),
    "half a pair": (("who",), r"pairs\[1\]"),
    "a text": ("who", r"pairs\[1\]` must be .*got "),
}
WRONG_ITEMS = {
    "no spans": (PAIRS[0], r"items\[1\]"),
    "an end beyond the text": ((*PAIRS[0], [(0, 99)]), r"items\[1\].spans\[0\].end"),
    "an empty span": ((*PAIRS[0], [(0, 4), (3, 3)]), r"items\[1\].spans\[1\].start"),
    "a number": ((*PAIRS[0], [4]), r"items\[1\].spans\[0\]"),
    "a blank question": (("", PAIRS[0][1], []), r"pairs\[1\].question"),
}
WRONG_ENSEMBLES = {
    "nothing": (([], []), r"items\[1\]"),
    "no weight": ((["what sea?"], []), r"items\[1\]"),
    "weights of zero": ((["what sea?"], [0.0]), r"items\[1\]"),
    "a weight below zero": ((["what sea?"], [-1.0]), r"items\[1\]"),
    "a blank prompt": (([" "], [1.0]), r"items\[1\]"),
}
WRONG_DRAFTED = {
    "a blank question": ((["who?", " "], ["", ""]), r"questions\[1\]` must be"),
    "no draft": ((["who?"], [None]), r"drafts\[0\]` must be"),
    "fewer drafts": ((["a", "b"], ["c"]), "drafts` must be 2, one per question"),
    "a text": (("who?", ["a"] * 4), "questions` must be"),
}
WRONG_TEXTS = {
    "blank": ((["who?", " "],), r"(prompts|questions)\[1\]` must be"),
    "none": (([None],), r"(prompts|questions)\[0\]` must be"),
    "a text": (("what sea?",), "(prompts|questions)` must be"),
    "bytes": (([b"what"],), r"(prompts|questions)\[0\]` must be"),
}


def beside(good, wrong):
    """Put each wrong thing between two that are right."""
    return {name: (([good[0], bad, good[1]],), told) for name, (bad, told) in wrong.items()}


def saved(make, write=write_bert):
    def written(folder):
        model = make(write(folder / "base"))
        model.save_pretrained(folder / "model")
        model.unload()
        return folder / "model"

    return written


def over(write, base, **fields):
    return lambda folder: write(folder / "model", base(folder / "base"), **fields)


OF_PAIRS = (PAIRS,), beside(PAIRS, WRONG_PAIRS)
OF_ITEMS = (ITEMS,), beside(ITEMS, WRONG_ITEMS)
OF_DRAFTS, OF_TEXTS = ((QUESTIONS, DRAFTS), WRONG_DRAFTED), ((QUESTIONS,), WRONG_TEXTS)
OF_ENSEMBLES = (ENSEMBLES,), beside(ENSEMBLES, WRONG_ENSEMBLES)
SCORER, EVALUATOR = BiLabelScorer.from_pretrained, RetrievalEvaluator.from_pretrained
ONE_PASS, RERANKER = OnePassScorer.from_pretrained, BiLabelScorer.from_reranker
IK, JUDGE = IKClassifier.from_pretrained, NecessityJudge.from_pretrained
WRITER, REPLUG = LocalGenerator.from_pretrained, ReplugGenerator.from_pretrained

# How a folder is written and loaded, which call is made, with what, and what is refused.
MODELS = {
    "scorer": (saved(make_scorer), SCORER, "score", *OF_PAIRS),
    "scorer, T5": (saved(make_scorer, write_t5), SCORER, "score", *OF_PAIRS),
    "reader": (saved(make_reader), ExtractiveReader.from_pretrained, "read", *OF_PAIRS),
    "one pass": (saved(make_onepass), ONE_PASS, "score_sentences", *OF_ITEMS),
    "one pass, whole": (saved(make_onepass, write_t5), ONE_PASS, "score", *OF_PAIRS),
    "pruner": (write_pruner, OnePassScorer.from_pruner, "score_sentences", *OF_ITEMS),
    "cross-encoder": (write_cross_encoder, RERANKER, "score", *OF_PAIRS),
    "monoT5": (write_monot5, RERANKER, "score", *OF_PAIRS),
    "evaluator": (saved(make_evaluator), EVALUATOR, "evaluate", *OF_PAIRS),
    "evaluator, T5": (saved(make_evaluator, write_t5), EVALUATOR, "evaluate", *OF_PAIRS),
    "evaluator, CRAG's": (write_t5_classifier, EVALUATOR, "evaluate", *OF_PAIRS),
    "IK, adapter": (over(write_ik, write_llama), IK, "p_known", *OF_DRAFTS),
    "IK, head": (over(write_ik, write_gpt2, variant="head"), IK, "p_known", *OF_DRAFTS),
    "necessity": (over(write_judge, write_llama), JUDGE, "p_known", *OF_DRAFTS),
    "verdicts": (over(write_judge, write_gpt2), JUDGE, "judge", *OF_DRAFTS),
    "REPLUG": (write_llama, REPLUG, "ensemble", *OF_ENSEMBLES),
    "REPLUG, GPT-2": (write_gpt2, REPLUG, "ensemble", *OF_ENSEMBLES),
}
CALLS = {"generate": OF_TEXTS, "answer": OF_TEXTS, "draft": OF_TEXTS, "p_yes": OF_TEXTS}
MODELS |= {call: (write_llama, WRITER, call, *asked) for call, asked in CALLS.items()}
MODELS["rescore"] = (write_gpt2, WRITER, "rescore", *OF_DRAFTS)


class Loaded:
    """A model of the table, and its call."""

    def __init__(self, name, folder):
        write, self.load, self.call, self.given, self.wrong = MODELS[name]
        self.folder = write(folder)
        self.options = WRITING if self.load in (WRITER, REPLUG) else {}
        self.model = self.again()

    def again(self, **options):
        return self.load(self.folder, device="cpu", **self.options, **options)

    def ask(self, model, given):
        return getattr(model, self.call)(*given)

    def aask(self, model, given):
        return getattr(model, f"a{self.call}")(*given)


@pytest.fixture(scope="module", params=MODELS)
def loaded(request, tmp_path_factory):
    made = Loaded(request.param, tmp_path_factory.mktemp("model"))
    yield made
    made.model.unload()


def flat(found):
    if is_dataclass(found):
        return flat(astuple(found))
    if isinstance(found, list | tuple):
        return [one for each in found for one in flat(each)]
    return [found]


def same(found, expected):
    """Compare answers of any kind; sums of float32 in another order differ a little."""
    return flat(found) == [
        pytest.approx(one, abs=1e-4) if isinstance(one, float) else one for one in flat(expected)
    ]


@pytest.mark.parametrize("batch_tokens", [1, 100_000])
async def test_batches_order_and_async_calls_change_nothing(loaded, batch_tokens):
    count = len(loaded.given[0])
    alone = [loaded.ask(loaded.model, [[one[i]] for one in loaded.given])[0] for i in range(count)]
    other = loaded.again(batch_tokens=batch_tokens)
    assert same(loaded.ask(other, [one[::-1] for one in loaded.given]), alone[::-1])
    assert same(await loaded.aask(other, [one * 2 for one in loaded.given]), alone * 2)
    assert all(isinstance(one, float | int | str | None) for one in flat(alone))  # no arrays
    other.unload()


async def test_nothing_asked_is_nothing(loaded):
    nothing = [[] for _ in loaded.given]
    assert loaded.ask(loaded.model, nothing) == [] == await loaded.aask(loaded.model, nothing)


async def test_wrong_input_is_named(loaded):
    for name, (given, told) in loaded.wrong.items():
        with pytest.raises(InputError, match=told):
            pytest.fail(f"{name}: {loaded.ask(loaded.model, given)}")
        with pytest.raises(InputError, match=told):
            await loaded.aask(loaded.model, given)


def test_a_pickle_is_the_folder_and_the_options(loaded):
    made = loaded.again(batch_tokens=333)
    pickled = pickle.dumps(made)
    assert len(pickled) < 1500
    again = pickle.loads(pickled)
    assert same(loaded.ask(again, loaded.given), loaded.ask(loaded.model, loaded.given))
    assert repr(again) == repr(made)
    again.unload()
    made.unload()


async def test_unloading_is_final(loaded):
    made, other = loaded.again(batch_tokens=99), loaded.again(batch_tokens=99)
    made.unload()
    made.unload()
    with pytest.raises(ModelLoadError, match="unloaded: load it again"):
        loaded.ask(made, loaded.given)
    with pytest.raises(ModelLoadError, match="unloaded: load it again"):
        await loaded.aask(made, loaded.given)
    assert loaded.ask(other, loaded.given)
    other.unload()
