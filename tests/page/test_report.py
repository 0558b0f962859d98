"""The page of a run, in a browser: it responds, it fits, and nothing in a name is executed."""

import re
from pathlib import Path

import pytest
from looking import every, one, painted, until
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

import newfound
from newfound.data.sources import Source

pytestmark = pytest.mark.page
EVIL = "<img src=x onerror=\"window.pwned=1;document.title='pwned'\">"
POINT = """
const [canvas, type, step] = [document.querySelector(arguments[0]), arguments[1], arguments[2]];
canvas.scrollIntoView({block: "center", behavior: "instant"});
const box = canvas.getBoundingClientRect();
for (let y = 0; y < box.height; y += step) for (let x = 0; x < box.width; x += step) {
  const at = {clientX: box.left + x, clientY: box.top + y, pointerId: 1, pointerType: "mouse", bubbles: true};
  canvas.dispatchEvent(new PointerEvent(type, at));
  if (arguments[3](x, y)) return true;
}
return false;
"""


def point_at(browser, canvas, type="pointermove", step=8, found="!document.querySelector('#map-tip').hidden"):
    return browser.execute_script(POINT.replace("arguments[3](x, y)", found), canvas, type, step)


def contrast(browser, text, ground):
    """WCAG's ratio of the luminances of a text and of what it stands on, from 1 to 21."""
    light = []
    for selector, name in ((text, "color"), (ground, "backgroundColor")):
        script = "return getComputedStyle(document.querySelector(arguments[0]))[arguments[1]]"
        channels = [int(c) / 255 for c in re.findall(r"\d+", browser.execute_script(script, selector, name))[:3]]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        light.append(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2] + 0.05)
    return max(light) / min(light)


def test_what_was_found_is_there_at_a_glance(show):
    browser, errors = show(n_novel=3, n_images=60)
    assert one(browser, "h1").text == "3 new categories"
    assert "60 images" in one(browser, "#subline").text
    assert len(every(browser, ".face")) == 3
    assert "80.0 %" in one(browser, "#tiles").text
    assert [link.text for link in every(browser, "nav a")] == ["Categories", "Map", "Accuracy", "Training", "Details"]
    assert (
        browser.execute_script(
            "return performance.getEntriesByType('resource').filter(e => !e.name.startsWith('data:')).length"
        )
        == 0
    )
    assert errors() == []


def test_the_gallery_shows_pictures_and_enlarges_them(show):
    browser, errors = show(n_novel=3, n_images=60)
    until(browser, lambda b: painted(b, ".card .thumb canvas"))
    assert len(every(browser, ".card")) == 3
    assert one(browser, ".card .doubtful .thumb").text.endswith("?")
    browser.execute_script("document.querySelector('.card .thumb').click()")
    assert one(browser, "#large").is_displayed()
    assert "pile/" in one(browser, "#large").text
    until(browser, lambda b: painted(b, "#large canvas"))
    every(browser, "#large button")[-1].click()
    assert not one(browser, "#large").is_displayed()
    Select(one(browser, "#category-tools select")).select_by_visible_text("by name")
    assert [title.text for title in every(browser, ".card h3")] == ["novel-001", "novel-002", "novel-003"]
    assert errors() == []


def test_the_map_answers_to_pointer_keys_and_categories(show):
    browser, errors = show(n_novel=3, n_images=200)
    browser.execute_script("document.querySelectorAll('#map-tools button')[1].click()")
    browser.execute_script("document.querySelector('#map').scrollIntoView({behavior: 'instant'})")
    until(browser, lambda b: len(painted(b, "#map-canvas")) > 3)
    assert point_at(browser, "#map-canvas")
    tip = one(browser, "#map-tip")
    assert tip.text.startswith("novel-00")
    assert "pile/" in tip.text
    until(browser, lambda b: painted(b, "#map-tip canvas"))

    whole = browser.execute_script("return document.querySelector('#map-canvas').toDataURL()")
    canvas = one(browser, "#map-canvas")
    canvas.send_keys("+")
    canvas.send_keys(Keys.ARROW_LEFT)
    until(browser, lambda b: b.execute_script("return document.querySelector('#map-canvas').toDataURL()") != whole)
    canvas.send_keys("0")

    colours = len(painted(browser, "#map-canvas"))
    every(browser, "#legend .chip")[1].click()
    assert every(browser, "#legend .chip")[1].get_attribute("aria-pressed") == "true"
    until(browser, lambda b: len(painted(b, "#map-canvas")) != colours)
    assert errors() == []


