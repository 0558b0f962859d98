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
    const text = (i) => [label(i), ...categories[i].truth.map(([name]) => name)].join("\n").toLowerCase();
    listed = categories.map((_, i) => i).filter((i) => !wanted || text(i).includes(wanted)).sort(ORDERS[order.value] ?? ORDERS["largest first"]);
    const beyond = content.novel - categories.length;
    said.textContent = `${whole.format(listed.length)} of ${whole.format(content.novel)}` + (beyond > 0 ? ` (the ${whole.format(categories.length)} largest can be shown)` : "");
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
  byId("cards").append(...next.map(card));
  shownCards += next.length;
  more.hidden = shownCards >= listed.length;
  if (!more.hidden) whenNear(more, () => showMore());
}

function card(i) {
  if (shells.has(i)) return shells.get(i);
  const category = categories[i];
  const shell = el("article", { class: "card", id: `category-${i}`, tabIndex: -1 },
    el("header", {}, named(label(i), "h3"), el("span", { class: "count" }, images(category.size))));
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
  facts.append(el("span", { class: "soft" }, `sure to ${percent(category.sure, 0)} on average`));
  shell.append(facts);
  if (!category.size) shell.append(el("p", { class: "soft" }, "No image was put here."));
  const rows = [["Typical", category.typical, false], ["Doubtful", category.doubtful, true]];
  for (const [title, [first, n], doubtful] of rows) {
    if (!n) continue;
    const all = Array.from({ length: n }, (_, j) => thumb(first + j, i, doubtful ? category.or[j] : -1, doubtful));
    shell.append(el("h4", {}, title), content.gallery.layout ? el("div", { class: doubtful ? "thumbs doubtful" : "thumbs" }, ...all) : el("ul", {}, ...all));
  }
  const near = category.near.slice(0, 4).map(([other, cosine]) => nearChip(other, cosine));
  if (near.length) shell.append(el("h4", {}, "Near to"), el("div", { class: "row" }, ...near));
  if (content.map.x.length && category.size) {
    const show = () => { choose((set) => { set.clear(); set.add(i); }); byId("map").scrollIntoView(); };
    shell.append(el("h4", {}, " "), el("button", { class: "chip", type: "button", onclick: show }, dot(i), "Show on the map"));
  }
}

function thumb(image, category, other, doubtful) {
  const name = content.gallery.names[image];
  if (!content.gallery.layout) return el("li", {}, named(name));
  const sure = percent(content.gallery.sure[image], 0);
  const title = doubtful && other >= 0 ? `${name}: sure to ${sure}, next to ${label(other)}` : `${name}: sure to ${sure}`;
  const made = el("button", { class: "thumb", type: "button", title, "aria-label": title, onclick: () => enlarge("gallery", image, category, other) },
    picture("gallery", image, doubtful ? 144 : 112));
  if (doubtful && other >= 0) made.append(el("span", { class: "or" }, el("bdi", {}, label(other)), "?"));
  return made;
}

function nearChip(other, cosine) {
  const inside = [dot(other), named(label(other)), el("span", { class: "soft num" }, cosine.toFixed(2))];
  if (other < categories.length) return el("button", { class: "chip", type: "button", onclick: () => goTo(other) }, ...inside);
  return el("span", { class: "chip", title: old.has(other) ? "a known category" : "" }, ...inside);
}

/** Bring a category's card before the reader. */
function goTo(i) {
  if (!shells.has(i) || !shells.get(i).isConnected) {
    if (!listed.includes(i)) gallery.clear();
    showMore(listed.indexOf(i) + 1);
  }
  const shell = shells.get(i);
  shell.classList.remove("called");
  shell.scrollIntoView({ block: "start" });
  shell.focus({ preventScroll: true });
  requestAnimationFrame(() => shell.classList.add("called"));
}
