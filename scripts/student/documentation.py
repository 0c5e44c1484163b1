"""Read the documentation of freely licensed software into pages of blocks, with each license.

    python scripts/student/sources.py SOURCES
    python scripts/student/documentation.py SOURCES OUT --mandoc SOURCES/tools/usr/bin/mandoc

Debian packages bring manuals in HTML and man pages, wheels and npm archives their READMEs. Only
projects whose own metadata names a license of `FREE` are read: the `copyright` file of a Debian
package (all its stanzas on documentation and on everything), `License` and the classifiers of a
wheel, `package.json`. OUT/projects.tsv lists project, source, license and pages; OUT/pages.jsonl
has a page in each line:

    {"project", "source", "title", "blocks": [{"k", "t", "lvl", "own", "rows"}]}

`k` is the kind: head (`lvl` its level), para, item, code, term, table (`rows`). `own` lists the
terms whose definition a block is part of.
"""

from __future__ import annotations

import argparse
import email
import gzip
import json
import random
import re
import subprocess
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lxml.html
from markdown_it import MarkdownIt

Block = dict[str, Any]
FREE = re.compile(
    r"(?i)^(mit|expat|(modified |new )?bsd|0bsd|apache|psf|python|isc|public|pd\b|cc0|curl"
    r"|postgresql|hpnd|unlicense|zlib|tcl|x11|bzip2|openssh|mirbsd|sudo|permissive|matplotlib)"
)
BOUND = re.compile(r"(?i)gpl|mpl|gfdl|cc-by|artistic|epl|cddl|mozilla|affero|general public")
READ_BY_HAND = {
    "python3.11-doc": "PSF-2.0",
    "sqlite3-doc": "public domain",
    "postgresql-doc-15": "PostgreSQL",
    "sudo": "ISC",
    "openssh-client": "BSD",
    "openssl": "Apache-2.0",
    "openssh-server": "BSD",
    "cmake-doc": "BSD-3-Clause",
    "python-jinja2-doc": "BSD-3-Clause",
    "python-lxml-doc": "BSD-3-Clause",
    "python-pil-doc": "HPND",
    "python-setuptools-doc": "MIT",
    "original-awk": "MIT (Lucent)",
    "tcpdump": "BSD-3-Clause",
    "pgbouncer": "ISC",
    "nsd": "BSD-3-Clause",
    "zstd": "BSD-3-Clause (its choice of two)",
}
"""Licenses of what is read of these, from their copyright files, which cannot be parsed."""
SKIPPED = re.compile(
    r"(?i)genindex|modindex|search|_modules|/_static|copyright|objects\.inv|index-\d|glossary/"
    r"|/readme\.debian|tcltk-policy|-sources|license|blank|py-modindex|contributors|authors|thanks|bookindex"
)
PAGES, LARGE = 45, {"python3.11-doc": 300, "apache2-doc": 110, "postgresql-doc-15": 120}
LARGE |= {"nodejs-doc": 60, "sqlite3-doc": 90, "python-django-doc": 110, "cmake-doc": 80}
CUT = (
    "//script|//style|//nav|//footer|//form|//*[starts-with(@class,'sphinxsidebar')]"
    "|//*[starts-with(@class,'toctree-wrapper')]|//*[starts-with(@class,'toc')]"
    "|//*[starts-with(@class,'contents') or @class='topic' or @id='quickview' or @id='toc']"
    "|//*[contains('|headerlink|related|sidebar|navheader|navfooter|head|foot|up|toplang|bottomlang|"
    "mark|srclink|viewcode-link|', concat('|', @class, '|')) and @class]"
    "|//*[@id='path' or @id='page-header']"
)
ROOTS = (
    "//*[@role='main']",
    "//main",
    "//*[@id='apicontent']",
    "//div[@class='body']",
    "//article",
    "//div[@id='page-content']",
    "//div[@class='manual-text']",
    "//body",
)


