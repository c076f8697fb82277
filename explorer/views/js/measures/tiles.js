// Tiles of one layer of an NPU: what the chosen one makes and reads, and its way through queues.

import {button, element, replace} from "../ground/dom.js";
import {bytesText, countText, exactText} from "../ground/numbers.js";
import {placed} from "./placed.js";
import {LOOK} from "../theme.js";

const LOOKS = new Map(LOOK.stalls.map((look) => [look.name, look]));
const PICTURE = {widest: 180, highest: 120, least: 14};

// row: a layer with tiles as `payload/counted_layers.py` has them.
export function tilesOf(row) {
  if (!row.tiles.length) return null;
  const whole = row.tiles.length + row.tilesLeftOut;
  let chosen = 0;
  // These stay, so that a pressed one keeps the focus.
  const before = button("‹", "the tile before", () => show(chosen - 1), {class: "icon"});
  const behind = button("›", "the next tile", () => show(chosen + 1), {class: "icon"});
  const title = element("span", {"aria-live": "polite"});
  const shown = element("div");

  function show(number) {
    chosen = number;
    const tile = row.tiles[chosen];
    before.disabled = chosen === 0;
    behind.disabled = chosen === row.tiles.length - 1;
    replace(
      title,
      `tile ${exactText(chosen + 1)} of ${exactText(whole)}, channels ${spanText(tile.channels)}`,
    );
    replace(
      shown,
      element(
        "div",
        {class: "tile-pictures"},
        readTensors(tile).map((reads) => readPicture(row, reads)),
        madePicture(row, tile, show, chosen),
      ),
      wayOf(tile),
    );
  }
  show(0);
  return [
    element("h4", {}, "tiles, step by step"),
    element(
      "div",
      {class: "tiles"},
      element("p", {class: "tile-choice"}, before, title, behind),
      shown,
    ),
    element(
      "p",
      {class: "cap"},
      "cycles as predicted",
      row.tilesLeftOut ? `; ${countText(row.tilesLeftOut, "later tile")} not shown` : "",
    ),
  ];
}

const spanText = ([first, last]) =>
  first === last ? exactText(first) : `${exactText(first)} to ${exactText(last)}`;

const readTensors = (tile) =>
  tile.reads.map(([tensor, size, rows, columns], place) => ({tensor, size, rows, columns, place}));

const sizeText = ([height, width]) => `${exactText(height)} × ${exactText(width)}`;

function placeText(rows, columns) {
  return `rows ${spanText(rows)}, columns ${spanText(columns)}`;
}

// The input, with what all tiles read of it: where two lie on each other is their halo.
function readPicture(row, {tensor, size, rows, columns, place}) {
  const all = row.tiles.map((tile) => tile.reads[place]).filter((read) => read?.[0] === tensor);
  const [height, width] = size;
  const box = {
    top: Math.min(0, ...all.map((read) => read[2][0])),
    bottom: Math.max(height, ...all.map((read) => read[2][1] + 1)),
    left: Math.min(0, ...all.map((read) => read[3][0])),
    right: Math.max(width, ...all.map((read) => read[3][1] + 1)),
  };
  const others = distinct(all.map((read) => [read[2], read[3]]));
  const picture = pictureOf(box, `what the tile reads of ${tensor}`);
  picture.append(
    rectangle("tile-tensor", box, [0, height - 1], [0, width - 1]),
    ...others.map(([r, c]) => rectangle("tile-other", box, r, c)),
    rectangle("tile-chosen", box, rows, columns),
  );
  const beyond = paddingText({rows, columns, height, width});
  return element(
    "figure",
    {},
    picture,
    element(
      "figcaption",
      {},
      `reads ${tensor}: ${placeText(rows, columns)} of ${sizeText(size)}${beyond}`,
    ),
  );
}

function paddingText({rows, columns, height, width}) {
  const pads = Object.entries({
    above: -rows[0],
    below: rows[1] - height + 1,
    left: -columns[0],
    right: columns[1] - width + 1,
  }).filter(([, count]) => count > 0);
  return pads.length ? `, of it padding ${pads.map(([side, n]) => `${n} ${side}`).join(", ")}` : "";
}

