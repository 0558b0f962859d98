// The map: points or pictures on a canvas that can be moved, zoomed, pointed at and narrowed to some categories.

const MOST_CHIPS = 80;
const NEAR = 16;
const map = {
  scale: 1, x: 0, y: 0, pictures: false, width: 0, height: 0, pinned: -1, under: -1, cross: false, waiting: false,
  points: content.map.x.length, images: [], middle: [0, 0], wide: 1, high: 1,
};

function startMap() {
  if (!map.points) { byId("map").hidden = true; return; }
  const all = map.points === pile.of;
  byId("map-hint").textContent = `${all ? "All" : `${whole.format(map.points)} of`} ${images(pile.of)}, laid out by t-SNE: images that the network ` +
    "finds alike lie together; the distances between groups say little. " + (parted ? "Squares are of known categories. " : "") +
    (touch ? "Tap an image to see it, pinch to zoom." : "Point at an image to see it, click it to keep it in view. Drag to move; click the map and turn the wheel to zoom.");
  mapTools();
  legend();
  const canvas = byId("map-canvas");
  new ResizeObserver(() => { fitMap(canvas); redraw(); }).observe(canvas);
  choiceWatchers.push(redraw);
  painters.add({ painter: redraw, element: canvas });
  followPointers(canvas);
  canvas.addEventListener("keydown", mapKey);
  canvas.addEventListener("blur", () => { map.cross = false; redraw(); });
  if (pile.layout) whenNear(canvas, loadMapPictures);
}

function mapTools() {
  const button = (text, title, action) => el("button", { type: "button", title, "aria-label": title, onclick: action }, text);
  const middle = () => [map.width / 2, map.height / 2];
  byId("map-tools").append(
    ...(pile.layout ? switcher(["Pictures", "Points"], (i) => { map.pictures = i === 0; redraw(); }) : []),
    button("+", "Zoom in", () => zoom(1.6, ...middle())), button("−", "Zoom out", () => zoom(1 / 1.6, ...middle())),
    button("Reset", "Show the whole map", () => { Object.assign(map, { scale: 1, x: 0, y: 0 }); redraw(); }));
}

function legend() {
  const box = byId("legend");
  const search = el("input", { type: "search", placeholder: "Narrow to a category", "aria-label": "Narrow to a category" });
  if (categories.length > 24) byId("map-tools").append(search);
  const order = categories.map((_, i) => i).sort(bySize);
  const fill = () => {
    const wanted = search.value.trim().toLowerCase();
    const found = order.filter((i) => chosen.has(i) || (!wanted || label(i).toLowerCase().includes(wanted)));
    found.sort((a, b) => chosen.has(b) - chosen.has(a));
    const toggle = (i) => choose((set) => { if (!set.delete(i)) set.add(i); });
    const every = el("button", { class: "chip", type: "button", "aria-pressed": String(!chosen.size), onclick: () => choose((set) => set.clear()) }, "All");
    box.replaceChildren(every, ...found.slice(0, MOST_CHIPS).map((i) => el("button",
      { class: "chip", type: "button", "aria-pressed": String(chosen.has(i)), onclick: () => toggle(i) }, dot(i), named(label(i)), foundBefore.has(i) ? tag(i) : "")));
    if (found.length > MOST_CHIPS) box.append(el("span", { class: "soft small" }, `and ${whole.format(found.length - MOST_CHIPS)} more: type to find one`));
  };
  search.addEventListener("input", fill);
  choiceWatchers.push(fill);
  fill();
}

function loadMapPictures() {
  const { columns } = pile.layout;
  for (let i = 0; i * columns * columns < map.points; i += 1) {
    sheet("images", i).then((image) => { map.images[i] = image; redraw(); });
  }
}

/** Make the whole map fit into the canvas at scale 1; t-SNE's axes mean nothing, so one may be stretched a little. */
function fitMap(canvas) {
  map.width = canvas.clientWidth;
  map.height = canvas.clientHeight;
  const range = (values) => values.reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [Infinity, -Infinity]);
  const [xs, ys] = [range(content.map.x), range(content.map.y)];
  map.middle = [(xs[0] + xs[1]) / 2, (ys[0] + ys[1]) / 2];
  const [wide, high] = [(map.width - 60) / Math.max(1, xs[1] - xs[0]), (map.height - 60) / Math.max(1, ys[1] - ys[0])];
  map.wide = Math.min(wide, 1.5 * high);
  map.high = Math.min(high, 1.5 * wide);
}

