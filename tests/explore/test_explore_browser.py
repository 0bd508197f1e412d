"""The explorer in a real browser: by mouse, by keyboard, on a phone, after an error."""

from __future__ import annotations

import json
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from importlib.resources import files
from typing import Any

import pytest
import uvicorn
from selenium.webdriver import Chrome, ChromeOptions, ChromeService
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from sentattn.explore.server import Explorer, app

DRIVER = shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(DRIVER is None, reason="needs Debian's chromium-driver")
TEXT = "The film was not good, but the music was great."
HOSTILE = "<script>document.title = 'run'</script> <img src=x onerror=\"document.title = 'run'\"> \u202e good \x07"


class Server:
    """An explorer that can be ended and started again at the same address."""

    def __init__(self, explorer: Explorer) -> None:
        self._explorer, self.port = explorer, 0
        self.start()

    def start(self) -> None:
        listening = socket.create_server(("127.0.0.1", self.port))
        self.port = listening.getsockname()[1]
        self._server = uvicorn.Server(uvicorn.Config(app(self._explorer), log_level="error"))
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [listening]}, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._server.should_exit = self._server.force_exit = True
        self._thread.join(timeout=30)


class Page:
    """A tab with the explorer."""

    def __init__(self, driver: Chrome, address: str) -> None:
        self.driver, self.address = driver, address
        driver.get(address)

    def all(self, selector: str) -> list[Any]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def until(self, condition: Callable[[], Any]) -> Any:
        return WebDriverWait(self.driver, 30).until(lambda _: condition())

    def status(self) -> str:
        return str(self.driver.find_element(By.ID, "status").text)

    def total(self) -> str:
        return str(self.driver.find_element(By.ID, "total").text)

    def type(self, text: str) -> None:
        area = self.driver.find_element(By.ID, "text")
        area.clear()
        area.send_keys(text + Keys.CONTROL + Keys.ENTER)
        self.until(lambda: self.status().startswith("Predicted"))

    def words(self, side: str = "now", model: int = 0) -> list[str]:
        selector = f".model:nth-of-type({model + 1}) .{side} .text span"
        script = "return [...document.querySelectorAll(arguments[0])].map((one) => one.textContent)"
        found: list[str] = self.driver.execute_script(script, selector)
        return found

    def remove(self, word: int) -> None:
        """Clicks a word of the first model, and waits for the result."""
        self.all(".now .text span")[word].click()
        self.until(lambda: self.all(".before:not([hidden])"))

    def press(self, *keys: str) -> None:
        for key in keys:
            self.driver.switch_to.active_element.send_keys(key)

    def violations(self) -> list[str]:
        """What axe finds wrong with the page."""
        self.driver.execute_script(files("axe_core_python").joinpath("axe.min.js").read_text(encoding="utf-8"))
        found = self.driver.execute_async_script("axe.run().then((result) => arguments[0](result.violations))")
        return [f"{one['id']}: {one['nodes'][0]['html']}" for one in found]


@pytest.fixture(scope="module")
def server(explorer: Explorer) -> Iterator[Server]:
    started = Server(explorer)
    yield started
    started.stop()


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    options = ChromeOptions()
    profile = tmp_path_factory.mktemp("profile")
    flags = ["headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage", "no-first-run", "disable-sync"]
    flags += ["disable-background-networking", "disable-component-update", f"user-data-dir={profile}"]
    for flag in flags:
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    with Chrome(options, ChromeService(DRIVER)) as started:
        yield started


WIDE, PHONE = (1280, "light"), (360, "dark")
wide_only = pytest.mark.parametrize("page", [pytest.param(WIDE, id="wide")], indirect=True)
"""Of a test whose clicks and layout are those of others at both widths."""
phone_only = pytest.mark.parametrize("page", [pytest.param(PHONE, id="phone")], indirect=True)
"""Of a test of what has to fit the width of the page."""


@pytest.fixture(params=[WIDE, PHONE], ids=["wide", "phone"])
def page(request: pytest.FixtureRequest, driver: Chrome, server: Server) -> Page:
    width, scheme = request.param
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    scheme = {"name": "prefers-color-scheme", "value": scheme}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
    address = f"http://127.0.0.1:{server.port}/"
    driver.get(f"{address}nothing")  # the page itself would keep the fragment
    page = Page(driver, address)
    page.until(page.words)  # the first error
    return page


