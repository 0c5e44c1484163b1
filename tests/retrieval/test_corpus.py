"""Reading text folders and JSON Lines."""

import gzip
import json

import pytest
from retrieval_fakes import WordEncoder

from fitrag_integrations import InputError, Passage
from fitrag_integrations.retrieval import FaissIndex, read_corpus

SENTENCE = "The old river runs past the quiet town every single morning. "


def by_dots(text):
    ends = [i + 1 for i, sign in enumerate(text) if sign == "."]
    return list(zip([0, *ends], ends, strict=False))


def test_a_folder_is_read_in_order_with_stable_ids(tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "two.TXT").write_text("Two words.")
    (tmp_path / "a.md").write_text("# Rivers of Rome #\n\nThe Tiber flows here.")
    (tmp_path / "c.bin").write_text("not read")
    first, second = read_corpus(tmp_path)
    assert (first.id, first.title, first.source) == ("a.md#0", "Rivers of Rome", "a.md")
    assert second == Passage(
        "b/two.TXT#0", "Two words.", "two", "b/two.TXT", {"start": 0, "end": 10}
    )


def test_passages_are_slices_of_at_most_120_words_cut_at_sentences(tmp_path):
    text = "\ufeffStart here. \r\n\r\n" + SENTENCE * 40
    path = tmp_path / "long.txt"
    path.write_bytes(text.encode())
    found = list(read_corpus(path))
    whole = text.removeprefix("\ufeff")
    assert [p.id for p in found] == [f"long.txt#{n}" for n in range(len(found))]
    assert len(found) == 4
    for passage in found:
        where = passage.metadata
        assert passage.text == whole[where["start"] : where["end"]]
        assert passage.text.endswith(".") and len(passage.text.split()) <= 120
    assert "".join("".join(p.text.split()) for p in found) == "".join(whole.split())


def test_the_splitter_and_the_size_can_be_given(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("One two. Three four. Five six.")
    texts = [p.text for p in read_corpus(path, split=by_dots, max_words=4)]
    assert texts == ["One two. Three four.", " Five six."]


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("no heading here", "note"),
        ("```sh\n# a comment\n```\n\n## Real one", "Real one"),
        ("Text.\n\n#not a heading\n\n### C# in depth\r\n", "C# in depth"),
    ],
)
def test_the_title_of_markdown(tmp_path, text, title):
    (tmp_path / "note.md").write_bytes(text.encode())
    assert next(read_corpus(tmp_path)).title == title


@pytest.mark.parametrize(
    "text",
    [
        "\x00 NUL \x00 bytes.",
        "مرحبا بالعالم. كيف حالك؟",
        "👩‍👩‍👧‍👦 family.",
        "語" * 5000,
        "word " * 20_000,
    ],
)
def test_any_text_is_read_whole(tmp_path, text):
    (tmp_path / "a.txt").write_bytes(text.encode())
    found = list(read_corpus(tmp_path))
    assert "".join("".join(p.text.split()) for p in found) == "".join(text.split())
    assert max(len(p.text) for p in found) < 3000


ROWS = [
    {"id": "a", "title": "Rome", "text": "The city.", "source": "wiki", "lang": "en"},
    {"id": 7, "text": "No title.\u2028Same line.", "title": None},
    {"text": "No id.", "metadata": {"page": 1}, "source": ["x"]},
]
READ = [
    Passage("a", "The city.", "Rome", "wiki", {"lang": "en"}),
    Passage("7", "No title.\u2028Same line.", source="rows.jsonl"),
    Passage("rows.jsonl#4", "No id.", source="rows.jsonl", metadata={"page": 1, "source": ["x"]}),
]


def rows_as_bytes(ending=b"\n"):
    lines = [json.dumps(row, ensure_ascii=False).encode() for row in ROWS]
    return b"\xef\xbb\xbf" + ending.join([*lines[:2], b"  ", lines[2]])


