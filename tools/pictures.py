"""Take the pictures of a report page that the README and docs/report.md show, from the run of `newfound demo`.

python tools/pictures.py build/demo/report.html
"""

from __future__ import annotations

import io
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image
from selenium import webdriver

DOCS = Path(__file__).parents[1] / "docs"

PICTURES = (
    # file, width and height of the window, scale, theme, width of the picture
    ("found.webp", 1280, 590, 1, "light", 1280),
    ("report-desktop-light.jpg", 1280, 1340, 1, "light", 1280),
    ("report-desktop-dark.jpg", 1280, 1340, 1, "dark", 1280),
    ("report-phone-light.jpg", 390, 1500, 2, "light", 585),
    ("report-phone-dark.jpg", 390, 1500, 2, "dark", 585),
)


def browser(profile: str) -> Any:
    """Headless Chromium, as the tests of pages use it."""
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not chromium or not driver:
        raise SystemExit("chromium and chromedriver are not installed: `make test-page` installs them")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for word in ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={profile}"):
        options.add_argument(word)
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(executable_path=driver))


def take(window: Any, page: Path, width: int, height: int, scale: int, theme: str) -> Image.Image:
    """What a window of that size shows of the page, in that theme."""
    metrics = {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": width < 600}
    window.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    media = [{"name": "prefers-color-scheme", "value": theme}]
    window.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": media})
    window.get(page.resolve().as_uri())
    return Image.open(io.BytesIO(window.get_screenshot_as_png())).convert("RGB")


def main(page: Path) -> None:
    with tempfile.TemporaryDirectory() as profile:
        window = browser(profile)
        try:
            for file, width, height, scale, theme, across in PICTURES:
                picture = take(window, page, width, height, scale, theme)
                size = (across, round(picture.height * across / picture.width))
                picture.resize(size, Image.Resampling.LANCZOS).save(DOCS / file, quality=80)
        finally:
            window.quit()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
