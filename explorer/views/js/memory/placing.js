// Moving a buffer on the memory map: where it would lie, what is there already, and the fork in
// which it lies there. Also why it lies where it does: the places that the planner refused.

import {PINS, decide, pinsOf} from "../ground/addresses.js";
import {placeText} from "../ground/budgets.js";
import {element} from "../ground/dom.js";
import {bytesText, exactText} from "../ground/numbers.js";
import {placed} from "../ground/plot.js";
import {tailOf} from "../measures/column_names.js";
import {bufferName} from "./painting.js";
import {READ_ONLY} from "../branches/session.js";

const SNAP_PIXELS = 6;
const MAX_OVERLAPS_DRAWN = 100;
const MAX_OVERLAPS_NAMED = 3;

// Buffers that would share bytes with `buffer` at an offset, at a time when both live.
function overlapsAt(memory, buffer, offset) {
  return memory.buffers.filter(
    (other) =>
      other !== buffer &&
      other.first < buffer.last &&
      buffer.first < other.last &&
      other.offset < offset + buffer.size &&
      offset < other.offset + other.size,
  );
}

// The offset that a person means: a multiple of the alignment; near the edge of a neighbour, that.
function snappedOffset(memory, buffer, wanted, reach) {
  const {alignment} = buffer;
  const up = (bytes) => Math.ceil(bytes / alignment) * alignment,
    down = (bytes) => Math.floor(bytes / alignment) * alignment;
  let best = Math.round(wanted / alignment) * alignment,
    distance = reach;
  const edges = [0];
  for (const other of memory.buffers) {
    if (other === buffer || other.first >= buffer.last || buffer.first >= other.last) continue;
    edges.push(up(other.offset + other.size), down(other.offset - buffer.size));
  }
  for (const edge of edges) {
    if (edge < 0 || Math.abs(edge - wanted) > distance) continue;
    best = edge;
    distance = Math.abs(edge - wanted);
  }
  return Math.max(0, Math.min(up(memory.peak), best));
}

// The ghost of a buffer at another place. `geometry`: {rectangle(buffer, offset), bytesPerPixel()}
export function createPlacing(app, memory, plot, geometry, onchange) {
  let ghost = null; // {buffer, offset, refusal}
  let asked = null; // the ghost of a fork that is compiled, or was refused
  const pins = () => new Map(app.session ? pinsOf(app.session.settings()) : []);

  function show(next) {
    ghost = next;
    onchange();
  }

  // The ghost and what it would overlap, as elements above the map.
  function boxes() {
    const became = asked && !ghost ? app.session.asked(PINS) : "";
    if (!ghost && !became) return [];
    const {buffer, offset, refusal} = ghost ?? asked;
    const box = geometry.rectangle(buffer, offset);
    const isRefused = refusal || (became && app.session.failure() !== null);
    const parts = [
      placed(
        element("div", {class: `ghost${isRefused ? " refused" : ""}`, "data-offset": offset}),
        ...box,
      ),
    ];
    for (const other of became ? [] : overlaps().slice(0, MAX_OVERLAPS_DRAWN)) {
      const first = Math.max(buffer.first, other.first),
        last = Math.min(buffer.last, other.last);
      const low = Math.max(offset, other.offset),
        high = Math.min(offset + buffer.size, other.offset + other.size);
      parts.push(
        placed(
          element("div", {class: "overlap"}),
          ...geometry.rectangle({first, last, size: high - low}, low),
        ),
      );
    }
    const label = element("div", {class: "ghost-label"}, words(became));
    const [width, height] = plot.size();
    const isLow = box[1] < 40;
    label.style.left = `${Math.max(4, Math.min(box[0], width - 260))}px`;
    if (isLow) label.style.top = `${Math.min(height - 40, box[1] + box[3] + 4)}px`;
    else label.style.bottom = `${height - box[1] + 4}px`;
    parts.push(label);
    return parts;
  }

  const overlaps = () =>
    ghost.refusal ? [ghost.refusal.obstacle] : overlapsAt(memory, ghost.buffer, ghost.offset);

  function words(became = "") {
    const {buffer, offset} = ghost ?? asked;
    const nameOf = (other, characters) => tailOf(bufferName(app.data, other), characters);
    const at = `${nameOf(buffer, 32)} at byte ${exactText(offset)}`;
    if (became) return `${at}: ${became}`;
    if (ghost.refusal)
      return (
        `${at}: refused, ${bytesText(ghost.refusal.overlap)} of it are ` +
        nameOf(ghost.refusal.obstacle, 32)
      );
    const others = overlaps();
    const top = offset + buffer.size;
    if (!others.length)
      return `${at}: free${top > memory.peak ? `, raises the peak to ${bytesText(top)}` : ""}`;
    const names = others
      .slice(0, MAX_OVERLAPS_NAMED)
      .map((other) => nameOf(other, 24))
      .join(", ");
    const pinned = others.find((other) => pins().has(other.id));
    if (pinned) return `${at}: ${nameOf(pinned, 24)} is pinned there`;
    const unnamed = others.length - MAX_OVERLAPS_NAMED;
    const more = unnamed > 0 ? ` and ${unnamed} more` : "";
    return `${at}: overlaps ${names}${more}, to be placed anew`;
  }

  return {
    boxes,
    isShown: () => ghost !== null && !ghost.refusal,
    refuse: (refusal) => show(refusal && {buffer: refusal.buffer, offset: refusal.offset, refusal}),
    cancel: () => show(null),
    // By a distance in pixels from where it lies, or by steps of its alignment.
    drag(buffer, pixels) {
      const perPixel = geometry.bytesPerPixel();
      show({
        buffer,
        offset: snappedOffset(
          memory,
          buffer,
          buffer.offset + pixels * perPixel,
          SNAP_PIXELS * perPixel,
        ),
        refusal: null,
      });
    },
    nudge(buffer, steps) {
      const from =
        ghost && !ghost.refusal && ghost.buffer === buffer ? ghost.offset : buffer.offset;
      show({buffer, offset: Math.max(0, from + steps * buffer.alignment), refusal: null});
      app.announce(words());
    },
    // Plans again with the buffer at the ghost's place; says why where that is not possible here.
    drop() {
      const chosen = ghost;
      show(null);
      if (!chosen || chosen.refusal || chosen.offset === chosen.buffer.offset) return "";
      if (!canFork(app)) return noCompiler(app, chosen);
      asked = chosen;
      pinBuffer(app, memory, chosen.buffer.id, chosen.offset);
      return "";
    },
  };
}