/** Where a point is on the canvas. */
function screen(i) {
  return [
    map.width / 2 + ((content.map.x[i] - map.middle[0]) * map.wide + map.x) * map.scale,
    map.height / 2 + ((content.map.y[i] - map.middle[1]) * map.high + map.y) * map.scale,
  ];
}

function redraw() {
  if (map.waiting) return;
  map.waiting = true;
  requestAnimationFrame(() => { map.waiting = false; drawMap(); });
}

function drawMap() {
  if (!map.width) return;
  const canvas = byId("map-canvas");
  const context = fit(canvas, map.width, map.height);
  canvas.style.touchAction = map.scale > 1.01 ? "none" : "pan-y";
  const radius = Math.min(7, Math.max(1.8, 60 / Math.sqrt(map.points)) * Math.sqrt(map.scale));
  const room = Math.min(1, Math.min(map.width, map.height) / 560);
  const size = Math.min(80, Math.max(18, (700 * room) / Math.sqrt(map.points)) * Math.pow(map.scale, 0.75));
  const late = [];
  for (let i = 0; i < map.points; i += 1) {
    const category = pile.category[i];
    const [x, y] = screen(i);
    if (x < -size || y < -size || x > map.width + size || y > map.height + size) continue;
    if (chosen.size && !chosen.has(category)) {
      context.globalAlpha = 0.13;
      mark(context, x, y, radius, category, colour(-1));
    } else late.push([i, x, y, category]);
  }
  for (const [i, x, y, category] of late) {
    context.globalAlpha = 0.45 + 0.5 * pile.sure[i];
    mark(context, x, y, radius, category, colour(category));
  }
  if (map.pictures) drawPictures(context, late, size);
  context.globalAlpha = 1;
  if (map.cross) crosshair(context);
  const marked = map.pinned >= 0 ? map.pinned : map.under;
  if (marked >= 0) ring(context, ...screen(marked), Math.max(radius + 4, map.pictures ? size * 0.6 : 0));
  placeTip(marked);
}

/** Pictures over the points, as many as have room beside each other: zooming in shows more. */
function drawPictures(context, late, size) {
  const taken = new Map();
  const apart = size + 6;
  for (const [i, x, y, category] of late) {
    const [column, row] = [Math.floor(x / apart), Math.floor(y / apart)];
    let free = true;
    for (let c = column - 1; free && c <= column + 1; c += 1) {
      for (let r = row - 1; free && r <= row + 1; r += 1) {
        for (const [ox, oy] of taken.get(`${c},${r}`) ?? []) free = free && (Math.abs(ox - x) >= apart || Math.abs(oy - y) >= apart);
      }
    }
    if (!free || !drawThumb(context, i, x, y, size, category)) continue;
    const key = `${column},${row}`;
    if (!taken.has(key)) taken.set(key, []);
    taken.get(key).push([x, y]);
  }
}

/** A square for an image of a known category, and a disc for one of a new category. */
function mark(context, x, y, radius, category, fill) {
  context.fillStyle = fill;
  context.beginPath();
  if (old.has(category)) context.rect(x - radius, y - radius, 2 * radius, 2 * radius);
  else context.arc(x, y, radius, 0, 2 * Math.PI);
  context.fill();
}
function ring(context, x, y, radius) {
  context.strokeStyle = css("--ink");
  context.lineWidth = 2;
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
  context.stroke();
}
function crosshair(context) {
  context.strokeStyle = css("--soft");
  context.lineWidth = 1;
  context.beginPath();
  context.moveTo(map.width / 2 - 12, map.height / 2);
  context.lineTo(map.width / 2 + 12, map.height / 2);
  context.moveTo(map.width / 2, map.height / 2 - 12);
  context.lineTo(map.width / 2, map.height / 2 + 12);
  context.stroke();
}
function drawThumb(context, i, x, y, size, category) {
  const where = spot("images", i);
  const image = map.images[where.sheet];
  if (!image) return false;
  context.globalAlpha = 1;
  context.fillStyle = colour(category);
  context.fillRect(x - size / 2 - 2, y - size / 2 - 2, size + 4, size + 4);
  drawSpot(context, image, where, x - size / 2, y - size / 2, size);
  return true;
}

function zoom(factor, x, y) {
  const scale = Math.min(60, Math.max(1, map.scale * factor));
  const [dx, dy] = [x - map.width / 2, y - map.height / 2];
  map.x += dx / scale - dx / map.scale;
  map.y += dy / scale - dy / map.scale;
  map.scale = scale;
  if (scale === 1) { map.x = 0; map.y = 0; }
  redraw();
}

