// What was found, at a glance.

const MOST_FACES = 60;

function glance() {
  const { counts, known, novel } = content;
  const n = counts && counts.unlabelled;
  byId("headline").textContent = count(novel, "new category", "new categories");
  document.title = `newfound: ${count(novel, "new category", "new categories")}`;
  byId("subline").textContent = `found among ${images(n ?? pile.of)} that nobody had labelled, with the help of ` +
    `${images(counts ? counts.labelled : 0)} of ${count(known.n, "known category", "known categories")}` +
    (known.before.length ? `, ${whole.format(known.before.length)} of them found before.` : ".") +
    (content.mixed ? ` ${images(content.mixed.old)} of the pile ${content.mixed.old === 1 ? "was" : "were"} given a known category.` : "");
  const doubts = content.warnings;
  byId("warnings").hidden = !doubts.length;
  if (doubts.length) byId("warnings").append(el("b", {}, "Look with care"), el("ul", {}, ...doubts.map((doubt) => named(doubt, "li"))));
  const order = categories.map((_, i) => i).sort(bySize);
  const parts = [order.filter((i) => !old.has(i)), order.filter((i) => old.has(i))];
  parts.forEach((part, known) => {
    const shown = part.filter((i) => pile.layout && categories[i].typical.length).slice(0, MOST_FACES);
    if (parted && shown.length) byId("faces").append(el("h2", { class: "part" }, PARTS[known]));
    if (shown.length) byId("faces").append(faces(shown, order.length));
  });
  const strip = byId("strip");
  strip.classList.toggle("many", order.length > 60);
  for (const i of order.filter((i) => categories[i].size)) {
    const title = `${spoken(i)}: ${images(categories[i].size)}`;
    const part = el("button", {
      class: old.has(i) ? "old" : "", type: "button", title, onclick: () => goTo(i), "aria-label": title, tabIndex: order.length > 60 ? -1 : 0,
    });
    part.style.flexGrow = categories[i].size;
    paint(() => { part.style.backgroundColor = colour(i); }, part);
    strip.append(part);
  }
  tiles(order);
}

/** Tiles of some categories, the fewer on the page the larger. */
function faces(shown, all) {
  const grid = el("div", { class: all > 24 ? "faces many" : all <= 12 ? "faces few" : "faces" });
  for (const i of shown) {
    const { typical } = categories[i];
    const four = all <= 12 && typical.length >= 4 ? 4 : 1;
    const face = el("div", { class: four > 1 ? "mosaic" : "mosaic one" }, ...typical.slice(0, four).map((image) => picture(image, four === 4 ? 128 : 208)));
    paint(() => { face.style.borderColor = colour(i); }, face);
    const title = `${spoken(i)}, ${images(categories[i].size)}`;
    grid.append(el("button", { class: old.has(i) ? "face old" : "face", type: "button", title, "aria-label": title, onclick: () => goTo(i) },
      face, named(label(i)), el("span", { class: "small soft" }, old.has(i) ? dot(i) : "", kind(i) ? ` ${kind(i)}, ` : "", images(categories[i].size))));
  }
  return grid;
}

function tiles(order) {
  const add = (value, text) => byId("tiles").append(el("div", { class: "tile" }, el("b", {}, value), el("span", {}, text)));
  const { unlabelled, test, skipped } = content;
  if (unlabelled && typeof unlabelled.accuracy === "number") add(percent(unlabelled.accuracy), "of the images are in the right group");
  if (test && test.strict && typeof test.strict.all === "number") add(percent(test.strict.all), "of the test images are named rightly, old and new");
  if (content.calibrated) add(percent(content.confidence, 0), "mean confidence, calibrated on known images: a rough estimate of the share that is right");
  else add(percent(content.confidence, 0), "the model's own mean confidence, not calibrated: no estimate of the share that is right");
  if (typeof content.plain === "number") {
    const plain = content.earlier && content.earlier.plain;
    const right = plain && typeof plain.accuracy === "number" ? `, whose groups are right for ${percent(plain.accuracy)}` : "";
    add(percent(content.plain, 0), `of the images are grouped alike by k-means on the plain features${right}`);
  }
  if (order.length > 1) {
    const sizes = order.map((i) => categories[i].size);
    add(`${whole.format(Math.min(...sizes))} – ${whole.format(Math.max(...sizes))}`, "images a category, smallest to largest");
  }
  if (skipped.n) add(whole.format(skipped.n), `${skipped.n === 1 ? "file was" : "files were"} left out`);
  const spent = content.seconds && content.seconds.since_start;
  if (typeof spent === "number") add(duration(spent), `${content.method ?? ""} on ${content.hardware ?? "this machine"}`);
}

function duration(seconds) {
  if (seconds < 90) return `${Math.round(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 90 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
