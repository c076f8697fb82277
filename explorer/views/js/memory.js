// The arena over time: one box per buffer, from its first to its last step and over its bytes; the
// line of bytes that are live; the fullest step and what lives there; and how the peak compares
// with the least that is possible. In the app a buffer can be pinned to an address.

const MOST_AT_PEAK = 40;

async function memoryView(app) {
  const {data} = app;
  if (!data.head.has.memory) {
    return {node: emptyState("No memory plan", "The compilation stopped before memory was planned, or this target allocates by itself. Choose the target cpu to see a plan.")};
  }
  const memory = await data.memory();
  const steps = Math.max(memory.steps.length, 1);
  const peakStep = memory.live.indexOf(Math.max(...memory.live, 0));
  const plot = canvasPlot(`${memory.buffers.length} buffers over ${steps} steps; the largest at the fullest step are listed beside it`, "memory-plot");
  const tip = tipElement();
  const side = element("aside", {class: "memory-side scroll"});
  const host = element("div", {class: "memory"}, plot.node, side, tip);
  const margin = {left: 64, right: 8, top: 12, bottom: 20};
  const x = (step) => margin.left + ((plot.size()[0] - margin.left - margin.right) * step) / steps;
  const y = (offset) => plot.size()[1] - margin.bottom - ((plot.size()[1] - margin.top - margin.bottom) * offset) / Math.max(memory.peak, 1);
  const rectangle = (buffer) => {
    const left = x(buffer.first), top = y(buffer.offset + buffer.size);
    return [left, top, Math.max(1, x(buffer.last) - left - 1), Math.max(1, y(buffer.offset) - top - 1)];
  };
  let hoveredBuffer = null;

  function paint() {
    const context = plot.begin();
    if (!context) return;
    const [width, height] = plot.size();
    const right = width - margin.right;
    context.font = "10.5px system-ui, sans-serif";
    for (const tick of niceBytes(memory.peak)) {
      line(context, [[margin.left, y(tick)], [right, y(tick)]], plot.colour("border"), 1, [2, 3]);
      context.fillStyle = plot.colour("quiet");
      context.textAlign = "right";
      context.fillText(tick === 0 ? "0" : bytesText(tick), margin.left - 6, y(tick));
    }
    context.textAlign = "left";
    for (const buffer of memory.buffers) {
      const [left, top, boxWidth, boxHeight] = rectangle(buffer);
      const family = familyOf(data, buffer.values[0]);
      const isNarrow = boxWidth <= 2.5;
      context.fillStyle = plot.colour(`${family}-${isNarrow ? "edge" : "fill"}`) || plot.colour("raised");
      context.globalAlpha = isNarrow ? 0.45 : 1;
      context.fillRect(left, top, boxWidth, boxHeight);
      context.globalAlpha = 1;
      context.strokeStyle = plot.colour(`${family}-edge`) || plot.colour("line");
      if (!isNarrow) context.strokeRect(left + 0.5, top + 0.5, boxWidth - 1, boxHeight - 1);
      if (boxHeight > 13 && boxWidth > 34) {
        context.fillStyle = plot.colour("text");
        context.fillText(canvasText(clip(buffer.values[0], Math.floor((boxWidth - 8) / 6.4))), left + 5, top + Math.min(boxHeight / 2, 9));
      }
    }
    context.globalAlpha = 0.75;
    line(context, memory.live.flatMap((bytes, step) => [[x(step), y(bytes)], [x(step + 1), y(bytes)]]), plot.colour("text"), 1.5);
    context.globalAlpha = 1;
    line(context, [[margin.left, y(memory.bound)], [right, y(memory.bound)]], plot.colour("removed-edge"), 1.5, [6, 3]);
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
    const every = Math.max(1, Math.ceil(steps / Math.max(1, Math.floor((width - margin.left) / 72))));
    memory.steps.forEach((name, step) => {
      if (step % every) return;
      const room = Math.max(3, Math.floor(((x(1) - x(0)) * every) / 6.4) - 1);
      context.fillText(canvasText(clip(name, room)), x(step) + 2, height - 9);
    });
    mark();
  }

  // The selected and hovered buffers and the step of the selection, as elements above the canvas.
  function mark() {
    if (!plot.size()[0]) return;
    const marked = selectedLaunches(app);
    const {operations} = app.hover.get();
    const boxes = [];
    const step = memory.steps.findIndex((name) => marked.has(name));
    if (step >= 0) boxes.push(placed(element("div", {class: "step-cursor"}), x(step), margin.top, Math.max(1, x(step + 1) - x(step)), plot.size()[1] - margin.top - margin.bottom));
    for (const buffer of memory.buffers) {
      const isMarked = buffer.values.some((value) => marked.has(value));
      const isHovered = buffer === hoveredBuffer || buffer.values.some((value) => operations.has(value));
      if ((!isMarked && !isHovered) || boxes.length > 200) continue;
      boxes.push(placed(element("div", {class: `buffer ${isMarked ? "marked" : "hovered"}`, "data-buffer": buffer.id}), ...rectangle(buffer)));
    }
    replace(plot.overlay, boxes);
  }

  function bufferAt(event) {
    const box = plot.canvas.getBoundingClientRect();
    const px = event.clientX - box.left, py = event.clientY - box.top;
    return memory.buffers.find((buffer) => {
      const [left, top, width, height] = rectangle(buffer);
      return px >= left - 1 && px <= left + width + 1 && py >= top - 1 && py <= top + height + 1;
    }) ?? null;
  }

  plot.node.addEventListener("pointermove", (event) => {
    const buffer = bufferAt(event);
    if (buffer !== hoveredBuffer) {
      hoveredBuffer = buffer;
      app.hover.set(buffer ? buffer.values : [], []);
      mark();
    }
    tip.hidden = !buffer;
    if (!buffer) return;
    replace(tip, element("strong", {}, clip(buffer.values.join(", "), 80)),
      element("div", {}, `${bytesText(buffer.size)} (${exactText(buffer.size)}) at ${exactText(buffer.offset)}`),
      element("div", {}, lifeText(buffer)));
    moveTip(tip, host, event, true);
  });
  plot.node.addEventListener("pointerleave", () => { hoveredBuffer = null; tip.hidden = true; app.hover.set([], []); mark(); });
  plot.node.addEventListener("click", (event) => {
    const buffer = bufferAt(event);
    if (buffer) app.select(buffer.values[0], "dock");
  });
  const lifeText = (buffer) => `live in steps ${buffer.first} to ${buffer.last - 1}: ${memory.steps[buffer.first] ?? ""} to ${memory.steps[buffer.last - 1] ?? ""}`;

  function drawSide() {
    const marked = selectedLaunches(app);
    const buffer = memory.buffers.find((item) => item.values.some((value) => marked.has(value)));
    const saved = memory.total ? 1 - memory.peak / memory.total : 0;
    const attempts = [...memory.attempts].sort((a, b) => a[1] - b[1]);
    const living = memory.buffers.filter((item) => item.first <= peakStep && peakStep < item.last).sort((a, b) => b.size - a.size);
    replace(side, app.session && buffer ? pinForm(app, memory, buffer) : null,
      element("dl", {class: "facts"},
        element("dt", {}, "peak"), element("dd", {title: exactText(memory.peak)}, bytesText(memory.peak)),
        element("dt", {}, element("span", {class: "line-key dashed"}), "least possible"), element("dd", {title: exactText(memory.bound)}, bytesText(memory.bound), element("span", {class: "quiet-text"}, memory.optimal ? ", reached" : `, ${bytesText(memory.peak - memory.bound)} above`)),
        element("dt", {}, "without sharing"), element("dd", {title: exactText(memory.total)}, bytesText(memory.total), element("span", {class: "quiet-text"}, `, ${percentText(saved)} saved`)),
        element("dt", {}, element("span", {class: "line-key"}), "live bytes"), element("dd", {}, "in every step"),
        element("dt", {}, "buffers"), element("dd", {}, exactText(memory.buffers.length))),
      living.length ? [element("h3", {}, element("span", {class: "ink-removed"}, "▼ "), `fullest step: ${clip(memory.steps[peakStep] ?? String(peakStep), 40)}`),
        element("ul", {class: "plain at-peak"}, living.slice(0, MOST_AT_PEAK).map((item) => element("li", {},
          element("button", {type: "button", class: `worst${item === buffer ? " marked" : ""}`, title: lifeText(item), onclick: () => app.select(item.values[0], "dock")},
            element("span", {class: "worst-name"}, item.values[0]), element("span", {class: "mono"}, bytesText(item.size)))))),
        living.length > MOST_AT_PEAK ? element("p", {class: "cap"}, `${living.length - MOST_AT_PEAK} smaller ones are not listed`) : null] : null,
      attempts.length ? element("details", {}, element("summary", {}, countText(attempts.length, "strategy was tried", "strategies were tried")),
        element("ul", {class: "plain"}, attempts.map(([name, peak, seconds]) => element("li", {title: secondsText(decode(seconds))}, name, " ", element("span", {class: "quiet-text"}, bytesText(peak)))))) : null);
  }
  return {node: host, refresh() { mark(); drawSide(); }, resized: paint, hovered: () => { if (!hoveredBuffer) mark(); }};
}

