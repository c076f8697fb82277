// The arena over time: one box per buffer, from its first to its last step and over its bytes; the
// line of bytes that are live; the fullest step and what lives there; and how the peak compares
// with the least that is possible. A buffer can be dragged to another address (placing.js).

import {BUDGET, PINS, pinsOf} from "../ground/addresses.js";
import {element, emptyState, replace} from "../ground/dom.js";
import {tailOf} from "../measures/column_names.js";
import {launchesOf} from "../measures/launches.js";
import {bytesText, exactText} from "../ground/numbers.js";
import {budgetPart} from "./budget.js";
import {bufferName, paintArena} from "./painting.js";
import {createPlacing} from "./placing.js";
import {canvasPlot, moveTip, placed, tipElement} from "../ground/plot.js";
import {clip} from "../ground/scene.js";
import {lifeText, sideContent} from "./side.js";

const PIN_PIXELS = 14;
const DRAG_PIXELS = 4;
const MAX_PARTS = 6;

// Its values; of a state with its name, for all of them are this one object.
function nameOf(data, buffer) {
  const [, ...others] = buffer.values;
  const names = [bufferName(data, buffer), ...others.map((value) => data.layerName(value))];
  const values = [...new Set(names)].join(", ");
  return buffer.state ? `state ${buffer.state}: ${values}` : values;
}

