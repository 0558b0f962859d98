"""Correcting on the page: names, ticks and images, undone, kept, saved, and given to grow."""

import os
import re

import numpy as np
import pytest
from looking import every, one, until
from PIL import Image
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

import newfound
from newfound.data.answers import read_table
from newfound.data.grown import Known
from newfound.data.sources import Source
from newfound.progress import Reporter
from newfound.runfolder import Run
from newfound.runs.assess import assess

pytestmark = pytest.mark.page
FOLDERS = Source(labelled="known", unlabelled="pile", n_novel=3)
COLOURS = {"red": (200, 40, 40), "blue": (40, 40, 200), "green": (40, 200, 40), "white": (220,) * 3, "black": (30,) * 3}
QUICK = {"network": "tiny", "data.size": 16, "stage1.epochs": 2, "stage1.batch": 8}
EVIL = "<img src=x onerror=\"window.pwned=1;document.title='pwned'\">"


def paint(folder, *names, title="{name}{i}.png"):
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        rng = np.random.default_rng(list(COLOURS).index(name))
        for i in range(6):
            pixels = np.clip(rng.normal(COLOURS[name], 25, (16, 16, 3)), 0, 255).astype(np.uint8)
            with open(os.fsencode(folder / title.format(name=name, i=i)), "wb") as file:
                Image.fromarray(pixels).save(file, "PNG")


def click(browser, selector, which=0):
    browser.execute_script("arguments[0].click()", every(browser, selector)[which])


def titles(browser):
    return [title.get_attribute("textContent") for title in every(browser, ".card h3")]


def card(browser, category):
    """The card of a category, in view and filled."""
    found = every(browser, ".card")[titles(browser).index(category)]
    browser.execute_script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", found)
    until(browser, lambda _: found.find_elements("css selector", ".verdict"))
    return found


def call(browser, category, name):
    field = card(browser, category).find_element("css selector", ".verdict .field")
    field.send_keys(Keys.CONTROL + "a", Keys.NULL, name, Keys.ENTER)


def tick(browser, category):
    browser.execute_script("arguments[0].click()", card(browser, category).find_element("css selector", ".tick input"))


def open_album(browser, category):
    browser.execute_script("arguments[0].click()", card(browser, category).find_element("css selector", ".chip.all"))


def says(browser):
    return one(browser, "#fixes [role=status]").text


def standing(browser, category):
    return card(browser, category).find_element("css selector", ".verdict p").text


@pytest.fixture
def save(browser, tmp_path):
    """Saves the corrections; gives the file."""

    def save_it():
        folder = tmp_path / "downloads"
        folder.mkdir(exist_ok=True)
        place = folder / "corrections.csv"
        place.unlink(missing_ok=True)
        browser.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(folder)})
        click(browser, "#fixes .save")
        until(browser, lambda _: place.exists())
        assert one(browser, "#fixes .save").text == "Saved"
        return place

    return save_it


def labels_of(table):
    return {image: row.label for image, row in read_table(table).items()}


def found_by(run):
    found = {}
    for row in run.read_assignments():
        found.setdefault(row["category"], []).append(row["image"])
    return found


@pytest.fixture
def page(show, tmp_path):
    """The page of three categories of folders."""
    browser, errors = show(n_novel=3, n_images=60, source=FOLDERS)
    yield browser, Run.open(tmp_path / "run")
    assert errors() == []


