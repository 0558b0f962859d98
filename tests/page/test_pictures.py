"""The pictures of the documentation: as large as asked for, and in the theme asked for."""

from pathlib import Path

import pytest

pytestmark = pytest.mark.page
TOOLS = Path(__file__).parents[2] / "tools"
PAGE = """<!doctype html><style>body { background: rgb(255, 255, 255) }
@media (prefers-color-scheme: dark) { body { background: rgb(0, 0, 0) } }</style>"""


@pytest.fixture
def pictures(monkeypatch, browser):
    monkeypatch.syspath_prepend(str(TOOLS))
    import pictures

    yield pictures
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


@pytest.mark.parametrize(("theme", "level"), [("light", 255), ("dark", 0)])
def test_a_picture_has_the_size_and_the_theme_asked_for(pictures, browser, tmp_path, theme, level):
    page = tmp_path / "page.html"
    page.write_text(PAGE)
    picture = pictures.take(browser, page, 390, 300, 2, theme)
    assert picture.size == (780, 600)
    assert picture.getpixel((10, 10)) == (level, level, level)