def test_a_card_leads_to_the_map_and_back(show):
    browser, errors = show(n_novel=3, n_images=60)
    button = one(browser, ".card .on-map")
    browser.execute_script("arguments[0].click()", button)
    name = one(browser, ".card h3").text
    assert [chip.text for chip in every(browser, "#legend [aria-pressed=true]")] == [name]
    found = "document.querySelector('#map-tip').classList.contains('pinned')"
    up = "canvas.dispatchEvent(new PointerEvent('pointerup', at)), "
    assert point_at(browser, "#map-canvas", "pointerdown", 8, up + found)
    one(browser, "#map-tip .chip").click()
    assert browser.execute_script("return document.activeElement.querySelector('h3').textContent") == name
    assert errors() == []


GROWN = Source(unlabelled="later", known="known.json", n_novel=3, next_name="novel-003", mixed=True)


def parts(browser, box, inside):
    """The texts of headings and, below each, those of what it is a heading of."""
    found = []
    for line in every(browser, f"{box} .part, {box} {inside}"):
        if "part" in line.get_attribute("class").split():
            found.append((line.text, []))
        else:
            found[-1][1].append(line.text.replace("\n", " "))
    return found


def test_new_categories_come_before_known_ones_and_these_are_marked(show):
    browser, errors = show(n_novel=6, n_images=90, mixed=True)
    known = "Known categories that images of the pile went to"
    new, old = parts(browser, "#faces", ".face")
    assert (new[0], old[0]) == ("New categories", known)
    sizes = [int(re.search(r"(\d+) images?", text)[1]) for text in new[1]]
    assert sizes == sorted(sizes, reverse=True)
    assert min(sizes) < 15  # so that by size alone known ones would come between
    assert old[1] == ["cat known, 15 images", "dog known, 15 images"]
    assert [len(every(browser, f"#faces .face{old} .dot.old")) for old in (".old", ":not(.old)")] == [2, 0]

    new, old = parts(browser, "#cards", "header")
    assert [len(new[1]), len(old[1])] == [6, 2]
    assert [text.split()[:2] for text in old[1]] == [["cat", "known"], ["dog", "known"]]
    assert len(every(browser, ".card header .dot.old")) == 2
    bars = [part.get_attribute("aria-label") for part in every(browser, "#strip button")]
    assert [bool(re.match(r"(cat|dog) \(known\): 15 images", bar)) for bar in bars] == [False] * 6 + [True] * 2
    assert [part.get_attribute("class") for part in every(browser, "#strip button")] == [""] * 6 + ["old"] * 2
    assert [chip.text for chip in every(browser, "#legend .chip")][-2:] == ["cat", "dog"]
    assert len(every(browser, "#legend .dot.old")) == 2
    assert errors() == []


def test_known_categories_stay_behind_in_every_order_and_for_the_keys(show):
    browser, errors = show(n_novel=8, n_images=120, mixed=True)
    for order in Select(one(browser, "#category-tools select")).options:
        order.click()
        titles = [title.text for title in every(browser, ".card h3")]
        assert set(titles[-2:]) == {"cat", "dog"}
    one(browser, "body").send_keys("n")
    for _ in range(9):
        browser.switch_to.active_element.send_keys("n")
    here = browser.execute_script("return document.activeElement.querySelector('h3').textContent")
    assert here == titles[-1]
    one(browser, "#category-tools input").send_keys("o")  # novel-00N and dog
    assert parts(browser, "#cards", "h3:not(.part)")[1][1] == ["dog"]
    one(browser, "#category-tools input").send_keys("g")
    assert [heading for heading, _ in parts(browser, "#cards", "h3:not(.part)")] == [
        "Known categories that images of the pile went to"
    ]
    assert errors() == []