// A fork in which a buffer lies at an offset, besides those that are pinned already.
function pinBuffer(app, {memories}, id, offset) {
  const settings = structuredClone(app.session.settings());
  const pin = [id, placeText(memories, offset)];
  decide(settings, PINS, [...pinsOf(settings).filter(([other]) => other !== id), pin]);
  app.session.fork(settings);
}

// A page, a notebook's output and a saved trace hold results: a fork takes a compiler.
export function canFork(app) {
  return Boolean(app.session) && !app.session.isTrace();
}

function noCompiler(app, {buffer, offset}) {
  if (app.session) return READ_ONLY;
  const pin = `PinnedPlanner(((${JSON.stringify(buffer.id)}, ${offset}),))`;
  const where =
    app.host.mode === "page"
      ? "This page has no compiler. Open the model with explorer serve, or fork it in a notebook: "
      : "Fork it in a cell: ";
  return `${where}c.fork(planner=explorer.memory.${pin})`;
}

// Where the selected buffer lies, and a fork in which it lies elsewhere.
export function pinForm(app, memory, buffer) {
  const field = element("input", {
    type: "number",
    class: "knob",
    min: 0,
    step: buffer.alignment,
    value: buffer.offset,
    "aria-label": `address of ${buffer.id} in bytes`,
  });
  const isPinned = pinsOf(app.session.settings()).some(([id]) => id === buffer.id);
  return element(
    "form",
    {
      class: "pin",
      onsubmit: (event) => {
        event.preventDefault();
        pinBuffer(app, memory, buffer.id, Number(field.value));
      },
    },
    element(
      "div",
      {class: "subject-name"},
      element(
        "strong",
        {class: "mono", title: buffer.values[0]},
        tailOf(bufferName(app.data, buffer), 24),
      ),
      element(
        "span",
        {class: "quiet-text"},
        `${bytesText(buffer.size)}${isPinned ? ", pinned" : ""}`,
      ),
    ),
    element(
      "label",
      {class: "pin-row"},
      "at byte ",
      field,
      element(
        "button",
        {
          type: "submit",
          class: "quiet",
          title: "plan the memory again with this buffer at this address, as a fork",
        },
        "pin",
      ),
    ),
    element("p", {class: "quiet-text"}, "Or drag it on the map; with the keys: ↑ ↓, then Enter."),
  );
}

// The places that the planner tried for a buffer before the one that it took.
export function refusalList(app, memory, buffer, placing) {
  const index = memory.buffers.indexOf(buffer);
  const refused = (memory.refusals ?? []).filter(([place]) => place === index);
  if (!refused.length) {
    const isUnknown = memory.refusalsLeftOut > 0 || !memory.refusals?.length;
    return element(
      "p",
      {class: "quiet-text"},
      isUnknown
        ? "No refused places are recorded of this buffer."
        : "The first place that was tried for it was free.",
    );
  }
  const choices = refused.map(([, offset, obstacle, overlap]) => ({
    buffer,
    offset,
    obstacle: memory.buffers[obstacle],
    overlap,
  }));
  return [
    element("h3", {}, `refused before byte ${exactText(buffer.offset)}`),
    element(
      "ul",
      {class: "plain refusals"},
      choices.map((choice) =>
        element(
          "li",
          {},
          element(
            "button",
            {
              type: "button",
              class: "worst",
              title: "shown on the map while the pointer or the focus is here",
              onmouseenter: () => placing.refuse(choice),
              onmouseleave: () => placing.cancel(),
              onfocus: () => placing.refuse(choice),
              onblur: () => placing.cancel(),
            },
            element("span", {class: "mono"}, `byte ${exactText(choice.offset)}`),
            element(
              "span",
              {class: "worst-name", title: choice.obstacle.values[0]},
              tailOf(bufferName(app.data, choice.obstacle), 40),
            ),
            element(
              "span",
              {class: "mono", title: `${exactText(choice.overlap)} bytes in the way`},
              bytesText(choice.overlap),
            ),
          ),
        ),
      ),
    ),
  ];
}
