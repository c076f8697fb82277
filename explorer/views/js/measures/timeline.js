// When every kernel runs (a lane per queue or thread; Ctrl and wheel zoom, dragging moves), and
// what all of it adds up to, by kernel and by the nodes of the model that it comes from.

import {button, element, replace, tabRow} from "../ground/dom.js";
import {launchesOf, notMeasured} from "./launches.js";
import {countText, percentText, secondsText} from "../ground/numbers.js";
import {
  canvasPlot,
  canvasText,
  familyOf,
  moveTip,
  niceTicks,
  placed,
  tipElement,
} from "../ground/plot.js";
import {clip} from "../ground/scene.js";

const BAR_VIEWS = [
  {id: "time", label: "in time", title: "every launch in its place in time"},
  {id: "kernel", label: "by kernel", title: "the launches of a kernel taken together"},
  {
    id: "source",
    label: "by source node",
    title: "the launches that come from the same nodes of the model taken together",
  },
];
const TRACK_PIXELS = 36;
const AXIS_PIXELS = 20;
const SHORTEST_LABEL = 40;
const MOST_SHARES = 300;
const MOST_MARKED = 200;

export async function timelineView(app) {
  const {data, store} = app;
  if (!data.head.has.profile) return {node: notMeasured(app)};
  const profile = await data.profile();
  const {bars} = store.get();
  const views = tabRow(BAR_VIEWS, bars, (next) => store.set({bars: next}), "bars");
  views.classList.add("segmented");
  const flops = profile.events.reduce((sum, event) => sum + event.flops, 0);
  const facts = [
    `${secondsText(profile.milliseconds / 1e3)} per inference`,
    countText(profile.threads, "thread"),
    launchesText(profile.events),
    `median of ${profile.repeats}`,
    flops
      ? `${(flops / (profile.milliseconds * 1e6)).toFixed(1)} ` +
        `GFLOP/s${profile.peakGflops ? ` of ${profile.peakGflops.toFixed(0)}` : ""}`
      : "",
  ].filter(Boolean);
  const view = bars === "time" ? timeBars(app, profile) : shareBars(app, profile, bars);
  return {
    ...view,
    aside: element(
      "span",
      {class: "aside-row"},
      element(
        "span",
        {class: "quiet-text aside-note", title: `${profile.device}\n${facts.join(" · ")}`},
        facts.join(" · "),
      ),
      view.aside || null,
      views,
    ),
  };
}

// Copies to and from a device are events too, but no kernel runs in them.
function launchesText(events) {
  const launches = events.filter((event) => event.kernel).length;
  const transfers = events.length - launches;
  const words = countText(launches, "launch", "launches");
  return transfers ? `${words} and ${countText(transfers, "transfer")}` : words;
}

