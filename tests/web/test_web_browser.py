"""The page in a real browser: search, reading, checks, uploads, keys, light and dark, Chinese, accessibility."""

import os
import re
import shutil
import signal

import httpx
import pytest

from workingpapers.replication.store import Store

# Where tests run by themselves, a missing browser is a fault of the set-up and not a reason to skip.
MUST_RUN = bool(os.environ.get("CI"))
if MUST_RUN:
    import axe_playwright_python.sync_playwright as axe_playwright
    import playwright.sync_api as playwright
else:
    playwright = pytest.importorskip("playwright.sync_api")
    axe_playwright = pytest.importorskip("axe_playwright_python.sync_playwright")

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
NO_CHROMIUM = "there is no Chromium on this machine; on Debian: apt-get install chromium fonts-noto-cjk"
pytestmark = pytest.mark.skipif(CHROMIUM is None and not MUST_RUN, reason=NO_CHROMIUM)

expect = playwright.expect
expect.set_options(timeout=60_000)  # a busy machine is slow, not wrong
PATIENCE = 180_000
LEFT = ("htmx:afterRequest", "htmx:sendAbort", "htmx:sendError")  # a part was on its way as the page was left
NARROW, WIDE = 360, 1600
LONGEST_LINE = 900
WATCH_SHIFTS = """
window.shifts = 0;
window.addShifts = list => { for (const entry of list) if (!entry.hadRecentInput) window.shifts += entry.value; };
window.shiftObserver = new PerformanceObserver(list => addShifts(list.getEntries()));
shiftObserver.observe({type: "layout-shift", buffered: true});
"""
# Two frames: what was laid out before has been drawn, and its shifts are known.
SHIFTS = """() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => {
  addShifts(shiftObserver.takeRecords());
  done(window.shifts);
})))"""
LONG = {"paper": "condorcet_nash", "claims": ["noise"], "size": "smallest", "seeds": 300}


@pytest.fixture(scope="module")
def chromium():
    assert CHROMIUM, NO_CHROMIUM
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def visit(chromium, server):
    """Open pages; whatever the console complains of, or that is fetched from elsewhere, fails the test."""
    complaints, contexts = [], []

    def open_page(path="/", width=1280, height=900, expected=(), **options):
        context = chromium.new_context(viewport={"width": width, "height": height}, **{"locale": "en-US", **options})
        contexts.append(context)
        context.add_init_script(WATCH_SHIFTS)
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
        page.on(
            "console",
            lambda message: (
                complaints.append(f"{message.type}: {message.text}")
                if message.type in ("error", "warning") and not any(part in message.text for part in (*LEFT, *expected))
                else None
            ),
        )
        own = (server.address + "/", "data:", "about:")
        page.on("request", lambda request: None if request.url.startswith(own) else complaints.append(request.url))
        page.goto(server.address + path)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []


def is_complete(page):
    """Wait until the parts that come late (figures, similar papers) are there."""
    expect(page.locator(".canvas > a, .late > a")).to_have_count(0)
    page.evaluate("document.fonts.ready.then(() => null)")


def is_sound(page):
    """Nothing serious for axe in light and dark, nothing moved, no line too long, nothing wider than the screen."""
    is_complete(page)
    assert page.evaluate(SHIFTS) < 0.01
    for summary in page.locator("details:not([open]) > summary").all():
        if summary.is_visible():
            summary.click()
    is_complete(page)
    before = page.viewport_size
    # Only the rules about colours can tell light from dark. The insides of figures are pictures to a reader.
    for scheme, rules in (("light", {}), ("dark", {"runOnly": ["color-contrast", "link-in-text-block"]})):
        page.emulate_media(color_scheme=scheme)
        axe = axe_playwright.Axe().run(
            page, {"exclude": [["svg"]]}, {"resultTypes": ["violations"], "elementRef": False, **rules}
        )
        found = axe.response["violations"]
        assert [
            (scheme, item["id"], [node["html"][:160] for node in item["nodes"]])
            for item in found
            if item["impact"] in ("serious", "critical")
        ] == []
    for width in (NARROW, WIDE):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        lines = "[...document.querySelectorAll('p, li, blockquote')].map(node => node.getBoundingClientRect().width)"
        if not page.locator(".rows").count():
            assert page.evaluate(f"Math.max(0, ...{lines})") <= LONGEST_LINE
    page.set_viewport_size(before)
    page.emulate_media(color_scheme="null")