def test_what_an_earlier_run_found_is_said_to_be_found_before(show):
    known = ("cat", "novel-001", "novel-002", "novel-00x")
    browser, errors = show(n_novel=3, n_images=120, known=known, novel=("novel-003", "novel-004", "novel-005"),
                           mixed=True, source=GROWN, near=("cat", "novel-001"))  # fmt: skip
    assert "4 known categories, 2 of them found before." in one(browser, "#subline").text
    _, old = parts(browser, "#cards", "header")
    assert {" ".join(text.split()[:-2]) for text in old[1]} == {
        "cat known", "novel-001 found before", "novel-002 found before", "novel-00x known",
    }  # fmt: skip
    new = next(card for card in every(browser, ".card") if card.text.startswith("novel-003"))
    assert re.search(r"Near to\s+cat,\s+novel-001\s*found before", new.text.replace("\xa0", " "))
    doubtful = every(browser, ".thumbs.doubtful .or")
    assert {
        bool(said.find_elements("css selector", ".dot.old")) for said in doubtful if said.text.startswith("cat")
    } == {True}
    assert {
        bool(said.find_elements("css selector", ".dot.old")) for said in doubtful if said.text.startswith("novel-004")
    } == {False}
    assert errors() == []


def test_without_known_categories_in_the_pile_there_are_no_such_headings(show):
    browser, _ = show(n_novel=3, n_images=60)
    assert every(browser, ".part") == []
    assert every(browser, ".tag") == []


def test_images_of_known_categories_are_squares_on_the_map(show):
    corner = """
    const context = document.createElement("canvas").getContext("2d");
    mark(context, 50, 50, 20, arguments[0], "#000");
    return context.getImageData(33, 33, 1, 1).data[3];
    """
    source = Path(newfound.__file__).parent / "report" / "map.js"
    drawing = re.search(r"function mark\(.*?\n}\n", source.read_text(), re.S)[0]
    browser, _ = show(n_novel=3, n_images=60)
    shown = [browser.execute_script(f"const old = new Set([0]); {drawing} {corner}", i) for i in (0, 1)]
    assert shown == [255, 0]


@pytest.mark.parametrize("n_novel", [5, 500])
def test_the_matrix_tells_the_pair_under_the_pointer(n_novel, show):
    browser, errors = show(n_novel=n_novel, n_images=1500)
    assert len(painted(browser, "#matrix-canvas")) > 2
    assert point_at(browser, "#matrix-canvas", found="document.querySelector('#matrix-says b')")
    assert "of this row" in one(browser, "#matrix-says").text
    rows = [f"novel-{i:03d}" for i in range(1, n_novel + 1)]
    row = rows.index(one(browser, "#matrix-says b").text)
    one(browser, "#matrix-canvas").send_keys(Keys.ARROW_DOWN)
    assert one(browser, "#matrix-says b").text == rows[row + 1]
    assert "rather than" in one(browser, "#mixups").text
    assert errors() == []


def test_nothing_in_a_name_is_executed(show):
    browser, errors = show(
        n_novel=3, known=(EVIL, "</script><script>window.pwned=1</script>"), novel=(EVIL, "猫 قطة", "x" * 400),
        name=lambda i: f"{EVIL}</script>{i}.png", truth=lambda c: f"{EVIL}{c}", skipped=((EVIL, "</script><b>"),),
    )  # fmt: skip
    browser.execute_script("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    for thumb in every(browser, ".thumb"):
        browser.execute_script("arguments[0].click(); document.querySelector('#large').close()", thumb)
    for button in every(browser, ".chip.all"):
        browser.execute_script("arguments[0].click(); document.querySelector('#album').close()", button)
    point_at(browser, "#map-canvas")
    point_at(browser, "#matrix-canvas", found="document.querySelector('#matrix-says b')")
    assert browser.execute_script("return [window.pwned, document.images.length, document.scripts.length]") == [
        None,
        0,
        3,
    ]
    assert browser.title == "newfound: 3 new categories"
    assert EVIL in [title.text for title in every(browser, ".card h3")]
    assert EVIL in one(browser, "#run").text
    assert errors() == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 1280])