function timeBars(app, profile) {
  const {data} = app;
  const lanes = [...new Set(profile.events.map((event) => event.lane))].map((name) => ({
    name,
    events: profile.events.filter((event) => event.lane === name).sort((a, b) => a.start - b.start),
  }));
  const end = profile.events.reduce((latest, event) => Math.max(latest, event.end), 1);
  let from = 0,
    to = end;
  const plot = canvasPlot(
    `${launchesText(profile.events)} in ${countText(lanes.length, "lane")}; the same times ` +
      "stand in the tab of kernels. Arrow keys: left and right choose a bar; plus and minus " +
      "zoom, 0 shows all",
    "timeline-plot",
  );
  plot.node.tabIndex = 0;
  const tip = tipElement();
  const names = element(
    "div",
    {class: "lane-names"},
    lanes.map((lane) => element("span", {class: "lane-name", title: lane.name}, lane.name)),
  );
  plot.node.style.height = `${AXIS_PIXELS + TRACK_PIXELS * lanes.length + 4}px`;
  const host = element(
    "div",
    {class: "timeline"},
    element("div", {class: "timeline-scroll scroll"}, names, plot.node),
    tip,
  );
  let hovered = null;
  const width = () => Math.max(1, plot.size()[0] - 16);
  const timeAt = (event) =>
    from + ((event.clientX - plot.canvas.getBoundingClientRect().left) / width()) * (to - from);
  // From a time to pixels, as the window is now: asking the page for its size is not for every bar.
  const scale = () => {
    const limit = width(),
      perTime = limit / (to - from);
    return {limit, x: (time) => (time - from) * perTime};
  };
  const laneOf = new Map(lanes.map((lane, index) => [lane.name, index]));
  const eventsOf = new Map(); // identity of an operation -> its events
  for (const event of profile.events) {
    if (!eventsOf.has(event.operation)) eventsOf.set(event.operation, []);
    eventsOf.get(event.operation).push(event);
  }
  // The first event of a lane that ends after a time.
  const firstAfter = (events, time) => {
    let low = 0,
      high = events.length;
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
    const {limit, x} = scale();
    context.font = "10.5px system-ui, sans-serif";
    for (const tick of niceTicks(to, 6, from)) {
      context.fillStyle = plot.colour("border");
      context.fillRect(x(tick), 0, 1, height);
      context.fillStyle = plot.colour("quiet");
      context.fillText(tick === 0 ? "0" : secondsText(tick / 1e9), x(tick) + 4, AXIS_PIXELS / 2);
    }
    context.font = "11px system-ui, sans-serif";
    const families = new Map(); // operation -> [fill, edge]
    lanes.forEach((lane, index) => {
      const top = AXIS_PIXELS + index * TRACK_PIXELS;
      context.fillStyle = plot.colour("raised");
      context.fillRect(0, top, limit, TRACK_PIXELS - 4);
      let painted = -1; // how far to the right bars narrower than a pixel were painted
      for (
        let position = firstAfter(lane.events, from);
        position < lane.events.length;
        position += 1
      ) {
        const event = lane.events[position];
        if (event.start > to) break;
        const left = Math.max(0, x(event.start)),
          right = Math.min(limit, x(event.end));
        if (right < painted + 0.5) continue;
        const bar = Math.max(0.6, right - left);
        if (!families.has(event.operation)) {
          const family = familyOf(data, event.operation);
          families.set(event.operation, [
            plot.colour(`${family}-fill`) || plot.colour("line"),
            plot.colour(`${family}-edge`) || plot.colour("line"),
          ]);
        }
        const [fill, edge] = families.get(event.operation);
        painted = right;
        if (bar < 3) {
          context.fillStyle = edge;
          context.fillRect(left, top + 2, bar, TRACK_PIXELS - 8);
          continue;
        }
        // An edge as a box behind the fill: strokes take several times as long.
        context.fillStyle = edge;
        context.fillRect(left, top + 2, bar, TRACK_PIXELS - 8);
        context.fillStyle = fill;
        context.fillRect(left + 1, top + 3, bar - 2, TRACK_PIXELS - 10);
        if (bar < SHORTEST_LABEL) continue;
        context.fillStyle = plot.colour("text");
        context.fillText(
          canvasText(clip(event.name, Math.floor((bar - 8) / 6))),
          left + 5,
          top + TRACK_PIXELS / 2 - 1,
        );
      }
    });
    mark();
  }

  // Bars of the selection and the one under the pointer, as elements above the canvas.
  function mark() {
    const marked = launchesOf(app);
    const over = app.hover.get().operations;
    const {limit, x} = scale();
    const boxes = [];
    const add = (event, isMarked) => {
      if (event.end < from || event.start > to || boxes.length > MOST_MARKED) return;
      const left = Math.max(0, x(event.start)),
        right = Math.min(limit, x(event.end));
      boxes.push(
        placed(
          element(
            "div",
            {class: `bar ${isMarked ? "marked" : "hovered"}`, "data-operation": event.operation},
            right - left >= SHORTEST_LABEL ? event.name : "",
          ),
          left,
          AXIS_PIXELS + (laneOf.get(event.lane) ?? 0) * TRACK_PIXELS + 2,
          Math.max(2, right - left),
          TRACK_PIXELS - 8,
        ),
      );
    };
    for (const operation of marked)
      for (const event of eventsOf.get(operation) ?? []) add(event, true);
    for (const operation of over)
      if (!marked.has(operation))
        for (const event of eventsOf.get(operation) ?? []) add(event, false);
    if (hovered && !marked.has(hovered.operation) && !over.has(hovered.operation))
      add(hovered, false);
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
    requestAnimationFrame(() => {
      isAsked = false;
      paint();
    });
  }

  function eventAt(event) {
    const box = plot.canvas.getBoundingClientRect();
    const lane = lanes[Math.floor((event.clientY - box.top - AXIS_PIXELS) / TRACK_PIXELS)];
    if (!lane) return null;
    const reach = ((to - from) / width()) * 2; // two pixels: bars may be narrower than one
    const time = timeAt(event);
    const near = lane.events
      .slice(firstAfter(lane.events, time - reach), firstAfter(lane.events, time - reach) + 8)
      .filter((item) => item.start <= time + reach);
    return near.find((item) => item.start <= time && item.end >= time) ?? near[0] ?? null;
  }

  let drag = null;
  plot.node.addEventListener("pointerdown", (event) => {
    drag = {x: event.clientX, from, isFar: false};
  });
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
    replace(
      tip,
      element("strong", {}, clip(over.name, 90)),
      over.kernel && over.kernel !== over.name
        ? element("div", {class: "mono"}, over.kernel)
        : null,
      element(
        "div",
        {},
        `${secondsText(time / 1e9)} from ${secondsText(over.start / 1e9)}, ` +
          `${percentText(time / end)} of all`,
      ),
      over.flops
        ? element(
            "div",
            {},
            `${(over.flops / time).toFixed(1)} GFLOP/s, ${(over.bytes / time).toFixed(1)} GB/s`,
          )
        : null,
    );
    moveTip(tip, host, event);
  });
  const leave = () => {
    hovered = null;
    tip.hidden = true;
    drag = null;
    app.hover.set([], []);
    mark();
  };
  plot.node.addEventListener("pointerleave", leave);
  plot.node.addEventListener("pointerup", (event) => {
    const over = drag && !drag.isFar ? eventAt(event) : null;
    drag = null;
    if (over?.operation) app.select(over.operation, "dock");
  });
  plot.node.addEventListener(
    "wheel",
    (event) => {
      if (!event.ctrlKey && !event.metaKey && !event.shiftKey) return;
      event.preventDefault();
      if (event.shiftKey) move(from + ((event.deltaY || event.deltaX) / width()) * (to - from));
      else zoom(Math.exp(event.deltaY * 0.01), timeAt(event));
    },
    {passive: false},
  );
  const inTime = [...profile.events]
    .sort((a, b) => a.start - b.start)
    .filter((event) => event.operation);
  plot.node.addEventListener("keydown", (event) => {
    const step = (by) => {
      const marked = launchesOf(app);
      const at = inTime.findIndex((item) => marked.has(item.operation));
      const next = inTime[at < 0 ? (by > 0 ? 0 : inTime.length - 1) : at + by];
      if (next) app.select(next.operation, "dock");
    };
    const action = {
      ArrowLeft: () => step(-1),
      ArrowRight: () => step(1),
      "+": () => zoom(0.5, middleOfSelected()),
      "-": () => zoom(2, middleOfSelected()),
      0: () => move(0, end),
    }[event.key];
    if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    action();
  });
  const firstSelected = () =>
    [...launchesOf(app)].map((operation) => eventsOf.get(operation)?.[0]).find(Boolean);
  const middleOfSelected = () => {
    const event = firstSelected();
    return event ? (event.start + event.end) / 2 : (from + to) / 2;
  };
  // A selection from elsewhere comes into sight.
  const reveal = () => {
    const event = firstSelected();
    if (event && (event.end < from || event.start > to)) move(event.start - (to - from) / 2);
  };
  const zooms = element(
    "span",
    {class: "aside-row"},
    button("−", "shorter bars", () => zoom(2), {class: "icon"}),
    button("+", "longer bars (Ctrl and wheel)", () => zoom(0.5), {class: "icon"}),
    button("all", "the whole time", () => move(0, end), {class: "quiet"}),
  );
  return {
    node: host,
    aside: zooms,
    refresh() {
      reveal();
      mark();
    },
    resized: paint,
    hovered: () => {
      if (!hovered) mark();
    },
  };
}