export async function memoryView(app) {
  const {data} = app;
  if (!data.head.has.memory) {
    return {
      node: emptyState(
        "No memory plan",
        "The compilation stopped before memory was planned, or this target allocates by " +
          "itself. Choose the target cpu to see a plan.",
      ),
    };
  }
  const memory = await data.memory();
  const steps = Math.max(memory.steps.length, 1);
  const peakStep = memory.live.indexOf(
    memory.live.reduce((most, bytes) => Math.max(most, bytes), 0),
  );
  const plot = canvasPlot(
    `${memory.buffers.length} buffers over ${steps} steps; the largest at the fullest step ` +
      "are listed beside it. Arrow keys: left and right choose a buffer, up and down move it, " +
      "Enter plans again",
    "memory-plot",
  );
  plot.node.tabIndex = 0;
  const tip = tipElement();
  const side = element("aside", {class: "memory-side scroll"});
  const host = element("div", {class: "memory"}, plot.node, side, tip);
  const margin = {left: 64, right: 8, top: 12, bottom: 20};
  // The size as it was painted last: asking the page for it once per buffer takes its time.
  let [width, height] = [0, 0];
  const across = () => Math.max(1, width - margin.left - margin.right),
    upward = () => Math.max(1, height - margin.top - margin.bottom);
  const x = (step) => margin.left + (across() * step) / steps;
  const y = (offset) => height - margin.bottom - (upward() * offset) / Math.max(memory.peak, 1);
  const rectangle = (buffer, offset = buffer.offset) => {
    const left = x(buffer.first),
      top = y(offset + buffer.size);
    return [left, top, Math.max(1, x(buffer.last) - left - 1), Math.max(1, y(offset) - top - 1)];
  };
  const bytesPerPixel = () => Math.max(memory.peak, 1) / upward();
  const placing = createPlacing(app, memory, plot, {rectangle, bytesPerPixel}, () => mark());
  const budget = budgetPart(app, memory);
  const byTime = [...memory.buffers].sort((a, b) => a.first - b.first || a.offset - b.offset);
  let hoveredBuffer = null;
  let chosen = null; // {buffer, selection}: what was picked here, which may be no operation
  let drag = null; // {buffer, y, isFar}
  let note = ""; // why a buffer that was dropped stays where it was

  function paint() {
    [width, height] = plot.size();
    const context = plot.begin();
    if (!context) return;
    paintArena(context, plot, data, {memory, peakStep, width, height, margin, x, y, rectangle});
    mark();
  }

  // The selected and hovered buffers and the step of the selection, as elements above the canvas.
  function mark() {
    if (!width) return;
    const marked = launchesOf(app);
    const {operations} = app.hover.get();
    const boxes = [];
    const step = memory.steps.findIndex((name) => marked.has(name));
    if (step >= 0)
      boxes.push(
        placed(
          element("div", {class: "step-cursor"}),
          x(step),
          margin.top,
          Math.max(1, x(step + 1) - x(step)),
          upward(),
        ),
      );
    for (const buffer of memory.buffers) {
      const isMarked = isChosen(buffer) || buffer.values.some((value) => marked.has(value));
      const isHovered =
        buffer === hoveredBuffer || buffer.values.some((value) => operations.has(value));
      if (!isMarked && !isHovered) continue;
      boxes.push(
        placed(
          element("div", {
            class: `buffer ${isMarked ? "marked" : "hovered"}`,
            "data-buffer": buffer.id,
          }),
          ...rectangle(buffer),
        ),
      );
    }
    const pinned = new Set(app.session ? pinsOf(app.session.settings()).map(([id]) => id) : []);
    if (pinned.size) {
      for (const buffer of memory.buffers) {
        if (!pinned.has(buffer.id)) continue;
        const [left, top, boxWidth] = rectangle(buffer);
        // At the end: the name stands at the beginning.
        boxes.push(
          placed(
            element("div", {class: "pinned-mark", title: "pinned"}, "⚲"),
            Math.max(left, left + boxWidth - PIN_PIXELS - 1),
            top + 1,
            PIN_PIXELS,
            PIN_PIXELS,
          ),
        );
      }
    }
    replace(plot.overlay, boxes, placing.boxes());
  }

  // What lies under the pointer, or within a pixel of it.
  function bufferAt(event) {
    const box = plot.canvas.getBoundingClientRect();
    const perStep = across() / steps,
      perPixel = bytesPerPixel();
    const step = (event.clientX - box.left - margin.left) / perStep,
      byte = (height - margin.bottom - (event.clientY - box.top)) * perPixel;
    const nearSteps = 1 / perStep;
    return (
      memory.buffers.find(
        (buffer) =>
          step >= buffer.first - nearSteps &&
          step <= buffer.last + nearSteps &&
          byte >= buffer.offset - perPixel &&
          byte <= buffer.offset + buffer.size + perPixel,
      ) ?? null
    );
  }

  plot.node.addEventListener("pointerdown", (event) => {
    const buffer = event.button === 0 ? bufferAt(event) : null;
    drag = buffer && {buffer, y: event.clientY, isFar: false};
  });
  plot.node.addEventListener("pointermove", (event) => {
    if (drag && (drag.isFar || Math.abs(event.clientY - drag.y) > DRAG_PIXELS)) {
      if (!drag.isFar) plot.node.setPointerCapture(event.pointerId);
      drag.isFar = true;
      tip.hidden = true;
      placing.drag(drag.buffer, drag.y - event.clientY);
      return;
    }
    const buffer = bufferAt(event);
    if (buffer !== hoveredBuffer) {
      hoveredBuffer = buffer;
      app.hover.set(buffer ? buffer.values : [], []);
      mark();
    }
    tip.hidden = !buffer;
    if (!buffer) return;
    replace(
      tip,
      element("strong", {}, clip(nameOf(data, buffer), 80)),
      element(
        "div",
        {},
        `${bytesText(buffer.size)} (${exactText(buffer.size)}) at ${exactText(buffer.offset)}`,
      ),
      element("div", {}, lifeText(data, memory, buffer)),
      ...partLines(buffer),
    );
    moveTip(tip, host, event, true);
  });
  plot.node.addEventListener("pointerleave", () => {
    hoveredBuffer = null;
    tip.hidden = true;
    app.hover.set([], []);
    mark();
  });
  plot.node.addEventListener("pointerup", (event) => {
    const dropped = drag;
    drag = null;
    if (dropped?.isFar) {
      const buffer = bufferAt(event);
      finish(dropped.buffer);
      hoveredBuffer = buffer;
    } else if (dropped) choose(dropped.buffer);
  });
  plot.node.addEventListener("pointercancel", () => {
    drag = null;
    placing.cancel();
  });
  plot.node.addEventListener("keydown", (event) => {
    const current = selectedBuffer();
    const far = event.shiftKey ? 16 : 1;
    const actions = {
      ArrowLeft: () => step(-1),
      ArrowRight: () => step(1),
      ArrowUp: () => current && placing.nudge(current, far),
      ArrowDown: () => current && placing.nudge(current, -far),
      Enter: () => placing.isShown() && finish(current),
      Escape: () => {
        drag = null;
        placing.cancel();
      },
    };
    const isMine =
      event.key === "Escape" || event.key === "Enter" ? placing.isShown() : actions[event.key];
    if (!isMine || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    actions[event.key]();
  });

  // The buffer that is born before or after the selected one.
  function step(by) {
    const at = byTime.indexOf(selectedBuffer());
    const next = byTime[at < 0 ? (by > 0 ? 0 : byTime.length - 1) : at + by];
    placing.cancel();
    if (next) choose(next);
  }

  // Inputs and outputs lie in memory under the name of their copy on the device, which is no
  // operation: what they are a copy of is selected, and the buffer itself is marked.
  function choose(buffer) {
    const names = buffer.values.flatMap((value) => [value, value.replace(/\.[^.]*$/, "")]);
    const selection = names.find((name) => data.latest.has(name)) ?? app.store.get().selection;
    chosen = {buffer, selection};
    if (selection === app.store.get().selection) refresh();
    else app.select(selection, "dock");
  }

  function isChosen(buffer) {
    return chosen?.buffer === buffer && chosen.selection === app.store.get().selection;
  }

  function finish(buffer) {
    note = placing.drop();
    if (note) {
      app.announce(note);
      choose(buffer);
    }
    drawSide();
  }

  function selectedBuffer() {
    if (chosen && isChosen(chosen.buffer)) return chosen.buffer;
    const marked = launchesOf(app);
    return memory.buffers.find((item) => item.values.some((value) => marked.has(value)));
  }
  // The values that lie in some of a buffer's bytes, by where they begin.
  function partLines({parts}) {
    const shown = [...parts]
      .sort((a, b) => a.offset - b.offset || b.size - a.size)
      .slice(0, MAX_PARTS);
    const lines = shown.map((part) =>
      element(
        "div",
        {},
        `${part.isView ? "shows" : "holds"} ${tailOf(data.layerName(part.value), 40)}: ` +
          `${bytesText(part.size)} from its byte ${exactText(part.offset)} on`,
      ),
    );
    return parts.length > MAX_PARTS
      ? [...lines, element("div", {}, `and ${parts.length - MAX_PARTS} more values`)]
      : lines;
  }

  function drawSide() {
    const buffer = selectedBuffer();
    budget?.refresh();
    replace(side, sideContent({app, memory, peakStep, placing, buffer, note, choose, budget}));
  }
  let selected = app.store.get().selection;
  const refresh = () => {
    if (app.store.get().selection !== selected) {
      selected = app.store.get().selection;
      note = "";
      placing.cancel();
    }
    mark();
    drawSide();
  };
  let became = "";
  function sessionChanged() {
    const words = [PINS, BUDGET].map((address) => app.session.asked(address)).join("\n");
    if (words === became) return;
    became = words;
    mark();
    budget?.refresh();
  }
  return {
    node: host,
    refresh,
    sessionChanged,
    resized: paint,
    hovered: () => {
      if (!hoveredBuffer) mark();
    },
  };
}
