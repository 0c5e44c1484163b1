"""docs/speed.md says what the last run wrote."""

import json
import re
import runpy
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "speed-amd-epyc-2-cores-avx512_bf16.json"
TOLD = runpy.run_path(str(ROOT / "benchmarks" / "speed_page.py"))


def test_the_page_has_the_tables_of_the_results():
    page, found = (ROOT / "docs" / "speed.md").read_text(), json.loads(RESULTS.read_text())
    shown = re.findall("<!-- table: (.*?) -->", page)
    assert "rerank" in shown and set(shown) <= set(found)
    assert TOLD["filled"](page, found) == page
    assert RESULTS.with_suffix(".md").read_text().endswith(TOLD["markdown"](found))


def test_tables_have_the_columns_of_all_rows():
    rows = [{"what": "one", "ms": 1234.5}, {"what": "two", "share": 0.12345, "count": 5}]
    assert TOLD["table"](rows).splitlines() == [
        "| what | ms | share | count |",
        "| --- | --- | --- | --- |",
        "| one | 1,234 |  |  |",
        "| two |  | 0.123 | 5 |",
    ]
