// What lies in the scratchpads of an NPU during one layer: bytes downwards, cycles to the right.

import {element} from "../ground/dom.js";
import {bytesText, countText, exactText} from "../ground/numbers.js";
import {placed} from "./placed.js";

const MAX_BANK_LINES = 64;

// row: a layer with uses as lists in the order of `payload/counted_layers.py`; pads: [[name, bytes,
// banks]]. A scratchpad is drawn as far as the layer uses it.
export function scratchpadsOf(row, pads) {
  const uses = row.uses.map(([pad, content, first, last, offset, size, start, ready, end]) => ({
    pad,
    content,
    first,
    last,
    offset,
    size,
    start,
    ready,
    end,
  }));
  if (!uses.length) return null;
  const from = Math.min(...uses.map(({start}) => start));
  const to = Math.max(...uses.map(({end}) => end));
  return [
    element("h4", {}, "scratchpads over time"),
    pads.map((pad, place) => {
      const own = uses.filter((use) => use.pad === place);
      return own.length ? padOf(pad, own, {from, to}) : null;
    }),
    element(
      "p",
      {class: "cap"},
      `cycle ${exactText(from)} to ${exactText(to)}, as predicted; the darker beginning of a ` +
        "buffer is its first write, dashed lines are banks",
      row.usesLeftOut ? `; ${countText(row.usesLeftOut, "later buffer")} not shown` : "",
    ),
  ];
}

function padOf([name, size, banks], uses, {from, to}) {
  const reach = Math.max(...uses.map((use) => use.offset + use.size));
  const box = element("div", {class: "pad", role: "list", "aria-label": `buffers in ${name}`});
  const bank = size / banks;
  const used = Math.min(Math.ceil(reach / bank), banks);
  for (let line = 1; line < used && used <= MAX_BANK_LINES; line += 1)
    box.append(placed("pad-bank", {top: (line * bank) / reach}));
  for (const use of uses) {
    const words =
      `${use.content.replaceAll("_", " ")}, elements ${exactText(use.first)} to ` +
      `${exactText(use.last)}, ${bytesText(use.size)} from byte ${exactText(use.offset)}` +
      `${banksText(use, bank, banks)}, cycle ${exactText(use.start)} to ${exactText(use.end)}`;
    const node = placed(`pad-use pad-${use.content}`, {
      top: use.offset / reach,
      height: use.size / reach,
      left: (use.start - from) / (to - from),
      width: (use.end - use.start) / (to - from),
    });
    node.setAttribute("role", "listitem");
    node.setAttribute("title", words);
    node.setAttribute("aria-label", words);
    const write = placed("pad-write", {
      width: (use.ready - use.start) / Math.max(use.end - use.start, 1),
    });
    node.append(write, element("span", {class: "pad-name"}, use.content.replaceAll("_", " ")));
    box.append(node);
  }
  const title =
    `${name.replaceAll("_", " ")}: ${bytesText(reach)} of ${bytesText(size)}` +
    (banks > 1 ? `, ${used} of ${countText(banks, "bank")}` : "");
  return [element("p", {class: "pad-title"}, title), box];
}

function banksText({offset, size}, bank, banks) {
  if (banks === 1) return "";
  const [first, last] = [Math.floor(offset / bank), Math.floor((offset + size - 1) / bank)];
  return first === last ? `, bank ${first}` : `, banks ${first} to ${last}`;
}
