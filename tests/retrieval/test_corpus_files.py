"""What people have in a folder: read, or named with a reason, never the end of a run."""

import gzip
import json
import os
import socket
from contextlib import closing

import pytest

from fitrag_integrations import InputError
from fitrag_integrations.retrieval import read_corpus
from fitrag_integrations.retrieval.corpus import files as reading
from fitrag_integrations.retrieval.corpus.documents import LINES_NOTED, read_passages
from fitrag_integrations.retrieval.corpus.extract import Extractor

FRENCH = "L'été dernier, la forêt était très sèche près de Besançon."
RUSSIAN = "Мост через реку построили весной, и его открыла сама королева. " * 5


def pdf(text, password=None):
    """Write the smallest PDF that shows a line of text, or nothing where that is blank."""
    pypdf = pytest.importorskip("pypdf")
    import io

    stream = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET".encode() if text else b""
    font = b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>"
    page = b"<</Type/Page/Parent 2 0 R/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>"
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        page + b"/MediaBox[0 0 612 792]>>",
        b"<</Length %d>>stream\n%s\nendstream" % (len(stream), stream),
        font,
    ]
    data, places = b"%PDF-1.4\n", []
    for number, each in enumerate(objects, start=1):
        places.append(len(data))
        data += b"%d 0 obj\n%s\nendobj\n" % (number, each)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    head = b"xref\n0 6\n0000000000 65535 f \n" + table
    data += head + b"trailer<</Size 6/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % len(data)
    if password is None:
        return data
    writer = pypdf.PdfWriter(clone_from=io.BytesIO(data))
    writer.encrypt(password, algorithm="RC4-128")
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def html(text):
    return f"<html><body><article><p>{text}</p></article></body></html>".encode() * 3


ROWS = b'{"text": "Di came."}\n'
# name, bytes, what is read of it, and what is noted
CASES = [
    ("plain.txt", b"Ann wrote it.", "Ann wrote it.", None),
    ("read.me.MD", b"# Head\n\nBob read it.", "Bob read it.", None),
    ("manual.rst", b"Head\n====\n\nCy saw it.", "Cy saw it.", None),
    ("rows.jsonl", ROWS, "Di came.", None),
    ("latin.txt", FRENCH.encode("latin-1"), FRENCH, "not UTF-8; read as cp1252"),
    ("cyrillic.txt", RUSSIAN.encode("cp1251"), "построили весной", "not UTF-8; read as cp1251"),
    ("wide.txt", "Ede went.".encode("utf-16"), "Ede went.", None),
    ("chipped.txt", RUSSIAN.encode()[:-3] + b"\xff.", "королева", "damaged UTF-8; 2 characters"),
    ("binary.txt", b"\x89PNG\0\0\0\xff", None, "binary data, no text"),
    ("zero.txt", b"", None, "empty"),
    ("blank.md", b" \n\n ", None, "no text in it"),
    ("image.png", b"\x89PNG", None, ".png: not a kind that is read"),
    ("Makefile", b"all:", None, "files without an ending: not a kind that is read"),
    ("bad.jsonl", b"{\n" + ROWS + b'{"text": "\xff"}\n[1]\n', "Di came.", "line 1"),
    ("torn.jsonl.gz", gzip.compress(ROWS * 9999)[:-20], "Di came.", "damaged or cut gzip"),
    ("no.jsonl.gz", b"not gzip", None, "damaged or cut gzip"),
    ("other.tsv", b"a\tb\n1\t2\n", None, "must be one named text"),
    ("table.csv", b'\xef\xbb\xbfid,text\n1,"Ann ran,\nfast."\n\n', "Ann ran,\nfast.", "1 row of"),
    ("open.csv", b'id,text\n1,Ann ran.\n2,"Bob\n3,Cy\n', "Ann ran.", "lines 3 to 4"),
    ("torn.csv", b'id,text\n1,"\xff\n2,Forged."\n3,Eva.\n', "Eva.", "lines 2 to 3"),
    ("short.csv", b"id,text\n1\n2,Eva slept.\n", "Eva slept.", "line 2: `columns` must be 2"),
    ("rows.json", b'[{"id": 7, "text": "Ann ran."}]', "Ann ran.", None),
    ("texts.json", b'["Ann ran.", 3]', "Ann ran.", "line 2: `row` must be"),
    ("settings.json", b'{"size": 3}', None, "no text in it"),
    ("broken.json", b"[1, ", None, "no JSON"),
    ("broken.tsv", b"id\ttext\ttitle\n1\t\xff\tx\n2\tEva slept.\t\n", "Eva slept.", "line"),
]
FORGED = "9,Forged.,The chief,https://evil.example"
TABLES = [
    # name, bytes, ids that are read, texts of the last two, what is noted
    ("long.csv", f'id,text\n1,"{"x" * 140_000}"\n2,b\n', "12", [140_000, 1], 0),
    (
        "longer.csv",
        f'id,text\n1,"{"x" * 9_000_000}\n{FORGED}\n{"x" * 9_000_000}"\n2,b\n',
        "2",
        [1],
        1,
    ),
    ("longest.csv", f'id,text\n0,a\n1,"{"x" * 17_000_000}\n{FORGED}"\n2,b\n', "0", [1], 1),
    ("wide.csv", f'id,text\n0,z\n1,"a\n{FORGED}",{"x" * 17_000_000}\n2,b\n', "0", [1], 1),
    ("stray.tsv", 'id\ttext\n1\t"a 5" disk\n2\tb\n3\t"c\n4\td\n', "1234", [2, 1], 0),
    ("inches.csv", 'id,text\n1,a 5" disk\n2,b,c\n3,d\n', "13", [9, 1], 1),
    ("quoted.tsv", 'id\ttext\n1\t"a ""b"" c"\n2\t""\n3\t"b"\n', "13", [7, 1], 1),
]
PAPERS = [
    ("one.pdf", lambda: pdf("Ann built the bridge."), "Ann built the bridge.", None),
    ("scan.pdf", lambda: pdf(""), None, "no text in it"),
    ("locked.pdf", lambda: pdf("Secret.", "word"), None, "encrypted PDF"),
    ("open.pdf", lambda: pdf("Opened.", ""), "Opened.", None),
    ("empty.pdf", lambda: b"", None, "empty"),
    ("no.pdf", lambda: b"nothing of a PDF", None, "damaged pdf"),
    ("cut.pdf", lambda: pdf("Ann.")[:200], None, "damaged pdf"),
]