function nearestPoint(x, y, within) {
  let best = -1;
  let least = within * within;
  for (let i = 0; i < map.points; i += 1) {
    if (chosen.size && !chosen.has(pile.category[i])) continue;
    const [px, py] = screen(i);
    const distance = (px - x) ** 2 + (py - y) ** 2;
    if (distance < least) { least = distance; best = i; }
  }
  return best;
}

function followPointers(canvas) {
  const down = new Map();
  let moved = 0;
  const at = (event) => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
  canvas.addEventListener("pointerdown", (event) => {
    down.set(event.pointerId, at(event));
    moved = 0;
    map.cross = false;
    try { canvas.setPointerCapture(event.pointerId); } catch { /* a pointer that has gone already */ }
  });
  canvas.addEventListener("pointermove", (event) => {
    const [x, y] = at(event);
    if (!down.has(event.pointerId)) { hover(nearestPoint(x, y, NEAR + (map.pictures ? 10 : 0))); return; }
    const [before, others] = [down.get(event.pointerId), [...down].filter(([id]) => id !== event.pointerId)];
    down.set(event.pointerId, [x, y]);
    moved += Math.abs(x - before[0]) + Math.abs(y - before[1]);
    if (others.length) {
      const [ox, oy] = others[0][1];
      const stretch = Math.hypot(x - ox, y - oy) / Math.max(1, Math.hypot(before[0] - ox, before[1] - oy));
      zoom(stretch, (x + ox) / 2, (y + oy) / 2);
    } else if (event.pointerType === "mouse" || map.scale > 1.01) {
      map.x += (x - before[0]) / map.scale;
      map.y += (y - before[1]) / map.scale;
      redraw();
    }
  });
  const up = (event) => {
    if (event.type === "pointerup" && down.size === 1 && moved < 6) pin(nearestPoint(...at(event), NEAR + 8));
    down.delete(event.pointerId);
  };
  canvas.addEventListener("pointerup", up);
  canvas.addEventListener("pointercancel", up);
  canvas.addEventListener("pointerleave", () => hover(-1));
  canvas.addEventListener("wheel", (event) => {
    if (document.activeElement !== canvas && !event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    zoom(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.002)), ...at(event));
  }, { passive: false });
}

function mapKey(event) {
  const step = 60 / map.scale;
  const moves = { ArrowLeft: [step, 0], ArrowRight: [-step, 0], ArrowUp: [0, step], ArrowDown: [0, -step] };
  if (moves[event.key]) { map.x += moves[event.key][0]; map.y += moves[event.key][1]; }
  else if (event.key === "+" || event.key === "=") zoom(1.4, map.width / 2, map.height / 2);
  else if (event.key === "-") zoom(1 / 1.4, map.width / 2, map.height / 2);
  else if (event.key === "0") Object.assign(map, { scale: 1, x: 0, y: 0 });
  else if (event.key === "Escape") { pin(-1); return; }
  else return;
  event.preventDefault();
  map.cross = true;
  pin(nearestPoint(map.width / 2, map.height / 2, 80));
}

function hover(i) {
  if (i === map.under) return;
  map.under = i;
  if (map.pinned < 0) fillTip(i, false);
  redraw();
}
function pin(i) {
  map.pinned = i;
  fillTip(i >= 0 ? i : map.under, i >= 0);
  redraw();
}
function fillTip(i, pinned) {
  const tip = byId("map-tip");
  tip.hidden = i < 0;
  tip.classList.toggle("pinned", pinned);
  if (i < 0) return;
  const category = pile.category[i];
  const lines = [
    el("div", {}, dot(category), " ", el("b", { class: "name", dir: "auto" }, category >= 0 ? label(category) : "another category"), " ", tag(category)),
    named(pile.names[i], "div"),
    el("div", { class: "soft" }, `sure to ${sureness(pile.sure[i])}`),
  ];
  if (pinned && category >= 0) lines.push(el("button", { class: "chip", type: "button", onclick: () => goTo(category) }, "Go to the category"));
  tip.replaceChildren(picture(i, 176) || "", el("div", {}, ...lines));
}
function placeTip(i) {
  const tip = byId("map-tip");
  if (i < 0 || tip.hidden) return;
  const [x, y] = screen(i);
  const [wide, high] = [tip.offsetWidth, tip.offsetHeight];
  const left = x + 18 + wide > map.width ? x - 18 - wide : x + 18;
  tip.style.left = `${Math.max(8, Math.min(map.width - wide - 8, left))}px`;
  tip.style.top = `${Math.max(8, Math.min(map.height - high - 8, y - high / 2))}px`;
}
