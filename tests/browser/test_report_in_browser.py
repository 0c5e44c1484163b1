"""The report in a real browser: it opens without a word on the console, and reads on any screen."""

import os
import shutil

import pytest
import report_pages
from playwright.sync_api import sync_playwright

pytestmark = pytest.mark.browser

PHONE, DESK = 375, 1280
NAMES = ("chromium", "chromium-browser", "google-chrome")
QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
# Every text that is seen and stands out too little from the nearest ground under it.
FAINT = """
() => {
  const parts = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = (colour) => {
    const [r, g, b] = parts(colour).slice(0, 3).map((v) => v / 255)
      .map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const colour = parts(getComputedStyle(each).backgroundColor);
      if (colour.length < 4 || colour[3] > 0) return getComputedStyle(each).backgroundColor;
    }
    return "rgb(255, 255, 255)";
  };
  const faint = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || !element.checkVisibility() || element.closest("script, title, desc")) continue;
    const style = getComputedStyle(element);
    const ink = light(element.closest("svg") ? style.fill : style.color);
    const under = light(ground(element));
    const ratio = (Math.max(ink, under) + 0.05) / (Math.min(ink, under) + 0.05);
    if (ratio < 4.5) faint.push(`${element.tagName} ${ratio.toFixed(2)} ${element.textContent}`);
  }
  return faint;
}
"""


@pytest.fixture(scope="module")
def browser():
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    assert found, "these tests open Chromium: run `make browser`, or set CHROMIUM to its path"
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=found, args=list(QUIET))
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Write each page once."""
    folder = tmp_path_factory.mktemp("pages")
    for name in ("usual", "hostile", "long"):
        text = getattr(report_pages, name)()
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def opened(browser, pages):
    """Open a page; when the test is over, nothing may have been said, asked for or thrown."""
    said, contexts, own = [], [], set()

    def open_(name, width=DESK, scheme="light", **options):
        size = {"width": width, "height": 800}
        contexts.append(browser.new_context(viewport=size, color_scheme=scheme, **options))
        page = contexts[-1].new_page()
        page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: said.append(f"thrown: {error}"))
        page.on(
            "dialog", lambda dialog: (said.append(f"dialog: {dialog.message}"), dialog.accept())
        )
        page.on("request", lambda asked: said.append(asked.url) if asked.url not in own else None)
        own.add((pages / f"{name}.html").as_uri())
        page.goto((pages / f"{name}.html").as_uri())
        return page

    yield open_
    for context in contexts:
        context.close()
    assert said == []


def overflow(page):
    return page.evaluate("document.documentElement.scrollWidth - innerWidth")


def open_all(page):
    page.evaluate("document.querySelectorAll('details').forEach((each) => each.open = true)")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [PHONE, DESK])
@pytest.mark.parametrize("name", ["usual", "hostile", "long"])
def test_opens_and_fits(opened, name, width, scheme):
    page = opened(name, width, scheme)
    assert page.locator("h1").is_visible()
    assert overflow(page) <= 0
    if name != "long":
        open_all(page)
        assert overflow(page) <= 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_can_be_read(opened, scheme):
    page = opened("usual", DESK, scheme)
    open_all(page)
    assert page.evaluate(FAINT) == []


def test_hostile_texts_do_nothing_and_are_all_there(opened):
    page = opened("hostile")
    open_all(page)
    assert page.title() == report_pages.HOSTILE[0] + report_pages.HOSTILE[4]
    assert page.locator("script").count() == page.locator("style").count() == 1
    assert page.locator("iframe, object, embed, form").count() == 0
    pictures = page.locator("img").evaluate_all("all => all.map(one => one.src)")
    assert pictures and all(source.startswith("data:image/svg+xml") for source in pictures)
    assert page.locator("main").count() == page.locator("h1").count() == 1
    assert page.locator("#questions .question").count() == len(report_pages.HOSTILE)
    shown = page.locator("#questions").text_content()
    for text in report_pages.HOSTILE[:5]:
        assert text in shown
    assert "begins [U+202E]sdne" in shown
    assert "[U+0000][U+001B][31m[U+D800]" in shown
    assert report_pages.TURNED not in page.content()


def test_headings_are_in_order(opened):
    page = opened("usual")
    levels = page.evaluate("[...document.querySelectorAll('h1,h2,h3')].map((h) => +h.tagName[1])")
    assert levels[0] == 1
    assert levels.count(1) == 1
    steps = zip(levels, levels[1:], strict=False)
    assert all(after - before <= 1 for before, after in steps)


def test_drawings_are_drawn_and_have_a_name(opened):
    page = opened("usual")
    charts = page.locator("img.chart")
    assert charts.count() == 6
    for chart in charts.all():
        assert chart.get_attribute("alt").strip() and chart.evaluate("(one) => one.naturalWidth")


def test_a_question_opens_by_keyboard_and_tells_its_trace(opened):
    page = opened("usual", PHONE)
    question = page.locator("#q2")
    trace = question.get_by_text("answer to 1").first
    assert not trace.is_visible()
    for summary in (question.locator("summary").first, question.locator(".told summary").first):
        summary.focus()
        page.keyboard.press("Enter")
    assert trace.is_visible()
    assert question.locator("mark").first.text_content() == "The mill of Orsk stands on the Sil"
    assert question.get_by_text(
        "retrieve, p_known 0.250, threshold 0.600: not known"
    ).first.is_visible()


def test_a_link_to_a_question_opens_it(opened):
    page = opened("usual")
    page.evaluate("location.hash = 'q3'")
    page.wait_for_function("document.getElementById('q3').open")


def test_questions_are_filtered_and_found(opened):
    page = opened("usual")
    shown = page.locator(".question:visible")
    assert shown.count() == 6
    page.get_by_label("with a wrong answer").check()
    assert 0 < shown.count() < 7
    page.get_by_label("all 6").check()
    page.get_by_label("Find").fill("MILL 4 ")
    assert shown.count() == 1
    page.get_by_label("Find").fill("")
    assert shown.count() == 6


def test_a_head_sorts_its_table_by_numbers_and_back(opened):
    page = opened("usual")
    table = page.locator("#summary table").first
    names = table.locator("tbody th")
    assert names.all_text_contents() == ["direct", "fitrag", "crag"]
    table.get_by_text("tokens read").click()
    assert names.all_text_contents() == ["direct", "fitrag", "crag"]  # 1,200, 1,100 and 1,000
    table.get_by_text("tokens read").press("Enter")
    assert names.all_text_contents() == ["crag", "fitrag", "direct"]
    for _ in range(2):
        table.get_by_text("to the first").click()
        assert names.all_text_contents()[-1] == "direct"  # a dash, however it is sorted


def test_works_without_scripts(opened):
    page = opened("usual", java_script_enabled=False)
    assert not page.get_by_label("Find").is_visible()
    page.locator("#q1 summary").first.click()
    assert page.locator("#q1 .told").first.is_visible()
    page.get_by_label("with a note or an error").check()
    assert page.locator(".question:visible").count() <= 6


def test_the_browser_keeps_to_the_policy(browser, pages):
    context = browser.new_context()
    page = context.new_page()
    page.goto((pages / "usual.html").as_uri())
    refused = page.evaluate(
        """() => new Promise((done) => {
          addEventListener("securitypolicyviolation", (event) => done(event.effectiveDirective));
          const image = new Image();
          image.src = "http://127.0.0.1:9/pixel.png";
          document.body.append(image);
        })"""
    )
    context.close()
    assert refused == "img-src"
