"""The ground that tests of pages stand on: a page opens, its scripts run, and errors on its console are seen."""

from pathlib import Path

import pytest

pytestmark = pytest.mark.page
ROOT = Path(__file__).parents[2]


def test_a_page_opens_and_its_scripts_run(open_page):
    html = "<!doctype html><title>hi</title><script>document.title += ' there'</script>"
    browser, errors = open_page(html)
    assert browser.title == "hi there"
    assert errors() == []


def test_an_error_on_the_console_is_seen(open_page):
    _, errors = open_page("<!doctype html><link rel=icon href=data:,><script>nonsense()</script>")
    assert any("nonsense" in message for message in errors())


def test_the_readmes_picture_is_drawn_without_an_error(open_page):
    browser, errors = open_page(
        f"<!doctype html><title>x</title><body>{(ROOT / 'docs' / 'demo.svg').read_text()}</body>"
    )
    width, height = browser.execute_script(
        "const b = document.querySelector('svg').getBBox(); return [b.width, b.height]"
    )
    assert width > 300
    assert height > 100
    assert "raw pixels, t-SNE" in browser.find_element("css selector", "svg").text.replace("\xa0", " ")
    assert errors() == []
