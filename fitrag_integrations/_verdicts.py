"""Read a judge's verdict (SlimPLM, section 3.2): does the model know the answer by itself?

Two grammars: `Known (True)` of the paper, `<Known(True)>` of the released weights.
"""

from __future__ import annotations

import re

_VERDICT = re.compile(r"\bknown\s*[(:=]?\s*(true|false)\b(?!\s*/)", re.IGNORECASE)
_BARE = re.compile(r"[\s(<\[\"']*(true|false)\b(?!\s*/)", re.IGNORECASE)


def read_verdict(text: str) -> bool | None:
    """Give the first verdict in a text; None where there is none, and then retrieval is needed.

    A reply that begins with a bare True or False counts as one, since the prompt may end in
    `Known (`; the form itself, `Known (True / False)`, is no verdict. Never raises.
    """
    found = _VERDICT.search(text) or _BARE.match(text)
    return None if found is None else found[1].lower() == "true"
