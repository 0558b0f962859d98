"""How tests look at a page."""

from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

PAINTED = """
const canvas = document.querySelector(arguments[0]);
const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
const seen = new Set();
for (let i = 0; i < pixels.length; i += 4) if (pixels[i + 3]) seen.add(pixels.slice(i, i + 3).join());
return [...seen].sort();
"""


def one(browser, selector):
    return browser.find_element(By.CSS_SELECTOR, selector)


def every(browser, selector):
    return browser.find_elements(By.CSS_SELECTOR, selector)


def until(browser, condition):
    again = [StaleElementReferenceException]  # what was found a moment ago has been drawn anew since
    return WebDriverWait(browser, 10, ignored_exceptions=again).until(condition)


def painted(browser, selector):
    return browser.execute_script(PAINTED, selector)
