// All images of a category, some at a time, typical or doubtful ones first.

const EACH = 60;
const ALBUM_ORDERS = ["Typical first", "Doubtful first"];
const album = { category: 0, order: 0, page: 0, list: [] };

function openAlbum(category, order = album.order, page = 0) {
  const typical = categories[category].images;
  const list = order ? [...typical].reverse().sort((a, b) => pile.sure[a] - pile.sure[b]) : typical;
  Object.assign(album, { category, order, list });
  turn(page);
  if (!byId("album").open) byId("album").showModal();
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
    el("header", {}, el("div", {}, dot(category), " ", named(label(category), "h2"), " ", tag(category), el("span", { class: "soft" }, ` ${images(size)}`)),
      button("Close", "Close", false, () => dialog.close())),
    el("div", { class: "row between" }, el("div", { class: "tools" }, ...orders), pages()),
    el("p", { class: "says missing", hidden: true }, `The pictures of these images lie in the folder ${BESIDE}, which belongs beside this page.`),
    pile.layout ? el("div", { class: "thumbs" }, ...some.map((i, j) => albumThumb(i, from + j))) : el("ul", {}, ...some.map((i) => el("li", {}, named(pile.names[i])))),
    list.length < size ? el("p", { class: "soft small" }, `${whole.format(list.length)} of ${images(size)} can be shown here; assignments.csv has all of them.`) : "",
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
  const made = el("button", { class: "thumb", type: "button", title, "aria-label": title, onclick: () => enlarge(album.list, at, showAgain) }, picture(i, 144));
  if (album.order) made.append(el("span", { class: "or num" }, sureness(pile.sure[i])));
  return made;
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
  dialog.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "ArrowLeft") turn(album.page - 1);
    else if (event.key === "ArrowRight") turn(album.page + 1);
    else if (event.key === "n" || event.key === "p") {
      const to = neighbour(album.category, event.key === "n" ? 1 : -1);
      if (to >= 0) openAlbum(to);
    } else return;
    event.preventDefault();
  });
  swipes(dialog, (step) => turn(album.page + step));
}
