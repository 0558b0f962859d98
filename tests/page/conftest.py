"""A headless browser for tests of pages that newfound makes. Without chromium these tests fail; they do not skip."""

import shutil

import pytest
from report_runs import make_run

from newfound.report.keep import read_kept
from newfound.report.page import write_page


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    from selenium import webdriver

    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    assert chromium, "chromium is not installed: make test-page installs it"
    assert driver, "chromedriver is not installed: make test-page installs it"
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    profile = tmp_path_factory.mktemp("profile")
    quiet = ["--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"]
    for word in ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", f"--user-data-dir={profile}", *quiet]:
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    window = webdriver.Chrome(options=options, service=webdriver.ChromeService(executable_path=driver))
    yield window
    window.quit()


@pytest.fixture
def open_page(browser, tmp_path):
    """Opens HTML text as a local file; gives the browser and a function for the errors its console has shown."""

    def open_it(html: str):
        page = tmp_path / "page.html"
        page.write_text(html, encoding="utf-8")
        browser.get_log("browser")
        browser.get(page.as_uri())
        return browser, lambda: [entry["message"] for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]

    return open_it


@pytest.fixture
def show(open_page, tmp_path):
    """Opens the page of a run made with these words; gives the browser and its console's errors."""

    def show_it(width=1280, height=900, **words):
        run = make_run(tmp_path / "run", **words)
        html = write_page(run, read_kept(run)).read_text(encoding="utf-8")
        browser, errors = open_page("<!doctype html><title>x</title>")
        browser.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500},
        )
        browser.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": width < 500, "maxTouchPoints": 5})
        browser.execute_script("localStorage.clear()")
        browser, errors = open_page(html)
        return browser, errors

    return show_it
