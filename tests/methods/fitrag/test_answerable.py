"""Whether any passage answers: of the bundled models, by hand, in both frameworks."""

import json
import math

import pytest
from langchain_core.documents import Document
from llama_index.core.schema import NodeWithScore, TextNode

from fitrag_integrations import compress, rerank, run
from fitrag_integrations.errors import InputError
from fitrag_integrations.langchain import BiLabelReranker, SubDocumentCompressor
from fitrag_integrations.llama_index import postprocessors
from fitrag_integrations.methods import FitRag, explain_compression
from fitrag_integrations.methods.metadata import summary
from fitrag_integrations.models import BiLabelScorer
from fitrag_integrations.models.bundled import BundledScorer
from fitrag_integrations.models.encoder.items import Correction, Lines
from fitrag_integrations.ports import Ports
from fitrag_integrations.types import BiLabelScore, Context, Passage

LISTS = {  # a question, what answers it, and what is about the same and does not
    "prose": (
        "Where does the river Danube rise?",
        "The Danube rises in the Black Forest, where two headstreams meet.",
        "The Danube freight association has nine members. It was founded by ship owners.",
        "Barges on the Rhine carry coal and ore. Most of them are pushed.",
    ),
    "FAQ": (
        "How do I reset the filter alarm?",
        "Q: How do I reset the filter alarm?\nA: Hold the round button for five seconds.",
        "Q: How do I order a new lid?\nA: Write to the shop with the number on the base.",
        "Q: Is the pump loud?\nA: Most people do not hear it in the next room.",
    ),
    "code": (
        "How can a job be run every hour?",
        "Run a job every hour:\n\n```python\nscheduler.add(job, every=timedelta(hours=1))\n```",
        "List the queues:\n\n```python\nfor queue in scheduler.queues():\n    print(queue)\n```",
        "Install it from the index:\n\n```sh\npip install scheduler\n```",
    ),
    "options": (
        "What is the default of max_clients?",
        "max_clients\n: How many clients may connect at once. Default: 250.",
        "log_format\n: How lines of the log are written. Default: text.",
        "tls_versions\n: Protocols that are offered to clients.",
    ),
}
QUESTION, *TEXTS = LISTS["prose"]


def test_lists_with_and_without_the_answer_are_told_apart():
    found = [rerank(q, [one, answer, other]) for q, answer, one, other in LISTS.values()]
    without = [rerank(q, [one, other]) for q, _, one, other in LISTS.values()]
    assert min(one.answerable for one in found) > 0.3 > max(one.answerable for one in without)
    assert max(one.answerable for one in found) > 0.9
    assert [len(one) for one in without] == [2] * len(LISTS)  # nothing is dropped


def test_it_costs_no_further_step_and_is_the_same_for_whole_passages_and_for_sentences():
    kept = compress(QUESTION, TEXTS)
    assert [step.port for step in kept.traced.steps] == ["score_sentences"]
    assert kept.answerable == pytest.approx(rerank(QUESTION, TEXTS).answerable)
    passages = [Passage(str(at), text) for at, text in enumerate(TEXTS)]
    method = FitRag()(QUESTION, Ports(retrieve=lambda questions: [passages]))
    assert run(method).value.answerable == pytest.approx(kept.answerable)


def test_the_runtimes_agree():
    pairs = [(QUESTION, Passage(str(at), text)) for at, text in enumerate(TEXTS)]
    found = [
        scorer.answerable(scorer.score(pairs))
        for scorer in (BundledScorer(), BundledScorer("float32"), BiLabelScorer.embedded())
    ]
    assert found == pytest.approx([found[0]] * 3, abs=0.03)


def test_it_is_a_line_over_the_best_logit():
    lines = Lines.of({"answerable": [2.0, 0.5]})
    assert lines.answerable([1.0, -3.0]) == pytest.approx(1 / (1 + math.exp(-2.5)))
    assert lines.answerable([]) is None and Lines().answerable([1.0]) is None
    scorer = BundledScorer()
    labels = [BiLabelScore(0.5, 0.5, logit, 0.0) for logit in (-4.0, 1.0)]
    plain = scorer.answerable(labels)
    scorer._correction = Correction(2.0, 1.0, scorer.name)  # of `fitrag calibrate scores`
    labels = [BiLabelScore(0.5, 0.5, 2 * logit + 1, 0.0) for logit in (-4.0, 1.0)]
    assert scorer.answerable(labels) == pytest.approx(plain)


def judged(pairs):
    return [BiLabelScore(0.4, 0.4) for _ in pairs]


class Sure:
    """Scorer of one's own that knows whether a list answers."""

    name = "sure"

    def score(self, pairs):
        return judged(pairs)

    def answerable(self, labels):
        return len(labels) / 4


def test_nothing_is_made_up_where_nothing_can_judge():
    assert rerank(QUESTION, TEXTS, scorer=judged).answerable is None
    assert rerank(QUESTION, []).answerable is None
    assert rerank(QUESTION, [" "]).answerable is None
    assert rerank("多瑙河的源头在哪里？", ["多瑙河发源于黑林山。"]).answerable is None  # not read
    assert rerank(QUESTION, TEXTS, scorer=BundledScorer(similarity=False)).answerable is None
    assert Context(QUESTION).answerable is None
    assert "answerable" not in Context(QUESTION).explain()
    with pytest.raises(InputError, match="answerable"):
        Context(QUESTION, answerable=2.0)


def test_a_scorer_of_ones_own_may_know_it():
    assert rerank(QUESTION, TEXTS, scorer=Sure()).answerable == 0.75


def test_it_is_shown_and_kept_in_json():
    kept = rerank(QUESTION, TEXTS)
    assert f"answerable: {kept.answerable:.2f}" in kept.explain().splitlines()
    assert summary(kept.context)["answerable"] == kept.answerable
    assert Context.from_dict(json.loads(json.dumps(kept.context.to_dict()))) == kept.context
    told = explain_compression(QUESTION, [Passage("1", TEXTS[0])])
    assert f"answerable: {told.answerable:.2f}" in told.explain().splitlines()


@pytest.mark.parametrize("kind", ["BiLabelReranker", "SubDocumentCompressor"])
def test_both_frameworks_write_it_into_the_metadata_and_keep_that_of_the_input(kind):
    of_langchain = {each.__name__: each for each in (BiLabelReranker, SubDocumentCompressor)}[kind]
    given = [Document(text, metadata={"answerable": "yes"}) for text in TEXTS]
    kept = of_langchain().compress_documents(given[:1] + [Document(TEXTS[1])], QUESTION)
    nodes = [NodeWithScore(node=TextNode(text=text)) for text in TEXTS[:2]]
    told = getattr(postprocessors, kind)().postprocess_nodes(nodes, query_str=QUESTION)
    value = kept.context.answerable
    assert [one.metadata.get("fitrag_answerable", value) for one in kept] == [value] * len(kept)
    assert {one.metadata["answerable"] for one in kept} <= {"yes", value}
    assert [one.node.metadata["answerable"] for one in told] == pytest.approx([value] * len(told))
    assert "answerable" in told[0].node.excluded_llm_metadata_keys
