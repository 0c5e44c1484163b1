"""A toy to learn: a model knows about rivers and not about kings, and hedges where it does not."""

import random

PLACES = [f"{a}{b}" for a in ("Dan", "Rom", "Tib", "Vol", "Sei") for b in ("ube", "a", "er", "ga")]


def toy_rows(count=120, *, seed=3, llm="little"):
    """Make rows of question, answers, draft and known; the question alone tells half of it."""
    chance = random.Random(seed)
    rows = []
    for i in range(count):
        known = bool(i % 2)
        place = chance.choice(PLACES)
        telling = chance.random() < 0.5
        kind = ("river" if known else "king") if telling else "city"
        draft = f"the sea of {place}" if known else f"what is the answer to {place}"
        rows.append(
            {
                "question": f"who wrote number {i} of the {kind} {place}?",
                "answers": [f"sea of {place}"],
                "draft": draft,
                "known": known,
                "llm": llm,
            }
        )
    return rows
