// Small curves of what training logged; pointing at one reads all of them at that step.

const FIGURES = {
  loss: ["Loss", "what training makes small"],
  lr: ["Learning rate", "how large the steps are"],
  accuracy: ["Accuracy on labelled images", "of the batch being trained on"],
  cls: ["Category loss", "category discrimination"],
  ins: ["Instance loss", "instance discrimination"],
  ins_of_uniform: ["Instance loss against guessing", "1 is collapse"],
  pas: ["Closeness of prototypes", "mean cosine of a prototype with its nearest"],
  label_entropy: ["Spread of pseudo labels", "1 is equal shares"],
  label_certainty: ["Certainty of pseudo labels", "how decided they are"],
  teacher_entropy: ["Entropy of the teacher", "of one output"],
  teacher_spread: ["Spread of the teacher", "of its mean output: near 0 is collapse"],
  similarity_range: ["Range of similarities", "between prototypes and features"],
  agreement: ["Agreement with pseudo labels", "share of images that the classifier labels likewise"],
  weight: ["Weight of an image", "on average"],
  views_agree: ["Agreement of two views", "how often both views of an image get one label"],
  turns_told: ["Turns recognised", "share of quarter turns; 0.25 is guessing"],
  supervised: ["Loss on labelled images", "cross-entropy"],
  pairwise: ["Loss over pairs", "of unlabelled images"],
  contrast: ["Contrastive loss", "of views and known categories"],
  consistency: ["Consistency loss", "difference between two views' probabilities"],
  pairs_alike: ["Pairs taken for one category", "share of all pairs"],
  found: ["Pairs of one category found", "share of them"],
  threshold: ["Threshold", "codes that alike images share at least"],
  certainty: ["Certainty", "mean largest probability"],
  divergence: ["Divergence", "from the sharper targets"],
  cluster: ["Loss of the novel heads", "swapped prediction"],
  over: ["Loss of the finer heads", "swapped prediction"],
  inter: ["Distance of known and novel images", ""],
  intra: ["Distance of two views", "of an image"],
  distillation: ["Self-distillation", "of what the other view is given"],
  unevenness: ["Unevenness", "of the mean prediction: 0 is an equal use of the categories"],
  incremental: ["Loss on the categories found", "cross-entropy"],
};
const FIRST = ["loss", "accuracy", "agreement", "views_agree"];
const figureName = (name) => (Object.hasOwn(FIGURES, name) ? FIGURES[name] : [name.replaceAll("_", " "), ""]);
const stageName = (name) => name.replace(/^stage1$/, "Stage I").replace(/^stage2\b/, "Stage II").replace(/^Stage II-(\d+)$/, "Stage II, iteration $1");
const SVG = "http://www.w3.org/2000/svg";
const draw = (tag, attributes) => {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
};

function curves() {
  if (!content.curves.length) { byId("curves").hidden = true; return; }
  const buttons = switcher(content.curves.map((stage) => stageName(stage.stage)), (i) => showStage(content.curves[i]));
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
  const open = charts.filter((made) => FIRST.includes(made.name));
  const first = open.length ? open : charts.slice(0, 1);
  const rest = charts.filter((made) => !first.includes(made));
  byId("charts").replaceChildren(...first.map((made) => made.box));
  const more = byId("more-curves");
  more.hidden = !rest.length;
  more.querySelector("summary").textContent = count(rest.length, "more curve", "more curves");
  more.querySelector(".charts").replaceChildren(...rest.map((made) => made.box));
}

function chart(stage, name, values) {
  const [title, meaning] = figureName(name);
  const numbers = values.filter((value) => typeof value === "number");
  const [low, high] = [Math.min(...numbers), Math.max(...numbers)];
  const x = (i) => (values.length > 1 ? (200 * i) / (values.length - 1) : 100);
  const y = (value) => (high > low ? 76 - (72 * (value - low)) / (high - low) : 40);
  const known = values.map((value, i) => [i, value]).filter(([, value]) => typeof value === "number");
  const line = known.map(([i, value], j) => `${j ? "L" : "M"}${x(i).toFixed(2)} ${y(value).toFixed(2)}`).join("");
  const svg = draw("svg", { viewBox: "0 0 200 80", preserveAspectRatio: "none", role: "img", "aria-label": `${title}, from ${brief(values[0])} to ${brief(values[values.length - 1])}` });
  const cursor = draw("line", { x1: 0, x2: 0, y1: 0, y2: 80, visibility: "hidden" });
  if (known.length > 1) svg.append(draw("path", { class: "area", d: `${line}L${x(known[known.length - 1][0])} 80L${x(known[0][0])} 80Z` }));
  svg.append(draw("path", { d: known.length > 1 ? line : `M0 40L200 40` }), cursor);
  const value = el("span", { class: "num" }, brief(values[values.length - 1]));
  const where = el("span", {}, `step ${whole.format(stage.steps[stage.steps.length - 1])}`);
  const box = el("div", { class: "chart", title: `${name} in metrics.jsonl` }, el("header", {}, el("b", { class: "name", dir: "auto" }, title), value), svg,
    el("div", { class: "ends num" }, el("span", {}, `${brief(low)} – ${brief(high)}`), where),
    meaning ? el("div", { class: "small soft" }, meaning) : null);
  const read = (i) => {
    const at = i < 0 ? values.length - 1 : i;
    cursor.setAttribute("visibility", i < 0 ? "hidden" : "visible");
    cursor.setAttribute("x1", x(at));
    cursor.setAttribute("x2", x(at));
    value.textContent = brief(values[at]);
    where.textContent = `step ${whole.format(stage.steps[at])}`;
  };
  return { name, box, svg, read };
}