// The output, cut into tiles: of those that lie on each other the first is chosen by a press.
function madePicture(row, tile, show, chosen) {
  const [height, width] = row.tiledSize;
  const box = {top: 0, bottom: height, left: 0, right: width};
  const picture = pictureOf(box, "what the tile makes of the output");
  const seen = new Set();
  row.tiles.forEach(({rows, columns}, number) => {
    const key = `${rows} ${columns}`;
    if (seen.has(key)) return;
    seen.add(key);
    const part = rectangle("tile-other tile-choosable", box, rows, columns);
    part.setAttribute("title", `tile ${number + 1}: ${placeText(rows, columns)}`);
    part.addEventListener("click", () => show(number));
    picture.append(part);
  });
  const own = rectangle("tile-chosen", box, tile.rows, tile.columns);
  own.setAttribute("title", `tile ${chosen + 1}: ${placeText(tile.rows, tile.columns)}`);
  picture.append(own);
  return element(
    "figure",
    {},
    picture,
    element(
      "figcaption",
      {},
      `makes ${placeText(tile.rows, tile.columns)} of ${sizeText(row.tiledSize)}`,
    ),
  );
}

function distinct(pairs) {
  const found = new Map(pairs.map((pair) => [JSON.stringify(pair), pair]));
  return [...found.values()];
}

function pictureOf({top, bottom, left, right}, label) {
  const [tall, wide] = [bottom - top, right - left];
  const scale = Math.min(PICTURE.widest / wide, PICTURE.highest / tall);
  const node = element("div", {class: "tile-picture", role: "img", "aria-label": label});
  node.style.width = `${Math.max(PICTURE.least, wide * scale).toFixed(1)}px`;
  node.style.height = `${Math.max(PICTURE.least, tall * scale).toFixed(1)}px`;
  return node;
}

function rectangle(name, {top, bottom, left, right}, rows, columns) {
  return placed(name, {
    top: (rows[0] - top) / (bottom - top),
    height: (rows[1] + 1 - rows[0]) / (bottom - top),
    left: (columns[0] - left) / (right - left),
    width: (columns[1] + 1 - columns[0]) / (right - left),
  });
}

// A line for each kind of instruction, in the order of the program, to one scale of cycles.
function wayOf({phases}) {
  const from = Math.min(...phases.map((phase) => phase[4]));
  const to = Math.max(...phases.map((phase) => phase[5]));
  const chunks = Math.max(...phases.map((phase) => phase[2])) + 1;
  return element(
    "table",
    {class: "tile-way", "aria-label": "the tile's way through the queues"},
    element(
      "thead",
      {},
      element(
        "tr",
        {},
        [
          "queue",
          "step",
          chunks > 1 ? "chunk" : null,
          `cycle ${exactText(from)} to ${exactText(to)}`,
        ]
          .filter((title) => title !== null)
          .map((title) => element("th", {scope: "col"}, title)),
      ),
    ),
    element(
      "tbody",
      {},
      phases.map((phase) => stepOf(phase, {from, to, chunks})),
    ),
  );
}

function stepOf([queue, name, chunk, count, start, end, busy, bytes, waits], {from, to, chunks}) {
  const bar = placed("tile-bar", {
    left: (start - from) / (to - from),
    width: (end - start) / (to - from),
  });
  bar.setAttribute("aria-hidden", "true");
  const words =
    `cycle ${exactText(start)} to ${exactText(end)}, works ${exactText(busy)}` +
    (bytes ? `, ${bytesText(bytes)}` : "");
  return element(
    "tr",
    {title: words},
    element("td", {}, queue),
    element("td", {}, `${name.replaceAll("_", " ")} × ${exactText(count)}`),
    chunks > 1 ? element("td", {class: "number"}, `${chunk + 1} of ${chunks}`) : null,
    element(
      "td",
      {class: "tile-time"},
      element("span", {class: "tile-track"}, bar),
      element(
        "span",
        {class: "quiet-text"},
        `works ${exactText(busy)}`,
        bytes ? `, ${bytesText(bytes)}` : "",
        waits.map(([cause, cycles]) =>
          element(
            "span",
            {class: `stall-cause mark-${cause}`, title: LOOKS.get(cause)?.title ?? cause},
            element("span", {class: "stall-mark", "aria-hidden": "true"}, LOOKS.get(cause)?.glyph),
            `${cause} ${exactText(cycles)}`,
          ),
        ),
      ),
    ),
  );
}
