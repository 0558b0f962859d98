// Small curves of what training logged; pointing at one reads all of them at that step.

const MEANINGS = {
  loss: "the whole loss", lr: "learning rate", accuracy: "on the labelled images of a batch", cls: "category discrimination",
  ins: "instance discrimination", ins_of_uniform: "instance loss relative to guessing: 1 is collapse", pas: "mean cosine of a prototype with its nearest",
  label_entropy: "spread of pseudo labels: 1 is equal shares", label_certainty: "how decided pseudo labels are",
  teacher_entropy: "of one output of the teacher", teacher_spread: "of the teacher's mean output: near 0 is collapse",
  similarity_range: "between prototypes and features", agreement: "of the classifier with pseudo labels", weight: "mean weight of an image",
  views_agree: "how often both views of an image get one label", turns_told: "quarter turns that are told: .25 is guessing",
  supervised: "cross-entropy of labelled images", pairwise: "over pairs of unlabelled images", contrast: "of views and known categories",
  consistency: "difference between two views' probabilities", pairs_alike: "share of pairs taken for one category",
  found: "pairs of one category that are told", threshold: "codes that alike images share at least", certainty: "mean largest probability",
  divergence: "from the sharper targets", cluster: "swapped prediction of novel categories", over: "swapped prediction of the finer heads",
  inter: "how far known and novel images are apart", intra: "how far views of an image are apart", incremental: "cross-entropy to the categories found",
};
const SVG = "http://www.w3.org/2000/svg";
const draw = (tag, attributes) => {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
};

function curves() {
  if (!content.curves.length) { byId("curves").hidden = true; return; }
  const buttons = switcher(content.curves.map((stage) => stage.stage), (i) => showStage(content.curves[i]));
  if (buttons.length > 1) byId("curve-tools").append(...buttons);
}

function showStage(stage) {
  const charts = Object.entries(stage.figures).map(([name, values]) => chart(stage, name, values));
  const readAll = (i) => { for (const made of charts) made.read(i); };
  for (const made of charts) {
    made.svg.addEventListener("pointermove", (event) => {
      const box = made.svg.getBoundingClientRect();
      readAll(Math.round(Math.min(1, Math.max(0, (event.clientX - box.left) / box.width)) * (stage.steps.length - 1)));
    });
    made.svg.addEventListener("pointerleave", () => readAll(-1));
  }
  byId("charts").replaceChildren(...charts.map((made) => made.box));
}

function chart(stage, name, values) {
  const numbers = values.filter((value) => typeof value === "number");
  const [low, high] = [Math.min(...numbers), Math.max(...numbers)];
  const x = (i) => (values.length > 1 ? (200 * i) / (values.length - 1) : 100);
  const y = (value) => (high > low ? 76 - (72 * (value - low)) / (high - low) : 40);
  const known = values.map((value, i) => [i, value]).filter(([, value]) => typeof value === "number");
  const line = known.map(([i, value], j) => `${j ? "L" : "M"}${x(i).toFixed(2)} ${y(value).toFixed(2)}`).join("");
  const svg = draw("svg", { viewBox: "0 0 200 80", preserveAspectRatio: "none", role: "img", "aria-label": `${name}, from ${brief(values[0])} to ${brief(values[values.length - 1])}` });
  const cursor = draw("line", { x1: 0, x2: 0, y1: 0, y2: 80, visibility: "hidden" });
  if (known.length > 1) svg.append(draw("path", { class: "area", d: `${line}L${x(known[known.length - 1][0])} 80L${x(known[0][0])} 80Z` }));
  svg.append(draw("path", { d: known.length > 1 ? line : `M0 40L200 40` }), cursor);
  const value = el("span", { class: "num" }, brief(values[values.length - 1]));
  const where = el("span", {}, `step ${whole.format(stage.steps[stage.steps.length - 1])}`);
  const box = el("div", { class: "chart", title: MEANINGS[name] ?? "" }, el("header", {}, named(name, "b"), value), svg,
    el("div", { class: "ends num" }, el("span", {}, `${brief(low)} – ${brief(high)}`), where),
    MEANINGS[name] ? el("div", { class: "small soft" }, MEANINGS[name]) : null);
  const read = (i) => {
    const at = i < 0 ? values.length - 1 : i;
    cursor.setAttribute("visibility", i < 0 ? "hidden" : "visible");
    cursor.setAttribute("x1", x(at));
    cursor.setAttribute("x2", x(at));
    value.textContent = brief(values[at]);
    where.textContent = `step ${whole.format(stage.steps[at])}`;
  };
  return { box, svg, read };
}
