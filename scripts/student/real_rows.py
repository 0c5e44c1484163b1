"""Write 104 labeled lists of tables that do not train, to calibrate by.

    python scripts/student/real_rows.py DATA OUT

Out of the choosing half of `benchmarks/real_questions.py`: from them `fitrag calibrate scores` fits
the line of tables of a bundled scorer whose manifest has none yet.
"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))
from real_questions import drawn  # noqa: E402

from fitrag_integrations.training.rows import write_jsonl  # noqa: E402

if __name__ == "__main__":
    tables = [one for one in drawn(Path(sys.argv[1]), "choose", 40, 7) if "tables" in one.kind]
    both = [(one, zip(one.row.passages, one.gold, strict=True)) for one in tables]
    write_jsonl(
        Path(sys.argv[2]),
        (
            {
                "question": one.row.question,
                "passages": [{"title": p.title, "text": p.text, "has_answer": g} for p, g in some],
            }
            for one, some in both
        ),
    )
