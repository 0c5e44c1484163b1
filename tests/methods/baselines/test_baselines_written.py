"""The baselines that write their answer, driven by hand: every prompt, query and order."""

import pytest
from by_hand import asked, finished

from fitrag_integrations.errors import InputError, PortError
from fitrag_integrations.flow import run
from fitrag_integrations.methods import PromptTemplate
from fitrag_integrations.methods.answering import Answering
from fitrag_integrations.methods.baselines import CoT, GenRead, IterRetgen, Refeed, SelfAsk, Vanilla
from fitrag_integrations.methods.baselines.flare import Continuation
from fitrag_integrations.methods.baselines.refeed import in_turns
from fitrag_integrations.methods.baselines.self_ask import read_step
from fitrag_integrations.methods.prompts import OneInstruction
from fitrag_integrations.methods.writing import final_answer
from fitrag_integrations.ports import Ports
from fitrag_integrations.types import Excerpt, Passage

QUESTION = "Who designed the bridge over the Tirva?"
TAIL = f"Question: {QUESTION}\nAnswer:"
ONE = Passage("1", "Ilse Marbach designed it.", "Tirva bridge")
TWO = Passage("2", "The Tirva is a river.")
THREE = Passage("3", "The bridge is of stone.")
PORTS = Ports(retrieve=lambda queries: 1 / 0, generate=lambda prompts: 1 / 0)  # driven by hand


def only(ask, port="generate"):
    assert ask.port.name == port
    (item,) = ask.items
    return item


def scripted(*replies, found=(ONE, TWO)):
    """Answer prompts one after the other, and find the same for every query."""
    left = list(replies)
    return Ports(lambda queries: [list(found) for _ in queries], None, lambda _: [left.pop(0)])


def test_vanilla_asks_the_bare_question():
    flow = Vanilla()(QUESTION, PORTS)
    assert asked(flow.send(None)) == ("generate", [TAIL])
    context = finished(flow, [" Answer: Ilse Marbach\nQuestion: Who else?"])
    assert (context.draft, context.excerpts, context.notes) == ("Ilse Marbach", (), ())
    assert context.details == {"answers": True} and not context.decision.retrieve


def test_a_prompt_that_got_nothing_is_not_sent_again():
    prompts = []
    ports = Ports(generate=lambda asked: prompts.extend(asked) or [""] * len(asked))
    answered = run(Answering(Vanilla(), template=OneInstruction())(QUESTION, ports)).value
    assert answered.text == "" and len(prompts) == 1
    assert answered.context.notes == ("the language model wrote no answer",)


def test_vanilla_takes_another_template():
    flow = Vanilla(template=PromptTemplate("own", "Q: {question}\nA:"))(QUESTION, PORTS)
    assert only(flow.send(None)) == f"Q: {QUESTION}\nA:"
    with pytest.raises(InputError, match="template` must be"):
        Vanilla(template="plain")


def test_cot_reads_the_answer_out_of_the_reasoning():
    flow = CoT()(QUESTION, PORTS)
    prompt = only(flow.send(None))
    assert prompt.endswith(TAIL + " Let's think step by step.")
    assert prompt.count("So the answer is") == 2
    text = "The answer is not far. It was Marbach. So the answer is Ilse Marbach.\nGood."
    context = finished(flow, [text])
    assert context.draft == "Ilse Marbach" and context.details["reasoning"] == text


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("So the answer is Besk.", "Besk"),
        ("So the final answer is: 1694", "1694"),
        ("THE ANSWER IS: a b \n c", "a b"),
        ("The answer is\n", ""),
        ("The answer isn't known.", ""),
        ("Besk.", ""),
        ("answer is " * 3000, "answer is"),
    ],
)
def test_a_final_answer_is_found(text, answer):
    assert final_answer(text) == answer


def test_genread_reads_what_it_wrote():
    flow = GenRead(document_tokens=6)(QUESTION, PORTS)
    prompt = only(flow.send(None))
    assert prompt.endswith(f"Question: {QUESTION}\nDocument:") and "background document" in prompt
    prompt = only(flow.send(["Document: Ilse Marbach designed the bridge over it."]))
    assert "Passages:\n1. Ilse Marbach designed the bridge over\nQuestion:" in prompt
    context = finished(flow, ["Marbach"])
    (excerpt,) = context.excerpts
    assert excerpt.passage.metadata == {"generated": True}
    assert context.draft == "Marbach" and not context.decision.retrieve
    assert context.notes == ("the document was cut to 6 tokens",)