def test_what_a_person_corrects_is_what_grow_goes_on_from(browser, tmp_path, save):
    paint(tmp_path / "known" / "red", "red")
    paint(tmp_path / "known" / "=blue", "blue")
    paint(tmp_path / "pile", "green", title='=1 "{name}",{i}.png')
    paint(tmp_path / "pile", "white", title="caf\udce9 {name}\n{i}.png")
    paint(tmp_path / "pile", "black")
    found = newfound.discover(
        tmp_path / "known", tmp_path / "pile", n_novel=3, method="kmeans", out=tmp_path / "run", settings=QUICK,
        threads=1, device="cpu", verbose=False,
    )  # fmt: skip
    browser.get((tmp_path / "run" / "report.html").as_uri())
    browser.execute_script("localStorage.clear()")
    of = {name: category for category, names in found_by(Run.open(found.folder)).items() for name in names}
    green, white, black = (of[name] for name in ('=1 "green",0.png', "caf\udce9 white\n0.png", "black0.png"))
    assert len({green, white, black}) == 3

    call(browser, green, "@leaf")
    call(browser, white, "@leaf")  # the two become one
    assert standing(browser, green) == f"6 images count; one category with {white}"
    open_album(browser, black)
    wrong, moved, further = (
        thumb.get_attribute("title").split(":")[0] for thumb in every(browser, "#album .thumb")[:3]
    )
    click(browser, "#album .thumb")
    one(browser, "#large").send_keys("x")  # wrong
    one(browser, "#large").send_keys(Keys.ARROW_RIGHT)
    one(browser, "#large .field").send_keys("=blue", Keys.ENTER)
    one(browser, "#large [title='Next image']").click()
    one(browser, "#large .field").send_keys("coal, 'black'", Keys.ENTER)
    one(browser, "#large .field").send_keys("a mistake", Keys.ENTER)
    one(browser, "#large [title^=Undo]").click()
    table = save()
    assert "12 images and" not in says(browser)
    assert "14 images will count as labelled" in says(browser)
    assert "--novel 1 --out run2/" in one(browser, "#fixes code").text

    expected = {name: "@leaf" if category in (green, white) else "" for name, category in of.items()}
    expected |= {wrong: "", moved: "=blue", further: "coal, 'black'"}
    assert labels_of(table) == expected
    assert b"'@leaf" in table.read_bytes()
    assert b'"./=1 ""green"",0.png"' in table.read_bytes()
    assert b"\n./caf\xe9" not in table.read_bytes()

    more = newfound.grow(
        found.folder,
        tmp_path / "pile",
        n_novel=1,
        corrected=table,
        out=tmp_path / "run2",
        threads=1,
        device="cpu",
        verbose=False,
    )
    known = Known.load(more.folder / "known.json")
    learned = {
        os.path.relpath(path, tmp_path / "pile"): label for path, label in zip(known.paths, known.labels, strict=True)
    }
    assert {name: label for name, label in learned.items() if not name.startswith("..")} == {
        name: label for name, label in expected.items() if label
    }
    assert sorted(more.images) == sorted(name for name, label in expected.items() if not label)  # the pile again
    assert more.result["known"] == ["=blue", "@leaf", "coal, 'black'", "red"]
    figures = assess(found.folder, table, device="cpu", reporter=Reporter(quiet=True))
    assert figures["unlabelled"]["images"] == 14
    browser.refresh()  # evaluate has written the page anew
    assert "14 images will count as labelled" in says(browser)


def test_only_ticked_categories_count_and_the_others_stay_in_the_pile(page, save):
    browser, run = page
    found = found_by(run)
    assert not one(browser, "#fixes").is_displayed()
    tick(browser, "novel-002")
    n = len(found["novel-002"])
    assert says(browser) == f"1 change: 1 category ticked. {n} images will count as labelled."
    assert standing(browser, "novel-002") == f"{n} images count"
    assert standing(browser, "novel-001").startswith("Not ticked: its images stay in the pile")
    labels = labels_of(save())
    assert len(labels) == 60
    assert {name for name, label in labels.items() if label} == set(found["novel-002"])
    assert set(labels.values()) == {"novel-002", ""}
    tick(browser, "novel-002")
    assert not one(browser, "#fixes .save").is_enabled()


def test_images_are_selected_by_click_with_shift_and_all_at_once(page):
    browser, _ = page
    open_album(browser, "novel-003")
    selected = lambda: len(every(browser, "#album .thumb[aria-pressed=true]"))  # noqa: E731
    thumbs = lambda: every(browser, "#album .thumb")  # noqa: E731
    click(browser, "#album [title='Select images']")
    thumbs()[1].click()
    ActionChains(browser).key_down(Keys.SHIFT).click(thumbs()[5]).key_up(Keys.SHIFT).perform()
    assert selected() == 5
    thumbs()[3].click()
    assert selected() == 4
    assert one(browser, ".selection [role=status]").text == "4 selected"
    click(browser, ".selection .ghost")
    assert selected() == len(thumbs())
    click(browser, ".selection .ghost", 1)
    assert selected() == 0
    assert not one(browser, "#album .putter .field").is_enabled()
    thumbs()[0].click()
    thumbs()[2].click()
    one(browser, "#album [title='Does not belong here']").click()
    assert [len(every(browser, "#album .thumb.wrong")), selected()] == [2, 0]
    assert thumbs()[2].get_attribute("aria-label").endswith(", does not belong here")


