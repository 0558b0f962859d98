// Corrections as a table image,label that `newfound grow --corrected` reads. Names are made of bytes here, one a
// character, since those of files need not be UTF-8.

const FORMULA = ["=", "+", "-", "@", "\t", "\r", "\n", ...["\uff1d", "\uff0b", "\uff0d", "\uff20"].map(bytesOf)];

/** The bytes of a text in UTF-8, one a character. */
function bytesOf(text) {
  return Array.from(new TextEncoder().encode(text), (byte) => String.fromCharCode(byte)).join("");
}

/** All names as they are written on the disk: of the categories, of known ones to choose from, then of the images. */
async function spelled() {
  const packed = Uint8Array.from(atob(content.correct.spelled), (byte) => byte.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  const parts = [];
  for (let i = 0; i < bytes.length; i += 8192) parts.push(String.fromCharCode(...bytes.subarray(i, i + 8192)));
  return parts.join("").split("\0");
}

/** The table: a line for every image of the pile, whose label is empty where it counts for nothing. */
async function correctionsTable() {
  const names = await spelled();
  const shown = names.splice(0, labels.length);
  const known = names.splice(0, content.known.names.length);
  const written = (name) => shown[labels.indexOf(name)] ?? known[content.known.names.indexOf(name)] ?? bytesOf(name);
  const labelOf = labels.map((_, i) => (fixes.names.has(i) ? written(fixes.names.get(i)) : shown[i]));
  const lines = names.map((name, i) => {
    const to = countsAs(i);
    const text = to === null ? "" : typeof to === "string" ? written(to) : labelOf[to];
    return [name, `${cell(name, "./")},${cell(text, "'")}\n`];
  });
  lines.sort(([a], [b]) => (a < b ? -1 : 1));
  return `image,label\n${lines.map(([, line]) => line).join("")}`;
}

/** A cell of the table, with a mark before what a spreadsheet would calculate, and before what has such a mark already. */
function cell(bytes, mark) {
  let rest = bytes;
  while (rest.startsWith(mark)) rest = rest.slice(mark.length);
  const marked = FORMULA.some((start) => rest.startsWith(start)) ? mark + bytes : bytes;
  return /[",\r\n]/.test(marked) ? `"${marked.replaceAll('"', '""')}"` : marked;
}

async function saveCorrections() {
  const table = await correctionsTable();
  const blob = new Blob([Uint8Array.from(table, (byte) => byte.charCodeAt(0))], { type: "text/csv" });
  const link = el("a", { href: URL.createObjectURL(blob), download: "corrections.csv" });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
