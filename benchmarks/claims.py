"""Read recorded claims and queries back, and say what the claim filter would ask for.

    python benchmarks/claims.py DATA [--mutations 10000]

DATA holds `slimplm/claims_llama2_13b.jsonl.gz`: questions, proxy answers, and what GPT-4 made of
them. Every row is written in both grammars and read back; then mutated ones are read, which must
end in a sound result and never in an error.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from fitrag_integrations.methods.slimplm.claims import GRAMMARS, Lead, Leads, parse_claims, render
from fitrag_integrations.methods.slimplm.steps import different
from fitrag_integrations.text.tokens import approximate_tokens
from fitrag_integrations.training.causal.slimplm import claim_rows
from fitrag_integrations.training.rows import read_jsonl

PIECES = ["", "(", ")", "<", ">", ")>", "<Claim(", "<Query>", "</Claims>", "\n\n", '"', "{", "]"]
Change: TypeAlias = tuple[str, int, int, str]
CHANGES = st.tuples(
    st.sampled_from(["put", "repeat", "reverse", "end"]),
    st.integers(0, 4000),
    st.sampled_from([0, 1, 2, 8, 60, 10_000]),
    st.one_of(st.sampled_from(PIECES), st.text(max_size=3)),
)


def main() -> None:
    """Print what was read back, what the filter keeps, and how mutations fared."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--mutations", type=int, default=10_000)
    args = parser.parse_args()
    file = args.data / "slimplm" / "claims_llama2_13b.jsonl.gz"
    rows = [row.leads for row in claim_rows(read_jsonl(file))]
    for grammar in GRAMMARS:
        exact = sum(_is_exact(leads, grammar) for leads in rows)
        print(f"{grammar}: {exact} of {len(rows)} rows read back exactly")
    for line in _filtered(rows):
        print(line)
    print(_mutated(rows, args.mutations))


def _is_exact(leads: Leads, grammar: str) -> bool:
    found = parse_claims(render(leads, grammar))
    expected = leads if grammar == "released" else _without_search(leads)
    same = (found.questions, found.claims) == (expected.questions, expected.claims)
    return same and found.grammar == grammar and not found.repairs


def _without_search(leads: Leads) -> Leads:
    """Drop what the paper's grammar has no place for."""
    questions, claims = (
        tuple(Lead(lead.text, lead.query) for lead in some)
        for some in (leads.questions, leads.claims)
    )
    return Leads(questions, claims)


def _filtered(rows: list[Leads]) -> Iterator[str]:
    for name in ("claims", "questions"):
        count = Counter(lead.wanted for leads in rows for lead in getattr(leads, name))
        total, mean = count.total(), count.total() / len(rows)
        told = f"{count[True]} to be searched for, {count[False]} not"
        yield f"{name}: {total} ({mean:.2f} a question), {told}"
    asked = [different([x.query for x in (*r.questions, *r.claims) if x.wanted]) for r in rows]
    sizes = [len(queries) for queries in asked]
    none = sum(not size for size in sizes)
    mean = sum(sizes) / len(sizes)
    yield f"queries: {mean:.2f} a question, at most {max(sizes)}, none for {none}"
    tokens = sum(approximate_tokens(render(leads, "released")) for leads in rows) / len(rows)
    yield f"a rewriting takes {tokens:.0f} tokens in the released grammar"


def _mutated(rows: list[Leads], count: int) -> str:
    written = [render(leads, grammar) for leads in rows for grammar in GRAMMARS]
    outcomes: Counter[str] = Counter()
    slowest = 0.0

    @settings(max_examples=count, deadline=None, database=None, phases=[Phase.generate])
    @given(st.sampled_from(written), st.lists(CHANGES, min_size=1, max_size=6))
    def reads(text: str, changes: list[Change]) -> None:
        nonlocal slowest
        for change in changes:
            text = mutate(text, *change)
        began = time.perf_counter()
        leads = parse_claims(text)
        slowest = max(slowest, time.perf_counter() - began)
        assert Leads.from_dict(leads.to_dict()) == leads
        assert all("\n" not in lead.query for lead in (*leads.questions, *leads.claims))
        outcomes[leads.grammar or "nothing, so the question"] += 1

    reads()
    told = ", ".join(f"{name} {count}" for name, count in outcomes.most_common())
    return (
        f"{outcomes.total()} mutated rows read without an error ({told}); slowest {slowest:.4f} s"
    )


def mutate(text: str, how: str, place: int, length: int, piece: str) -> str:
    """Put a piece in place of a part of a text, repeat or reverse that part, or end with it."""
    start = place % (len(text) + 1)
    part, rest = text[start : start + length], text[start + length :]
    if how == "end":
        return text[:start] + piece
    changed = {"put": piece, "repeat": part + piece + part, "reverse": part[::-1]}[how]
    return text[:start] + changed + rest


if __name__ == "__main__":
    main()
