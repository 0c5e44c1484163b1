"""The one-pass scorer that ships: over the embedded scorer, and it finds the right sentence."""

from fitrag_integrations import Passage
from fitrag_integrations.models import BiLabelScorer, OnePassScorer

TEXT = (
    "The bridge was planned for twenty years. It crosses the Wend below the old mill. "
    "Klara Voss designed it in 1931. Trams ran over it until the war. Today it is for walkers."
)
QUESTION = "who designed the Wend bridge"


def test_it_gives_the_embedded_scorers_labels_and_finds_the_sentence():
    onepass, scorer = OnePassScorer.embedded(device="cpu"), BiLabelScorer.embedded(device="cpu")
    passage = Passage("1", TEXT, "Wend bridge")
    ends = [i + 1 for i, letter in enumerate(TEXT) if letter == "."]
    spans = [
        (start, end) for start, end in zip([0, *(end + 1 for end in ends)], ends, strict=False)
    ]
    ((label, sentences),) = onepass.score_sentences([(QUESTION, passage, spans)])
    assert [label] == scorer.score([(QUESTION, passage)])
    best = max(range(len(spans)), key=lambda i: sentences[i].combine())
    assert "Klara Voss" in TEXT[slice(*spans[best])]
    assert label.llm_prefer is not None
    assert {(one.llm_prefer, one.llm_prefer_logit) for one in sentences} == {(None, None)}
