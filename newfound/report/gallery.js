// A card for each category. The shells are there at once, what they hold is made when they come near the window.

const shells = new Map();
const STEP = 120;

const ORDERS = {
  "largest first": (a, b) => categories[b].size - categories[a].size,
  "smallest first": (a, b) => categories[a].size - categories[b].size,
  "least sure first": (a, b) => categories[a].sure - categories[b].sure,
  "by name": (a, b) => label(a).localeCompare(label(b), undefined, { numeric: true }),
};
const purity = (i) => (categories[i].truth.length ? categories[i].truth[0][1] / Math.max(1, categories[i].size) : 1);

let listed = [];
let shownCards = 0;
let more = null;

function gallery() {
  byId("category-hint").textContent = "Typical images lie nearest to the middle of their category. Doubtful ones are those that the run was least sure of; " +
    `below each is the next nearest category. ${old.size ? "A square marks a known category. " : ""}${press} a picture to see it larger.` +
    (touch ? "" : " The keys n and p go to the next and the previous category.");
  document.addEventListener("keydown", cardKey);
  const tools = byId("category-tools");
  if (categories.some((category) => category.truth.length)) ORDERS["most mixed first"] = (a, b) => purity(a) - purity(b);
  const search = el("input", { type: "search", placeholder: "Find a category", "aria-label": "Find a category" });
  const order = el("select", { "aria-label": "Order of the categories" },
    ...Object.keys(ORDERS).map((name) => el("option", { value: name }, name)));
  const said = el("span", { class: "soft small", role: "status" });
  if (categories.length > 1) tools.append(...(categories.length > 8 ? [search] : []), order, said);
  more = el("button", { class: "ghost more", type: "button", onclick: () => showMore() }, "More");
  byId("cards").after(more);
  const list = () => {
    const wanted = search.value.trim().toLowerCase();
    const text = (i) => [label(i), given(i), ...categories[i].truth.map(([name]) => name)].join("\n").toLowerCase();
    listed = categories.map((_, i) => i).filter((i) => !wanted || text(i).includes(wanted)).sort(newFirst(ORDERS[order.value] ?? ORDERS["largest first"]));
    const all = content.novel + (content.mixed ? content.mixed.categories : 0);
    const beyond = all - categories.length;
    said.textContent = `${whole.format(listed.length)} of ${whole.format(all)}` + (beyond > 0 ? ` (the ${whole.format(categories.length)} largest can be shown)` : "");
    byId("cards").replaceChildren();
    shownCards = 0;
    showMore();
  };
  search.addEventListener("input", list);
  order.addEventListener("change", list);
  gallery.clear = () => { search.value = ""; list(); };
  list();
}

function showMore(until = shownCards + STEP) {
  const next = listed.slice(shownCards, until);
  for (const i of next) {
    const first = parted && listed.findIndex((other) => old.has(other) === old.has(i));
    if (listed[first] === i) byId("cards").append(el("h3", { class: "part" }, PARTS[Number(old.has(i))]));
    byId("cards").append(card(i));
  }
  shownCards += next.length;
  more.hidden = shownCards >= listed.length;
  if (!more.hidden) whenNear(more, () => showMore());
}

function card(i) {
  if (shells.has(i)) return shells.get(i);
  const category = categories[i];
  const shell = el("article", { class: "card", id: `category-${i}`, tabIndex: -1 },
    el("header", {}, el("div", { class: "title" }, old.has(i) ? dot(i) : "", named(label(i), "h3"), " ", tag(i)), el("span", { class: "count" }, images(category.size)), el("span", { class: "steps" },
      ...[[-1, "‹", "Previous category"], [1, "›", "Next category"]].map(([step, text, title]) => el("button",
        { class: "ghost", type: "button", title, "aria-label": title, onclick: () => { const to = neighbour(i, step); if (to >= 0) goTo(to); } }, text)))));
  paint(() => shell.style.setProperty("--own", colour(i)));
  shells.set(i, shell);
  whenNear(shell, () => fillCard(shell, i));
  return shell;
}

