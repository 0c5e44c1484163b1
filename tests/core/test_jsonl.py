"""JSON is measured before it is parsed."""

import pytest

from fitrag_integrations.core.jsonl import check_size


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"[1,2,3]", None),
        (b'["a,b,[{,,,,,,"]', None),
        (rb'["\",,,,,,"]', None),
        (b"[[[1]]]", None),
        (b"[1,2,3,4,5]", "over 4 values"),
        (b"[{},{},{}]", "over 4 values"),
        (b"[[[[1]]]]", "nested deeper than 3 levels"),
        (b'"' + b'\\"' * 1_000_000, None),
        # A byte of U+2201 is that of a quotation mark, so that the numbers look like a text.
        ('["\u2201",1,2,3,4,5]'.encode("utf-16"), "not in UTF-8"),
        ('["\u2201",1,2,3,4,5]'.encode("utf-16-le"), "not in UTF-8"),
        ('["\u2201",1,2,3,4,5]'.encode("utf-32-be"), "not in UTF-8"),
    ],
)
def test_json_that_takes_more_memory_than_its_bytes_is_known_before_it_is_parsed(data, error):
    if error is None:
        check_size(data, values=4, depth=3)
    else:
        with pytest.raises(ValueError, match=error):
            check_size(data, values=4, depth=3)