@wide_only
def test_the_page_begins_with_the_surest_error(page: Page) -> None:
    picked = page.driver.find_element(By.ID, "picked").text
    assert picked.startswith("Row ")
    assert page.driver.switch_to.active_element.tag_name == "body"  # the page is not scrolled
    first = page.all("#rows tr")[0]
    cells = [cell.text for cell in first.find_elements(By.TAG_NAME, "td")]
    assert f"labeled {cells[1]}, {cells[2]} tokens" in picked
    assert not cells[3].startswith(cells[1])
    assert page.all("#rows tr:first-child td:nth-of-type(4) b")


@wide_only
def test_a_click_removes_a_word_and_keeps_the_old_result(page: Page) -> None:
    page.type(TEXT)
    assert not page.all(".before:not([hidden])")
    words = page.words()
    page.all(".model:nth-of-type(2) .now .text span")[3].click()
    page.until(lambda: len(page.words()) < len(words))
    assert words[3] == "not"
    for model in (0, 1):
        assert page.words("before", model) == words
        assert page.words("now", model) == words[:3] + words[4:]
    page.driver.find_element(By.ID, "undo").click()
    page.until(lambda: page.words() == words)
    assert not page.all(".before:not([hidden])")


@wide_only
def test_a_click_replaces_a_word(page: Page) -> None:
    page.type(TEXT)
    words = page.words()
    page.driver.find_element(By.ID, "replacement").send_keys("very")
    page.remove(3)
    assert page.words() == [*words[:3], "very", *words[4:]]
    assert page.words("before") == words
    assert "not \u2192 very" in page.all(".model:nth-of-type(1) .now .note")[0].text
    page.press(Keys.DELETE)  # the keyboard still removes
    page.until(lambda: page.words() == words[:3] + words[4:])
    page.driver.find_element(By.ID, "undo").click()
    page.until(lambda: page.words() == [*words[:3], "very", *words[4:]])


@wide_only
def test_integrated_gradients_are_shaded_by_their_sign(page: Page) -> None:
    page.type(TEXT)
    page.driver.find_element(By.ID, "gradients").click()
    page.until(lambda: page.all(".model:nth-of-type(2) .now fieldset"))
    page.all(".model:nth-of-type(2) .now fieldset label")[-1].click()
    script = """
        return [...document.querySelectorAll(".model:nth-of-type(2) .now .text span")].map((one) =>
            [Number(one.dataset.weight), Number(one.style.getPropertyValue("--w")), one.classList.contains("against")])
    """
    weights, shades, are_against = zip(*page.driver.execute_script(script), strict=True)
    limit = max(map(abs, weights))
    assert shades == pytest.approx([abs(weight) / limit for weight in weights], abs=0.01)
    assert are_against == tuple(weight < 0 for weight in weights)


@wide_only
def test_the_address_links_to_what_is_shown(page: Page) -> None:
    page.type(TEXT)
    page.remove(3)
    words = page.words()
    page.all(".model:nth-of-type(1) .now fieldset label")[2].click()
    page.all("#shown label")[1].click()
    link, first = page.driver.current_url, page.driver.current_window_handle
    page.driver.switch_to.new_window("tab")  # which has no session
    page.driver.get(link)
    page.until(lambda: page.words() == words)
    assert not page.all(".before:not([hidden])")
    assert [model.is_displayed() for model in page.all(".model")] == [True, False]
    chosen = page.all(".model:nth-of-type(1) .now fieldset input:checked")
    assert [one.get_attribute("value") for one in chosen] == ["2"]
    page.driver.get(f"{page.address}#text=a+good+film&model=gone")  # in the same tab
    page.until(lambda: page.words() == ["a", "good", "film"])
    page.until(lambda: "gone" in page.status())
    assert all(model.is_displayed() for model in page.all(".model"))
    page.driver.close()
    page.driver.switch_to.window(first)
    assert page.words() == words, "tabs are independent"


