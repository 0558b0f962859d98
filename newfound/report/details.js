// The run, its settings, the files it left out; and then everything is put in motion.

function details() {
  const box = byId("run");
  const { counts, seconds, versions } = content;
  const rows = [
    ["Method", content.method], ["Images from", content.data], ["Seed", content.seed], ["Finished", content.finished],
    ["Device", content.hardware], ["newfound", content.newfound],
    ...Object.entries(versions ?? {}), ...Object.entries(counts ?? {}).map(([name, n]) => [`Images, ${name}`, whole.format(n)]),
    ...Object.entries(seconds ?? {}).map(([name, spent]) => [`Seconds, ${name.replace("since_start", "all")}`, brief(spent)]),
  ].filter(([, value]) => value !== null && value !== undefined);
  box.append(fold("This run", el("div", { class: "scroll" }, el("table", {}, el("tbody", {}, ...rows.map(([name, value]) =>
    el("tr", {}, el("td", { class: "soft" }, name), el("td", {}, named(String(value))))))))));
  if (content.auto.length) {
    box.append(fold("Chosen automatically", el("div", { class: "scroll choices" }, el("table", {}, el("tbody", {}, ...content.auto.map(([what, value, why]) =>
      el("tr", {}, el("td", { class: "soft" }, named(what)), el("td", {}, named(value)), el("td", {}, named(why)))))))));
  }
  if (content.counted) box.append(fold("How many categories", counted(content.counted)));
  const { names, n } = content.known;
  const known = new Set(content.known.before);
  const more = n > names.length ? [el("span", { class: "soft" }, `and ${whole.format(n - names.length)} more`)] : [];
  box.append(fold(count(n, "known category", "known categories"), el("div", { class: "row" }, ...names.map((name, i) => el("span", { class: "chip" }, el("span", { class: "dot old" }), named(name), known.has(i) ? el("span", { class: "tag" }, "found before") : "")), ...more)));
  box.append(fold("Settings", settings()));
  skippedFiles(box);
  byId("foot").textContent = `Made by newfound ${content.newfound ?? ""}. The category of every image is in assignments.csv, every figure in result.json, beside this page. ` +
    (inside() ? "The page holds everything it shows and loads nothing." : `Pictures for which the page has no room lie in ${BESIDE}, beside it.`);
}

/** The curve that the number of novel categories was read from, up to three times that number. */
function counted({ estimate, interval, curve }) {
  const points = curve.filter(([number], i) => i < 2 || number <= 3 * estimate);
  const [first, last] = [points[0][0], points[points.length - 1][0]];
  const top = Math.max(1, ...points.map(([, owned]) => owned));
  const x = (number) => (200 * (number - first)) / (last - first || 1);
  const y = (owned) => 76 - (72 * owned) / top;
  const line = points.map(([number, owned], i) => `${i ? "L" : "M"}${x(number).toFixed(2)} ${y(owned).toFixed(2)}`).join("");
  const told = `${estimate}, probably ${interval[0]} to ${interval[1]}`;
  const svg = draw("svg", { viewBox: "0 0 200 80", preserveAspectRatio: "none", role: "img", "aria-label": `Groups of a known category, which are 1 at ${estimate} novel categories` });
  svg.append(draw("line", { x1: 0, x2: 200, y1: y(1), y2: y(1) }), draw("line", { x1: x(estimate), x2: x(estimate), y1: 0, y2: 80 }), draw("path", { d: line }));
  return el("div", { class: "chart" }, el("header", {}, el("b", {}, "Groups that a hidden known category owns"), el("span", { class: "num" }, told)), svg,
    el("div", { class: "ends num" }, el("span", {}, `${first} novel categories`), el("span", {}, String(last))),
    el("div", { class: "small soft" }, "The number was estimated: cut so fine that each known category, hidden in the pile, owns one group."));
}

/** Whether the page holds the thumbnails of all images. */
const inside = () => !pile.layout || !pile.names.length || Boolean(byId(`images-${spot("images", pile.names.length - 1).sheet}`));
const fold = (title, ...inside) => el("details", {}, el("summary", {}, title), ...inside);

function settings() {
  const show = (value) => (value === null ? "–" : Array.isArray(value) ? value.map(show).join(", ") : String(value));
  const group = (title, entries) => el("div", {}, el("b", {}, title), el("dl", {}, ...entries.flatMap(([name, value]) => [el("dt", {}, name), named(show(value), "dd")])));
  const nested = Object.entries(content.settings).filter(([, value]) => value && typeof value === "object" && !Array.isArray(value));
  const plain = Object.entries(content.settings).filter(([, value]) => !(value && typeof value === "object" && !Array.isArray(value)));
  return el("div", { class: "settings" }, group("general", plain), ...nested.map(([title, inside]) => group(title, Object.entries(inside))));
}

function skippedFiles(box) {
  const { n, reasons, files } = content.skipped;
  if (!n) { box.append(fold("No file was left out", el("p", { class: "soft" }, "Every image could be read."))); return; }
  const line = ([file, reason]) => el("tr", {}, el("td", {}, named(file)), el("td", {}, named(reason)));
  const parts = [el("ul", {}, ...reasons.map(([reason, many]) => el("li", {}, named(reason), `: ${count(many, "file", "files")}`))),
    el("div", { class: "scroll" }, el("table", {}, el("tbody", {}, ...files.map(line))))];
  if (n > files.length) parts.push(el("p", { class: "soft" }, `and ${whole.format(n - files.length)} more in skipped.csv`));
  box.append(fold(`${count(n, "file was", "files were")} left out`, ...parts));
}

startCorrecting();
glance();
gallery();
startAlbum();
startLarge();
startMap();
quality();
curves();
details();
for (const section of document.querySelectorAll("section[data-title]:not([hidden])")) {
  const go = (event) => { event.preventDefault(); history.replaceState(null, "", `#${section.id}`); jump(section); };
  section.tabIndex = -1;
  byId("nav").append(el("a", { href: `#${section.id}`, onclick: go }, section.dataset.title));
}
