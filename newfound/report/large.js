// One image in a window of its own, with what is known of it; previous and next go through the list it came from.

const view = { list: [], at: 0, closed: null, tools: null, update: () => {} };

function enlarge(list, at, closed = null) {
  Object.assign(view, { list, at, closed });
  showLarge();
  byId("large").showModal();
}

function showLarge() {
  const { list, at } = view;
  const i = list[at];
  const [category, other] = [pile.category[i], pile.other[i]];
  const go = (to, text, title) => el("button", { class: "ghost", type: "button", disabled: to < 0 || to >= list.length, title, "aria-label": title, onclick: () => moveLarge(to) }, text);
  const said = el("div", { class: "small fates", role: "status" });
  view.tools = content.correct ? putter(() => [i]) : null;
  view.update = () => { said.textContent = fate(i) && `You said: ${fate(i)}.`; view.tools?.update(); };
  byId("large").replaceChildren(
    picture(i, 420) ?? "",
    el("div", {}, named(pile.names[i], "b")),
    el("div", { class: "facts" }, dot(category), " ", named(label(category)), kind(category) ? " " : "", tag(category), el("span", { class: "soft" }, `, sure to ${sureness(pile.sure[i])}`)),
    other >= 0 ? el("div", { class: "soft small" }, "Next nearest category: ", old.has(other) ? dot(other) : "", " ", named(label(other)), " ", tag(other)) : "",
    content.correct ? said : "",
    el("div", { class: "row" },
      el("span", { class: "row" }, go(at - 1, "‹", "Previous image"), go(at + 1, "›", "Next image"),
        el("span", { class: "soft small num", role: "status" }, `${whole.format(at + 1)} of ${whole.format(list.length)}`)),
      el("button", { class: "ghost", type: "button", onclick: () => byId("large").close() }, "Close")),
    view.tools ?? "",
  );
  view.update();
}

function moveLarge(to) {
  if (to < 0 || to >= view.list.length || to === view.at) return;
  const title = document.activeElement?.title;
  view.at = to;
  showLarge();
  const buttons = [...byId("large").querySelectorAll("button:enabled")];
  (buttons.find((button) => button.title === title) ?? buttons[0]).focus();
}

function startLarge() {
  const dialog = byId("large");
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  dialog.addEventListener("close", () => { if (view.closed) view.closed(view.list[view.at]); });
  if (content.correct) fixes.watchers.push(() => view.update());
  dialog.addEventListener("keydown", (event) => {
    if (event.target.closest("input") || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "x" && view.tools) view.tools.put(fixes.puts.get(view.list[view.at]) === WRONG ? null : WRONG);
    const to = { ArrowLeft: view.at - 1, ArrowRight: view.at + 1, Home: 0, End: view.list.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    moveLarge(to);
  });
  swipes(dialog, (step) => moveLarge(view.at + step));
}

/** Call with 1 or -1 when a finger moves to the left or to the right. */
function swipes(element, action) {
  let from = null;
  element.addEventListener("touchstart", (event) => { from = event.touches.length === 1 ? event.touches[0] : null; }, { passive: true });
  element.addEventListener("touchend", (event) => {
    if (!from) return;
    const [dx, dy] = [event.changedTouches[0].clientX - from.clientX, event.changedTouches[0].clientY - from.clientY];
    if (Math.abs(dx) > 40 && Math.abs(dx) > 2 * Math.abs(dy)) action(dx < 0 ? 1 : -1);
    from = null;
  }, { passive: true });
}