def check(tmp_path, name, data, text, reason):
    (tmp_path / name).write_bytes(data)
    (tmp_path / "zz.txt").write_text("Always read.")
    notes = []
    read = " ".join(one.text for one in read_passages(tmp_path, notes))
    assert "Always read." in read
    assert text is None or text in read
    mine = [str(note) for note in notes if note.file == name]
    assert bool(mine) == (reason is not None) and (not mine or reason in mine[0])


@pytest.mark.parametrize("case", [*CASES, *PAPERS], ids=lambda case: case[0])
def test_a_file_is_read_or_named_with_its_reason(tmp_path, case):
    name, data, text, reason = case
    check(tmp_path, name, data() if callable(data) else data, text, reason)


@pytest.mark.parametrize("case", TABLES, ids=lambda case: case[0])
def test_no_cell_of_a_table_becomes_a_row_or_takes_others_with_it(tmp_path, case):
    name, data, ids, lengths, noted = case
    (tmp_path / name).write_text(data)
    notes = []
    found = read_passages(tmp_path / name, notes)
    assert "".join(one.id for one in found) == ids
    assert [len(one.text) for one in found[-2:]] == lengths
    assert len([note for note in notes if note.is_bad]) == noted, notes


def test_a_page_is_read_and_an_empty_one_named(tmp_path):
    pytest.importorskip("trafilatura")
    check(tmp_path, "page.html", html("Cy saw that the river rose."), "the river rose", None)
    check(tmp_path, "none.htm", b"<html></html>", None, "no text in it")


