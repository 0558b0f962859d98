// All images of a category, some at a time, typical or doubtful ones first.

const EACH = 60;
const ALBUM_ORDERS = ["Typical first", "Doubtful first"];
const album = { category: 0, order: 0, page: 0, list: [], selecting: false, selected: new Set(), anchor: null, tools: null };

function openAlbum(category, order = album.order, page = 0) {
  const typical = [...putHere(category), ...categories[category].images];
  if (category !== album.category) album.selected.clear();
  const list = order ? [...typical].reverse().sort((a, b) => pile.sure[a] - pile.sure[b]) : typical;
  Object.assign(album, { category, order, list });
  turn(page);
  if (!byId("album").open) byId("album").showModal();
}

/** Images of other categories that the person put into this one. */
function putHere(category) {
  return [...fixes.puts].filter(([, to]) => to === category).map(([i]) => i);
}

/** Show a page of the list; numbers beyond its ends become the first or the last. */
function turn(page) {
  const { category, list, order } = album;
  const last = Math.max(0, Math.ceil(list.length / EACH) - 1);
  album.page = Math.min(last, Math.max(0, page));
  const from = album.page * EACH;
  const some = list.slice(from, from + EACH);
  const dialog = byId("album");
  const focused = document.activeElement?.title;
  const button = (text, title, disabled, action) => el("button", { class: "ghost", type: "button", title, "aria-label": title, disabled, onclick: action }, text);
  const orders = ALBUM_ORDERS.map((text, i) => el("button", { type: "button", title: text, "aria-pressed": String(i === order), onclick: () => openAlbum(category, i) }, text));
  const [before, after] = [-1, 1].map((step) => neighbour(category, step));
  const where = el("span", { class: "soft num", role: "status" },
    list.length ? `${whole.format(from + 1)} – ${whole.format(from + some.length)} of ${whole.format(list.length)}` : "no image");
  const pages = () => el("div", { class: "row pages" }, button("‹", "Previous page", album.page === 0, () => turn(album.page - 1)), where.cloneNode(true),
    button("›", "Next page", album.page === last, () => turn(album.page + 1)));
  const { size } = categories[category];
  dialog.replaceChildren(
    el("header", {}, el("div", {}, dot(category), " ", named(label(category), "h2"), " ", tag(category), el("span", { class: "soft" }, ` ${images(size)}`, given(category) === label(category) ? "" : ", named "), given(category) === label(category) ? "" : named(given(category), "b")),
      button("Close", "Close", false, () => dialog.close())),
    el("div", { class: "row between" }, el("div", { class: "tools" }, ...orders, selectButton()), pages()),
    el("p", { class: "says missing", hidden: true }, `The pictures of these images lie in the folder ${BESIDE}, which belongs beside this page.`),
    pile.layout ? el("div", { class: "thumbs" }, ...some.map((i, j) => albumThumb(i, from + j))) : el("ul", {}, ...some.map((i) => el("li", {}, named(pile.names[i])))),
    categories[category].images.length < size ? el("p", { class: "soft small" }, `${whole.format(categories[category].images.length)} of ${images(size)} can be shown here; assignments.csv has all of them.`) : "",
    selection(),
    el("footer", { class: "row between" }, button(before < 0 ? "‹" : `‹ ${label(before)}`, "Previous category", before < 0, () => openAlbum(before)),
      pages(), button(after < 0 ? "›" : `${label(after)} ›`, "Next category", after < 0, () => openAlbum(after))),
  );
  paint(() => dialog.style.setProperty("--own", colour(category)), dialog.firstChild);
  dialog.scrollTop = 0;
  const again = [...dialog.querySelectorAll("button:enabled")].find((made) => made.title === focused);
  if (dialog.open) (again ?? dialog.querySelector("header button")).focus({ preventScroll: true });
  tellMissing(some, dialog.querySelector(".missing"));
}