def test_shift_selects_a_range_only_from_an_image_of_the_same_category(page):
    browser, _ = page
    thumbs = lambda: every(browser, "#album .thumb")  # noqa: E731
    shift_click = lambda at: ActionChains(browser).key_down(Keys.SHIFT).click(at).key_up(Keys.SHIFT).perform()  # noqa: E731
    tick(browser, "novel-003")
    open_album(browser, "novel-002")
    click(browser, "#album [title='Select images']")
    thumbs()[-1].click()
    before = len(thumbs())
    click(browser, "#album [title='Next category']")
    assert len(thumbs()) < before
    shift_click(thumbs()[0])
    assert one(browser, ".selection [role=status]").text == "1 selected"
    one(browser, "#album [title='Does not belong here']").click()
    browser.refresh()
    assert says(browser).startswith("2 changes: ")


def test_a_range_goes_by_the_order_that_is_seen(page):
    browser, _ = page
    open_album(browser, "novel-003")
    click(browser, "#album [title='Select images']")
    every(browser, "#album .thumb")[0].click()
    first = one(browser, "#album .thumb[aria-pressed=true]").get_attribute("data-image")
    click(browser, "#album [title='Doubtful first']")
    shown = [thumb.get_attribute("data-image") for thumb in every(browser, "#album .thumb")]
    at = shown.index(first)
    to = at + 2 if at + 2 < len(shown) else at - 2
    ActionChains(browser).key_down(Keys.SHIFT).click(every(browser, "#album .thumb")[to]).key_up(Keys.SHIFT).perform()
    pressed = {thumb.get_attribute("data-image") for thumb in every(browser, "#album .thumb[aria-pressed=true]")}
    assert pressed == set(shown[min(at, to) : max(at, to) + 1])


def test_all_of_it_can_be_done_with_keys(page):
    browser, _ = page
    open_album(browser, "novel-003")
    press = lambda key: browser.switch_to.active_element.send_keys(key)  # noqa: E731
    every(browser, "#album .thumb")[0].send_keys("x")
    assert len(every(browser, "#album .thumb.wrong")) == 1
    press("s")
    every(browser, "#album .thumb")[1].send_keys(Keys.SPACE)
    every(browser, "#album .thumb")[2].send_keys(Keys.ENTER)
    assert one(browser, ".selection [role=status]").text == "2 selected"
    one(browser, "#album .putter .field").send_keys("snp", Keys.ARROW_LEFT, "x", Keys.ENTER)  # no key of the window's
    assert [said.text for said in every(browser, "#album .fate")] == ["✕", "→snxp", "→snxp"]
    assert one(browser, "#album h2").text == "novel-003"
    ActionChains(browser).key_down(Keys.CONTROL).send_keys("z").key_up(Keys.CONTROL).perform()
    assert [said.text for said in every(browser, "#album .fate")] == ["✕"]


def test_an_image_put_into_a_category_is_seen_there_and_makes_it_count(page, save):
    browser, run = page
    open_album(browser, "novel-003")
    moved = every(browser, "#album .thumb")[0].get_attribute("title").split(":")[0]
    click(browser, "#album .thumb")
    one(browser, "#large .field").send_keys("novel-001", Keys.ENTER)
    assert one(browser, "#large .fates").text == "You said: put into novel-001."
    browser.execute_script("document.querySelectorAll('dialog').forEach((dialog) => dialog.close())")
    n = len(found_by(run)["novel-001"])
    assert standing(browser, "novel-001") == f"{n + 1} images count"
    call(browser, "novel-001", "owl")  # what was put there goes by the new name
    assert standing(browser, "novel-001") == f"{n + 1} images count"
    open_album(browser, "novel-001")
    assert every(browser, "#album .thumb")[0].get_attribute("title").startswith(moved)
    assert labels_of(save())[moved] == "owl"
    assert list(labels_of(save()).values()).count("owl") == n + 1