// Where the selected buffer lies, and a fork in which it lies elsewhere.
function pinForm(app, memory, buffer) {
  const field = element("input", {type: "number", class: "knob", min: 0, step: 64, value: buffer.offset, "aria-label": `address of ${buffer.id} in bytes`});
  const pin = () => app.session.fork({...app.session.settings(), pins: [...app.session.settings().pins.filter(([id]) => id !== buffer.id), [buffer.id, Number(field.value)]]});
  const isPinned = app.session.settings().pins.some(([id]) => id === buffer.id);
  return element("form", {class: "pin", onsubmit: (event) => { event.preventDefault(); pin(); }},
    element("div", {class: "subject-name"}, element("strong", {class: "mono"}, clip(buffer.values[0], 24)), element("span", {class: "quiet-text"}, `${bytesText(buffer.size)}${isPinned ? ", pinned" : ""}`)),
    element("label", {class: "pin-row"}, "at byte ", field, element("button", {type: "submit", class: "quiet", title: "plan the memory again with this buffer at this address, as a fork"}, "pin")));
}

function line(context, points, colour, width, dashes = []) {
  context.save();
  context.strokeStyle = colour;
  context.lineWidth = width;
  context.setLineDash(dashes);
  context.beginPath();
  points.forEach(([x, y], index) => (index ? context.lineTo(x, y) : context.moveTo(x, y)));
  context.stroke();
  context.restore();
}

function niceBytes(peak) {
  if (peak < 4) return [0];
  let step = 1;
  while (peak / step > 5) step *= 2;
  return Array.from({length: Math.floor(peak / step) + 1}, (_, index) => index * step);
}
