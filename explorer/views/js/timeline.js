// When every kernel runs (a lane per queue or thread; Ctrl and wheel zoom, dragging moves), and
// what all of it adds up to, by kernel and by the nodes of the model that it comes from.

const BAR_VIEWS = [
  {id: "time", label: "in time", title: "every launch in its place in time"},
  {id: "kernel", label: "by kernel", title: "the launches of a kernel taken together"},
  {id: "source", label: "by source node", title: "the launches that come from the same nodes of the model taken together"},
];
const TRACK_PIXELS = 36;
const AXIS_PIXELS = 20;
const LANE_LABEL_PIXELS = 84;
const SHORTEST_LABEL = 40;
const MOST_SHARES = 300;

async function timelineView(app) {
  const {data, store} = app;
  if (!data.head.has.profile) return {node: notMeasured(app)};
  const profile = await data.profile();
  const {bars} = store.get();
  const views = tabRow(BAR_VIEWS, bars, (next) => store.set({bars: next}), "bars");
  views.classList.add("segmented");
  const flops = profile.events.reduce((sum, event) => sum + event.flops, 0);
  const facts = [`${secondsText(profile.milliseconds / 1e3)} per inference`, countText(profile.threads, "thread"), countText(profile.events.length, "launch", "launches"),
    `median of ${profile.repeats}`, flops ? `${(flops / (profile.milliseconds * 1e6)).toFixed(1)} GFLOP/s${profile.peakGflops ? ` of ${profile.peakGflops.toFixed(0)}` : ""}` : ""].filter(Boolean);
  const view = bars === "time" ? timeBars(app, profile) : shareBars(app, profile, bars);
  return {...view, aside: element("span", {class: "aside-row"}, element("span", {class: "quiet-text aside-note", title: `${profile.device}\n${facts.join(" · ")}`}, facts.join(" · ")), view.aside || null, views)};
}

function notMeasured(app) {
  if (app.session?.isPending("profile")) return emptyState("Being measured", "The program is run with timed events as soon as its errors are known. What is here already stays usable.");
  return emptyState("Not measured", "The program was not run with timed events. In a notebook, c.profile(inputs) does it; explorer serve does it by itself.");
}

