// Figures against the answers, and the confusion matrix, for five categories as for five hundred.

const PROTOCOLS = {
  strict: "what a user of the classifier meets: each output means one category, fixed before the test",
  single: "one matching over all test images",
  "task-aware": "told whether an image is old or new",
  paper: "a matching of its own for each figure: the most lenient",
};
const MATRICES = { unlabelled: "Unlabelled images", test: "Test images" };
const table = { data: null, cell: 0, left: 0, top: 0, upright: false, cells: new Map(), sums: [], row: -1, column: -1 };

function quality() {
  const box = byId("figures");
  const { unlabelled, test, earlier } = content;
  if (!unlabelled && !test && !content.matrices.length) {
    box.append(el("p", { class: "hint" }, "Nobody told this run the truth, so nothing was counted. With a table of true categories (image,label), ",
      el("code", {}, "newfound evaluate RUN --answers truth.csv"), " adds accuracy and a confusion matrix to this page."));
    return;
  }
  const columns = el("div", { class: "columns" });
  if (unlabelled) {
    const rows = [["Accuracy by the best matching", percent(unlabelled.accuracy)], ["Normalised mutual information (NMI), at most 1", brief(unlabelled.nmi)], ["Adjusted Rand index (ARI), at most 1", brief(unlabelled.ari)],
      ["Images with an answer", whole.format(unlabelled.images ?? 0)], ["True categories", whole.format(unlabelled.classes ?? 0)]];
    for (const [name, found] of Object.entries(earlier ?? {})) rows.push([`Accuracy on the way: ${stageName(name)}`, percent(found && found.accuracy)]);
    columns.append(figureTable("Unlabelled images", ["", ""], rows));
  }
  if (test) {
    const rows = Object.entries(PROTOCOLS).filter(([name]) => test[name]).map(([name, what]) =>
      [el("span", {}, el("b", {}, name), el("div", { class: "small soft" }, what)), ...["old", "new", "all"].map((part) => percent(test[name][part]))]);
    columns.append(figureTable("Test images, never trained on", ["counted as", "old", "new", "all"], rows));
  }
  box.append(columns);
  if (content.matrices.length) matrixPart();
}

function figureTable(title, head, rows) {
  const cells = (tag, values) => values.map((value, i) => el(tag, i ? { class: "num" } : {}, value));
  const made = el("table", {}, el("tbody", {}, ...rows.map((row) => el("tr", {}, ...cells("td", row)))));
  if (head.some(Boolean)) made.prepend(el("thead", {}, el("tr", {}, ...cells("th", head))));
  return el("div", {}, el("h3", {}, title), el("div", { class: "scroll" }, made));
}

function matrixPart() {
  byId("matrix-part").hidden = false;
  const buttons = switcher(content.matrices.map((data) => MATRICES[data.title] ?? data.title), (i) => openMatrix(content.matrices[i]));
  if (buttons.length > 1) byId("matrix-tools").append(...buttons);
  const canvas = byId("matrix-canvas");
  const at = (event) => { const box = canvas.getBoundingClientRect(); point(event.clientX - box.left, event.clientY - box.top); };
  canvas.addEventListener("pointermove", at);
  canvas.addEventListener("pointerdown", at);
  canvas.addEventListener("keydown", (event) => {
    const move = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!move) return;
    event.preventDefault();
    const { rows, columns } = table.data;
    const clamp = (value, n) => Math.min(n - 1, Math.max(0, value));
    tell(clamp(Math.max(0, table.row) + (table.row < 0 ? 0 : move[0]), rows.length), clamp(Math.max(0, table.column) + (table.column < 0 ? 0 : move[1]), columns.length));
  });
  painters.add({ painter: drawMatrix, element: canvas });
  let last = 0;
  new ResizeObserver(() => { const now = byId("matrix-part").clientWidth; if (now !== last) { last = now; drawMatrix(); } }).observe(byId("matrix-part"));
}

function openMatrix(data) {
  Object.assign(table, { data, cells: new Map(), sums: data.rows.map(() => 0), row: -1, column: -1 });
  for (let i = 0; i < data.cells.length; i += 3) {
    const [row, column, n] = data.cells.slice(i, i + 3);
    table.cells.set(row * data.columns.length + column, n);
    table.sums[row] += n;
  }
  const left = data.images - data.shown;
  byId("matrix-says").textContent = `${images(data.images)}. ${touch ? "Tap" : "Point at"} a cell.` + (left ? ` ${images(left)} in the smallest cells are not shown.` : "");
  drawMatrix();
  mixups();
}

function drawMatrix() {
  const { data } = table;
  if (!data) return;
  const room = byId("matrix-part").clientWidth - 4;
  if (room <= 0) return;
  const canvas = byId("matrix-canvas");
  const context = canvas.getContext("2d");
  context.font = "12px system-ui, sans-serif";
  const width = (names, most) => Math.min(most, Math.max(...names.map((name) => context.measureText(name).width)) + 14);
  const wide = width(data.rows.map((_, i) => rowName(i)), room < 500 ? 84 : 150);
  table.cell = Math.floor(Math.min(54, Math.max(2, (room - wide - 4) / data.columns.length)));
  const labelled = table.cell >= 13;
  table.left = labelled ? wide : 6;
  table.upright = labelled && Math.max(...data.columns.map((name) => context.measureText(name).width)) < table.cell - 4;
  table.top = !labelled ? 6 : table.upright ? 26 : width(data.columns, 110) + 4;
  const [w, h] = [table.left + data.columns.length * table.cell + 6, table.top + data.rows.length * table.cell + 6];
  canvas.style.width = `${w}px`;
  canvas.style.height = `${h}px`;
  paintMatrix(fit(canvas, w, h), w, h, labelled);
}

