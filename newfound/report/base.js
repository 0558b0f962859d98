// What all parts of the page use: its content, text that stays text, colours, pictures, and the choice of categories.

const content = JSON.parse(document.getElementById("content").textContent);
const byId = (id) => document.getElementById(id);

/** An element. Strings among the children become text nodes, so that no name is ever read as HTML. */
function el(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name === "class") made.className = value;
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name.startsWith("aria-") || name === "role" || name === "scope") made.setAttribute(name, value);
    else made[name] = value;
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}
const named = (text, tag = "span") => el(tag, { class: "name", dir: "auto", title: text }, text);

const whole = new Intl.NumberFormat("en");
const count = (n, one, more) => `${whole.format(n)} ${n === 1 ? one : more}`;
const images = (n) => count(n, "image", "images");
const percent = (share, digits = 1) => (typeof share === "number" ? `${(100 * share).toFixed(digits)}\u00a0%` : "–");
const brief = (value) => {
  if (typeof value !== "number") return "–";
  return value !== 0 && Math.abs(value) < 1e-3 ? value.toExponential(1) : String(Number(value.toPrecision(4)));
};

/** How sure the run was of an image; what is all but certain has no percentage. */
const sureness = (share) => (share > 0.99 ? "over 99\u00a0%" : percent(share, 0));
const touch = matchMedia("(pointer: coarse)").matches;
const press = touch ? "Tap" : "Click";

const labels = content.labels;
const pile = content.images;
const categories = content.categories;
const old = new Set(content.old);
const foundBefore = new Set(content.before);
const label = (i) => (i >= 0 && i < labels.length ? labels[i] : "another category");
/** What a category is that this run did not find; "" for one that it found. */
const kind = (i) => (foundBefore.has(i) ? "found before" : old.has(i) ? "known" : "");
const spoken = (i) => (kind(i) ? `${label(i)} (${kind(i)})` : label(i));
const tag = (i) => (kind(i) ? el("span", { class: "tag" }, kind(i)) : "");
/** An order of categories, new ones before known ones. */
const newFirst = (order) => (a, b) => old.has(a) - old.has(b) || order(a, b);
const bySize = newFirst((a, b) => categories[b].size - categories[a].size);
/** Whether images of the pile went to known categories, too. */
const parted = content.old.some((i) => i < categories.length);
const PARTS = ["New categories", "Known categories that images of the pile went to"];

// Colours: ten that everyone can tell apart; beyond, hues a golden angle apart in three shades.
const TEN = ["#3b82f6", "#f97316", "#10b981", "#e11d48", "#8b5cf6", "#d9a406", "#06b6d4", "#ec4899", "#84a80f", "#8d6748"];
const dark = () => document.documentElement.dataset.theme === "dark";
function colour(i) {
  if (i < 0 || i >= categories.length) return dark() ? "#77808c" : "#9aa0a8";
  if (categories.length <= TEN.length) return TEN[i];
  const light = (dark() ? [58, 70, 48] : [44, 56, 34])[i % 3];
  return `hsl(${Math.round((i * 137.508) % 360)} ${[72, 58, 66][i % 3]}% ${light}%)`;
}
function dot(i) {
  const made = el("span", { class: old.has(i) ? "dot old" : "dot" });
  paint(() => { made.style[old.has(i) ? "borderColor" : "background"] = colour(i); }, made);
  return made;
}

// What follows the theme is painted now and again after each change of it, as long as it is on the page.
const painters = new Set();
function paint(painter, element) {
  painter();
  painters.add({ painter, element });
}
const watched = matchMedia("(prefers-color-scheme: dark)");
let asked = null;
try { asked = localStorage.getItem("newfound-theme"); } catch { /* a page from a file may have no storage */ }
function applyTheme() {
  const now = asked === "dark" || asked === "light" ? asked : watched.matches ? "dark" : "light";
  document.documentElement.dataset.theme = now;
  byId("theme").textContent = now === "dark" ? "☀" : "☾";
  byId("theme").title = now === "dark" ? "Light" : "Dark";
  for (const entry of painters) {
    if (entry.element && !entry.element.isConnected) painters.delete(entry);
    else entry.painter();
  }
}
watched.addEventListener("change", applyTheme);
byId("theme").addEventListener("click", () => {
  asked = dark() ? "light" : "dark";
  try { localStorage.setItem("newfound-theme", asked); } catch { /* then for this visit only */ }
  applyTheme();
});
applyTheme();

