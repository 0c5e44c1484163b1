"""Ten questions with their passages, written for the tests."""

from safetensors.torch import load_file

from fitrag_integrations import Passage
from fitrag_integrations.training.rows import Judged, Labelled, ReadingRow

KINGS = ["otto", "karl", "hugo", "emma", "anna", "rolf", "olga", "ivan", "paul", "nina"]


def right(name, n):
    text = f"in {1950 + n} the king wrote a score of the film {name} in rome."
    return Passage("", text, name)


def wrong(name, n):
    return Passage("", f"the {name} river ends in the black sea, not in a city.", f"{name} river")


def reading_rows():
    return [
        ReadingRow(
            f"in what year is the film {name}",
            (str(1950 + n),),
            right(name, n),
            answer_start=3 if n % 2 else None,
            negatives=(wrong(name, n), wrong(KINGS[n - 1], n)),
        )
        for n, name in enumerate(KINGS)
    ]


def labelled_rows():
    return [
        Labelled(
            f"in what year is the film {name}",
            (right(name, n), wrong(name, n), right(KINGS[n - 1], n - 1)),
            (1, 0, 0),
            (1, 0, n % 2),
        )
        for n, name in enumerate(KINGS)
    ]


def judged_rows():
    answers = {row.question: row.answers for row in reading_rows()}
    return [
        Judged(row.question, answers[row.question], row.passages, row.has_answer)
        for row in labelled_rows()
    ]


JUDGED_PAIRS = [(row.question, passage) for row in judged_rows() for passage in row.passages]


def last_weights(folder):
    """Load what trained from the last checkpoint of the run in a model's folder."""
    last = max(folder.glob("run/checkpoint-*"), key=lambda path: int(path.name[11:]))
    return load_file(last / "model.safetensors")
