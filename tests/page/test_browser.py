"""The ground that tests of pages stand on: a page opens, its scripts run, and errors on its console are seen."""

import pytest

pytestmark = pytest.mark.page


def test_a_page_opens_and_its_scripts_run(open_page):
    html = "<!doctype html><title>hi</title><script>document.title += ' there'</script>"
    browser, errors = open_page(html)
    assert browser.title == "hi there"
    assert errors() == []


def test_an_error_on_the_console_is_seen(open_page):
    _, errors = open_page("<!doctype html><link rel=icon href=data:,><script>nonsense()</script>")
    assert any("nonsense" in message for message in errors())