function timeBars(app, profile) {
  const {data} = app;
  const lanes = [...new Set(profile.events.map((event) => event.lane))]
    .map((name) => ({name, events: profile.events.filter((event) => event.lane === name).sort((a, b) => a.start - b.start)}));
  const end = Math.max(1, ...profile.events.map((event) => event.end));
  let from = 0, to = end;
  const plot = canvasPlot(`${profile.events.length} launches in ${countText(lanes.length, "lane")}; the same times stand in the tab of kernels`, "timeline-plot");
  const tip = tipElement();
  const names = element("div", {class: "lane-names"}, lanes.map((lane) => element("span", {class: "lane-name", title: lane.name}, lane.name)));
  plot.node.style.height = `${AXIS_PIXELS + TRACK_PIXELS * lanes.length + 4}px`;
  const host = element("div", {class: "timeline"}, element("div", {class: "timeline-scroll scroll"}, names, plot.node), tip);
  let hovered = null;
  const width = () => Math.max(1, plot.size()[0] - 16);
  const x = (time) => ((time - from) / (to - from)) * width();
  const timeAt = (event) => from + ((event.clientX - plot.canvas.getBoundingClientRect().left) / width()) * (to - from);
  // The first event of a lane that ends after a time.
  const firstAfter = (events, time) => {
    let low = 0, high = events.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (events[middle].end <= time) low = middle + 1;
      else high = middle;
    }
    return low;
  };

  function paint() {
    const context = plot.begin();
    if (!context) return;
    const [, height] = plot.size();
    context.font = "10.5px system-ui, sans-serif";
    for (const tick of niceTicks(to, 6, from)) {
      context.fillStyle = plot.colour("border");
      context.fillRect(x(tick), 0, 1, height);
      context.fillStyle = plot.colour("quiet");
      context.fillText(tick === 0 ? "0" : secondsText(tick / 1e9), x(tick) + 4, AXIS_PIXELS / 2);
    }
    context.font = "11px system-ui, sans-serif";
    lanes.forEach((lane, index) => {
      const top = AXIS_PIXELS + index * TRACK_PIXELS;
      context.fillStyle = plot.colour("raised");
      context.fillRect(0, top, width(), TRACK_PIXELS - 4);
      let painted = -1; // how far to the right bars narrower than a pixel were painted
      for (let position = firstAfter(lane.events, from); position < lane.events.length; position += 1) {
        const event = lane.events[position];
        if (event.start > to) break;
        const left = Math.max(0, x(event.start)), right = Math.min(width(), x(event.end));
        if (right < painted + 0.5) continue;
        const bar = Math.max(0.6, right - left);
        const family = familyOf(data, event.operation);
        context.fillStyle = plot.colour(`${family}-${bar < 3 ? "edge" : "fill"}`) || plot.colour("line");
        context.fillRect(left, top + 2, bar, TRACK_PIXELS - 8);
        painted = right;
        if (bar < 3) continue;
        context.strokeStyle = plot.colour(`${family}-edge`) || plot.colour("line");
        context.strokeRect(left + 0.5, top + 2.5, bar - 1, TRACK_PIXELS - 9);
        if (bar < SHORTEST_LABEL) continue;
        context.fillStyle = plot.colour("text");
        context.fillText(canvasText(clip(event.name, Math.floor((bar - 8) / 6))), left + 5, top + TRACK_PIXELS / 2 - 1);
      }
    });
    mark();
  }

  // Bars of the selection and the one under the pointer, as elements above the canvas.
  function mark() {
    const marked = selectedLaunches(app);
    const overOperations = app.hover.get().operations;
    const boxes = [];
    lanes.forEach((lane, index) => {
      for (const event of lane.events) {
        const isMarked = marked.has(event.operation);
        const isHovered = event === hovered || overOperations.has(event.operation);
        if ((!isMarked && !isHovered) || event.end < from || event.start > to || boxes.length > 200) continue;
        const left = Math.max(0, x(event.start)), right = Math.min(width(), x(event.end));
        boxes.push(placed(element("div", {class: `bar ${isMarked ? "marked" : "hovered"}`, "data-operation": event.operation}, right - left >= SHORTEST_LABEL ? event.name : ""),
          left, AXIS_PIXELS + index * TRACK_PIXELS + 2, Math.max(2, right - left), TRACK_PIXELS - 8));
      }
    });
    replace(plot.overlay, boxes);
  }

  function zoom(factor, at = (from + to) / 2) {
    const span = Math.min(end, Math.max(end / 1e5, (to - from) * factor));
    move(at - ((at - from) / (to - from)) * span, span);
  }

  function move(start, span = to - from) {
    from = Math.max(0, Math.min(end - span, start));
    to = from + span;
    later();
  }

  let isAsked = false;
  function later() {
    if (isAsked) return;
    isAsked = true;
    requestAnimationFrame(() => { isAsked = false; paint(); });
  }

  function eventAt(event) {
    const box = plot.canvas.getBoundingClientRect();
    const lane = lanes[Math.floor((event.clientY - box.top - AXIS_PIXELS) / TRACK_PIXELS)];
    if (!lane) return null;
    const reach = ((to - from) / width()) * 2; // two pixels: bars may be narrower than one
    const time = timeAt(event);
    const near = lane.events.slice(firstAfter(lane.events, time - reach), firstAfter(lane.events, time - reach) + 8).filter((item) => item.start <= time + reach);
    return near.find((item) => item.start <= time && item.end >= time) ?? near[0] ?? null;
  }

  let drag = null;
  plot.node.addEventListener("pointerdown", (event) => { drag = {x: event.clientX, from, isFar: false}; });
  plot.node.addEventListener("pointermove", (event) => {
    if (drag && Math.abs(event.clientX - drag.x) > 4) {
      if (!drag.isFar) plot.node.setPointerCapture(event.pointerId);
      drag.isFar = true;
      move(drag.from - ((event.clientX - drag.x) / width()) * (to - from));
      return;
    }
    const over = eventAt(event);
    if (over !== hovered) {
      hovered = over;
      app.hover.set(over?.operation ? [over.operation] : [], []);
      mark();
    }
    tip.hidden = !over;
    if (!over) return;
    const time = over.end - over.start;
    replace(tip, element("strong", {}, clip(over.name, 90)), over.kernel && over.kernel !== over.name ? element("div", {class: "mono"}, over.kernel) : null,
      element("div", {}, `${secondsText(time / 1e9)} from ${secondsText(over.start / 1e9)}, ${percentText(time / end)} of all`),
      over.flops ? element("div", {}, `${(over.flops / time).toFixed(1)} GFLOP/s, ${(over.bytes / time).toFixed(1)} GB/s`) : null);
    moveTip(tip, host, event);
  });
  const leave = () => { hovered = null; tip.hidden = true; drag = null; app.hover.set([], []); mark(); };
  plot.node.addEventListener("pointerleave", leave);
  plot.node.addEventListener("pointerup", (event) => {
    const over = drag && !drag.isFar ? eventAt(event) : null;
    drag = null;
    if (over?.operation) app.select(over.operation, "dock");
  });
  plot.node.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey && !event.shiftKey) return;
    event.preventDefault();
    if (event.shiftKey) move(from + ((event.deltaY || event.deltaX) / width()) * (to - from));
    else zoom(Math.exp(event.deltaY * 0.01), timeAt(event));
  }, {passive: false});
  // A selection from elsewhere comes into sight.
  const reveal = () => {
    const marked = selectedLaunches(app);
    const event = profile.events.find((item) => marked.has(item.operation));
    if (event && (event.end < from || event.start > to)) move(event.start - (to - from) / 2);
  };
  const zooms = element("span", {class: "aside-row"}, button("−", "shorter bars", () => zoom(2), {class: "icon"}), button("+", "longer bars (Ctrl and wheel)", () => zoom(0.5), {class: "icon"}), button("all", "the whole time", () => move(0, end), {class: "quiet"}));
  return {node: host, aside: zooms, refresh() { reveal(); mark(); }, resized: paint, hovered: () => { if (!hovered) mark(); }};
}

