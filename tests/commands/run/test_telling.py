"""What `fitrag answer` says of one question on a terminal."""

from dataclasses import dataclass

from fitrag_integrations.commands.run.answering import PLAIN_MARKS, saved, show_answer, shown
from fitrag_integrations.flow import run
from fitrag_integrations.methods import FitRag
from fitrag_integrations.methods.answering import Answering
from fitrag_integrations.ports import Ports
from fitrag_integrations.types import BiLabelScore, Passage

PASSAGES = [
    Passage("d", "It is long. The Danube rises in the Black Forest. It is deep.", "Danube"),
    Passage("r", "The Rhine is another river. It flows north, to the sea.", "Rhine"),
]


def score(pairs):
    return [BiLabelScore(0.9 if "Black" in passage.text else 0.1) for _, passage in pairs]


@dataclass
class Span:
    text: str
    start: int
    end: int
    score: float


class Reader:
    name, abstain_below = "black", None

    def read(self, pairs):
        found = [passage.text.find("Black") for _, passage in pairs]
        return [
            Span(p.text[at : at + 12], at, at + 12, 1.0) if at >= 0 else Span("", 0, 0, 0)
            for (_, p), at in zip(pairs, found, strict=True)
        ]


def traced():
    method = FitRag(score, window=1, per_passage=1)
    answering = Answering(method, reader=Reader())
    ports = Ports(retrieve=lambda queries: [PASSAGES for _ in queries])
    return run(answering("Where does the Danube rise?", ports))


def test_the_kept_sentence_the_answer_in_it_and_what_it_saved(capsys):
    show_answer(traced())
    out = capsys.readouterr().out
    assert out.startswith("Black Forest\n") and "0.10: " not in out
    assert "  The Danube rises in the **Black Forest**.\n    Danube" in out
    show_answer(traced(), explain=True)
    assert "dropped" in capsys.readouterr().out
    before, _, after = saved(traced()).partition(" tokens")[0].split()
    assert int(before) > int(after) and "of 2 passages" in saved(traced())


def test_an_answer_is_marked_as_a_whole_word():
    assert shown("An ant and an\nANT.", "ant", PLAIN_MARKS) == "An **ant** and an **ANT**."
    assert shown("Some text.", " ", PLAIN_MARKS) == "Some text."
    assert shown("It cost 3.5 (net).", "3.5 (net)", PLAIN_MARKS) == "It cost **3.5 (net)**."
