// The arena over time: one box per buffer, from its first to its last step and over its bytes; the
// line of bytes that are live; the fullest step and what lives there; and how the peak compares
// with the least that is possible. A buffer can be dragged to another address (placing.js).

import {pinsOf} from "../ground/addresses.js";
import {element, emptyState, replace} from "../ground/dom.js";
import {launchesOf} from "./launches.js";
import {
  bytesText,
  countText,
  decode,
  exactText,
  percentText,
  secondsText,
} from "../ground/numbers.js";
import {canFork, createPlacing, pinForm, refusalList} from "./placing.js";
import {canvasPlot, canvasText, familyOf, moveTip, placed, tipElement} from "../ground/plot.js";
import {clip} from "../ground/scene.js";

const PIN_PIXELS = 14;
const MOST_AT_PEAK = 40;
const CHARACTER_PIXELS = 6;
const FEWEST_CHARACTERS = 6;
const DRAG_PIXELS = 4;
const MOST_PARTS = 6;

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
  const byTime = [...memory.buffers].sort((a, b) => a.first - b.first || a.offset - b.offset);
  let hoveredBuffer = null;
  let chosen = null; // {buffer, selection}: what was picked here, which may be no operation
  let drag = null; // {buffer, y, isFar}
  let note = ""; // why a buffer that was dropped stays where it was

  function paint() {
    [width, height] = plot.size();
    const context = plot.begin();
    if (!context) return;
    const right = width - margin.right;
    context.font = "10.5px system-ui, sans-serif";
    for (const tick of niceBytes(memory.peak)) {
      line(
        context,
        [
          [margin.left, y(tick)],
          [right, y(tick)],
        ],
        plot.colour("border"),
        1,
        [2, 3],
      );
      context.fillStyle = plot.colour("quiet");
      context.textAlign = "right";
      context.fillText(tick === 0 ? "0" : bytesText(tick), margin.left - 6, y(tick));
    }
    context.textAlign = "left";
    if (peakStep >= 0) {
      context.globalAlpha = 0.12;
      context.fillStyle = plot.colour("removed-edge");
      context.fillRect(
        x(peakStep),
        margin.top,
        x(peakStep + 1) - x(peakStep),
        height - margin.top - margin.bottom,
      );
      context.globalAlpha = 1;
    }
    for (const buffer of memory.buffers) {
      const [left, top, boxWidth, boxHeight] = rectangle(buffer);
      const family = familyOf(data, buffer.values[0]);
      const isNarrow = boxWidth <= 2.5;
      context.fillStyle =
        plot.colour(`${family}-${isNarrow ? "edge" : "fill"}`) || plot.colour("raised");
      context.globalAlpha = isNarrow ? 0.45 : 1;
      context.fillRect(left, top, boxWidth, boxHeight);
      context.globalAlpha = 1;
      context.strokeStyle = plot.colour(`${family}-edge`) || plot.colour("line");
      if (!isNarrow) context.strokeRect(left + 0.5, top + 0.5, boxWidth - 1, boxHeight - 1);
      // A buffer within a buffer: what is written to some of its bytes, from then on.
      for (const part of isNarrow ? [] : buffer.parts.filter(({isView}) => !isView)) {
        const [partLeft, partTop, partWidth, partHeight] = rectangle({
          first: part.first,
          last: buffer.last,
          offset: buffer.offset + part.offset,
          size: part.size,
        });
        if (partWidth > 3 && partHeight > 3)
          context.strokeRect(partLeft + 1.5, partTop + 0.5, partWidth - 3, partHeight - 1);
      }
      const label = boxHeight > 13 ? labelOf(buffer.values[0], boxWidth - 8) : "";
      if (label) {
        context.fillStyle = plot.colour("text");
        context.fillText(label, left + 5, top + Math.min(boxHeight / 2, 9));
      }
    }
    context.globalAlpha = 0.75;
    line(
      context,
      memory.live.flatMap((bytes, step) => [
        [x(step), y(bytes)],
        [x(step + 1), y(bytes)],
      ]),
      plot.colour("text"),
      1.5,
    );
    context.globalAlpha = 1;
    line(
      context,
      [
        [margin.left, y(memory.bound)],
        [right, y(memory.bound)],
      ],
      plot.colour("removed-edge"),
      1.5,
      [6, 3],
    );
    context.fillStyle = plot.colour("quiet");
    context.textAlign = "right";
    if (memory.bound < 0.9 * memory.peak)
      context.fillText("least possible", right - 4, y(memory.bound) - 7);
    if (memory.bound < memory.peak)
      line(
        context,
        [
          [margin.left, y(memory.peak)],
          [right, y(memory.peak)],
        ],
        plot.colour("text"),
        1,
      );
    context.textAlign = "left";
    if (peakStep >= 0) {
      context.fillStyle = plot.colour("removed-edge");
      const middle = (x(peakStep) + x(peakStep + 1)) / 2;
      context.beginPath();
      context.moveTo(middle - 5, 2);
      context.lineTo(middle + 5, 2);
      context.lineTo(middle, 10);
      context.fill();
    }
    context.fillStyle = plot.colour("quiet");
    const every = Math.max(
      1,
      Math.ceil(steps / Math.max(1, Math.floor((width - margin.left) / 72))),
    );
    memory.steps.forEach((name, step) => {
      if (step % every) return;
      context.fillText(
        labelOf(name, (x(1) - x(0)) * every - 8) || String(step),
        x(step) + 2,
        height - 9,
      );
    });
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
      element("strong", {}, clip(buffer.values.join(", "), 80)),
      element(
        "div",
        {},
        `${bytesText(buffer.size)} (${exactText(buffer.size)}) at ${exactText(buffer.offset)}`,
      ),
      element("div", {}, lifeText(buffer)),
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
  const lifeText = (buffer) =>
    `live in steps ${buffer.first} to ${buffer.last - 1}: ${memory.steps[buffer.first] ?? ""} ` +
    `to ${memory.steps[buffer.last - 1] ?? ""}`;

  // The values that lie in some of a buffer's bytes, by where they begin.
  function partLines({parts}) {
    const shown = [...parts]
      .sort((a, b) => a.offset - b.offset || b.size - a.size)
      .slice(0, MOST_PARTS);
    const lines = shown.map((part) =>
      element(
        "div",
        {},
        `${part.isView ? "shows" : "holds"} ${clip(part.value, 40)}: ${bytesText(part.size)} ` +
          `from its byte ${exactText(part.offset)} on`,
      ),
    );
    return parts.length > MOST_PARTS
      ? [...lines, element("div", {}, `and ${parts.length - MOST_PARTS} more values`)]
      : lines;
  }

  function drawSide() {
    const buffer = selectedBuffer();
    const saved = memory.total ? 1 - memory.peak / memory.total : 0;
    const living = memory.buffers
      .filter((item) => item.first <= peakStep && peakStep < item.last)
      .sort((a, b) => b.size - a.size);
    replace(
      side,
      note ? element("p", {class: "drop-note", role: "status"}, note) : null,
      buffer
        ? [
            canFork(app) ? pinForm(app, buffer) : bufferFacts(buffer),
            refusalList(memory, buffer, placing),
          ]
        : null,
      element(
        "dl",
        {class: "facts"},
        element("dt", {}, "peak"),
        element("dd", {title: exactText(memory.peak)}, bytesText(memory.peak)),
        element("dt", {}, element("span", {class: "line-key dashed"}), "least possible"),
        element(
          "dd",
          {title: exactText(memory.bound)},
          bytesText(memory.bound),
          element(
            "span",
            {class: "quiet-text"},
            memory.optimal ? ", reached" : `, ${bytesText(memory.peak - memory.bound)} above`,
          ),
        ),
        element("dt", {}, "without sharing"),
        element(
          "dd",
          {title: exactText(memory.total)},
          bytesText(memory.total),
          element("span", {class: "quiet-text"}, `, ${percentText(saved)} saved`),
        ),
        element("dt", {}, element("span", {class: "line-key"}), "live bytes"),
        element("dd", {}, "in every step"),
        element("dt", {}, "buffers"),
        element("dd", {}, exactText(memory.buffers.length)),
      ),
      living.length
        ? [
            element(
              "h3",
              {},
              element("span", {class: "ink-removed"}, "▼ "),
              `fullest step: ${clip(memory.steps[peakStep] ?? String(peakStep), 40)}`,
            ),
            element(
              "ul",
              {class: "plain at-peak"},
              living.slice(0, MOST_AT_PEAK).map((item) =>
                element(
                  "li",
                  {},
                  element(
                    "button",
                    {
                      type: "button",
                      class: `worst${item === buffer ? " marked" : ""}`,
                      title: lifeText(item),
                      onclick: () => choose(item),
                    },
                    element("span", {class: "worst-name"}, item.values[0]),
                    element("span", {class: "mono"}, bytesText(item.size)),
                  ),
                ),
              ),
            ),
            living.length > MOST_AT_PEAK
              ? element(
                  "p",
                  {class: "cap"},
                  `${living.length - MOST_AT_PEAK} smaller ones are not listed`,
                )
              : null,
          ]
        : null,
      attemptList(memory),
      buffer
        ? null
        : element(
            "p",
            {class: "quiet-text"},
            "Choose a buffer to see the places that were refused for it; drag it to try " +
              "another one.",
          ),
    );
  }
  const bufferFacts = (buffer) =>
    element(
      "div",
      {class: "buffer-facts"},
      element(
        "div",
        {class: "subject-name"},
        element("strong", {class: "mono"}, clip(buffer.values[0], 24)),
        element("span", {class: "quiet-text"}, bytesText(buffer.size)),
      ),
      element("div", {}, `at byte ${exactText(buffer.offset)}, aligned to ${buffer.alignment}`),
      element("div", {class: "quiet-text"}, lifeText(buffer)),
    );
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
  return {
    node: host,
    refresh,
    resized: paint,
    hovered: () => {
      if (!hoveredBuffer) mark();
    },
  };
}