def test_an_image_put_into_a_further_name_is_of_the_category_that_is_named_so_later(page):
    browser, run = page
    open_album(browser, "novel-003")
    click(browser, "#album .thumb")
    one(browser, "#large .field").send_keys("owl", Keys.ENTER)
    browser.execute_script("document.querySelectorAll('dialog').forEach((dialog) => dialog.close())")
    assert standing(browser, "novel-001").startswith("Not ticked")
    call(browser, "novel-001", "owl")
    assert standing(browser, "novel-001") == f"{len(found_by(run)['novel-001']) + 1} images count"


def test_what_was_done_after_saving_is_not_saved(page, save):
    browser, _ = page
    tick(browser, "novel-001")
    tick(browser, "novel-002")
    save()
    click(browser, "#fixes .ghost")
    tick(browser, "novel-003")  # as many as were saved, but others
    assert one(browser, "#fixes .save").text == "Save corrections"
    assert every(browser, "#fixes code") == []


def test_changes_outlive_a_reload_and_can_be_undone_and_discarded(page):
    browser, _ = page
    call(browser, "novel-001", "owl")
    open_album(browser, "novel-003")
    every(browser, "#album .thumb")[0].send_keys("x")
    before = says(browser)
    browser.refresh()
    assert says(browser) == before
    assert re.match("2 changes: 1 category ticked, 1 image taken out", before)
    assert card(browser, "novel-001").find_element("css selector", ".field").get_attribute("value") == "owl"
    click(browser, "#fixes .ghost", 1)
    assert says(browser) == "No changes."
    assert standing(browser, "novel-001").startswith("Not ticked")
    click(browser, "#fixes .ghost")
    assert says(browser) == before
    click(browser, "#fixes .ghost")
    assert says(browser).startswith("1 change: ")
    click(browser, "#fixes .ghost")
    assert not one(browser, "#fixes").is_displayed()
    assert browser.execute_script("return localStorage.length") == 0


LEAVING = (
    "const leave = new Event('beforeunload', {cancelable: true}); dispatchEvent(leave); return leave.defaultPrevented"
)


def test_where_nothing_can_be_kept_the_page_warns_before_it_is_left(page, save):
    browser, _ = page
    tick(browser, "novel-001")
    assert browser.execute_script(LEAVING) is False
    browser.execute_script("Storage.prototype.setItem = () => { throw new Error('full'); }")
    tick(browser, "novel-002")
    assert browser.execute_script(LEAVING) is True
    assert "save before you leave" in one(browser, "#fixes").text
    save()
    assert browser.execute_script(LEAVING) is False
    click(browser, "#fixes .ghost")
    assert browser.execute_script(LEAVING) is True


def test_of_what_was_kept_only_what_fits_is_taken(page):
    browser, _ = page
    tick(browser, "novel-001")
    left = '{"done": [["tick", 0, true], ["put", [1, null], ""], ["name", 1, "owl"]], "saved": 3}'
    browser.execute_script("localStorage.setItem(localStorage.key(0), arguments[0])", left)
    browser.refresh()
    assert says(browser).startswith("2 changes: ")
    assert one(browser, "#fixes .save").text == "Save corrections"


@pytest.mark.parametrize(
    "left", ["{", '{"done": [["put", [99999], 0]], "saved": 0}', '{"done": [["name", 0, 5]]}', "[1]"]
)
def test_what_was_kept_and_does_not_fit_is_left_alone(left, page):
    browser, _ = page
    tick(browser, "novel-001")
    browser.execute_script("localStorage.setItem(localStorage.key(0), arguments[0])", left)
    browser.refresh()
    assert len(titles(browser)) == 3
    assert not one(browser, "#fixes").is_displayed()


@pytest.mark.parametrize("name", ["None", "nan", "-1"])
def test_a_name_that_says_there_is_none_is_refused(name, page):
    browser, _ = page
    call(browser, "novel-001", name)
    assert not one(browser, "#fixes").is_displayed()
    message = browser.execute_script("return document.activeElement.validationMessage")
    assert f"“{name}” says that there is no name" in message
    call(browser, "novel-001", "owl")
    assert says(browser).startswith("1 change")