// One row per kernel, or per set of source nodes: nodes that were fused into one kernel share its
// time, which nothing measured one by one.
function shareBars(app, profile, by) {
  const {data} = app;
  const groups = new Map();
  let total = 0;
  for (const event of profile.events) {
    const sources = data.launchSources.get(event.operation) ?? data.sourcesOf(event.operation);
    const key =
      by === "kernel" ? event.kernel || event.name : sources.join("\n") || "no node of the model";
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
    const bar = element("span", {
      class: `share-bar family-${familyOf(data, group.events[0].operation)}`,
    });
    bar.style.width = `${Math.max(0.5, (100 * group.time) / most)}%`;
    const row = element(
      "button",
      {
        type: "button",
        class: "share-row",
        title: `${names.join("\n")}\n${countText(group.events.length, "launch", "launches")}`,
        onclick: () => app.select(group.events[0].operation, "dock"),
        onmouseenter: () =>
          app.hover.set(
            group.events.map((event) => event.operation),
            [],
          ),
        onmouseleave: () => app.hover.set([], []),
      },
      element(
        "span",
        {class: "share-name"},
        clip(names[0], 80),
        names.length > 1
          ? element("span", {class: "quiet-text"}, ` and ${clip(names.slice(1).join(", "), 60)}`)
          : null,
      ),
      element("span", {class: "share-track"}, bar),
      element(
        "span",
        {class: "number mono", title: `${group.time} ns`},
        secondsText(group.time / 1e9),
      ),
      element("span", {class: "number mono"}, percentText(group.time / total)),
      element(
        "span",
        {class: "number mono quiet-text"},
        group.flops ? `${(group.flops / group.time).toFixed(1)} GFLOP/s` : "–",
      ),
    );
    return [row, group];
  });
  const host = element(
    "div",
    {class: "shares scroll"},
    by === "source"
      ? element(
          "p",
          {class: "cap"},
          "Nodes that were fused into one kernel share its time; a node may stand in several rows.",
        )
      : null,
    rows.map(([row]) => row),
    sorted.length > rows.length
      ? element(
          "p",
          {class: "cap"},
          `${sorted.length - rows.length} more rows with less time are not shown`,
        )
      : null,
  );
  return {
    node: host,
    refresh() {
      const marked = launchesOf(app);
      for (const [row, group] of rows)
        row.classList.toggle(
          "marked",
          group.events.some((event) => marked.has(event.operation)),
        );
      host.querySelector(".marked")?.scrollIntoView({block: "nearest"});
    },
  };
}