// The strategies in the order in which they were tried, with the peak of each; the chosen one wins.
function attemptList(memory) {
  const {attempts} = memory;
  if (!attempts.length) return null;
  const most = attempts.reduce((peak, attempt) => Math.max(peak, attempt[1]), 1);
  const winner = attempts.find((attempt) => attempt[3]);
  return [
    element("h3", {}, countText(attempts.length, "strategy was tried", "strategies were tried")),
    element(
      "ol",
      {class: "plain attempts"},
      attempts.map((attempt) => {
        const [name, peak, seconds] = attempt;
        const bar = element("span", {class: "attempt-bar"});
        bar.style.width = `${(100 * peak) / most}%`;
        return element(
          "li",
          {
            class: attempt === winner ? "chosen" : "",
            title: `${exactText(peak)} bytes, found in ${secondsText(decode(seconds))}`,
          },
          element("span", {class: "attempt-name"}, attempt === winner ? "✓ " : "", name),
          element(
            "span",
            {class: "mono"},
            attempt === winner || peak === memory.peak
              ? bytesText(peak)
              : `+${bytesText(peak - memory.peak)}`,
          ),
          element("span", {class: "attempt-track"}, bar),
        );
      }),
    ),
    memory.optimal && attempts.length
      ? element(
          "p",
          {class: "quiet-text"},
          "The last one reached the least possible, so that no other was tried.",
        )
      : null,
  ];
}

// A name where it can be read: whole, or at least half of it; else nothing.
function labelOf(name, pixels) {
  const characters = Math.floor(pixels / CHARACTER_PIXELS);
  const isReadable =
    name.length <= characters || (characters >= FEWEST_CHARACTERS && 2 * characters > name.length);
  return isReadable ? canvasText(clip(name, characters)) : "";
}

function line(context, points, colour, width, dashes = []) {
  context.save();
  context.strokeStyle = colour;
  context.lineWidth = width;
  context.setLineDash(dashes);
  context.beginPath();
  for (const [index, [x, y]] of points.entries()) {
    if (index) context.lineTo(x, y);
    else context.moveTo(x, y);
  }
  context.stroke();
  context.restore();
}

function niceBytes(peak) {
  if (peak < 4) return [0];
  let step = 1;
  while (peak / step > 5) step *= 2;
  return Array.from({length: Math.floor(peak / step) + 1}, (_, index) => index * step);
}