function albumThumb(i, at) {
  const title = `${pile.names[i]}: sure to ${sureness(pile.sure[i])}`;
  const action = (event) => { if (album.selecting || (content.correct && event.shiftKey)) select(at, event.shiftKey); else enlarge(album.list, at, showAgain); };
  const made = el("button", { class: "thumb", type: "button", title, "aria-label": title, onclick: action }, picture(i, 144));
  if (album.selecting) made.setAttribute("aria-pressed", String(album.selected.has(i)));
  if (album.order) made.append(el("span", { class: "or num" }, sureness(pile.sure[i])));
  return withFate(made, i);
}

function selectButton() {
  if (!content.correct || !pile.layout) return "";
  const toggle = () => { album.selecting = !album.selecting; album.selected.clear(); turn(album.page); };
  return el("button", { type: "button", title: "Select images", "aria-pressed": String(album.selecting), onclick: toggle }, "Select");
}

/** Select an image of the list or no longer; with shift, all from the last one that was selected here to this. */
function select(at, range) {
  const [i, from, starting] = [album.list[at], album.list.indexOf(album.anchor), !album.selecting];
  if (range && !starting && from >= 0) for (const j of album.list.slice(Math.min(at, from), Math.max(at, from) + 1)) album.selected.add(j);
  else if (!album.selected.delete(i)) album.selected.add(i);
  Object.assign(album, { anchor: i, selecting: true });
  if (starting) turn(album.page);
  else showSelected();
}

/** What is selected, and what can be done with it; below the images while some are being selected. */
function selection() {
  if (!album.selecting) return "";
  const from = album.page * EACH;
  const some = album.list.slice(from, from + EACH);
  const all = (change) => () => { change(); showSelected(); };
  const button = (text, action) => el("button", { class: "ghost", type: "button", onclick: action }, text);
  album.tools = putter(() => [...album.selected], () => { album.selected.clear(); showSelected(); byId("album").querySelectorAll(".thumb")[album.list.indexOf(album.anchor) % EACH]?.focus(); });
  const box = el("div", { class: "selection" }, el("div", { class: "row" }, el("span", { class: "num", role: "status" }, `${whole.format(album.selected.size)} selected`),
    button("All on this page", all(() => some.forEach((i) => album.selected.add(i)))), button("None", all(() => album.selected.clear()))), album.tools);
  return box;
}

function showSelected() {
  const dialog = byId("album");
  if (!album.selecting || !dialog.open) return;
  for (const made of dialog.querySelectorAll(".thumb")) made.setAttribute("aria-pressed", String(album.selected.has(Number(made.dataset.image))));
  dialog.querySelector(".selection [role=status]").textContent = `${whole.format(album.selected.size)} selected`;
  album.tools.update();
}

/** Once the large view is closed: the page that its last image is on. */
function showAgain(i) {
  const at = album.list.indexOf(i);
  turn(Math.floor(at / EACH));
  byId("album").querySelectorAll(".thumb")[at % EACH].focus();
}

async function tellMissing(some, note) {
  if (!pile.layout) return;
  const found = await Promise.all([...new Set(some.map((i) => spot("images", i).sheet))].map((number) => sheet("images", number)));
  note.hidden = found.every(Boolean);
}

function startAlbum() {
  const dialog = byId("album");
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  dialog.addEventListener("close", () => goTo(album.category));
  if (content.correct) fixes.watchers.push(showSelected);
  dialog.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input")) return;
    if (event.key === "ArrowLeft") turn(album.page - 1);
    else if (event.key === "ArrowRight") turn(album.page + 1);
    else if (event.key === "n" || event.key === "p") {
      const to = neighbour(album.category, event.key === "n" ? 1 : -1);
      if (to >= 0) openAlbum(to);
    } else if (event.key === "s" && content.correct) {
      dialog.querySelector("[title='Select images']").click();
    } else if (event.key === "x" && content.correct) {
      const here = event.target.closest(".thumb");
      const some = album.selected.size ? [...album.selected] : here ? [Number(here.dataset.image)] : [];
      if (some.length) fix("put", some, some.every((i) => fixes.puts.get(i) === WRONG) ? null : WRONG);
      album.selected.clear();
      showSelected();
    } else return;
    event.preventDefault();
  });
  swipes(dialog, (step) => turn(album.page + step));
}
