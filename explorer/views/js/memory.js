// The arena over time: one box per buffer, from its first to its last step and over its bytes; the
// line of bytes that are live, and how the peak compares with the least that is possible.

async function memoryView(app) {
  const {data} = app;
  if (!data.head.has.memory) {
    return {node: emptyState("No memory plan", "The compilation stopped before memory was planned, or this target allocates by itself.")};
  }
  const memory = await data.memory();
  const host = element("div", {class: "memory"});
  const picture = element("div", {class: "memory-picture"});
  const tip = element("div", {class: "tip", role: "tooltip", hidden: true});
  const steps = Math.max(memory.steps.length, 1);
  const attempts = [...memory.attempts].sort((a, b) => a[1] - b[1]);
  const saved = memory.total ? 1 - memory.peak / memory.total : 0;
  const side = element("aside", {class: "memory-side scroll"},
    element("dl", {class: "facts"},
      element("dt", {}, "peak"), element("dd", {title: exactText(memory.peak)}, bytesText(memory.peak)),
      element("dt", {}, element("span", {class: "line-key dashed"}), "least possible"), element("dd", {title: exactText(memory.bound)}, bytesText(memory.bound), element("span", {class: "quiet-text"}, memory.optimal ? ", reached" : "")),
      element("dt", {}, "without sharing"), element("dd", {title: exactText(memory.total)}, bytesText(memory.total), element("span", {class: "quiet-text"}, `, ${percentText(saved)} saved`)),
      element("dt", {}, element("span", {class: "line-key"}), "live bytes"), element("dd", {}, "in every step"),
      element("dt", {}, "buffers"), element("dd", {}, exactText(memory.buffers.length))),
    attempts.length ? element("details", {}, element("summary", {}, countText(attempts.length, "strategy was tried", "strategies were tried")),
      element("ul", {class: "plain"}, attempts.map(([name, peak]) => element("li", {}, name, " ", element("span", {class: "quiet-text"}, bytesText(peak)))))) : null);
  host.append(picture, side, tip);
  const boxes = new Map();
  let cursor = null;

  function paint() {
    const width = picture.clientWidth, height = picture.clientHeight;
    if (!width || !height) return;
    const left = 64, right = 8, top = 8, bottom = 20;
    const x = (step) => left + ((width - left - right) * step) / steps;
    const y = (offset) => height - bottom - ((height - top - bottom) * offset) / Math.max(memory.peak, 1);
    boxes.clear();
    const drawn = memory.buffers.map((buffer) => {
      const record = data.latest.get(buffer.values[0]);
      const boxWidth = Math.max(1, x(buffer.last) - x(buffer.first) - 1);
      const boxHeight = Math.max(1, y(buffer.offset) - y(buffer.offset + buffer.size) - 1);
      const box = shape("g", {class: `buffer family-${safeName(record?.family || "")}`, "data-buffer": buffer.id, role: "button", "aria-label": `buffer of ${buffer.values.join(", ")}, ${bytesText(buffer.size)}`,
        transform: `translate(${x(buffer.first)} ${y(buffer.offset + buffer.size)})`, onclick: () => app.select(buffer.values[0], "dock")},
      shape("rect", {width: boxWidth, height: boxHeight, rx: Math.min(2, boxHeight / 3)}),
      boxHeight > 13 && boxWidth > 34 ? shape("text", {x: 5, y: Math.min(boxHeight / 2 + 4, 14)}, clip(buffer.values[0], Math.floor((boxWidth - 8) / 6.6))) : null);
      box.addEventListener("mousemove", (event) => showTip(event, buffer));
      box.addEventListener("mouseleave", () => { tip.hidden = true; app.hover.set([], []); });
      boxes.set(buffer.id, [box, buffer]);
      return box;
    });
    const ticks = niceBytes(memory.peak);
    const live = memory.live.map((bytes, step) => `${step ? "L" : "M"}${x(step)} ${y(bytes)}H${x(step + 1)}`).join("");
    const every = Math.max(1, Math.ceil(steps / Math.max(1, Math.floor((width - left) / 72))));
    cursor = shape("rect", {class: "step-cursor", y: top, height: height - top - bottom, width: Math.max(1, x(1) - x(0)), visibility: "hidden"});
    replace(picture, shape("svg", {width, height, role: "group", "aria-label": "memory over time"},
      cursor,
      ticks.map((tick) => [shape("line", {class: "grid", x1: left, x2: width - right, y1: y(tick), y2: y(tick)}),
        shape("text", {class: "axis", x: left - 6, y: y(tick) + 4, "text-anchor": "end"}, tick === 0 ? "0" : bytesText(tick))]),
      drawn,
      shape("path", {class: "live", d: live}, shape("title", {}, "bytes that are live")),
      shape("line", {class: "bound", x1: left, x2: width - right, y1: y(memory.bound), y2: y(memory.bound)}, shape("title", {}, `least possible ${bytesText(memory.bound)}`)),
      memory.steps.map((step, index) => (index % every ? null : shape("text", {class: "axis", x: x(index) + 2, y: height - 5}, clip(step, every === 1 ? Math.max(3, Math.floor((x(1) - x(0)) / 6.4)) : 10)))),
    ));
    picture.x = x;
    refresh();
  }

  function showTip(event, buffer) {
    app.hover.set(buffer.values, []);
    replace(tip, element("strong", {}, clip(buffer.values.join(", "), 80)),
      element("div", {}, `${bytesText(buffer.size)} (${exactText(buffer.size)}) at ${exactText(buffer.offset)}`),
      element("div", {}, `live in steps ${buffer.first} to ${buffer.last - 1}: ${memory.steps[buffer.first] ?? ""} to ${memory.steps[buffer.last - 1] ?? ""}`));
    tip.hidden = false;
    const box = host.getBoundingClientRect();
    tip.style.left = `${Math.max(4, Math.min(event.clientX - box.left + 14, box.width - tip.offsetWidth - 8))}px`;
    tip.style.top = `${Math.max(4, Math.min(event.clientY - box.top - tip.offsetHeight - 8, box.height - tip.offsetHeight - 4))}px`;
  }

  function refresh() {
    const marked = selectedLaunches(app);
    for (const [box, buffer] of boxes.values()) box.classList.toggle("marked", buffer.values.some((value) => marked.has(value)));
    const step = memory.steps.findIndex((name) => marked.has(name));
    if (cursor) {
      cursor.setAttribute("visibility", step < 0 ? "hidden" : "visible");
      if (step >= 0) cursor.setAttribute("x", picture.x(step));
    }
  }

  function hovered() {
    const {operations} = app.hover.get();
    for (const [box, buffer] of boxes.values()) box.classList.toggle("hovered", buffer.values.some((value) => operations.has(value)));
  }
  return {node: host, refresh, resized: paint, hovered};
}

function niceBytes(peak) {
  if (peak < 4) return [0];
  let step = 1;
  while (peak / step > 5) step *= 2;
  return Array.from({length: Math.floor(peak / step) + 1}, (_, index) => index * step);
}