// One row per kernel, or per set of source nodes: nodes that were fused into one kernel share its
// time, which nothing measured one by one.
function shareBars(app, profile, by) {
  const {data} = app;
  const groups = new Map();
  let total = 0;
  for (const event of profile.events) {
    const sources = data.launchSources.get(event.operation) ?? data.sourcesOf(event.operation);
    const key = by === "kernel" ? event.kernel || event.name : sources.join("\n") || "no node of the model";
    if (!groups.has(key)) groups.set(key, {key, sources, events: [], time: 0, flops: 0});
    const group = groups.get(key);
    group.events.push(event);
    group.time += event.end - event.start;
    group.flops += event.flops;
    total += event.end - event.start;
  }
  const sorted = [...groups.values()].sort((a, b) => b.time - a.time);
  const most = sorted[0]?.time || 1;
  const rows = sorted.slice(0, MOST_SHARES).map((group) => {
    const names = by === "kernel" ? [group.key] : group.key.split("\n");
    const bar = element("span", {class: `share-bar family-${familyOf(data, group.events[0].operation)}`});
    bar.style.width = `${Math.max(0.5, (100 * group.time) / most)}%`;
    const row = element("button", {
      type: "button", class: "share-row", title: `${names.join("\n")}\n${countText(group.events.length, "launch", "launches")}`,
      onclick: () => app.select(group.events[0].operation, "dock"),
      onmouseenter: () => app.hover.set(group.events.map((event) => event.operation), []), onmouseleave: () => app.hover.set([], []),
    },
    element("span", {class: "share-name"}, clip(names[0], 80), names.length > 1 ? element("span", {class: "quiet-text"}, ` and ${clip(names.slice(1).join(", "), 60)}`) : null),
    element("span", {class: "share-track"}, bar),
    element("span", {class: "number mono", title: `${group.time} ns`}, secondsText(group.time / 1e9)),
    element("span", {class: "number mono"}, percentText(group.time / total)),
    element("span", {class: "number mono quiet-text"}, group.flops ? `${(group.flops / group.time).toFixed(1)} GFLOP/s` : "–"));
    return [row, group];
  });
  const host = element("div", {class: "shares scroll"},
    by === "source" ? element("p", {class: "cap"}, "Nodes that were fused into one kernel share its time; a node may stand in several rows.") : null,
    rows.map(([row]) => row),
    sorted.length > rows.length ? element("p", {class: "cap"}, `${sorted.length - rows.length} more rows with less time are not shown`) : null);
  return {
    node: host,
    refresh() {
      const marked = selectedLaunches(app);
      for (const [row, group] of rows) row.classList.toggle("marked", group.events.some((event) => marked.has(event.operation)));
      host.querySelector(".marked")?.scrollIntoView({block: "nearest"});
    },
  };
}