@wide_only
def test_a_chosen_hop_is_shown_on_both_sides(page: Page) -> None:
    def chosen() -> list[str]:
        return [one.get_attribute("value") for one in page.all(".model:nth-of-type(1) fieldset input:checked")]

    page.type(TEXT)
    shades = page.all(".model:nth-of-type(1) .now .text span")
    mean = [span.get_attribute("style") for span in shades]
    page.all(".model:nth-of-type(1) .now fieldset label")[2].click()
    assert [span.get_attribute("style") for span in shades] != mean
    page.remove(3)
    assert chosen() == ["2", "2"]
    page.all(".model:nth-of-type(1) .before fieldset label")[1].click()
    assert chosen() == ["1", "1"]


@wide_only
def test_everything_is_reached_by_keyboard(page: Page) -> None:
    page.driver.find_element(By.ID, "text").send_keys(TEXT)
    page.press(Keys.TAB, Keys.ENTER)  # the button that predicts
    page.until(lambda: page.status().startswith("Predicted"))
    words = page.words()
    focused = "return document.activeElement.textContent"
    for _ in range(30):
        page.press(Keys.TAB)
        if page.driver.execute_script("return document.activeElement.matches('.now .text span')"):
            break
    page.press(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.END, Keys.HOME, Keys.ARROW_RIGHT)
    assert page.driver.execute_script(focused) == words[1]
    assert "weight" in page.driver.execute_script("return document.activeElement.getAttribute('aria-label')")
    page.press(Keys.DELETE)
    page.until(lambda: page.words() == [words[0], *words[2:]])
    assert page.driver.execute_script(focused) == words[2]  # the next word can be removed at once
    said = str(page.driver.find_element(By.ID, "status").get_attribute("textContent"))
    assert f"without {words[1]}; structured: " in said
    assert ", was " in said
    undo = page.driver.find_element(By.ID, "undo")
    undo.send_keys(Keys.ENTER)
    page.until(lambda: page.words() == words)
    assert page.driver.switch_to.active_element == undo  # which has nothing left to do


@wide_only
def test_rows_are_filtered_and_picked(page: Page) -> None:
    page.all("[name=order] option[value=rows]")[0].click()
    page.until(lambda: page.total().endswith("of 200"))
    page.driver.find_element(By.ID, "next").click()
    page.until(lambda: page.total().startswith("21 to 40"))
    page.all("#rows button")[0].click()
    page.until(lambda: page.words())
    picked = page.driver.find_element(By.ID, "picked").text
    assert picked.startswith("Row ")
    assert page.driver.find_element(By.ID, "text").get_attribute("value")
    page.until(lambda: page.driver.switch_to.active_element.text == picked)


@wide_only
def test_pairs_are_drawn(page: Page) -> None:
    page.type(TEXT)
    page.driver.find_element(By.ID, "pairs").click()
    page.until(lambda: page.all(".model:nth-of-type(2) canvas"))
    assert not page.all(".model:nth-of-type(1) canvas")
    page.remove(3)
    words = page.words()
    page.driver.find_element(By.ID, "pairs").click()  # what was removed stays removed
    page.until(lambda: not page.all("canvas"))
    assert page.words() == words
    assert len(page.words("before")) == len(words) + 1


def test_no_violations_for_axe_and_no_scrolling(page: Page) -> None:
    page.type(TEXT)
    page.remove(2)
    page.driver.find_element(By.ID, "pairs").click()
    page.until(lambda: page.all("canvas"))
    page.driver.find_element(By.ID, "gradients").click()
    shown = "return document.querySelector('.now fieldset').textContent"
    page.until(lambda: "integrated gradients" in page.driver.execute_script(shown))
    name_a_model = "document.querySelector('#filters [name=model]').options[0].text = 'mean, encoder=cnn, '.repeat(9)"
    page.driver.execute_script(name_a_model)
    assert page.violations() == []
    is_narrow = "const {scrollWidth, clientWidth} = document.documentElement; return scrollWidth <= clientWidth"
    assert page.driver.execute_script(is_narrow)


@phone_only
def test_hostile_and_long_texts_do_no_harm(page: Page) -> None:
    submit(page, HOSTILE)
    page.until(lambda: page.status().startswith("Predicted"))
    assert page.driver.title == "Attention explorer"
    assert not page.all("#models img")
    assert not page.all(".cut")
    submit(page, "good film " * 10_000)
    page.until(lambda: len(page.words()) > 100)
    notes = [one.text for one in page.all(".now .cut")]
    assert len(notes) == 2
    for model, note in enumerate(notes):
        assert f"{len(page.words(model=model)):,} tokens" in note
    assert page.driver.execute_script("return document.documentElement.scrollWidth <= innerWidth")