def test_the_watch_on_shifts_sees_one(visit):
    page = visit("/jobs")
    assert page.evaluate(SHIFTS) < 0.01
    page.evaluate(
        "() => { const box = document.createElement('div'); box.style.height = '400px'; document.body.prepend(box); }"
    )
    assert page.evaluate(SHIFTS) > 0.05


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/?q=private&scope=all",
        "/?q=zzzz&scope=library",
        "/papers/condorcet_nash",
        "/papers/residual_augmentation/run",
        "/papers/arms_control/run",
        "/results",
        "/import",
        "/papers/nope",
    ],
)
def test_every_kind_of_page_is_sound(visit, path):
    is_sound(visit(path, expected=["404 (Not Found)"]))


def test_results_come_as_one_types_and_the_address_is_shareable(visit):
    page = visit()
    page.get_by_role("searchbox").press_sequentially("counterfactual resid", delay=20)
    first = page.locator(".hit h2 a").first
    expect(first).to_contain_text("Residual")
    expect(page.locator(".hit mark").first).to_be_visible()
    expect(page).to_have_url(re.compile(r"q=counterfactual(\+|%20)resid$"))
    shared = page.url
    page.goto("about:blank")
    page.goto(shared)
    expect(page.get_by_role("searchbox")).to_have_value("counterfactual resid")
    expect(first).to_contain_text("Residual")


def test_facets_narrow_and_are_removed(visit):
    page = visit()
    facets, chosen = page.locator(".facets"), page.locator(".chosen")
    everything = page.locator(".hit").count()
    facets.get_by_role("link", name="inconclusive").click()
    expect(page.locator(".hit .badge.supported")).to_have_count(0)
    expect(page.locator(".hit .badge.inconclusive").first).to_be_visible()
    facets.get_by_role("link", name="Deep Learning", exact=True).click()
    expect(chosen.get_by_role("listitem")).to_have_count(3)
    for text in page.locator(".hit p.soft").all_inner_texts():
        assert "Deep Learning ·" in text
    chosen.get_by_role("link", name="inconclusive").click()
    expect(page).to_have_url(re.compile(r"\?area=Deep\+Learning$"))
    chosen.get_by_role("link", name="Clear all").click()
    expect(page.locator(".hit")).to_have_count(everything)


def test_nothing_found_offers_the_nearest_words_and_a_way_on(visit):
    page = visit("/?q=counterfactaul")
    page.get_by_role("link", name="counterfactual", exact=True).click()
    expect(page.locator(".hit h2 a").first).to_contain_text("Counterfactual")
    page.get_by_role("searchbox").fill("zzzzqqq")
    page.get_by_role("link", name="Show this library's methods").click()
    expect(page.locator(".hit").first).to_be_visible()


def test_the_keyboard_alone_finds_and_opens_a_paper(visit):
    page = visit()
    box, first = page.get_by_role("searchbox"), page.locator(".hit h2 a").first
    page.keyboard.press("/")
    expect(box).to_be_focused()
    page.keyboard.type("private hypothesis")
    expect(first).to_contain_text("Hypothesis")
    page.keyboard.press("ArrowDown")
    expect(first).to_be_focused()
    page.keyboard.press("ArrowUp")
    expect(box).to_be_focused()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(page.locator(".hit h2 a").nth(1)).to_be_focused()
    page.keyboard.press("Escape")
    expect(box).to_be_focused()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/papers/private_hypothesis$"))
    page.keyboard.press("/")
    expect(box).to_be_focused()
    page.keyboard.type("nash")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"\?q=nash$"))
    expect(first).to_contain_text("Nash")


def test_every_control_is_reached_by_tab_and_shows_that_it_has_the_focus(visit):
    page = visit("/papers/condorcet_nash")
    is_complete(page)
    page.keyboard.press("Tab")
    expect(page.get_by_text("Skip to content")).to_be_focused()
    controls = ":is(a, button, select, input, summary):visible"
    wanted = page.locator(controls).count()
    for _ in range(2 * wanted + 40):
        shown = page.evaluate(
            "() => { const node = document.activeElement; if (node === document.body) return null;"
            " node.dataset.reached = 'yes'; const style = getComputedStyle(node);"
            " return style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0; }"
        )
        if shown is None:
            break
        assert shown, page.evaluate("document.activeElement.outerHTML")
        page.keyboard.press("Tab")
    assert page.locator(f"{controls}[data-reached]").count() > 20
    missed = page.locator(f"{controls}:not([data-reached])")
    assert missed.count() == 0, missed.first.evaluate("node => node.outerHTML")


def test_a_paper_is_read_with_formulas_and_its_figure(visit):
    page = visit("/papers/condorcet_nash")
    expect(page.locator(".chart svg").first).to_be_visible()
    expect(page.locator(".late .hit").first).to_be_attached()
    page.locator("summary", has_text="When to use it").click()
    expect(page.locator(".prose .katex-html").first).to_be_visible()
    assert page.evaluate("document.fonts.load('16px KaTeX_Main').then(faces => faces.length)") > 0
    page.get_by_role("navigation", name="On this page").get_by_role("link", name="Cite").click()
    expect(page.get_by_role("heading", name="Cite")).to_be_in_viewport()


