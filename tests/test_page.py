"""The page as a person meets it: in Chromium, from a file address, with the network off."""
import os
import shutil
import sys
from importlib.resources import files
from pathlib import Path

import pytest
from page_inputs import block, write_page

CHROMIUM = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
QUIET = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"]
HOSTILE = "<img src=x onerror='document.title=\"broken\"'></script>&lt;"
if not CHROMIUM:
    print("\n*** NOT TESTED: the page in a browser. Install chromium (apt-get install chromium), or set CHROMIUM to its path. ***", file=sys.stderr)
    pytest.skip("the page was not tested in a browser: no chromium here; apt-get install chromium, or set CHROMIUM to its path", allow_module_level=True)
sync_playwright = pytest.importorskip("playwright.sync_api").sync_playwright


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as player:
        chromium = player.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield chromium
        chromium.close()


@pytest.fixture
def visit(browser):
    """visit(html, **how): the page opened offline; at the end nothing must have gone wrong on it or been asked for outside it."""
    contexts, faults = [], []

    def go(html, width=1280, **how):
        context = browser.new_context(viewport={"width": width, "height": 900}, offline=True, **{"locale": "en-US", **how})
        page = context.new_page()
        page.on("console", lambda message: faults.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("request", lambda request: None if request.url.startswith(("file:", "data:")) else faults.append(request.url))
        page.goto(Path(html).as_uri())
        contexts.append(context)
        return page

    yield go
    for context in contexts:
        context.close()
    assert faults == []


@pytest.fixture(scope="module")
def html(toy):
    return toy / "metrics/report.html"


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A page on which all that a person can name is hostile, long, or in another script."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(Path(__file__).parent.parent)
        return write_page(tmp_path_factory.mktemp("hostile"), main=HOSTILE, second="颜色" + "long" * 40, classes=["<b>bold</b>", HOSTILE + "2"],
                          colors=["מילה", "ا" * 60], claim=HOSTILE * 3, note=HOSTILE)[0]


def test_the_language_switches_and_says_so_to_a_screen_reader(visit, html):
    page = visit(html)
    assert page.evaluate("document.documentElement.lang") == "en" and page.title() == "Which factors does the encoder keep?"
    assert page.locator("h1").inner_text() == "Which factors does\nthe encoder keep?".replace("\n", " ")
    page.click("#language")
    assert page.evaluate("document.documentElement.lang") == "zh-Hans" and page.title() == "编码器保留了哪些因素？"
    assert page.locator("h1").inner_text() == "编码器保留了哪些因素？" and page.locator("svg.map").first.get_attribute("aria-label").startswith("h 的平面图")
    page.click("#language")
    assert page.locator("h1").inner_text() == "Which factors does the encoder keep?"


def test_a_chinese_browser_is_greeted_in_chinese(visit, html):
    assert visit(html, locale="zh-CN").locator("h1").inner_text() == "编码器保留了哪些因素？"


def test_dark_follows_the_system_and_the_button_turns_it_round(visit, html):
    page = visit(html, color_scheme="dark")

    def brightness():
        return page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).reduce((a, b) => a + +b, 0)")

    assert brightness() < 150
    page.click("#theme")
    assert brightness() > 650