def test_a_missing_library_is_named_with_its_extra(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "LIBRARIES", {"pdf": ("pypdf_that_is_not_there", "pdf")})
    check(tmp_path, "one.pdf", b"%PDF", None, 'pip install "fitrag-integrations[pdf]"')


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no FIFOs here")
def test_what_is_no_file_of_the_corpus_is_not_opened(tmp_path, monkeypatch):
    home, outside = tmp_path / "corpus", tmp_path / "secret.txt"
    outside.write_text("Not yours.")
    for folder in (home, home / ".git", home / "inside"):
        folder.mkdir()
    (home / ".git" / "a.md").write_text("Hidden.")
    (home / "inside" / "a.md").write_text("Seen.")
    (home / "out.txt").symlink_to(outside)
    (home / "in.txt").symlink_to(home / "inside" / "a.md")
    (home / "lost.txt").symlink_to(home / "nowhere")
    (home / "self.txt").symlink_to(home / "self.txt")
    (home / "again").symlink_to(home)
    os.mkfifo(home / "pipe.txt")
    with socket.socket(socket.AF_UNIX) as bound:
        monkeypatch.chdir(home)
        bound.bind("socket.txt")
        notes = []
        read = read_passages(home, notes)
    assert sorted(one.source for one in read) == ["in.txt", "inside/a.md"]
    told = {note.file: note.reason for note in notes}
    assert told.pop("lost.txt").startswith("cannot be opened")
    assert told.pop("self.txt").startswith("cannot be opened")
    assert told == {
        ".git/": "hidden folder: not read",
        "again/": "linked folder: not read",
        "out.txt": "link out of the corpus: not followed",
        "pipe.txt": "no regular file (a FIFO, a socket or a device)",
        "socket.txt": "no regular file (a FIFO, a socket or a device)",
    }


def test_the_ceilings_hold_and_are_named(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "MOST_BYTES", 100)
    monkeypatch.setattr(reading, "MOST_LINE", 60)
    monkeypatch.setattr(reading, "UNPACKED", 1000)
    monkeypatch.setattr(reading, "RATIO", 1)
    long = json.dumps({"text": "w" * 500}).encode() + b"\n"
    files = {
        "big.txt": b"w " * 51,
        "line.jsonl": ROWS + long + ROWS,
        "bomb.jsonl.gz": gzip.compress(ROWS * 500),
        "line.jsonl.gz": gzip.compress(ROWS + b"w" * 5000),
    }
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    notes = []
    read = read_passages(tmp_path, notes)
    told = {note.file: note.reason for note in reversed(notes)}
    assert told["big.txt"] == "102 bytes, more than 100"
    assert told["line.jsonl"] == "more than 60 bytes"
    assert "unpacks to more than 1,000 bytes" in told["bomb.jsonl.gz"]
    assert told["line.jsonl.gz"] == "more than 60 bytes"
    assert [one.source for one in read].count("line.jsonl") == 2
    assert 40 < [one.source for one in read].count("bomb.jsonl.gz") < 50
    monkeypatch.setattr(reading, "MOST_FILES", 2)
    notes = []
    read_passages(tmp_path, notes)
    assert any("more than 2 files" in note.reason for note in notes)


def test_many_bad_lines_are_counted(tmp_path):
    (tmp_path / "rows.jsonl").write_bytes(b"{\n" * 1000 + ROWS)
    notes = []
    assert len(read_passages(tmp_path, notes)) == 1
    assert len(notes) == LINES_NOTED + 1
    assert notes[-1].reason == f"{1000 - LINES_NOTED} more lines that cannot be read"
    errors = [one for one in read_corpus(tmp_path, on_bad="yield") if isinstance(one, InputError)]
    assert len(errors) == 1000


def test_nothing_to_read_is_refused_with_reasons(tmp_path):
    (tmp_path / "c.txt").write_bytes(b"\0\1\xff")
    with pytest.raises(InputError, match=r"c\.txt: binary data"):
        read_passages(tmp_path, [])
    (tmp_path / "c.txt").rename(tmp_path / "c.bin")
    for corpus in (tmp_path, tmp_path / "missing"):
        with pytest.raises(InputError):
            read_passages(corpus, [])


def test_rows_of_one_id_are_all_kept(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps({"id": "1", "text": f"This is {name}."}))
    found = read_passages(tmp_path, [])
    assert len({one.id for one in found}) == 2 and found[0].id == "1"


def test_a_slow_or_greedy_file_ends_its_reader_alone():
    pytest.importorskip("pypdf")
    data = pdf("Ann.")
    late = pytest.raises(ValueError, match="took more than")
    with closing(Extractor(seconds=0.001)) as extractor, late:
        extractor.text("pdf", data)
    with closing(Extractor(memory=16 << 20)) as extractor, pytest.raises(ValueError):
        extractor.text("pdf", data)
    with closing(Extractor()) as extractor:
        with pytest.raises(ValueError, match="damaged"):
            extractor.text("pdf", b"no")
        assert extractor.text("pdf", data) == "Ann."
