"""Going through a run's images on its page: all of a category, one by one, from category to category, on a phone."""

import io
import re
import shutil
import time

import numpy as np
import pytest
from looking import every, one, painted, until
from PIL import Image
from report_runs import make_run
from selenium.webdriver.common.keys import Keys

from newfound.report.keep import read_kept
from newfound.report.page import write_page
from newfound.runfolder import Run

pytestmark = pytest.mark.page
EDGES = """
const box = arguments[0].getBoundingClientRect();
return [box.left, box.right, box.top];
"""


def click(browser, selector, which=0):
    browser.execute_script("arguments[0].click()", every(browser, selector)[which])


def album_names(browser):
    """The images on this page of the album, and how sure the run is of each."""
    titles = [thumb.get_attribute("title") for thumb in every(browser, "#album .thumb")]
    return [tuple(title.split(": sure to ")) for title in titles]


def all_pages(browser):
    found = album_names(browser)
    while one(browser, "#album [title='Next page']").is_enabled():
        click(browser, "#album [title='Next page']")
        found += album_names(browser)
    return found


def members(run, category):
    """Names of a category's images, the typical ones first, and their confidence."""
    kept, rows = read_kept(run), run.read_assignments()
    order = sorted(range(len(kept.images)), key=lambda i: -kept.typicality[i])
    chosen = [rows[kept.images[i]] for i in order]
    return {row["image"]: float(row["confidence"]) for row in chosen if row["category"] == category}


@pytest.fixture
def run(show, tmp_path):
    """The page of two categories of about 90 images; the larger one is first."""
    browser, errors = show(n_novel=2, n_images=180)
    yield browser, Run.open(tmp_path / "run"), one(browser, ".card h3").text
    assert errors() == []


def test_every_image_of_a_category_can_be_seen_typical_ones_first(run):
    browser, folder, category = run
    expected = members(folder, category)
    assert one(browser, ".chip.all").text == f"All {len(expected)} images"
    click(browser, ".chip.all")
    until(browser, lambda b: painted(b, "#album .thumb canvas"))
    assert len(album_names(browser)) == 60
    assert [name for name, _ in all_pages(browser)] == list(expected)


def test_doubtful_images_come_first_where_the_reader_wants_that(run):
    browser, folder, category = run
    click(browser, ".chip.all")
    click(browser, "#album .tools button", 1)
    expected = members(folder, category)
    found = all_pages(browser)
    assert sorted(name for name, _ in found) == sorted(expected)
    sure = [expected[name] for name, _ in found]
    assert [round(value, 3) for value in sure] == sorted(round(value, 3) for value in sure)  # as the page has them
    below = [said.text for said in every(browser, "#album .thumb .or")]
    assert below == [sure.replace("\xa0", " ") for _, sure in album_names(browser)]


def test_the_large_view_goes_to_the_next_and_the_previous_image(run):
    browser, folder, category = run
    names = list(members(folder, category))
    seen = lambda: (one(browser, "#large b").text, one(browser, "#large [role=status]").text)  # noqa: E731
    click(browser, ".card .thumb")
    assert seen() == (names[0], "1 of 12")
    assert not one(browser, "#large [title='Previous image']").is_enabled()
    one(browser, "#large [title='Next image']").click()
    assert seen() == (names[1], "2 of 12")
    one(browser, "#large [title='Next image']").send_keys(Keys.ARROW_RIGHT)
    assert seen() == (names[2], "3 of 12")
    browser.switch_to.active_element.send_keys(Keys.ARROW_LEFT)
    assert seen() == (names[1], "2 of 12")
    browser.switch_to.active_element.send_keys(Keys.END)
    assert seen() == (names[11], "12 of 12")
    browser.switch_to.active_element.send_keys(Keys.ESCAPE)
    assert not one(browser, "#large").is_displayed()


def test_closing_the_large_view_shows_the_page_of_its_last_image(run):
    browser, folder, category = run
    names = list(members(folder, category))
    browser.execute_script("document.documentElement.style.scrollBehavior = 'auto'")
    one(browser, ".chip.all").click()  # a person's: Escape closes windows that scripts opened all at once
    every(browser, "#album .thumb")[59].click()
    browser.switch_to.active_element.send_keys(Keys.ARROW_RIGHT)
    assert one(browser, "#large b").text == names[60]
    browser.switch_to.active_element.send_keys(Keys.ESCAPE)
    until(browser, lambda b: one(b, "#album .pages [role=status]").text.startswith("61 –"))
    assert browser.switch_to.active_element.get_attribute("title").startswith(names[60])


def test_keys_and_buttons_go_from_category_to_category(show):
    browser, errors = show(n_novel=3, n_images=60)
    order = [title.text for title in every(browser, ".card h3")]
    here = lambda: browser.execute_script("return document.activeElement.querySelector('h3')?.textContent")  # noqa: E731
    one(browser, "body").send_keys("n")
    assert here() == order[0]
    browser.switch_to.active_element.send_keys("n")
    assert here() == order[1]
    browser.switch_to.active_element.send_keys("p")
    assert here() == order[0]
    click(browser, ".card .chip.all")
    assert one(browser, "#album h2").text == order[0]
    assert not one(browser, "#album [title='Previous category']").is_enabled()
    one(browser, "#album [title='Next category']").click()
    assert one(browser, "#album h2").text == order[1]
    browser.switch_to.active_element.send_keys("n")
    assert one(browser, "#album h2").text == order[2]
    assert not one(browser, "#album [title='Next category']").is_enabled()
    browser.switch_to.active_element.send_keys(Keys.ESCAPE)
    until(browser, lambda _: here() == order[2])
    assert errors() == []


