// What a person has corrected. What was done, in its order, is all that is held; the rest follows from it, so that it
// can be undone, and kept for the next visit.

const WRONG = "";
const fixes = { done: [], change: 0, saved: 0, kept: true, names: new Map(), ticked: new Set(), puts: new Map(), watchers: [] };
const storedAs = () => `newfound-corrections-${content.correct.key}`;

/** What a category is called: as it was found, or as the person named it. */
const given = (i) => fixes.names.get(i) ?? label(i);

/** Do one thing: ["tick", category, whether it is right], ["name", category, text], ["put", images, where to] or
 * ["discard"]. Where to is a category's number, the text of a further name, WRONG, or null: back to where they were. */
function fix(...action) {
  fixes.done.push(action);
  apply(action);
  changed();
}

function undo() {
  if (!fixes.done.length) return;
  fixes.done.pop();
  if (fixes.saved > fixes.done.length) fixes.saved = -1;
  replay();
  changed();
}

function replay() {
  for (const part of [fixes.names, fixes.ticked, fixes.puts]) part.clear();
  fixes.done.forEach(apply);
}

/** A category that is named, or that images are put into, counts as right; two of one name count as one. */
function apply([what, on, to]) {
  const { names, ticked, puts } = fixes;
  if (what === "discard") for (const part of [names, ticked, puts]) part.clear();
  else if (what === "tick" && to) ticked.add(on);
  else if (what === "tick") ticked.delete(on);
  else if (what === "name") {
    if (to === label(on)) names.delete(on);
    else names.set(on, to);
    categories.forEach((_, i) => { if (i === on || given(i) === to) ticked.add(i); });
    for (const [i, put] of puts) if (put === to) puts.set(i, on);
  } else {
    for (const i of on) {
      if (to === null || to === pile.category[i]) puts.delete(i);
      else puts.set(i, to);
    }
    if (Number.isInteger(to)) ticked.add(to);
  }
}

function changed() {
  fixes.change += 1;
  try {
    if (fixes.done.length) localStorage.setItem(storedAs(), JSON.stringify({ done: fixes.done, saved: fixes.saved }));
    else localStorage.removeItem(storedAs());
    fixes.kept = true;
  } catch { fixes.kept = false; /* a page from a file may have no storage: then for this visit only */ }
  for (const watcher of fixes.watchers) watcher();
}

/** What an earlier visit left, as far as it fits this run. */
function recall() {
  try {
    const { done, saved } = JSON.parse(localStorage.getItem(storedAs())) ?? { done: [], saved: 0 };
    const fitting = done.filter(fits);
    Object.assign(fixes, { done: fitting, saved: Number.isInteger(saved) && fitting.length === done.length ? saved : -1 });
    replay();
  } catch { /* nothing was left, or nothing that can be read */ }
}

function fits([what, on, to]) {
  const below = (i, n) => Number.isInteger(i) && i >= 0 && i < n;
  if (what === "discard") return true;
  if (what === "put") return on.every((i) => below(i, pile.names.length)) && (to === null || typeof to === "string" || below(to, categories.length));
  return below(on, categories.length) && typeof to === (what === "tick" ? "boolean" : "string");
}

/** Which category a person means: the number of one that is called so, or the text of a further name. */
function meant(text) {
  const found = categories.findIndex((_, i) => given(i) === text);
  return found < 0 ? text : found;
}

/** Where an image counts: a category's number or further name, or null where it has no label. */
function countsAs(i) {
  const put = fixes.puts.get(i);
  if (put === WRONG) return null;
  if (put !== undefined) return put;
  return fixes.ticked.has(pile.category[i]) ? pile.category[i] : null;
}

/** What is wrong with a name, in words; "" if nothing is. */
function faulty(name) {
  if (content.correct.unnamed.includes(name.toLowerCase())) return `“${name}” says that there is no name: choose another one.`;
  return /[\u0000-\u001f\u007f]/.test(name) ? "A name has no control characters: choose another one." : "";
}

/** Names to choose from: those of the categories here, those that the person thought of, and other known ones. */
function knownNames() {
  const found = [...categories.map((_, i) => given(i)), ...fixes.puts.values(), ...labels, ...content.known.names];
  return [...new Set(found.filter((name) => typeof name === "string" && name))];
}
