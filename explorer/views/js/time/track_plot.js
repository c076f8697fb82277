// Tracks with one clock, to look at and to walk through: keys and wheel as in Perfetto, dragging
// marks an area, Shift and dragging moves.

import {element, replace} from "../ground/dom.js";
import {countText, percentText, secondsText} from "../ground/numbers.js";
import {canvasPlot, moveTip, placed, tipElement} from "../ground/plot.js";
import {clip} from "../ground/scene.js";
import {unitsOf} from "./cycles.js";
import {firstAfter, isGap, isOnHost, spanText} from "./spans.js";
import {timeWindow} from "./time_window.js";
import {AXIS_PIXELS, SHORTEST_LABEL, paintFlows, paintTracks, rowsOf} from "./track_painting.js";

const NEAR_PIXELS = 2;
const DRAG_PIXELS = 4;

/**
 * @param {any} app
 * @param {any} group  of decodeTracks
 * @param {{
 *   host: HTMLElement,
 *   title: string,
 *   flows: any,
 *   line: {at: number, text: string} | null,
 *   marked: () => Set<string>,
 *   isCurrent: (span: any) => boolean,
 *   choose: (span: any) => void,
 *   find: () => void,
 *   onarea: (area: {from: number, to: number} | null) => void,
 * }} options
 */