// Pictures lie in sheets, inside the page or beside it, that are decoded when the first picture of theirs is looked at.
const MOST_SHEETS = 16;
const BESIDE = "report-pictures";
const sheets = new Map();
function sheet(kind, number) {
  const id = `${kind}-${number}`;
  const found = sheets.get(id) ?? load(byId(id), `${BESIDE}/${number}.jpg`);
  sheets.delete(id);
  sheets.set(id, found);
  if (sheets.size > MOST_SHEETS) sheets.delete(sheets.keys().next().value);
  return found;
}
function load(block, file) {
  return new Promise((done) => {
    const image = new Image();
    image.onload = () => done(image);
    image.onerror = () => done(null);
    image.src = block ? `data:image/jpeg;base64,${block.textContent}` : file;
  });
}
// The gallery has larger pictures of the typical and doubtful images, in this order.
const larger = new Map();
if (content.gallery) for (const { typical, doubtful } of categories) for (const i of [...typical, ...doubtful]) larger.set(i, larger.size);

/** Where an image's thumbnail, or a picture of the gallery, lies: its sheet, and the corner there. */
function spot(kind, i) {
  const { side, cell, columns } = kind === "gallery" ? content.gallery : pile.layout;
  const inside = i % (columns * columns);
  return {
    sheet: Math.floor(i / (columns * columns)), side,
    x: (inside % columns) * cell, y: Math.floor(inside / columns) * cell,
  };
}
function drawSpot(context, image, { side, x, y }, left, top, size) {
  context.imageSmoothingEnabled = true;
  context.imageSmoothingQuality = "high";
  context.drawImage(image, x, y, side, side, left, top, size, size);
}
/** An image on a canvas of its own, or null where the run kept no pictures. */
function picture(i, pixels = 112) {
  if (!pile.layout) return null;
  const canvas = el("canvas", { class: "picture", width: pixels, height: pixels, role: "img", "aria-label": pile.names[i] });
  const kind = larger.has(i) && pixels > pile.layout.side ? "gallery" : "images";
  const where = spot(kind, kind === "gallery" ? larger.get(i) : i);
  sheet(kind, where.sheet).then((image) => {
    if (image) drawSpot(canvas.getContext("2d"), image, where, 0, 0, pixels);
    else canvas.classList.add("missing");
  });
  return canvas;
}

// The categories that the map shows in colour; none chosen means all.
const chosen = new Set();
const choiceWatchers = [];
function choose(change) {
  change(chosen);
  for (const watcher of choiceWatchers) watcher();
}

/** Do something when an element comes near the window, once. */
function whenNear(element, action) {
  if (!("IntersectionObserver" in window)) { action(); return; }
  const observer = new IntersectionObserver((entries) => {
    if (entries.some((entry) => entry.isIntersecting)) { observer.disconnect(); action(); }
  }, { rootMargin: "600px" });
  observer.observe(element);
}

/** Bring an element to the top of the window, and keep it there while cards that come near the window are filled. */
function jump(element) {
  const settle = () => element.scrollIntoView({ block: "start", behavior: "instant" });
  const watch = new ResizeObserver(settle);
  const stop = () => watch.disconnect();
  settle();
  element.focus({ preventScroll: true });
  watch.observe(byId("cards"));
  for (const type of ["wheel", "touchstart", "keydown", "pointerdown"]) addEventListener(type, stop, { once: true, passive: true });
  setTimeout(stop, 1500);
}

/** A canvas as many device pixels large as it needs; gives its context, scaled to CSS pixels. */
function fit(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.max(1, Math.round(width * ratio));
  canvas.height = Math.max(1, Math.round(height * ratio));
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** Buttons of which one is pressed. */
function switcher(options, action) {
  const buttons = options.map((text, i) => el("button", { type: "button", "aria-pressed": "false", onclick: () => press(i) }, text));
  function press(i) {
    buttons.forEach((button, j) => button.setAttribute("aria-pressed", String(i === j)));
    action(i);
  }
  press(0);
  return buttons;
}
