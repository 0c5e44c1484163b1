"""What the reduction keeps with the models that ship: the answer, and never a silent cut."""

from dataclasses import replace

import pytest

from fitrag_integrations.flow import run
from fitrag_integrations.methods import Crag, FitRag, Refiner, approximate_tokens
from fitrag_integrations.methods.defaults import EMBEDDED_SCORER
from fitrag_integrations.methods.fitrag.method import TokenReducer
from fitrag_integrations.methods.metadata import marks
from fitrag_integrations.methods.prompts import render_excerpts
from fitrag_integrations.models import EligibilityDetector
from fitrag_integrations.ports import Ports
from fitrag_integrations.types import Passage

CLAUSE = (
    "Where, notwithstanding any provision to the contrary in the schedules annexed hereto, the "
    "lessee has failed to pay the rent due, including any service charge, interest or other sum "
    "payable as rent, for a period exceeding thirty days after the date on which it fell due, "
    "whether or not formally demanded, the lessor may, without prejudice to any other right or "
    "remedy available to it at law or in equity, terminate this lease by giving the lessee not "
    "less than ninety days' written notice, delivered by registered post to the address stated in "
    "the first schedule, and upon the expiry of that notice the lessee shall yield up vacant "
    "possession of the premises, in good repair and condition, together with all keys, fixtures "
    "and fittings belonging to the lessor."
)
LEASE = Passage("lease", CLAUSE, "Lease")
CANTEEN = Passage("canteen", "Lunch is at noon. The canteen is on the second floor.", "Canteen")
PARKING = Passage("parking", "Parking is free on Sundays.", "Parking")
PASSAGES = [LEASE, CANTEEN, PARKING]
QUESTION = "How many days' notice must the lessor give to terminate the lease?"


def found(question=QUESTION, passages=PASSAGES, **settings):
    ports = Ports(lambda queries: [list(passages) for _ in queries])
    return run(FitRag(**settings)(question, ports)).value


@pytest.mark.parametrize("max_tokens", [150, 60, 20])
@pytest.mark.parametrize("window", [None, 1, 3])
def test_the_best_is_narrowed_and_never_passed_over_for_noise(max_tokens, window):
    context = found(window=window, max_tokens=max_tokens)
    assert "ninety days" in context.excerpts[0].text
    assert approximate_tokens(render_excerpts(context.excerpts)) <= max_tokens
    for excerpt in context.excerpts:
        assert excerpt.text == excerpt.passage.text[excerpt.start : excerpt.end]
    if max_tokens == 20:
        assert "the best excerpt was narrowed to fit max_tokens=20" in context.notes


def test_where_not_one_word_fits_it_is_told():
    context = found(max_tokens=3)
    assert context.excerpts == ()
    assert context.notes[-1] == "nothing to refer to: not one word fits max_tokens=3"


def test_a_share_holds_or_the_best_sentence_is_said_to_cost_more():
    whole = approximate_tokens(render_excerpts(found(window=9, detector=False).excerpts))
    for share in (0.5, 0.9):
        kept = found(max_share=share).excerpts
        assert approximate_tokens(render_excerpts(kept)) <= share * whole
    context = found(passages=[CANTEEN, PARKING], question="When is lunch?", max_share=0.1)
    assert [excerpt.text for excerpt in context.excerpts] == ["Lunch is at noon."]
    assert context.notes[0] == "the best sentence alone costs more than max_share=0.1"


def test_what_the_detector_cuts_off_is_noted():
    context = found(window=3)
    left = len(PASSAGES) - len(context.excerpts)
    assert left and context.notes == (
        f"{left} of 3 excerpts left out: the detector found the best enough",
    )


def test_the_default_reads_each_passage_once_and_keeps_sentences():
    method = FitRag()
    traced = run(method(QUESTION, Ports(lambda queries: [PASSAGES for _ in queries])))
    assert [step.port for step in traced.steps] == ["retrieve", "score_sentences"]


def only_pairs(pairs):
    return EMBEDDED_SCORER.score(pairs)


