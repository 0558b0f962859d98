// What was found, at a glance.

const MOST_FACES = 60;

function glance() {
  const { counts, known, novel } = content;
  const n = counts && counts.unlabelled;
  byId("headline").textContent = count(novel, "new category", "new categories");
  document.title = `newfound: ${count(novel, "new category", "new categories")}`;
  byId("subline").textContent = `found among ${images(n ?? pile.of)} that nobody had labelled, with the help of ` +
    `${images(counts ? counts.labelled : 0)} of ${count(known.n, "known category", "known categories")}.` +
    (content.mixed ? ` ${images(content.mixed.old)} of the pile ${content.mixed.old === 1 ? "was" : "were"} given a known category.` : "");
  const doubts = content.warnings;
  byId("warnings").hidden = !doubts.length;
  if (doubts.length) byId("warnings").append(el("b", {}, "Look with care"), el("ul", {}, ...doubts.map((doubt) => named(doubt, "li"))));
  const order = categories.map((_, i) => i).sort((a, b) => categories[b].size - categories[a].size);
  const faces = byId("faces");
  faces.classList.toggle("many", order.length > 24);
  faces.classList.toggle("few", order.length <= 12);
  for (const i of pile.layout ? order.slice(0, MOST_FACES) : []) {
    const { typical } = categories[i];
    if (!typical.length) continue;
    const four = order.length <= 12 && typical.length >= 4 ? 4 : 1;
    const face = el("div", { class: four > 1 ? "mosaic" : "mosaic one" }, ...typical.slice(0, four).map((image) => picture(image, four === 4 ? 128 : 208)));
    paint(() => { face.style.borderColor = colour(i); }, face);
    const title = `${label(i)}, ${images(categories[i].size)}`;
    faces.append(el("button", { class: "face", type: "button", title, "aria-label": title, onclick: () => goTo(i) },
      face, named(label(i)), el("span", { class: "small soft" }, images(categories[i].size))));
  }
  const strip = byId("strip");
  strip.classList.toggle("many", order.length > 60);
  for (const i of order.filter((i) => categories[i].size)) {
    const part = el("button", {
      type: "button", title: `${label(i)}: ${images(categories[i].size)}`, onclick: () => goTo(i),
      "aria-label": `${label(i)}: ${images(categories[i].size)}`, tabIndex: order.length > 60 ? -1 : 0,
    });
    part.style.flexGrow = categories[i].size;
    paint(() => { part.style.background = colour(i); }, part);
    strip.append(part);
  }
  tiles(order);
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
    add(`${whole.format(sizes[sizes.length - 1])} – ${whole.format(sizes[0])}`, "images a category, smallest to largest");
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