def test_names_typed_and_found_stay_text_and_come_out_as_they_are(show, save):
    browser, errors = show(
        n_novel=3, n_images=30, source=FOLDERS, known=(EVIL, "dog"), novel=(EVIL + "2", "</script>", "x" * 300),
        name=lambda i: f"{EVIL}</script>{'y' * 250}{i}.png",
    )  # fmt: skip
    for title in titles(browser):
        call(browser, title, EVIL[:90] + "'\"" if title == "</script>" else title[:50])
    open_album(browser, "</script>")
    every(browser, "#album .thumb")[0].send_keys("x")
    click(browser, "#album .thumb", 1)
    one(browser, "#large .field").send_keys(EVIL[:40], Keys.ENTER)
    seen = browser.execute_script("return [window.pwned, document.images.length, document.scripts.length]")
    assert seen == [None, 0, 3]
    labels = labels_of(save())
    assert set(labels) == {f"{EVIL}</script>{'y' * 250}{i}.png" for i in range(30)}
    assert set(labels.values()) == {EVIL[:50], EVIL[:90] + "'\"", "x" * 50, "", EVIL[:40]}
    assert errors() == []


def test_a_shortened_name_of_a_category_is_written_whole(show, save):
    browser, _ = show(n_novel=3, n_images=30, source=FOLDERS, novel=("x" * 300, "novel-002", "novel-003"))
    tick(browser, next(title for title in titles(browser) if "x" in title))
    assert set(labels_of(save()).values()) == {"x" * 300, ""}


def test_a_shortened_name_of_a_known_category_is_written_whole(show, save):
    browser, _ = show(n_novel=3, n_images=30, source=FOLDERS, known=("k" * 300, "dog"))
    offered = browser.execute_script("return JSON.parse(document.getElementById('content').textContent).known.names[0]")
    assert len(offered) < 300
    call(browser, "novel-001", offered)
    assert set(labels_of(save()).values()) == {"k" * 300, ""}


def test_known_categories_of_a_mixed_pile_are_ticked_like_the_others(show, save):
    browser, errors = show(
        n_novel=3, n_images=60, mixed=True, source=Source(labelled="k", unlabelled="p", n_novel=3, mixed=True)
    )
    tick(browser, "dog")
    assert set(labels_of(save()).values()) == {"dog", ""}
    assert "--novel 3 --mixed --out" in one(browser, "#fixes code").text
    assert errors() == []


def test_a_given_name_finds_its_category(show):
    browser, _ = show(n_novel=12, n_images=60, source=FOLDERS)
    call(browser, "novel-004", "great grey owl")
    one(browser, "#category-tools input").send_keys("grey")
    assert [title.text for title in every(browser, ".card h3")] == ["novel-004"]


def test_a_run_that_cannot_be_grown_has_nothing_to_correct_with(show):
    browser, errors = show(n_novel=3, n_images=60)
    until(browser, lambda b: every(b, ".card .thumbs"))
    assert every(browser, ".verdict") == []
    assert not one(browser, "#correct-hint").is_displayed()
    click(browser, ".chip.all")
    assert every(browser, "#album [title='Select images']") == []
    every(browser, "#album .thumb")[0].send_keys("xs")
    click(browser, "#album .thumb")
    assert every(browser, "#large .putter") == []
    assert not one(browser, "#fixes").is_displayed()
    assert errors() == []


@pytest.mark.parametrize("width", [320, 390, 1280])
def test_what_corrects_fits_its_window(width, show):
    browser, errors = show(width, 844, n_novel=2, n_images=180, source=FOLDERS, novel=("x" * 150, "y" * 150))
    fits = "const d = document.querySelector(arguments[0]); return d.scrollWidth <= d.clientWidth"
    tick(browser, titles(browser)[0])
    browser.execute_script("document.querySelector('#fixes .save').click()")
    until(browser, lambda b: every(b, "#fixes code"))
    assert one(browser, "#fixes").size["height"] <= 0.46 * 844
    click(browser, ".chip.all")
    click(browser, "#album [title='Select images']")
    click(browser, "#album .thumb")
    one(browser, "#album .putter .field").send_keys("z" * 100, Keys.ENTER)
    assert browser.execute_script(fits, "#album")
    click(browser, "#album [title='Select images']")
    click(browser, "#album .thumb")
    assert browser.execute_script(fits, "#large")
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    assert errors() == []