def test_pointing_at_a_dot_shows_the_very_image_and_its_factors(visit, html):
    page = visit(html)
    data = block(html.read_text(encoding="utf-8"), "map-data")
    for image in (0, 7, 17):
        dot = page.locator("svg.map[data-space=z] .dot-mark").nth(image)
        dot.scroll_into_view_if_needed()
        box = dot.bounding_box()
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        assert page.locator("#tip").is_visible()
        shown = page.locator("#tip .tip-words").inner_text()
        places = pairs(data["places"][page.input_value("#map-run")]["z"][page.input_value("#map-method")])
        assert shown in [label for label, place in zip(data["labels"], places, strict=True) if place == places[image]]
        tile = data["tiles"][data["labels"].index(shown)]
        columns = int(page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--columns')"))
        style = page.locator("#tip .tile").evaluate("tile => ['--c', '--r'].map(name => Number(tile.style.getPropertyValue(name)))")
        assert style == [tile % columns, tile // columns]
        assert page.locator("svg.map .ring").count() == 2
    page.mouse.move(2, 2)
    assert page.locator("#tip").is_hidden()


def pairs(numbers):
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def test_arrow_keys_go_from_image_to_image(visit, html):
    page = visit(html)
    page.locator("svg.map").first.focus()
    page.keyboard.press("ArrowRight")
    first = page.locator("#tip .tip-words").inner_text()
    page.keyboard.press("ArrowLeft")
    assert page.locator("#tip").is_visible() and page.locator("#tip .tip-words").inner_text() != first
    page.keyboard.press("Escape")
    assert page.locator("#tip").is_hidden()


def test_choosing_a_factor_recolors_the_map_and_choosing_a_run_moves_it(visit, html):
    page = visit(html)
    data = block(html.read_text(encoding="utf-8"), "map-data")

    def fills():
        return page.eval_on_selector_all("svg.map[data-space=h] .dot-mark", "marks => marks.map(mark => mark.getAttribute('fill'))")

    def kinds(factor):
        return data["factors"][factor]["of"]

    def agrees(factor):  # the same class the same color, and other classes others
        return len(set(zip(kinds(factor), fills(), strict=True))) == len(set(kinds(factor))) == len(set(fills()))

    assert agrees("shape") and page.locator("#map-legend li").all_inner_texts() == data["factors"]["shape"]["classes"]
    before = fills()
    page.select_option("#map-factor", "color")
    assert agrees("color") and fills() != before and page.locator("#map-legend li").all_inner_texts() == ["blue", "red"]
    moved = page.locator(".dot-mark").first.get_attribute("transform")
    page.select_option("#map-run", "untrained")
    assert page.locator(".dot-mark").first.get_attribute("transform") != moved


def test_the_readout_and_the_run_switch_show_one_block_each(visit, html):
    page = visit(html)
    shown = page.locator(".ledger-table:visible")
    assert shown.count() == 1 and shown.get_attribute("data-choice") == "knn"
    page.check("input[value=linear]", force=True)
    assert shown.count() == 1 and shown.get_attribute("data-choice") == "linear"
    page.select_option("#neighbors-run", "moco_swap")
    assert page.locator(".neighbors-run-block:visible").get_attribute("data-choice") == "moco_swap"


@pytest.mark.parametrize("width", [360, 1280])
def test_what_a_policy_loses_is_said_in_words_on_the_first_screen(visit, tmp_path, monkeypatch, width):
    monkeypatch.chdir(Path(__file__).parent.parent)
    words = visit(write_page(tmp_path)[0], width=width).locator(".short .word").all()
    assert [word.inner_text() for word in words] == ["loses color", "keeps shape"]
    assert all((box := word.bounding_box())["y"] + box["height"] < 900 for word in words)


def test_small_charts_are_swiped_through_on_a_phone_and_lie_in_rows_on_a_desk(visit, html):
    def rows(page):
        return len({figure.bounding_box()["y"] for figure in page.locator("#curves figure").all()})

    assert rows(visit(html, width=360)) == 1 and rows(visit(html, width=700)) > 1


@pytest.mark.parametrize("width", [320, 360, 768, 1280])
@pytest.mark.parametrize("which", ["html", "hostile"])
def test_no_width_scrolls_sideways(visit, request, which, width):
    page = visit(request.getfixturevalue(which), width=width)
    assert page.evaluate("document.documentElement.scrollWidth") == width


def test_hostile_names_appear_as_text_and_run_nothing(visit, hostile):
    page = visit(hostile)
    assert page.title() == "Which factors does the encoder keep?" and page.locator("img, b b, bdi b").count() == 0
    assert page.locator("#map-legend li").all_inner_texts() == ["<b>bold</b>", HOSTILE + "2"]
    assert HOSTILE in page.locator("#ledger thead").inner_text() and HOSTILE * 3 in page.locator("#claims").inner_text()
    page.select_option("#map-factor", index=1)
    assert page.locator("#map-legend li").all_inner_texts() == ["מילה", "ا" * 60]


@pytest.mark.parametrize("which, width, scheme", [("html", 360, "dark"), ("html", 1280, "light"), ("hostile", 360, "light"), ("hostile", 1280, "dark")])
def test_axe_finds_no_serious_fault(browser, request, which, width, scheme):
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=True, locale="en-US")
    page = context.new_page()
    page.goto(Path(request.getfixturevalue(which)).as_uri())
    page.add_script_tag(path=files("axe_playwright_python") / "axe.min.js")
    for _ in range(2):
        found = page.evaluate("axe.run()")["violations"]
        assert [(fault["impact"], fault["id"], fault["nodes"][0]["html"]) for fault in found] == []
        page.click("#language")
    context.close()