function fillCard(shell, i) {
  const category = categories[i];
  const facts = el("div", { class: "small" });
  if (category.truth.length) {
    const [name, n] = category.truth[0];
    facts.append("mostly ", named(name, "b"), ` (${percent(n / Math.max(1, category.size), 0)}) · `);
  }
  facts.append(el("span", { class: "soft" }, `sure to ${sureness(category.sure)} on average`));
  shell.append(facts, verdict(i));
  if (!category.size) shell.append(el("p", { class: "soft" }, "No image was put here."));
  for (const [title, list, doubtful] of [["Typical", category.typical, false], ["Doubtful", category.doubtful, true]]) {
    if (!list.length) continue;
    const all = list.map((image, at) => thumb(list, at, doubtful));
    shell.append(el("h4", {}, title), pile.layout ? el("div", { class: doubtful ? "thumbs doubtful" : "thumbs" }, ...all) : el("ul", {}, ...all));
  }
  alike(shell, i);
  const buttons = el("div", { class: "row actions" });
  if (category.size) buttons.append(el("button", { class: "chip all", type: "button", onclick: () => openAlbum(i) }, category.size === 1 ? "The image" : `All ${images(category.size)}`));
  if (map.points && category.size) buttons.append(el("button", { class: "chip on-map", type: "button", onclick: () => showOnMap(i) }, "Show on the map"));
  shell.append(buttons);
}

function showOnMap(i) {
  choose((set) => { set.clear(); set.add(i); });
  jump(byId("map"));
}

function thumb(list, at, doubtful) {
  const i = list[at];
  const [name, other] = [pile.names[i], pile.other[i]];
  if (!pile.layout) return el("li", {}, named(name));
  const title = `${name}: sure to ${sureness(pile.sure[i])}` + (doubtful && other >= 0 ? `, next nearest category ${spoken(other)}` : "");
  const made = el("button", { class: "thumb", type: "button", title, "aria-label": title, onclick: () => enlarge(list, at) }, picture(i, doubtful ? 144 : 112));
  if (doubtful && other >= 0) made.append(el("span", { class: "or" }, old.has(other) ? dot(other) : "", el("bdi", {}, label(other)), "?"));
  return withFate(made, i);
}

/** Which known categories a new one is near, and which new one is nearest to it. */
function alike(shell, i) {
  const { like, near } = categories[i];
  if (like.length && !old.has(i)) {
    const said = [el("span", { class: "soft" }, "Near to ")];
    like.forEach((known, at) => said.push(at ? ", " : "", el("span", { class: "together" }, dot(known), "\u00a0", named(label(known), "b"), ...(foundBefore.has(known) ? [" ", tag(known)] : []))));
    shell.append(el("p", { class: "small like" }, ...said));
  }
  if (near.length) shell.append(el("p", { class: "small like" }, el("span", { class: "soft" }, "Nearest new category "), nearChip(near[0])));
}

function nearChip(other) {
  const inside = [dot(other), named(label(other))];
  return other < categories.length ? el("button", { class: "chip", type: "button", onclick: () => goTo(other) }, ...inside) : el("span", { class: "chip" }, ...inside);
}

/** The category listed before (-1) or after (1) this one; -1 where there is none. */
function neighbour(i, step) {
  const at = listed.indexOf(i);
  return at < 0 ? listed[0] ?? -1 : listed[at + step] ?? -1;
}

function cardKey(event) {
  if (!["n", "p"].includes(event.key) || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, select, dialog")) return;
  const here = event.target.closest(".card");
  const to = here ? neighbour(Number(here.id.slice("category-".length)), event.key === "n" ? 1 : -1) : listed[0] ?? -1;
  if (to >= 0) goTo(to);
}

/** Bring a category's card before the reader. */
function goTo(i) {
  if (!shells.has(i) || !shells.get(i).isConnected) {
    if (!listed.includes(i)) gallery.clear();
    showMore(listed.indexOf(i) + 1);
  }
  const shell = shells.get(i);
  shell.classList.remove("called");
  jump(shell);
  requestAnimationFrame(() => shell.classList.add("called"));
}