@pytest.mark.parametrize("width", [320, 390])
def test_every_section_can_be_reached_on_a_phone(width, show):
    browser, errors = show(width, 844, n_novel=20, n_images=800)  # cards grow as they come near the window
    links = every(browser, "nav a")
    assert [link.text for link in links] == ["Categories", "Map", "Accuracy", "Training", "Details"]
    right = 0
    for link in links:
        box = browser.execute_script(EDGES, link)
        assert right <= box[0]
        right = box[1]
    assert right <= browser.execute_script(EDGES, one(browser, "#theme"))[0] + 1
    for link in [*links[:-1], links[1]]:  # below the last one there is no more page
        link.click()
        section = one(browser, link.get_attribute("hash"))
        time.sleep(0.5)
        assert 0 <= browser.execute_script(EDGES, section)[2] < 120
    assert errors() == []


def test_a_phone_is_told_to_tap(show):
    pointing = re.compile(r"\b(click|point at|hover)", re.I)
    browser, _ = show(390, 844)
    text = one(browser, "main").text
    assert not pointing.search(text)
    assert "Tap a picture" in text
    assert "Tap a cell" in text
    assert every(browser, ".card [title='Next category']")[0].is_displayed()


def test_a_desktop_is_told_to_click(show):
    browser, _ = show()
    text = one(browser, "main").text
    assert "Click a picture" in text
    assert not re.search(r"\btap\b", text, re.I)


@pytest.mark.parametrize("width", [390, 1280])
def test_the_album_fits_its_window(width, show):
    browser, errors = show(width, 844, n_novel=2, n_images=180, novel=("x" * 150, "y" * 150))
    click(browser, ".chip.all")
    fits = "const d = document.querySelector('#album'); return [d.scrollWidth <= d.clientWidth, d.offsetWidth]"
    inside, wide = browser.execute_script(fits)
    assert inside
    assert wide <= width
    click(browser, "#album .thumb")
    assert one(browser, "#large").size["width"] <= width
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    assert errors() == []


def test_what_a_category_is_near_is_said_in_words(show):
    browser, _ = show(n_novel=3, n_images=60, near=("dog", "cat"))
    for card in every(browser, ".card"):
        assert re.search(r"Near to\s+dog,\s+cat\b", card.text.replace("\xa0", " "))
        assert "Nearest new category" in card.text
        assert not re.search(r"-?\b0\.\d", card.text)


def test_a_category_that_is_near_nothing_is_given_no_name(show):
    browser, _ = show(n_novel=3, n_images=60)
    assert [card.text for card in every(browser, ".card") if "Near to" in card.text] == []


def test_no_image_of_which_the_run_is_certain_is_called_doubtful(show):
    browser, _ = show(n_novel=3, n_images=60, sure=(0.98, 1))
    shown = [thumb.get_attribute("title") for thumb in every(browser, ".thumbs.doubtful .thumb")]
    assert shown
    assert not [title for title in shown if "over 99" in title]
    assert "sure to 100 %" not in one(browser, "#cards").text.replace("\xa0", " ")


def test_without_a_doubtful_image_there_is_no_such_row(show):
    browser, _ = show(n_novel=3, n_images=60, sure=(0.999, 1))
    assert every(browser, ".card .thumbs")
    assert every(browser, ".thumbs.doubtful") == []
    assert "sure to over 99 % on average" in one(browser, ".card").text.replace("\xa0", " ")


def test_curves_have_plain_names_and_what_few_need_is_folded(show):
    browser, _ = show()
    assert [title.text for title in every(browser, "#charts b")] == ["Loss"]
    assert one(browser, "#more-curves summary").text == "1 more curve"
    assert [fold for fold in every(browser, "details") if fold.get_attribute("open")] == []
    click(browser, "#more-curves summary")
    assert one(browser, "#more-curves b").text == "Learning rate"


def test_thumbnails_beside_the_page_are_loaded_from_the_disk_or_told_missing(browser, tmp_path, monkeypatch):
    run = make_run(tmp_path / "run", n_novel=2, n_images=3000, side=48, noise=30)
    monkeypatch.setattr("newfound.report.page.INSIDE", 0)
    page = write_page(run, read_kept(run))
    browser.get(page.as_uri())
    assert (run.folder / "report-pictures" / "1.jpg").exists()
    note = "#album .missing"
    click(browser, ".chip.all")
    until(browser, lambda b: len(colours_of(b)) > 100)
    assert not one(browser, note).is_displayed()

    shutil.rmtree(run.folder / "report-pictures")
    browser.get(page.as_uri())
    click(browser, ".chip.all")
    until(browser, lambda b: one(b, note).is_displayed())
    assert "report-pictures" in one(browser, note).text


def colours_of(browser):
    """The colours of the first thumbnail as it is on the screen: what came from a file may not be read by a script."""
    shot = Image.open(io.BytesIO(one(browser, "#album .thumb").screenshot_as_png)).convert("RGB")
    return set(map(tuple, np.asarray(shot).reshape(-1, 3).tolist()))
