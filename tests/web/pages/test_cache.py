"""The page cache: what it gives back, what it forgets, who shares it."""

import json
import os
import subprocess
import sys

import pytest

from fitrag_integrations.errors import SearchError
from fitrag_integrations.web import Page, PageCache

URL = "https://site.example/page?key=SECRET"


def made(url=URL, words="The mill."):
    return Page(url, url, "Mill", (words, "Two."), "2030-01-01T00:00:00+00:00")


def test_a_page_comes_back_whole(tmp_path):
    cache = PageCache(tmp_path / "deep" / "cache")
    assert cache.get(URL) is None
    cache.put(URL, made())
    assert PageCache(tmp_path / "deep" / "cache").get(URL) == made()
    assert cache.get("https://site.example/page") is None


def test_a_refusal_comes_back_as_one(tmp_path):
    cache = PageCache(tmp_path)
    cache.put(URL, SearchError("robots.txt says no", kind="blocked"))
    found = cache.get(URL)
    assert isinstance(found, SearchError) and (found.kind, str(found)) == (
        "blocked",
        "robots.txt says no",
    )
    cache.put(URL, made())
    assert cache.get(URL) == made()


def test_names_and_repr_hold_no_secret(tmp_path):
    cache = PageCache(tmp_path)
    cache.put(URL, made())
    (name,) = os.listdir(tmp_path)
    assert "SECRET" not in name + repr(cache) and name.endswith(".json")


def changed(path, **values):
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"\xff\xfe{"),
        lambda path: path.write_text(path.read_text()[:40]),
        lambda path: path.write_text("[" * 100_000),
        lambda path: path.write_text("null"),
        lambda path: path.write_text("[]"),
        lambda path: changed(path, format=2),
        lambda path: changed(path, url="https://other.example/"),
        lambda path: changed(path, stored_at=None),
        lambda path: changed(path, stored_at=float("nan")),
        lambda path: changed(path, stored_at=0),
        lambda path: changed(path, stored_at=9e12),
        lambda path: changed(path, page={"url": "x"}),
        lambda path: changed(path, page="words"),
    ],
)
def test_what_is_spoiled_or_old_counts_as_absent_and_is_written_anew(tmp_path, spoil):
    cache = PageCache(tmp_path)
    cache.put(URL, made())
    spoil(next(tmp_path.iterdir()))
    assert cache.get(URL) is None
    cache.put(URL, made(words="Anew."))
    assert cache.get(URL) == made(words="Anew.")


def test_pages_expire(tmp_path):
    PageCache(tmp_path).put(URL, made())
    assert PageCache(tmp_path, expires_seconds=0).get(URL) is None


def test_the_oldest_go_when_it_is_full(tmp_path):
    (tmp_path / "notes.txt").write_text("mine" * 10_000)
    cache = PageCache(tmp_path, max_bytes=20_000)
    for i in range(8):
        cache.put(f"{URL}{i}", made(f"{URL}{i}", "word " * 800))
        for path in tmp_path.glob("*.json"):
            os.utime(path, (path.stat().st_mtime - 10,) * 2)
    kept = [i for i in range(8) if cache.get(f"{URL}{i}")]
    assert kept and kept == list(range(8 - len(kept), 8)) and len(kept) < 6
    assert (tmp_path / "notes.txt").exists()


def test_several_processes_may_share_it(tmp_path):
    script = (
        "import sys\n"
        "from fitrag_integrations.web import Page, PageCache\n"
        "cache = PageCache(sys.argv[1])\n"
        "for i in range(20):\n"
        "    url = f'https://site.example/{i % 4}'\n"
        "    words = sys.argv[2] * (100_000 + i)\n"
        "    cache.put(url, Page(url, url, '', (words,), ''))\n"
        "    found = cache.get(url)\n"
        "    assert found is not None and len(set(found.text)) == 1\n"
    )
    runs = [
        subprocess.Popen([sys.executable, "-c", script, str(tmp_path), letter]) for letter in "abc"
    ]
    assert [run.wait(120) for run in runs] == [0, 0, 0]
    assert not list(tmp_path.glob(".fitrag-*"))


def test_a_disk_that_refuses_is_told_and_forgiven(tmp_path, caplog):
    folder = tmp_path / "cache"
    cache = PageCache(folder)
    folder.write_text("in the way")
    cache.put(URL, made())
    assert "is not cached" in caplog.text and "SECRET" not in caplog.text
    assert cache.get(URL) is None