def test_genread_without_a_document_asks_plainly():
    flow = GenRead()(QUESTION, PORTS)
    flow.send(None)
    assert only(flow.throw(PortError("gone"))) == TAIL
    context = finished(flow, ["Marbach"])
    assert context.draft == "Marbach" and context.excerpts == ()
    assert context.notes == ("the language model wrote no document (PortError: gone)",)


def test_refeed_retrieves_with_its_answer_and_refines_it():
    flow = Refeed(k=1)(QUESTION, PORTS)
    assert only(flow.send(None)) == TAIL
    assert asked(flow.send(["Ida Marb"])) == ("retrieve", [f"{QUESTION} Ida Marb"])
    prompt = only(flow.send([[ONE, TWO]]))
    assert "1. Tirva bridge: Ilse Marbach designed it.\n" in prompt and "2. " not in prompt
    assert prompt.endswith(f"Question: {QUESTION}\nEarlier answer: Ida Marb\nAnswer:")
    context = finished(flow, ["Ilse Marbach"])
    assert context.draft == "Ilse Marbach" and context.queries == (f"{QUESTION} Ida Marb",)
    assert context.details == {"before": "Ida Marb", "after": "Ilse Marbach", "answers": True}
    assert context.excerpts == (Excerpt.whole(ONE),)


def test_refeed_takes_several_answers_in_one_call():
    flow = Refeed(samples=3)(QUESTION, PORTS)
    assert asked(flow.send(None)) == ("generate", [TAIL] * 3)
    queries = [f"{QUESTION} A", f"{QUESTION} B"]
    assert asked(flow.send(["A", "B", "A"])) == ("retrieve", queries)
    prompt = only(flow.send([[ONE, TWO], [THREE, ONE]]))
    assert [line[:1] for line in prompt.split("Passages:\n")[1].splitlines()[:3]] == ["1", "2", "3"]
    context = finished(flow, ["A"])
    assert [excerpt.passage for excerpt in context.excerpts] == [ONE, THREE, TWO]
    assert in_turns([[ONE], [TWO, THREE]]) == [ONE, TWO, THREE]


def test_refeed_keeps_the_first_answer_where_the_second_fails():
    context = run(Refeed()(QUESTION, scripted("Ida", ""))).value
    assert context.draft == "Ida" and context.notes[-1] == "the first answer stands"
    context = run(Refeed()(QUESTION, scripted("", "Ilse"))).value
    assert context.draft == "Ilse" and context.queries == ()


@pytest.mark.parametrize(("before", "after", "kept"), [(-0.2, -0.9, "Ida"), (-0.9, -0.2, "Ilse")])
def test_refeeds_ensemble_keeps_the_more_likely(before, after, kept):
    class Sure:
        def __init__(self):
            self.asked = []

        def continue_with_logprobs(self, prompts, beginnings):
            self.asked += prompts
            text, sure = ("Ilse", after) if "Earlier answer" in prompts[0] else ("Ida", before)
            return [Continuation(text, (text,), (sure,))]

    model = Sure()
    context = run(Refeed(model=model)(QUESTION, scripted())).value
    assert context.draft == kept and len(model.asked) == 2
    assert context.details["logprob_before"] == before
    assert context.details["logprob_after"] == after


def test_iter_retgen_retrieves_with_what_was_generated():
    flow = IterRetgen(rounds=2, k=1)(QUESTION, PORTS)
    assert asked(flow.send(None)) == ("retrieve", [QUESTION])
    prompt = only(flow.send([[TWO, THREE]]))
    assert "Passages:\n1. The Tirva is a river.\nQuestion:" in prompt
    assert prompt.endswith(TAIL + " Let's think step by step.")
    query = f"{QUESTION} It has a bridge. So the answer is Ida."
    assert asked(flow.send(["It has a bridge. So the answer is Ida."])) == ("retrieve", [query])
    prompt = only(flow.send([[ONE, TWO]]))
    assert "Ilse Marbach designed it" in prompt and "Ida" not in prompt and "river" not in prompt
    context = finished(flow, ["So the answer is Ilse Marbach."])
    assert context.draft == "Ilse Marbach" and context.queries == (query,)
    assert context.excerpts == (Excerpt.whole(ONE),)
    assert [one["passages"] for one in context.details["rounds"]] == [["2"], ["1"]]


def test_iter_retgen_may_keep_all_passages():
    flow = IterRetgen(rounds=2, k=1, accumulate=True)(QUESTION, PORTS)
    flow.send(None)
    flow.send([[TWO]])
    flow.send(["So the answer is Ida."])
    prompt = only(flow.send([[ONE]]))
    assert "1. The Tirva is a river.\n2. Tirva bridge:" in prompt


