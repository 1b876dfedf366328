"""The page in a real browser: Debian's Chromium, driven by Playwright."""

import csv
import io
import re
import shutil

import pytest
from labelling_server import command, events_of, free_port, write_digits, write_texts

sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.thorough,
    pytest.mark.xdist_group("browser"),
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium: apt-get install chromium"),
]

# Milliseconds that the browser may take on a busy machine.
PATIENCE = 60_000


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture
def visit(browser):
    """Open the page in a browser of its own; errors of its script fail the test."""
    contexts, problems = [], []

    def visit(address, shows="#stage img, #stage .text", **options):
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **options})
        contexts.append(context)
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda said: problems.append(said.text) if "Content Security" in said.text else None)
        page.goto(address)
        page.wait_for_selector(shows)
        return page

    yield visit
    for context in contexts:
        context.close()
    assert not problems


def shown(page):
    """What identifies the item that is shown."""
    return page.locator("#stage .id, #stage .text").first.inner_text()


def press(page, key):
    """Press a key that answers, and wait for the next item."""
    before = shown(page)
    page.keyboard.press(key)
    page.wait_for_function(
        "before => (document.querySelector('#stage .id, #stage .text') || { innerText: before }).innerText !== before",
        arg=before,
    )
    return before


def saved(page):
    page.wait_for_function("() => document.getElementById('saved').dataset.state === 'saved'")


def test_a_new_user_labels_sixty_digits_up_to_a_model_and_an_export(tmp_path, visit):
    folder = write_digits(tmp_path / "digits", 200)
    classes = ",".join(map(str, range(10)))
    with command(folder, "--classes", classes, "--encoder", "patches", home=tmp_path) as (_, address, _):
        page = visit(address)
        given = {}
        for _ in range(60):
            digit = re.search(r"-(\d)\.png", shown(page))[1]
            given[press(page, digit)] = digit
        saved(page)
        assert len(given) == 60
        page.wait_for_function("() => document.getElementById('model-text').textContent.includes('labels')")
        page.wait_for_function("() => !document.getElementById('model-text').textContent.startsWith('The first')")
        press(page, "1")
        page.wait_for_function(
            "() => document.getElementById('last').textContent.includes('the model would have said')"
        )
        page.keyboard.press("u")
        page.wait_for_function("() => document.getElementById('last').textContent.includes('Undone')")
        saved(page)
        page.click("text=Progress")
        page.wait_for_selector("text=Learning curve")
        with page.expect_download() as download:
            page.click("text=Download CSV")
        rows = list(csv.DictReader(io.StringIO(download.value.path().read_text())))
    assert {row["id"]: row["label"] for row in rows} == given


def test_without_classes_the_page_asks_for_them(tmp_path, visit):
    data = write_texts(tmp_path)
    with command(data, "--encoder", "tfidf", home=tmp_path) as (_, address, _):
        page = visit(address)
        assert page.locator("#add-title").inner_text() == "Name the classes"
        page.fill("#add-name", "cat, dog ,, cat")
        page.keyboard.press("Enter")
        page.wait_for_selector(".class[data-label=dog]")
        assert page.locator(".class").count() == 2
        assert page.locator("#add-said").inner_text() == "The classes: cat, dog."
        assert page.locator("#add-cancel").inner_text() == "Done"
        page.fill("#add-name", "cow")
        page.keyboard.press("Enter")
        page.wait_for_selector(".class[data-label=cow]")
        page.click("#add-cancel")
        press(page, "3")
        page.keyboard.press("+")  # later, a name may have a comma in it
        assert page.locator("#add-title").inner_text() == "Add a class"
        page.fill("#add-name", "sheep, goats")
        page.keyboard.press("Enter")
        page.wait_for_selector("[data-label='sheep, goats']")
        saved(page)
    labels = [event.label for event in events_of(data)]
    assert labels == ["cat", "dog", "cow", "cow", "sheep, goats"]


def test_the_last_items(tmp_path, visit):
    data = write_texts(tmp_path, ["one", "two"])
    with command(data, "--classes", "cat,dog", "--encoder", "tfidf", home=tmp_path) as (_, address, _):
        one = visit(address)
        two = visit(address, shows="text=Others have the last items.")
        assert two.locator(".work.nothing").count() == 1  # nothing can be answered
        two.keyboard.press("1")
        press(one, "1")
        one.keyboard.press("2")
        for page in (one, two):
            page.wait_for_selector("text=Everything is labelled.")
            assert page.locator("#stage a").count() == 3
        saved(one)
        one.keyboard.press("ArrowLeft")
        one.wait_for_selector(".work:not(.nothing) .class[aria-pressed=true]")
    assert len([event for event in events_of(data) if event.item is not None]) == 2