def test_code_is_copied(visit):
    page = visit("/papers/condorcet_nash", permissions=["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="BibTeX").click()
    expect(page.get_by_role("button", name="BibTeX")).to_contain_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()").startswith("@inproceedings{")


def test_a_check_is_watched_from_start_to_verdict(visit):
    page = visit("/papers/condorcet_nash")
    page.locator("select[name=claim]").select_option("noise")
    page.get_by_label("Size").select_option("smallest")
    page.get_by_label("Seeds").fill("8")
    page.get_by_role("button", name="Start the check").click()
    expect(page.locator("#state")).to_have_text("running", timeout=PATIENCE)
    expect(page.locator("#arm")).not_to_have_text("–", timeout=PATIENCE)
    expect(page.locator("#done")).to_have_text(re.compile(r"[1-9]\d* / 24"), timeout=PATIENCE)
    expect(page.locator("#elapsed")).to_have_text(re.compile(r"\d+ s"))
    expect(page.locator("#remaining")).not_to_have_text("–", timeout=PATIENCE)
    expect(page.locator("#state")).to_have_text("done", timeout=PATIENCE)
    expect(page.locator("h2 .badge")).to_have_text(re.compile("^(supported|not supported|inconclusive)$"))
    expect(page.locator(".chart svg")).to_be_visible()
    is_sound(page)


def shorten(folder, number, seeds):
    """Let an unfinished run want fewer seeds, so that it can be completed in a test."""
    Store(folder / "results.sqlite").set_seeds(number, seeds)


def finished_outcomes(page):
    text = page.locator("#done").inner_text()
    return int(text.split(" / ")[0]) if " / " in text else 0


def test_a_check_is_cancelled_and_resumed(visit, server):
    number = httpx.post(f"{server.address}/api/checks", json=LONG).json()["id"]
    page = visit(f"/jobs/{number}")
    expect(page.locator("#done")).to_have_text(re.compile(r"[2-9] / 900"), timeout=PATIENCE)
    is_sound(page)
    kept = finished_outcomes(page)
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("#state")).to_have_text("cancelled", timeout=PATIENCE)
    is_sound(page)
    page.get_by_role("link", name="Jobs", exact=True).first.click()
    expect(page.get_by_role("heading", name="Interrupted checks")).to_be_visible()
    is_sound(page)
    resume = page.get_by_role("button", name="Resume condorcet_nash noise")
    place = resume.locator("xpath=..").get_attribute("action")
    shorten(server.folder, int(place.split("/")[2]), kept // 3 + 2)
    resume.click()
    expect(page.locator("#state")).to_have_text("done", timeout=PATIENCE)
    expect(page.locator("h2 .badge")).to_be_visible()
    assert httpx.get(f"{server.address}/api/results/{place.split('/')[2]}").json()["seeds"] == kept // 3 + 2


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_check_outlives_its_server_and_is_resumed_on_the_same_page(visit, server, how):
    number = httpx.post(f"{server.address}/api/checks", json=LONG).json()["id"]
    page = visit(f"/jobs/{number}", expected=["ERR_CONNECTION", "ERR_INCOMPLETE", "ERR_EMPTY"])
    expect(page.locator("#done")).to_have_text(re.compile(r"[1-9]\d* / 900"), timeout=PATIENCE)
    server.end(how)
    server.start()
    expect(page.locator("#state")).to_have_text("interrupted", timeout=PATIENCE)
    runs = [run for run in httpx.get(f"{server.address}/api/results").json() if run["status"] == "unfinished"]
    shorten(server.folder, runs[0]["run"], 3)
    page.get_by_role("link", name="Jobs", exact=True).first.click()
    page.get_by_role("button", name="Resume condorcet_nash noise").click()
    expect(page.locator("#state")).to_have_text("done", timeout=PATIENCE)
    assert httpx.get(f"{server.address}/api/results/{runs[0]['run']}").json()["seeds"] == 3


def test_two_results_are_compared(visit, server):
    runs = []
    for seeds in (2, 3):
        wanted = {**LONG, "seeds": seeds}
        number = httpx.post(f"{server.address}/api/checks", json=wanted).json()["id"]
        # The stream of events ends when the job has.
        httpx.get(f"{server.address}/api/jobs/{number}/events", timeout=PATIENCE / 1000)
        runs.append(httpx.get(f"{server.address}/api/jobs/{number}").json()["verdicts"][0]["run"])
    page = visit("/results")
    is_sound(page)
    for run in runs:
        page.get_by_label(f"Choose {run}", exact=True).check()
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_role("row", name=re.compile("^seeds"))).to_contain_text(re.compile("2.*3|3.*2"))
    is_sound(page)


def test_a_command_is_run_on_an_upload_and_its_files_are_saved(visit, wins, tmp_path):
    # No script may run in the report, and so not the one of this test that watches shifts.
    page = visit("/papers/condorcet_nash/run", expected=["Blocked script execution"])
    page.get_by_label("preferences").set_input_files(wins)
    page.get_by_text("More options").click()
    page.get_by_label("out", exact=True).fill("policy.csv")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.locator("#state")).to_have_text("done", timeout=PATIENCE)
    expect(page.get_by_text("papers run condorcet_nash wins.csv --out policy.csv")).to_be_visible()
    with page.expect_download() as saved:
        page.get_by_role("link", name="policy.csv").click()
    assert saved.value.suggested_filename == "policy.csv"
    saved.value.save_as(tmp_path / "policy.csv")
    assert (tmp_path / "policy.csv").read_text(encoding="utf-8").startswith("prompt,response,policy,low,high\n")
    expect(page.frame_locator("iframe.report").locator("h1")).to_be_visible()
    is_sound(page)


def test_a_wrong_value_is_told_beside_the_form(visit, wins):
    page = visit("/papers/condorcet_nash/run", expected=["400 (Bad Request)"])
    page.get_by_label("preferences").set_input_files(wins)
    page.get_by_text("More options").click()
    page.get_by_label("out", exact=True).fill("a/b.json")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("plain file name")
    expect(page.get_by_label("out", exact=True)).to_have_value("a/b.json")
    is_sound(page)


def test_proceedings_are_previewed_and_imported(visit, tmp_path):
    file = tmp_path / "new.bib"
    file.write_text(
        "@inproceedings{x, title={Gizmos in $O(n^2)$ time for all}, author={Ann Lee and Bo Li}, year={2026}}\n",
        encoding="utf-8",
    )
    page = visit("/import")
    page.get_by_label("Files").set_input_files(file)
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("heading", name="What would change")).to_be_visible(timeout=PATIENCE)
    expect(page.get_by_text("Gizmos in")).to_be_visible()
    is_sound(page)
    page.get_by_role("button", name="Import this").click()
    expect(page.get_by_role("heading", name="What changed")).to_be_visible(timeout=PATIENCE)
    page.get_by_role("link", name="Search").click()
    page.get_by_role("searchbox").fill("gizmos")
    page.get_by_role("searchbox").press("Enter")
    page.locator(".hit h2 a").first.click()
    expect(page.locator("h1 .katex-html")).to_be_visible()
    is_sound(page)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark_follow_the_system_and_the_choice(visit, scheme):
    page = visit("/papers/condorcet_nash", color_scheme=scheme)
    ground = "getComputedStyle(document.body).backgroundColor"
    other = {"light": "dark", "dark": "light"}[scheme]
    colours = {"light": "rgb(255, 255, 255)", "dark": "rgb(13, 17, 23)"}
    assert page.evaluate(ground) == colours[scheme]
    expect(page.locator(".chart svg").first).to_be_visible()
    drawn = page.locator(".chart svg text").first.evaluate("node => getComputedStyle(node).fill")
    assert drawn == page.evaluate("getComputedStyle(document.body).color")
    page.get_by_role("link", name=other.capitalize(), exact=True).click()
    expect(page.locator("html")).to_have_attribute("data-theme", other)
    expect(page).to_have_url(re.compile("/papers/condorcet_nash$"))
    assert page.evaluate(ground) == colours[other]
    is_complete(page)


def test_a_chinese_browser_reads_chinese(visit):
    page = visit("/", locale="zh-CN")
    expect(page).to_have_title("论文检索")
    expect(page.locator("html")).to_have_attribute("lang", "zh-CN")
    page.get_by_role("searchbox").fill("差分隐私")
    expect(page.get_by_text("同时检索")).to_be_visible()
    expect(page.locator(".hit").first).to_contain_text("Private")
    page.get_by_role("link", name="English").click()
    expect(page).to_have_title(re.compile("Working Papers"))
    expect(page.get_by_role("searchbox")).to_have_value("差分隐私")


@pytest.mark.parametrize("path", ["/", "/papers/condorcet_nash", "/papers/residual_augmentation/run", "/import"])
def test_pages_in_chinese_are_sound_and_leave_no_word_of_the_interface_in_english(visit, path):
    page = visit(path, locale="zh-CN")
    is_sound(page)
    # Names of parameters are words of the command, and stay as they are.
    interface = page.locator("header, footer, h2:not(.hit h2), button, summary:not(.claim > summary), .inline label")
    for text in interface.all_inner_texts():
        assert re.search("[一-鿿]", text) or not re.search("[a-z]{2}", text), text