def test_iter_retgen_ends_where_nothing_changes_or_a_round_fails():
    context = run(IterRetgen(rounds=9)(QUESTION, scripted(*["So the answer is Ida."] * 2))).value
    assert len(context.details["rounds"]) == 2 and context.draft == "Ida"
    context = run(IterRetgen(rounds=9)(QUESTION, scripted("The answer is Ida.", ""))).value
    assert context.draft == "Ida" and "wrote no answer" in context.notes[-1]
    flow = IterRetgen()(QUESTION, PORTS)
    flow.send(None)
    flow.send([[ONE]])
    flow.send(["The answer is Ida."])
    with pytest.raises(StopIteration) as stopped:
        flow.throw(PortError("gone"))
    assert stopped.value.value.draft == "Ida"
    assert stopped.value.value.notes == ("a retrieval failed (PortError: gone)",)


def test_self_ask_looks_up_its_follow_up_questions():
    flow = SelfAsk(k=1)(QUESTION, PORTS)
    head = only(flow.send(None))
    assert head.endswith(f"Question: {QUESTION}\nAre follow up questions needed here:")
    made_up = " Yes.\nFollow up: What is the Tirva?\nIntermediate answer: A hill.\n"
    made_up += "So the final answer is: no"
    assert asked(flow.send([made_up])) == ("retrieve", ["What is the Tirva?"])
    prompt = only(flow.send([[TWO, THREE]]))
    assert "Passages:\n1. The Tirva is a river.\nQuestion:" in prompt
    assert prompt.endswith("Question: What is the Tirva?\nAnswer:")
    prompt = only(flow.send(["It is a river.\nQuestion: more"]))
    step = " Yes.\nFollow up: What is the Tirva?\nIntermediate answer: It is a river.\n"
    assert prompt == head + step
    flow.send(["Follow up: Who designed its bridge?"])
    flow.send([[ONE]])
    assert only(flow.send(["Ilse Marbach did."])).startswith(head + step + "Follow up: Who des")
    context = finished(flow, ["So the final answer is: Ilse Marbach"])
    assert context.draft == "Ilse Marbach"
    assert context.queries == ("What is the Tirva?", "Who designed its bridge?")
    assert [excerpt.passage for excerpt in context.excerpts] == [TWO, ONE]
    assert context.details["follow_ups"][1] == {
        "question": "Who designed its bridge?",
        "answer": "Ilse Marbach did.",
    }


def test_self_ask_ends_after_its_rounds_and_where_it_repeats_itself():
    flow = SelfAsk(rounds=1)(QUESTION, PORTS)
    flow.send(None)
    flow.send(["Follow up: What is the Tirva?"])
    assert only(flow.send([[]])).endswith(
        "Intermediate answer: This could not be found.\nSo the final answer is:"
    )
    assert finished(flow, [" Marbach\nQuestion: x"]).draft == "Marbach"
    same = "Follow up: What is the Tirva?"
    context = run(SelfAsk(rounds=9)(QUESTION, scripted(same, "A river.", same, "Ida"))).value
    assert context.draft == "Ida"
    assert context.notes == ("the language model asked the same again",)


@pytest.mark.parametrize("reply", ["", "It is hard to say."])
def test_self_ask_in_another_form_looks_the_question_up(reply):
    flow = SelfAsk()(QUESTION, PORTS)
    flow.send(None)
    assert asked(flow.send([reply])) == ("retrieve", [QUESTION])
    prompt = only(flow.send([[ONE]]))
    assert "Ilse Marbach designed it" in prompt and prompt.endswith(TAIL)
    context = finished(flow, ["Ilse"])
    assert context.draft == "Ilse" and context.queries == ()
    assert "the question itself was looked up" in context.notes[-1]


@pytest.mark.parametrize(
    ("text", "step"),
    [
        (" Yes.\nFollow up: Who?\nFollow up: When?", ("Who?", "")),
        ("Follow-up question: Who?", ("Who?", "")),
        ("No.\nSo the final answer is: Ida.", ("", "Ida")),
        ("So the final answer is: Ida\nFollow up: Who?", ("", "Ida")),
        ("Intermediate answer: Ida. So the final answer is: Ida", ("", "")),
        ("Follow up:\n", ("", "")),
        ("", ("", "")),
    ],
)
def test_a_step_is_read(text, step):
    assert read_step(text) == step