def main() -> None:
    """Read every project below SOURCES."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sources", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--mandoc", default="mandoc")
    parser.add_argument("--seed", type=int, default=17)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    table = ["project\tsource\tlicense\tpages"]
    readers = {"deb": debian, "whl": wheel, "npm": node}
    with (args.out / "pages.jsonl").open("w") as file:
        for source, read in readers.items():
            for path in sorted((args.sources / source).iterdir()):
                license, files = read(path)
                name = (
                    re.sub(r"-\d[\d.]*(-|\.|$).*", "", path.name) if source != "deb" else path.name
                )
                free = bool(FREE.match(license)) and not BOUND.search(license)
                count = 0
                for title, blocks in pages(name, files if free else [], args):
                    row = {"project": name, "source": source, "title": title, "blocks": blocks}
                    file.write(json.dumps(row) + "\n")
                    count += 1
                table.append(
                    f"{name}\t{source}\t{license or '?'}{'' if free else ' (left out)'}\t{count}"
                )
                print(table[-1], flush=True)
    (args.out / "projects.tsv").write_text("\n".join(table) + "\n")


def debian(folder: Path) -> tuple[str, list[Any]]:
    """Return license and files of an unpacked Debian package."""
    license = READ_BY_HAND.get(folder.name, "")
    for file in folder.glob("usr/share/doc/*/copyright"):
        text = file.read_text(errors="replace") if file.exists() else ""
        found = [
            named.group(1).strip()
            for part in re.split(r"\n\s*\n(?=Files:)", text)
            if (named_files := re.match(r"Files:(.*(?:\n\s+.*)*)", part))
            and re.search(r"(^|\s)\*(\s|$)|doc|man|\.[13578]\b", named_files.group(1))
            and "debian/" not in named_files.group(1)
            and (named := re.search(r"^License:(.+)$", part, re.MULTILINE))
        ]
        license = license or " and ".join(dict.fromkeys(found))
    files = [p for p in folder.rglob("*") if p.is_file() and not SKIPPED.search(str(p))]
    manual = [p for p in files if re.search(r"/man/man\d/", str(p))]
    html = [p for p in files if re.search(r"\.html(\.en|\.gz)?$", p.name)]
    return license, html + manual


def wheel(path: Path) -> tuple[str, list[Any]]:
    """Return license and README of a wheel."""
    with zipfile.ZipFile(path) as archive:
        name = next(n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        told = email.message_from_bytes(archive.read(name))
    classed = [
        c.split(" :: ")[-1] for c in told.get_all("Classifier", []) if c.startswith("License")
    ]
    given = told.get("License-Expression") or " ".join(classed) or (told.get("License") or "")[:40]
    text = told.get_payload()
    markdown = "markdown" in str(told.get("Description-Content-Type"))
    return str(given), [("README", text)] if markdown and isinstance(text, str) else []


def node(path: Path) -> tuple[str, list[Any]]:
    """Return license and Markdown pages of an npm archive."""
    with tarfile.open(path) as archive:
        names = [m for m in archive.getmembers() if m.isfile() and m.name.count("/") <= 2]
        found = [m for m in names if m.name.lower().endswith(".md") and not SKIPPED.search(m.name)]
        texts = [(Path(m.name).stem, archive.extractfile(m)) for m in found]
        manifest = archive.extractfile("package/package.json")
        license = json.loads(manifest.read() if manifest else b"{}").get("license", "")
        files = [(name, file.read().decode(errors="replace")) for name, file in texts if file]
    return str(license), files


def pages(
    project: str, files: list[Any], args: argparse.Namespace
) -> Iterator[tuple[str, list[Block]]]:
    """Yield title and blocks of at most `PAGES` pages of a project, drawn at random."""
    chance = random.Random(f"{args.seed} {project}")
    order = sorted(files, key=str)
    chance.shuffle(order)
    order.sort(key=lambda one: "/generated/" in str(one) or "/api/" in str(one))
    left, seen = LARGE.get(project, PAGES), set[str]()
    for file in order:
        root = parsed(file, args.mandoc)
        blocks = [*walked(root)] if root is not None else []
        words = sum(len(b["t"].split()) for b in blocks)
        start = " ".join(b["t"] for b in blocks)[:400]
        english = sum(b["t"].split().count("the") for b in blocks)
        if words < 80 or english < words / 100 or start in seen:
            continue
        seen.add(start)
        first = next((b["t"] for b in blocks if b["k"] == "head"), "")
        title = (
            first
            if not isinstance(file, Path) or "/man/" not in str(file)
            else file.name.split(".")[0]
        )
        yield title or Path(str(file)).stem, blocks[:2500]
        left -= 1
        if not left:
            return


def parsed(file: Any, mandoc: str) -> Any:
    """Return the element that holds a page's text, or None."""
    if isinstance(file, tuple):
        text = f"<body>{MarkdownIt().enable('table').render(file[1])}</body>"
    else:
        data = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
        if "/man/" in str(file):
            done = subprocess.run([mandoc, "-Thtml", "-Ofragment"], input=data, capture_output=True)
            text = f"<body>{done.stdout.decode(errors='replace')}</body>"
        else:
            text = data.decode(errors="replace")
    if len(text) < 300 or len(text) > 3_000_000:
        return None
    tree = lxml.html.document_fromstring(re.sub(r"^\s*<\?xml[^>]*\?>", "", text))
    for node in tree.xpath(CUT):
        node.drop_tree()
    return next((found[0] for path in ROOTS if (found := tree.xpath(path))), None)


