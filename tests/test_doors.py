"""Every door to the default keeps the same excerpts: the bundled models over rows of all kinds."""

import runpy
from pathlib import Path

import pytest

TOLD = runpy.run_path(str(Path(__file__).parents[1] / "benchmarks" / "doors.py"))
PORTS = """# Ports

Every service listens on a port of its own:

- web: 8080
- metrics: 9464
- admin: 7001, on the local interface only

| service | port |
| --- | --- |
| web | 8080 |
| metrics | 9464 |
"""
CODE = """The client reads its address from the environment.

```python
client = Client(url=os.environ["HARBOR_URL"])
client.start(timeout=30)
```

A timeout of 30 seconds is long enough for a cold start. Longer ones hide errors."""
BRIDGE = (
    "The bridge was planned for twenty years. It crosses the Wend below the old mill. Klara Voss "
    "designed it in 1931. Trams ran over it until the war. Today it is for walkers. 🙂 It is lit."
)
HARBOR = (
    "The harbor of Lund was dug in 1820. It silted up twice. The second time, in 1862, the town "
    "council had it dredged with steam. Ships of nine feet could moor again."
)
LEASE = (
    "The lessee pays the rent on the first of each month. Where it is unpaid for thirty days, "
    "the lessor may terminate the lease by ninety days' written notice. Keys are handed over."
)
TEXTS = {"Ports": PORTS, "Client": CODE, "Wend bridge": BRIDGE, "Harbor": HARBOR, "Lease": LEASE}
PASSAGES = [{"title": title, "text": text} for title, text in TEXTS.items()]
NOISE = [
    {"title": f"Log {n}", "text": f"On day {n} the Wend stood at {n} feet. Nothing else was noted."}
    for n in range(9)
]
ROWS = [
    {"question": question, "passages": [*PASSAGES[turn:], *noise, *PASSAGES[:turn]]}
    for turn, (question, noise) in enumerate(
        [
            ("Which port do the metrics listen on?", []),
            ("How long is the timeout of the client?", NOISE),
            ("Who designed the bridge over the Wend?", NOISE),
            ("How many days' notice ends the lease?", []),
        ]
    )
] + [{"question": "Nothing to read?", "passages": [{"title": "", "text": "Only this."}]}]


@pytest.fixture(scope="module")
def expected():
    kept = TOLD["fitrag"](ROWS, {})
    assert [any("9464" in text for _, text in kept[0][0]), len(kept[-1][0])] == [True, 1]
    assert any("Klara Voss" in text for _, text in kept[2][0])
    return kept


@pytest.mark.parametrize("door", TOLD["DOORS"])
def test_it_keeps_and_notes_what_fitrag_does(door, expected):
    if "BiLabelScorer" in door:
        pytest.importorskip("torch")
    found = TOLD["DOORS"][door](ROWS, {})
    assert TOLD["differing"](expected, found) == [], found


@pytest.mark.parametrize("way", [way for way in TOLD["WAYS"] if way != "default"])
def test_so_it_does_with_other_options(way):
    how = TOLD["WAYS"][way]
    expected = TOLD["fitrag"](ROWS, how)
    for door in TOLD["TAKING"]:
        found = TOLD["DOORS"][door](ROWS, how)
        assert TOLD["differing"](expected, found) == [], door