@pytest.mark.parametrize(
    ("method", "one_pass", "window", "per_passage", "max_share"),
    [
        (FitRag(), True, 1, None, 0.4),
        (FitRag(window=1), True, 1, None, 0.4),
        (FitRag(max_tokens=50), True, 1, None, None),
        (FitRag(max_share=0.25), True, 1, None, 0.25),
        (FitRag(window=2), False, 2, 1, None),
        (FitRag(window=3), False, 3, 1, None),
        (FitRag(only_pairs), False, 3, 1, 0.4),
        (FitRag(only_pairs, window=3), False, 3, 1, None),
        (FitRag(only_pairs, window=1), False, 1, 1, None),
        (FitRag.as_published(), False, 3, 1, None),
        (FitRag.as_published(only_pairs, top_n=5), False, 3, 1, None),
    ],
)
def test_the_calls_of_the_table_keep_what_it_says(method, one_pass, window, per_passage, max_share):
    plan = method.plan
    found = (plan.one_pass, plan.window, plan.per_passage, plan.max_share)
    assert found == (one_pass, window, per_passage, max_share)
    assert plan.prior == (0.1 if method == FitRag(window=method.window) else plan.prior)
    own = method.scorer is None and window == 3
    assert (plan.detector is not None) == own


def test_the_methods_of_the_paper_have_no_prior_and_let_the_detector_decide():
    method = FitRag.as_published()
    assert method.plan.prior == 0.0 and method.plan.weight == 0.5
    with_text = run(method(QUESTION, Ports(lambda queries: [PASSAGES for _ in queries])))
    assert [step.port for step in with_text.steps] == ["retrieve", "score", "detect"]
    assert "ninety days" in with_text.value.excerpts[0].text


def test_a_few_short_passages_are_all_kept():
    short = [Passage(str(n), f"Fact number {n} about rivers.") for n in range(3)]
    assert len(found("rivers", short).excerpts) == 3


def test_the_bundled_scorer_given_by_hand_changes_nothing():
    pytest.importorskip("torch")
    from fitrag_integrations.models import BiLabelScorer, OnePassScorer

    scorer = BiLabelScorer.embedded(device="cpu")
    assert isinstance(scorer, BiLabelScorer) and isinstance(scorer, OnePassScorer)
    assert replace(FitRag(scorer).plan, port=None, notes=()) == replace(FitRag().plan, port=None)
    spans = [
        [(e.passage.id, e.start, e.end) for e in found(scorer=s).excerpts] for s in (None, scorer)
    ]
    assert spans[0] == spans[1]


def test_nonsense_keeps_nothing_where_a_score_is_asked_for():
    assert found("asdf qwer").excerpts
    context = found("asdf qwer", min_score=0.5)
    assert context.excerpts == ()
    assert context.notes == ("nothing to refer to: no excerpt reaches min_score=0.5",)
    kept = found(min_score=0.5)
    assert "ninety days" in kept.excerpts[0].text
    assert all(excerpt.score >= 0.5 for excerpt in kept.excerpts)
    reducer = TokenReducer(min_score=0.5)
    assert run(reducer.context("asdf qwer", PASSAGES)).value.excerpts == ()


def test_corrective_retrieval_may_keep_nothing():
    passages = [CANTEEN, PARKING]
    ports = Ports(lambda queries: [passages for _ in queries])
    assert run(Crag()("asdf qwer", ports)).value.excerpts
    context = run(Crag(min_score=0.6)("asdf qwer", ports)).value
    assert context.excerpts == () and "is left out" in " ".join(context.notes)
    assert run(Refiner(min_score=0.6)("asdf qwer", passages)).value.excerpts == ()


def test_sentences_have_one_label_at_every_weight_and_the_detector_decides_as_it_did():
    kept = {weight: found(weight=weight, max_tokens=60).excerpts for weight in (0.0, 0.5, 1.0)}
    assert kept[0.0] == kept[0.5] == kept[1.0]
    for excerpt in kept[0.5]:
        assert excerpt.labels.llm_prefer is None
        assert excerpt.score == excerpt.labels.has_answer
        assert "llm_prefer" not in marks(excerpt, "fitrag") and "sum" not in str(excerpt.labels)
    assert all(one.labels.llm_prefer is not None for one in found(window=3).excerpts)

    # the detector was fitted on pairs whose second label was a copy of the first
    detector = EligibilityDetector.embedded()
    alone = [one.labels for one in found(max_share=None).excerpts]
    copied = [replace(one, llm_prefer=one.has_answer) for one in alone]
    assert detector.eligible_among([(alone[:n], alone[n:]) for n in (1, 2, 3)]) == (
        detector.eligible_among([(copied[:n], copied[n:]) for n in (1, 2, 3)])
    )