def test_two_browsers_reload_lost_network_and_a_phone(tmp_path, visit):
    data = write_texts(tmp_path, [f"text {n} <b>bold</b>" for n in range(300)])
    port = free_port()
    arguments = (data, "--classes", "cat,dog", "--encoder", "tfidf", "--port", port)
    with command(*arguments, home=tmp_path) as (_, address, _):
        one, two = visit(address), visit(address)
        mine = [press(one, "1") for _ in range(5)]
        others = [press(two, "2") for _ in range(5)]
        assert not set(mine) & set(others)
        assert "<b>bold</b>" in mine[0]  # shown as it is, not as HTML
        saved(one)
        saved(two)

        # Back, and another label for an earlier item.
        one.keyboard.press("ArrowLeft")
        assert shown(one) == mine[-1]
        assert one.locator(".class[aria-pressed=true]").inner_text().startswith("1")
        press(one, "2")
        saved(one)

        # Without a network, people go on; a reload keeps what was not sent yet.
        one.context.set_offline(True)
        offline = [press(one, "1") for _ in range(3)]
        one.wait_for_function("() => document.getElementById('saved').dataset.state === 'offline'")
        assert "3 answers kept here" in one.locator("#saved").inner_text()
        one.context.set_offline(False)
        one.reload()
        one.wait_for_selector("#stage .text")
        saved(one)
        assert shown(one) not in [*mine, *offline]
        one.wait_for_function("() => !document.getElementById('back').disabled")
        one.keyboard.press("ArrowLeft")  # back to what was answered before the page was loaded again
        assert shown(one) in (mine[-1], offline[-1])
        assert one.locator(".class[aria-pressed=true]").count() == 1
        one.keyboard.press("ArrowRight")

        phone = visit(address, viewport={"width": 360, "height": 740}, is_mobile=True, has_touch=True)
        for path in ("", "progress", "review", "team"):
            phone.goto(f"{address}/{path}")
            assert phone.evaluate("document.documentElement.scrollWidth") <= 360
        phone.goto(address)
        phone.wait_for_selector("#stage .text")
        tapped = shown(phone)
        phone.tap(".class >> nth=1")
        phone.wait_for_function("before => document.querySelector('#stage .text').innerText !== before", arg=tapped)
        saved(phone)

        # Skip, don't know, cannot be labelled, a new class, and the keys.
        for key in "sdx":
            press(one, key)
        one.keyboard.press("+")
        one.fill("#add-name", "cow")
        one.keyboard.press("Enter")
        one.wait_for_selector(".class[data-label=cow]")
        last = press(one, "3")
        one.keyboard.press("?")
        assert one.locator("#help-box").is_visible()
        one.keyboard.press("Escape")
        saved(one)
    events = [event for event in events_of(data) if event.item is not None]
    assert len({event.request_id for event in events}) == len(events) == 5 + 5 + 1 + 3 + 1 + 3 + 1
    labels = {f"text {event.item} <b>bold</b>": event.label for event in events}
    assert labels[mine[-1]] == "dog"
    assert labels[mine[0]] == "cat"
    assert all(labels[text] == "cat" for text in offline)
    assert labels[tapped] == "dog"
    assert labels[last] == "cow"
    assert {event.kind for event in events} == {"label", "skip", "unsure", "unlabelable"}


def test_an_access_link_and_its_end(tmp_path, visit):
    """On another address, people come in by their links; the address bar keeps no token."""
    data = write_texts(tmp_path)
    arguments = (data, "--classes", "cat,dog", "--encoder", "tfidf", "--host", "0.0.0.0", "--me", "olga")
    with command(*arguments, home=tmp_path) as (server, _, said):
        while "/enter/" not in said:
            said += server.stdout.readline()
        port, token = re.search(r":(\d+)/enter/(\S+)", said).groups()
        owner = visit(f"http://127.0.0.1:{port}/enter/{token}")
        assert owner.url == f"http://127.0.0.1:{port}/"
        owner.click("text=Team")
        owner.fill("#invite-name", "anna")
        owner.click("text=Make a link")
        owner.wait_for_selector("#link:not([hidden])")
        anna = visit(owner.input_value("#link-text"))
        press(anna, "1")
        saved(anna)
        owner.reload()
        owner.click(".revoke")
        owner.click(".revoke")
        owner.wait_for_selector("text=revoked")
        anna.keyboard.press("1")
        anna.wait_for_function("() => document.getElementById('saved').dataset.state === 'refused'")
        assert anna.locator("#alarm").inner_text().startswith("You need an access link.")
        anna.reload()
        anna.wait_for_selector("text=You need an access link")