@pytest.mark.parametrize("ending", [b"\n", b"\r\n"])
def test_rows_become_passages(tmp_path, ending):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(rows_as_bytes(ending))
    assert list(read_corpus(path)) == READ
    packed = tmp_path / "rows.jsonl.gz"
    packed.write_bytes(gzip.compress(rows_as_bytes(ending)))
    assert [one.text for one in read_corpus(packed)] == [one.text for one in READ]


def test_an_index_reads_the_passages_it_wrote(tmp_path):
    FaissIndex.build(READ, encoder=WordEncoder()).save(tmp_path)
    assert list(read_corpus(tmp_path / "passages.jsonl")) == READ


BAD_LINES = [
    "{",
    "[]",
    '"text"',
    "{}",
    '{"text": " "}',
    '{"text": 1}',
    '{"text": "x", "id": ""}',
    '{"text": "x", "id": true}',
    '{"text": "x", "title": 3}',
    "[" * 100_000,
]


@pytest.mark.parametrize("line", BAD_LINES, ids=lambda line: line[:30])
def test_a_bad_line_is_named_or_yielded(tmp_path, line):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"text": "good"}\n' + line + '\n{"text": "good too"}\n')
    with pytest.raises(InputError, match="rows.jsonl, line 2"):
        list(read_corpus(path))
    good, bad, too = read_corpus(path, on_bad="yield")
    assert (good.id, too.id) == ("rows.jsonl#1", "rows.jsonl#3")
    assert isinstance(bad, InputError) and "line 2" in str(bad)
    index = FaissIndex.build(
        read_corpus(path, on_bad="yield"), encoder=WordEncoder(), on_bad="skip"
    )
    assert (len(index), index.skipped) == (2, 1)


def test_bytes_that_are_no_utf8_are_named(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"text": "good"}\n{"text": "\xff"}\n')
    with pytest.raises(InputError, match="line 2"):
        list(read_corpus(path))
    (tmp_path / "bad.txt").write_bytes(b"abc \xff")
    with pytest.raises(InputError, match=r"bad\.txt"):
        list(read_corpus(tmp_path))


@pytest.mark.parametrize("name", ["absent", "empty", "file.bin"])
def test_what_is_no_corpus_is_named_at_once(tmp_path, name):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file.bin").write_text("x")
    with pytest.raises(InputError, match=name):
        read_corpus(tmp_path / name)


@pytest.mark.parametrize("options", [{"on_bad": "skip"}, {"max_words": 0}, {"split": "dots"}])
def test_bad_options_are_named_at_once(tmp_path, options):
    (tmp_path / "a.txt").write_text("x")
    with pytest.raises(InputError, match=next(iter(options))):
        read_corpus(tmp_path, **options)


def test_dprs_passages_are_read(tmp_path):
    path = tmp_path / "psgs_w100.tsv.gz"
    path.write_bytes(gzip.compress(b'id\ttext\ttitle\n1\t"The ""Iller"" ends."\tIller\n2\tx\n'))
    first, second = read_corpus(path, on_bad="yield")
    assert (first.id, first.text, first.title) == ("1", 'The "Iller" ends.', "Iller")
    assert "line 3: `columns` must be 3" in str(second)


def test_kilts_pages_are_cut_into_passages(tmp_path):
    told = [
        "Iller\n",
        "The Iller rises in the Alps. It ends at Ulm.\n",
        "BULLET::::- It is green.\n",
    ]
    page = {"wikipedia_id": "7", "wikipedia_title": "Iller", "text": told}
    path = tmp_path / "kilt.jsonl"
    path.write_text(json.dumps(page) + "\n")
    (one,) = read_corpus(path)
    assert (one.id, one.title) == ("7#0", "Iller")
    assert one.text == "The Iller rises in the Alps. It ends at Ulm.\n- It is green."
    assert [each.id for each in read_corpus(path, max_words=6)] == ["7#0", "7#1", "7#2"]