def test_warnings_stand_above_the_pictures_and_can_be_read(width, scheme, show):
    warnings = ("the pile has 16 images for 4 categories", "clusterings of parts of the pile agree little")
    browser, errors = show(width, warnings=warnings)
    if browser.execute_script("return document.documentElement.dataset.theme") != scheme:
        one(browser, "#theme").click()
    box = one(browser, "#warnings")
    assert box.is_displayed()
    assert [line.text for line in every(browser, "#warnings li")] == list(warnings)
    assert box.location["y"] + box.size["height"] <= one(browser, "#faces").location["y"]
    assert contrast(browser, "#warnings li", "#warnings") > 7
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    assert errors() == []


def test_a_run_without_warnings_has_no_box(show):
    browser, errors = show()
    assert not one(browser, "#warnings").is_displayed()
    assert errors() == []


def test_nothing_in_a_warning_or_a_choice_is_executed(show):
    hostile = (EVIL, "</script><script>window.pwned=1</script>", "javascript:window.pwned=1", "x" * 150)
    browser, errors = show(390, 844, warnings=hostile, auto=((EVIL, EVIL, EVIL), ("y" * 150, "z" * 150, "why")))
    assert [line.text for line in every(browser, "#warnings li")] == list(hostile)
    browser.execute_script("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    assert EVIL in one(browser, "#details .choices").text
    seen = browser.execute_script("return [window.pwned, document.images.length, document.scripts.length]")
    assert seen == [None, 0, 3]
    assert browser.title == "newfound: 3 new categories"
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 390
    assert errors() == []


def test_what_was_chosen_is_not_broken_inside_words_on_a_phone(show):
    why = "efficientnet-lite0 has learned from a million images, and here are 260"
    browser, errors = show(390, 844, auto=(("domain", "natural", "19% of the pixels"), ("method", "kmeans", why)))
    browser.execute_script("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    lines = "return arguments[0].getClientRects().length"
    words = every(browser, ".choices td:not(:last-child) .name")
    assert [browser.execute_script(lines, word) for word in words] == [1, 1, 1, 1]
    assert errors() == []


def test_even_an_element_that_came_in_could_not_run(show):
    """The policy is the second wall: it stops what should never have come this far."""
    browser, errors = show()
    browser.execute_script("document.body.insertAdjacentHTML('beforeend', arguments[0])", EVIL)
    browser.execute_script(
        "const s = document.createElement('script'); s.textContent = 'window.pwned = 1'; document.body.append(s)"
    )
    until(browser, lambda b: any("Content Security Policy" in message for message in errors()))
    assert browser.execute_script("return window.pwned") is None


@pytest.mark.parametrize(("width", "height"), [(390, 844), (1280, 900)])
@pytest.mark.parametrize("n_novel", [1, 5, 60])
def test_the_page_fits_its_window(width, height, n_novel, show):
    browser, errors = show(width, height, n_novel=n_novel, n_images=200, skipped=(("y" * 900, "truncated image"),))
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    assert errors() == []


def test_dark_and_light_follow_the_system_and_the_button(show):
    browser, errors = show()
    ground = "return getComputedStyle(document.body).backgroundColor"
    seen = {}
    for scheme in ("light", "dark"):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        until(
            browser,
            lambda b, scheme=scheme: b.execute_script("return document.documentElement.dataset.theme") == scheme,
        )
        seen[scheme] = browser.execute_script(ground)
    assert seen["light"] != seen["dark"]
    one(browser, "#theme").click()
    assert browser.execute_script(ground) == seen["light"]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert errors() == []


def test_five_hundred_categories_are_made_as_they_are_looked_at(show):
    browser, errors = show(n_novel=500, n_images=1500)
    assert 0 < len(every(browser, ".card .thumbs")) < 200
    search = one(browser, "#category-tools input")
    search.send_keys("novel-417")
    assert [title.text for title in every(browser, ".card h3")] == ["novel-417"]
    search.clear()
    search.send_keys("no such")
    assert every(browser, ".card") == []
    browser.execute_script("document.querySelector('#strip button:last-child').click()")  # the smallest, far below
    smallest = browser.execute_script("return document.activeElement.querySelector('.count').textContent")
    assert smallest == "1 image"
    assert errors() == []


def test_a_page_without_pictures_map_and_answers_still_tells(show):
    browser, errors = show(kept=False, answers=False)
    assert "pile/" in one(browser, ".card").text
    assert not one(browser, "#map").is_displayed()
    assert "newfound evaluate" in one(browser, "#quality").text
    assert errors() == []