export function trackPlot(app, group, options) {
  const {data} = app;
  const {tracks} = group;
  const {host, line, marked, isCurrent, choose, onarea} = options;
  const rows = rowsOf(tracks);
  const units = unitsOf(group.clock);
  const view = timeWindow(Math.max(group.end, line?.at ?? 0), () => paint());
  const {move, zoom, all, fit} = view;
  const work = tracks.reduce((sum, {spans}) => sum + spans.filter((s) => !isGap(s)).length, 0);
  const plot = canvasPlot(
    `${options.title || "inference"}: ${countText(work, "span")} in ` +
      `${countText(tracks.length, "track")}. Keys: w and s zoom, a and d move, f fits the ` +
      "selection, / finds, 0 shows all, left and right choose a span",
    `track-plot ${options.flows ? "timeline-plot" : "passes-plot"}`,
  );
  plot.node.tabIndex = 0;
  const bottom = rows.at(-1);
  plot.node.style.height = `${bottom.top + bottom.height + 4}px`;
  const tip = tipElement();
  host.append(tip);
  const names = element(
    "div",
    {class: "lane-names"},
    tracks.map(({name}, index) =>
      placed(
        element("span", {class: "lane-name", title: name}, name),
        0,
        rows[index].top,
        78,
        rows[index].bar,
      ),
    ),
    tracks.map((_, index) =>
      rows[index].predicted === null
        ? null
        : placed(
            element("span", {class: "lane-name predicted-name"}, "predicted"),
            0,
            rows[index].predicted - 2,
            78,
            9,
          ),
    ),
  );
  const hidden = tracks.filter(({total, spans}) => total > spans.length);
  const node = element(
    "div",
    {class: "track-group"},
    options.title ? element("h3", {class: "track-title"}, options.title) : null,
    element("div", {class: "track-row"}, names, plot.node),
    hidden.map(({name, total, spans}) =>
      element(
        "p",
        {class: "cap"},
        `${name}: ${countText(total, "span")} stand as ${countText(spans.length, "bar")}; ` +
          "neighbours among the shortest are one (striped)",
      ),
    ),
  );
  const spansOf = new Map(); // identity of an operation -> [[span, row]]
  const inOrder = []; // [span, row] of what can be chosen
  tracks.forEach(({spans}, index) => {
    for (const span of spans) {
      if (isGap(span)) continue;
      inOrder.push([span, rows[index]]);
      if (!span.operation) continue;
      if (!spansOf.has(span.operation)) spansOf.set(span.operation, []);
      spansOf.get(span.operation).push([span, rows[index]]);
    }
  });
  inOrder.sort(([a], [b]) => a.start - b.start);
  let hovered = null;
  let area = null; // what is marked: {from, to}

  const width = () => Math.max(1, plot.size()[0] - 16);
  const timeAt = (event) =>
    view.from +
    ((event.clientX - plot.canvas.getBoundingClientRect().left) / width()) * (view.to - view.from);
  // From a time to pixels, as the window is now: asking the page for its size is not for each bar.
  const scale = () => {
    const limit = width(),
      perTime = limit / (view.to - view.from);
    return {limit, x: (time) => (time - view.from) * perTime};
  };
  const chosen = () => {
    const operations = marked();
    return inOrder.filter(([span]) => operations.has(span.operation) || isCurrent(span));
  };

  function paint() {
    const context = plot.begin();
    if (!context) return;
    paintTracks(plot, context, {data, tracks, rows, view, scale: scale(), line, units});
    const flows = flowsOfSelection();
    paintFlows(plot, context, flows, scale());
    plot.node.dataset.arrows = String(flows.length);
    mark();
  }

  // Arrows to and from what is selected.
  function flowsOfSelection() {
    if (!options.flows) return [];
    const pairs = new Map();
    const note = (maker, reader) => {
      const [from, to] = [spansOf.get(maker)?.[0], spansOf.get(reader)?.[0]];
      if (from && to) pairs.set(`${maker}\n${reader}`, [from, to]);
    };
    for (const operation of marked()) {
      for (const maker of options.flows.makers.get(operation) ?? []) note(maker, operation);
      for (const reader of options.flows.readers.get(operation) ?? []) note(operation, reader);
    }
    return [...pairs.values()];
  }

  // The selection and what is under the pointer, as elements above the canvas. All of the selection
  // is marked: neighbours that touch on the screen are one mark, so that there are few.
  function mark() {
    const over = app.hover.get().operations;
    const own = chosen();
    const isMarked = new Set(own.map(([span]) => span));
    const others = [...over].flatMap((operation) => spansOf.get(operation) ?? []);
    if (hovered && !isGap(hovered[0])) others.push(hovered);
    const boxes = [
      ...boxesOf(own, options.flows ? "marked" : "current"),
      ...boxesOf(
        others.filter(([span]) => !isMarked.has(span)),
        "hovered",
      ),
    ];
    const {limit, x} = scale();
    if (area) {
      const left = Math.max(0, x(area.from)),
        right = Math.min(limit, x(area.to));
      if (right > 0 && left < limit)
        boxes.push(
          placed(element("div", {class: "area-mark"}), left, 0, right - left, plot.size()[1]),
        );
    }
    replace(plot.overlay, boxes);
  }

  function boxesOf(pairs, kind) {
    const {limit, x} = scale();
    const made = [];
    const open = new Map(); // row -> the last box in it
    for (const [span, row] of pairs) {
      if (span.end < view.from || span.start > view.to) continue;
      const left = Math.max(0, x(span.start)),
        right = Math.max(left + 2, Math.min(limit, x(span.end)));
      const last = open.get(row);
      if (last && left <= last.right + 1) {
        last.right = Math.max(last.right, right);
        last.count += 1;
        continue;
      }
      const box = {row, left, right, count: 1, span};
      open.set(row, box);
      made.push(box);
    }
    return made.map(({row, left, right, count, span}) =>
      placed(
        element(
          "div",
          {class: `bar ${kind}`, "data-operation": span.operation, "data-spans": count},
          right - left >= SHORTEST_LABEL ? span.name : "",
        ),
        left,
        row.top,
        right - left,
        row.bar,
      ),
    );
  }

  function spanAt(event) {
    const y = event.clientY - plot.canvas.getBoundingClientRect().top;
    const index = rows.findIndex((row) => y >= row.top - 3 && y < row.top + row.height + 3);
    if (index < 0 || y < AXIS_PIXELS) return null;
    const {spans} = tracks[index];
    const reach = ((view.to - view.from) / width()) * NEAR_PIXELS; // bars may be narrower than one
    const time = timeAt(event);
    const first = firstAfter(spans, time - reach);
    const near = spans.slice(first, first + 8).filter((span) => span.start <= time + reach);
    const inside = near.filter((span) => span.start <= time && span.end >= time);
    const found = inside.find((span) => !isGap(span)) ?? inside[0] ?? near[0];
    return found ? [found, rows[index]] : null;
  }

  // ---- the pointer

  let drag = null; // {x, from, time, isFar, isMove}
  plot.node.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    drag = {
      x: event.clientX,
      from: view.from,
      time: timeAt(event),
      isFar: false,
      isMove: event.shiftKey,
    };
  });
  plot.node.addEventListener("pointermove", (event) => {
    if (drag && (drag.isFar || Math.abs(event.clientX - drag.x) > DRAG_PIXELS)) {
      if (!drag.isFar) plot.node.setPointerCapture(event.pointerId);
      drag.isFar = true;
      hovered = null;
      tip.hidden = true;
      if (drag.isMove)
        move(drag.from - ((event.clientX - drag.x) / width()) * (view.to - view.from));
      else {
        const times = [drag.time, timeAt(event)].map((time) =>
          Math.max(0, Math.min(view.end, time)),
        );
        area = {from: Math.min(...times), to: Math.max(...times)};
        mark();
      }
      return;
    }
    const over = spanAt(event);
    if (over?.[0] !== hovered?.[0]) {
      hovered = over;
      app.hover.set(over?.[0].operation ? [over[0].operation] : [], []);
      mark();
    }
    tip.hidden = !over;
    if (!over) return;
    replace(
      tip,
      tipOf(over[0], view.end, units, (own) => data.layerName(own)),
    );
    moveTip(tip, host, event);
  });
  plot.node.addEventListener("pointerleave", () => {
    hovered = null;
    tip.hidden = true;
    app.hover.set([], []);
    mark();
  });
  plot.node.addEventListener("pointerup", (event) => {
    const {isFar, isMove} = drag ?? {isFar: true, isMove: true};
    drag = null;
    if (isFar) {
      if (!isMove) setArea(area && area.to > area.from ? area : null);
      return;
    }
    if (area) setArea(null);
    const over = spanAt(event);
    if (over) choose(over[0]);
  });
  plot.node.addEventListener("pointercancel", () => {
    drag = null;
  });
  plot.node.addEventListener(
    "wheel",
    (event) => {
      if (!event.ctrlKey && !event.metaKey && !event.shiftKey) return;
      event.preventDefault();
      if (event.shiftKey)
        move(view.from + ((event.deltaY || event.deltaX) / width()) * (view.to - view.from));
      else zoom(Math.exp(event.deltaY * 0.01), timeAt(event));
    },
    {passive: false},
  );

  function setArea(next) {
    area = next;
    mark();
    onarea(next);
  }

  // ---- keys: those of the page that are the same are meant for the page elsewhere

  const middle = () => {
    const [first] = chosen();
    return first ? (first[0].start + first[0].end) / 2 : undefined;
  };
  const step = (by) => {
    const selectable = inOrder.filter(([span]) => span.operation || span.kind === "pass");
    const own = new Set(chosen().map(([span]) => span));
    const at = selectable.findIndex(([span]) => own.has(span));
    const next = selectable[at < 0 ? (by > 0 ? 0 : selectable.length - 1) : at + by];
    if (next) choose(next[0]);
  };
  const fitSelection = () => {
    const own = chosen().map(([span]) => span);
    if (area) fit(area.from, area.to);
    else if (own.length)
      fit(Math.min(...own.map(({start}) => start)), Math.max(...own.map(({end}) => end)));
    else all();
  };
  plot.node.addEventListener("keydown", (event) => {
    const action = {
      ArrowLeft: () => step(-1),
      ArrowRight: () => step(1),
      w: () => zoom(0.5, middle()),
      s: () => zoom(2, middle()),
      a: () => move(view.from - (view.to - view.from) / 5),
      d: () => move(view.from + (view.to - view.from) / 5),
      f: fitSelection,
      "/": options.find,
      "+": () => zoom(0.5, middle()),
      "-": () => zoom(2, middle()),
      0: all,
      Escape: area ? () => setArea(null) : null,
    }[event.key];
    if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    action();
  });

  return {
    node,
    zoom,
    all,
    // Without telling anybody: another plot was marked, or the mark was closed beside it.
    mark(next) {
      const had = area !== null;
      area = next;
      mark();
      if (had && next === null) onarea(null);
    },
    show(span) {
      fit(span.start - 4 * (span.end - span.start), span.end + 4 * (span.end - span.start));
    },
    refresh() {
      const [first] = chosen();
      if (first) view.reveal(first[0].start, first[0].end);
      paint();
    },
    resized: paint,
    hovered() {
      if (!hovered) mark();
    },
  };
}

function tipOf(span, end, units, layerName) {
  const time = span.end - span.start;
  const row = (...children) => element("div", {}, ...children);
  return [
    element("strong", {}, clip(spanText(span, layerName), 90)),
    span.kernel && span.kernel !== span.name
      ? row(element("span", {class: "mono"}, span.kernel))
      : null,
    row(
      `${isOnHost(span) ? secondsText(time / 1e9) : units.length(time)} from ` +
        `${units.at(span.start)}, ` +
        `${percentText(time / end)} of all`,
    ),
    span.predicted === null
      ? null
      : row(
          `predicted ${secondsText(span.predicted / 1e9)}: measured is ` +
            `${(span.busy / Math.max(1, span.predicted)).toFixed(1)} times as long`,
        ),
    span.flops
      ? row(`${(span.flops / time).toFixed(1)} GFLOP/s, ${(span.bytes / time).toFixed(1)} GB/s`)
      : null,
    span.facts.map(([name, value]) =>
      row(element("span", {class: "quiet-text"}, `${name} `), clip(value, 90)),
    ),
  ];
}
