// How a person corrects: a tick and a name on each card, what can be done with images, and the bar that says how far it is.

/** The tick and the name of a category, for its card; nothing where the page cannot correct. */
function verdict(i) {
  if (!content.correct) return "";
  const tick = el("input", { type: "checkbox", "aria-label": `${label(i)} is right`, onchange: () => fix("tick", i, tick.checked) });
  const name = nameField(`Name of ${label(i)}`, (text) => {
    if ((text || label(i)) !== given(i)) fix("name", i, text || label(i));
    else update();
  });
  name.addEventListener("focus", () => name.select());
  const said = el("p", { class: "small soft", role: "status" });
  const update = () => {
    tick.checked = fixes.ticked.has(i);
    name.value = given(i);
    said.replaceChildren(...standing(i));
  };
  fixes.watchers.push(update);
  update();
  return el("div", { class: "verdict" }, el("div", { class: "row" }, el("label", { class: "tick" }, tick, " Right"), name), said);
}

/** In words: what becomes of a category's images. */
function standing(i) {
  const { counted, left } = tally();
  const n = counted.get(i) ?? 0;
  const same = fixes.ticked.has(i) ? categories.map((_, j) => j).filter((j) => j !== i && fixes.ticked.has(j) && given(j) === given(i)) : [];
  const out = left.get(i) ?? 0;
  if (!fixes.ticked.has(i)) return ["Not ticked: its images stay in the pile", n ? `; ${whole.format(n)} put here ${n === 1 ? "counts" : "count"}` : ""];
  const said = [`${images(n)} ${n === 1 ? "counts" : "count"}`, out ? `, ${whole.format(out)} taken out` : ""];
  same.slice(0, 3).forEach((j, at) => said.push(at ? ", " : "; one category with ", named(label(j))));
  if (same.length > 3) said.push(` and ${whole.format(same.length - 3)} more`);
  return said;
}

/** How many images count for each category and further name, and how many were taken out of each category; counted once
 * after each change. */
function tally() {
  if (tally.after === fixes.change) return tally.of;
  const [counted, left] = [new Map(), new Map()];
  const add = (map, key) => map.set(key, (map.get(key) ?? 0) + 1);
  let labelled = 0;
  pile.names.forEach((_, i) => {
    const to = countsAs(i);
    if (to !== null) { add(counted, to); labelled += 1; }
    if (fixes.puts.has(i)) add(left, pile.category[i]);
  });
  Object.assign(tally, { of: { counted, left, labelled }, after: fixes.change });
  return tally.of;
}

/** A field for a name, with those there are to choose from; the action is given what was typed, once it can be a name. */
function nameField(title, action) {
  const field = el("input", { type: "text", class: "field", maxLength: 200, autocomplete: "off", "aria-label": title, placeholder: title, dir: "auto" });
  field.setAttribute("list", "names");
  field.addEventListener("focus", () => byId("names").replaceChildren(...knownNames().map((name) => el("option", { value: name }))));
  field.addEventListener("input", () => field.setCustomValidity(""));
  field.addEventListener("change", () => {
    const text = field.value.trim();
    field.setCustomValidity(text && faulty(text));
    if (field.reportValidity()) action(text);
  });
  return field;
}

/** What can be done with some images: buttons that ask for them when they are pressed, and are off while there are none. */
function putter(chosenImages, after = () => {}) {
  const put = (to) => { const some = chosenImages(); if (some.length) { fix("put", some, to); after(some); } };
  const button = (text, title, action) => el("button", { class: "ghost", type: "button", title, "aria-label": title, onclick: action }, text);
  const field = nameField("Put into …", () => {});
  const go = () => {
    const text = field.value.trim();
    if (!text) { field.focus(); return; }
    if (!field.reportValidity()) return;
    field.value = "";
    put(meant(text));
  };
  field.addEventListener("keydown", (event) => { if (event.key === "Enter") { field.dispatchEvent(new Event("change")); go(); } });
  const parts = [button("Wrong", "Does not belong here", () => put(WRONG)), button("As found", "Back to where the run put it", () => put(null)), field,
    button("Put", "Put into this category", go)];
  const last = button("Undo", "Undo the last change", undo);
  const row = el("div", { class: "putter" }, el("div", { class: "row" }, ...parts.slice(0, 2), last), el("div", { class: "row" }, ...parts.slice(2)));
  row.update = () => {
    const none = !chosenImages().length;
    for (const part of parts) part.disabled = none;
    last.disabled = !fixes.done.length;
  };
  row.put = put;
  row.update();
  return row;
}

/** What was said of an image, in words; "" if nothing was. */
function fate(i) {
  const to = fixes.puts.get(i);
  if (to === undefined) return "";
  return to === WRONG ? "does not belong here" : `put into ${typeof to === "string" ? to : given(to)}`;
}