def text_of(node: Any) -> str:
    """Return the text of an element, blanks joined."""
    return re.sub(r"\s+", " ", node.text_content().replace("¶", "").replace("\xad", "")).strip()


def walked(node: Any, own: tuple[str, ...] = ()) -> Iterator[Block]:
    """Yield the blocks of an element in order."""
    loose: list[str] = [node.text or ""]

    def flushed() -> Iterator[Block]:
        text = re.sub(r"\s+", " ", "".join(loose)).strip()
        loose.clear()
        if len(text) > 1:
            yield {"k": "para", "t": text, "own": own}

    for child in node:
        tag = child.tag if isinstance(child.tag, str) else ""
        kind = str(child.get("class") or "")
        if tag in INLINE:
            loose += [child.text_content() if tag != "br" else " ", child.tail or ""]
            continue
        yield from flushed()
        if re.fullmatch(r"h[1-6]", tag):
            if text := text_of(child):
                yield {"k": "head", "t": text, "lvl": int(tag[1]), "own": ()}
        elif tag == "p":
            if text := text_of(child):  # some man pages set their options as paragraphs
                option = re.match(r"--?\w[\w-]*", text) and len(text.split()) < 7
                yield {"k": "term" if option else "para", "t": text, "own": own}
        elif tag == "pre" or "highlight" in kind and not child.xpath(".//p"):
            text = child.text_content().replace("¶", "").strip("\n")
            if text.strip() and len(text) < 4000:
                yield {"k": "code", "t": text.rstrip(), "own": own}
        elif tag in ("ul", "ol"):
            yield from items(child, own)
        elif tag == "table":
            yield from table(child, own)
        elif tag == "dl":
            yield from definitions(child, own)
        elif tag:
            yield from walked(child, own)
        loose.append(child.tail or "")  # text between blocks
    yield from flushed()


INLINE = {
    "a",
    "b",
    "i",
    "em",
    "strong",
    "code",
    "tt",
    "span",
    "br",
    "var",
    "cite",
    "kbd",
    "samp",
    "sub",
}
INLINE |= {
    "sup",
    "small",
    "abbr",
    "q",
    "u",
    "font",
    "mark",
    "label",
    "acronym",
    "img",
    "wbr",
    "big",
}


def items(node: Any, own: tuple[str, ...]) -> Iterator[Block]:
    """Yield the items of a list; what is nested follows."""
    for li in node.xpath("./li"):
        blocks = [*walked(li, own)]
        for at, block in enumerate(blocks):
            if at == 0 and block["k"] == "para":
                block["k"] = "item"
            yield block


def definitions(node: Any, own: tuple[str, ...]) -> Iterator[Block]:
    """Yield terms, each followed by the blocks of its definition."""
    terms: list[str] = []
    for child in node.xpath("./dt|./dd|./div/dt|./div/dd"):
        if child.tag == "dt":
            terms.append(re.sub(r"\[source\]", "", text_of(child)).strip())
            continue
        named = [t for t in terms if t][:4]
        inner = (*own, " | ".join(named)) if named else own
        if named:
            yield {"k": "term", "t": ", ".join(named), "own": own}
        yield from walked(child, inner)
        terms = []
    if terms and terms[0]:
        yield {"k": "term", "t": ", ".join(terms[:4]), "own": own}


def table(node: Any, own: tuple[str, ...]) -> Iterator[Block]:
    """Yield a table with a header as rows of cells, any other as what it holds."""
    rows = [[text_of(cell) for cell in row.xpath("./td|./th")] for row in node.xpath(".//tr")]
    rows = [row for row in rows if any(row)]
    headed = node.xpath(".//tr[1]/th") and not node.xpath(".//td//pre|.//td//table")
    wide = len(rows[0]) if rows else 0
    if headed and len(rows) > 2 and wide > 1 and all(len(row) == wide for row in rows):
        yield {"k": "table", "t": " ".join(map(" ".join, rows)), "rows": rows, "own": own}
        return
    for cell in node.xpath(".//td"):
        if not cell.xpath(".//td"):
            yield from walked(cell, own)


if __name__ == "__main__":
    main()