def submit(page: Page, text: str) -> None:
    area = page.driver.find_element(By.ID, "text")
    page.driver.execute_script("arguments[0].value = arguments[1]; arguments[0].form.requestSubmit()", area, text)


@wide_only
def test_even_attention_is_named_and_not_shaded(page: Page) -> None:
    script = (
        "return [...document.querySelectorAll(arguments[0])].map((one) => Number(one.style.getPropertyValue('--w')))"
    )
    page.type(TEXT)
    for pairs in (False, True):
        if pairs:
            page.driver.find_element(By.ID, "pairs").click()
            page.until(lambda: page.all(".model:nth-of-type(2) canvas"))
        shades = [page.driver.execute_script(script, f".model:nth-of-type({n}) .now .text span") for n in (1, 2)]
        assert max(shades[0]) > 0
        assert set(shades[1]) == {0}
        structured, transformer = (page.all(f".model:nth-of-type({n}) .now .top")[0].text for n in (1, 2))
        assert "words tie at" in transformer
        assert "words tie at" not in structured
        assert [one.is_displayed() for one in page.all(".now article > .top .legend")] == [True, False]


def test_a_tip_does_not_hide_the_line_of_weights(page: Page) -> None:
    page.type(TEXT)
    word = page.all(".model:nth-of-type(1) .now .text span")[0]
    line = page.all(".model:nth-of-type(1) .now .top")[0]
    page.driver.execute_script("arguments[0].scrollIntoView({ block: 'center' })", word)
    # In one script: a scroll event in between would hide the tip.
    show = """
        arguments[0].dispatchEvent(new PointerEvent("pointerover", { bubbles: true }));
        const [tip, line] = [document.getElementById("tip"), arguments[1]].map((one) => one.getBoundingClientRect());
        return [tip.height, tip.top, line.bottom];
    """
    height, top, bottom = page.driver.execute_script(show, word, line)
    assert height > 0
    assert top > bottom


@wide_only
def test_an_invalid_text_removes_the_old_prediction(page: Page) -> None:
    area = page.driver.find_element(By.ID, "text")
    for text in ("'  \\n '", "'\\ud800'"):
        page.type(TEXT)
        assert page.words()
        page.driver.execute_script(f"arguments[0].value = {text}; arguments[0].form.requestSubmit()", area)
        page.until(lambda: not page.driver.find_element(By.ID, "models").is_displayed())
        assert page.status()


@phone_only
def test_a_long_word_is_shortened(page: Page) -> None:
    submit(page, "a good " + "x" * 100_000 + " film")
    page.until(lambda: page.status().startswith("Predicted"))
    assert len(page.driver.find_element(By.ID, "models").get_attribute("innerHTML")) < 50_000
    assert any("100,000 characters" in word for word in page.words())
    assert page.driver.execute_script("return document.documentElement.scrollWidth <= innerWidth")
    page.remove(2)
    assert len(page.status()) < 1000
    assert page.words() == ["a", "good", "film"]


@wide_only
def test_a_restarted_server_is_used_again(page: Page, server: Server) -> None:
    page.type(TEXT)
    words = page.words()
    server.stop()
    page.all(".now .text span")[3].click()
    page.until(lambda: "does not answer" in page.status())
    assert page.words() == words
    server.start()
    page.all(".now .text span")[3].click()
    page.until(lambda: len(page.words()) < len(words))
    page.driver.refresh()  # the address has the text
    page.until(lambda: page.words() == words[:3] + words[4:])


@wide_only
def test_no_requests_to_other_hosts_and_no_script_errors(page: Page) -> None:
    page.driver.get_log("performance")
    page.driver.get_log("browser")
    page.driver.refresh()
    page.type(TEXT)
    messages = [json.loads(entry["message"])["message"] for entry in page.driver.get_log("performance")]
    sent = [one["params"]["request"]["url"] for one in messages if one["method"] == "Network.requestWillBeSent"]
    assert sent
    assert [url for url in sent if not url.startswith((page.address, "data:"))] == []
    assert page.driver.get_log("browser") == []