/** Show on an image's button what was said of it. */
function showFate(button, i) {
  const said = fate(i);
  button.classList.toggle("wrong", fixes.puts.get(i) === WRONG);
  button.querySelector(".fate")?.remove();
  if (said) button.append(el("span", { class: "fate" }, fixes.puts.get(i) === WRONG ? "✕" : "→", fixes.puts.get(i) === WRONG ? "" : el("bdi", {}, said.slice("put into ".length))));
  button.title = button.dataset.title + (said && `, ${said}`);
  button.setAttribute("aria-label", button.title);
}

/** An image's button, which shows from now on what was said of it. */
function withFate(button, i) {
  if (!content.correct) return button;
  button.dataset.image = i;
  button.dataset.title = button.title;
  showFate(button, i);
  return button;
}

function startCorrecting() {
  if (!content.correct) return;
  recall();
  fixes.watchers.push(() => document.querySelectorAll("[data-image]").forEach((button) => showFate(button, Number(button.dataset.image))), fixesBar);
  byId("correct-hint").hidden = false;
  byId("correct-hint").textContent = "To correct: tick each category that is right, or name it; two of one name become one. Among all its images, select those that " +
    "do not belong there, and put them elsewhere if you like. Then save the corrections, in the bar that comes up below. Only ticked categories count; all other images stay in the pile.";
  byId("fixes").append(el("p", { role: "status" }), el("div", { class: "row" },
    el("button", { class: "ghost", type: "button", onclick: undo }, "Undo"),
    el("button", { class: "ghost", type: "button", onclick: () => fix("discard") }, "Discard"),
    el("button", { class: "ghost save", type: "button", onclick: save }, "Save corrections")), el("div", { class: "small next" }));
  document.addEventListener("keydown", (event) => {
    if (event.key !== "z" || !(event.ctrlKey || event.metaKey) || event.shiftKey || event.target.closest("input")) return;
    event.preventDefault();
    undo();
  });
  addEventListener("beforeunload", (event) => { if (!fixes.kept && fixes.saved !== fixes.done.length && changes()) event.preventDefault(); });
  fixesBar();
}

const changes = () => new Set([...fixes.ticked, ...fixes.names.keys()]).size + fixes.puts.size;

function fixesBar() {
  const [bar, n] = [byId("fixes"), changes()];
  const [undoing, discarding, saving] = bar.querySelectorAll("button");
  bar.hidden = !fixes.done.length;
  document.body.classList.toggle("fixing", !bar.hidden);
  const wrong = [...fixes.puts.values()].filter((to) => to === WRONG).length;
  const { labelled } = tally();
  const parts = [`${count(fixes.ticked.size, "category", "categories")} ticked`];
  if (fixes.puts.size > wrong) parts.push(`${images(fixes.puts.size - wrong)} put elsewhere`);
  if (wrong) parts.push(`${images(wrong)} taken out`);
  const said = labelled ? `${images(labelled)} will count as labelled.` : "Tick or name a category that is right: only its images count.";
  bar.querySelector("p").textContent = n ? `${count(n, "change", "changes")}: ${parts.join(", ")}. ${said}` : "No changes.";
  undoing.disabled = !fixes.done.length;
  discarding.disabled = !n;
  saving.disabled = !labelled;
  const saved = n && fixes.saved === fixes.done.length;
  saving.textContent = saved ? "Saved" : "Save corrections";
  bar.querySelector(".next").replaceChildren(...(saved ? goOn(labelled) : fixes.kept ? [] : ["This browser keeps nothing for this page: save before you leave it."]));
}

/** How to go on, once the corrections are saved. */
function goOn(labelled) {
  const rest = pile.of - labelled;
  const left = categories.filter((_, i) => !old.has(i) && !fixes.ticked.has(i)).length;
  const mixed = content.mixed ? " --mixed" : "";
  const command = `newfound grow run/ --corrected corrections.csv --unlabelled ${rest ? "pile/" : "later/"} --novel ${Math.max(1, left)}${mixed} --out run2/`;
  return ["corrections.csv is among your downloads. Go on with ", el("code", {}, command), ". ", rest
    ? `There, pile/ is the pile of this run, with further images if you have any: ${images(rest)} without a label ${rest === 1 ? "is" : "are"} sorted anew. ` : "There, later/ is a folder of further images. ",
    "--novel is how many further categories you expect among them."];
}

async function save() {
  const at = fixes.done.length;
  try {
    await saveCorrections();
    fixes.saved = at;
    changed();
  } catch (error) {
    byId("fixes").querySelector(".next").textContent = `This browser cannot write the table (${error.message}): a newer one can.`;
  }
}