function paintMatrix(context, w, h, labelled) {
  const { data, cell, left, top } = table;
  const [right, wrong, ink, faint, card] = ["--right", "--wrong", "--ink", "--faint", "--card"].map(css);
  const gap = cell >= 8 ? 1 : 0;
  context.fillStyle = card;
  context.fillRect(0, 0, w, h);
  context.fillStyle = faint;
  context.fillRect(left, top, data.columns.length * cell, data.rows.length * cell);
  for (const [key, n] of table.cells) {
    const [row, column] = [Math.floor(key / data.columns.length), key % data.columns.length];
    const share = n / Math.max(1, table.sums[row]);
    context.fillStyle = `rgba(${data.match[row] === column ? right : wrong}, ${Math.min(1, 0.18 + 0.82 * Math.sqrt(share))})`;
    context.fillRect(left + column * cell, top + row * cell, cell - gap, cell - gap);
    if (cell >= 26) {
      context.fillStyle = share > 0.3 ? (dark() ? "#0c1116" : "#fff") : ink;
      context.font = "12px system-ui, sans-serif";
      context.textAlign = "center";
      context.textBaseline = "middle";
      context.fillText(n > 9999 ? `${Math.round(n / 1000)}k` : String(n), left + (column + 0.5) * cell, top + (row + 0.5) * cell, cell - 4);
    }
  }
  if (labelled) matrixLabels(context, ink);
  if (table.row >= 0) {
    context.strokeStyle = ink;
    context.lineWidth = 2;
    context.strokeRect(left + table.column * cell - 1, top + table.row * cell - 1, Math.max(4, cell + 1), Math.max(4, cell + 1));
  }
}

/** The name of a found category, after a square where it is a known one. */
const rowName = (i) => (table.data.old.includes(i) ? `▢ ${table.data.rows[i]}` : table.data.rows[i]);

function matrixLabels(context, ink) {
  const { data, cell, left, top } = table;
  const cut = (text, room) => {
    if (context.measureText(text).width <= room) return text;
    let end = text.length;
    while (end > 1 && context.measureText(`${text.slice(0, end)}…`).width > room) end -= 1;
    return `${text.slice(0, end)}…`;
  };
  context.fillStyle = ink;
  context.font = "12px system-ui, sans-serif";
  context.textBaseline = "middle";
  context.textAlign = "right";
  data.rows.forEach((_, i) => context.fillText(cut(rowName(i), left - 12), left - 7, top + (i + 0.5) * cell));
  context.textAlign = "left";
  data.columns.forEach((name, i) => {
    if (table.upright) {
      context.textAlign = "center";
      context.fillText(name, left + (i + 0.5) * cell, top - 12);
      return;
    }
    context.save();
    context.translate(left + (i + 0.5) * cell, top - 7);
    context.rotate(-Math.PI / 2);
    context.fillText(cut(name, top - 12), 0, 0);
    context.restore();
  });
}

/** The cell under the pointer; where cells are tiny, the fullest within a few pixels. */
function point(x, y) {
  const { data, cell, left, top } = table;
  let [row, column] = [Math.floor((y - top) / cell), Math.floor((x - left) / cell)];
  if (row < 0 || column < 0 || row >= data.rows.length || column >= data.columns.length) return;
  const reach = Math.floor(5 / cell);
  let best = table.cells.get(row * data.columns.length + column) ?? 0;
  for (let r = Math.max(0, row - reach); reach && r <= Math.min(data.rows.length - 1, row + reach); r += 1) {
    for (let c = Math.max(0, column - reach); c <= Math.min(data.columns.length - 1, column + reach); c += 1) {
      const n = table.cells.get(r * data.columns.length + c) ?? 0;
      if (n > best) { best = n; row = r; column = c; }
    }
  }
  tell(row, column);
}

function tell(row, column) {
  if (row === table.row && column === table.column) return;
  Object.assign(table, { row, column });
  const { data } = table;
  const n = table.cells.get(row * data.columns.length + column) ?? 0;
  const match = data.match[row];
  const says = [named(rowName(row), "b"), " · ", named(data.columns[column], "b"), `: ${images(n)}, ${percent(n / Math.max(1, table.sums[row]))} of this row`];
  if (match === column) says.push("; this is what it stands for");
  byId("matrix-says").replaceChildren(...says);
  drawMatrix();
}

function mixups() {
  const { data } = table;
  const found = [];
  for (const [key, n] of table.cells) {
    const [row, column] = [Math.floor(key / data.columns.length), key % data.columns.length];
    if (data.match[row] !== column) found.push([n, row, column]);
  }
  found.sort((a, b) => b[0] - a[0]);
  const lines = found.slice(0, 8).map(([n, row, column]) => el("li", {}, `${whole.format(n)} of ${whole.format(table.sums[row])} in `, named(data.rows[row], "b"), " are ",
    named(data.columns[column], "b"), data.match[row] >= 0 ? " rather than " : "; it stands for nothing", data.match[row] >= 0 ? named(data.columns[data.match[row]], "b") : ""));
  byId("mixups").replaceChildren(...(lines.length ? [el("h3", {}, "Most often mixed up"), el("ul", {}, ...lines)] : []));
}
