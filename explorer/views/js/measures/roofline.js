// Kernels by arithmetic intensity and speed, under the lines that the device cannot pass: its
// multiply-adds, its memory (Williams, Waterman, Patterson, "Roofline", CACM 52(4), 2009), and each
// level of its caches (Ilic, Pratas, Sousa, "Cache-aware Roofline Model", IEEE CAL 13(1), 2014).

import {element, emptyState, replace, shape} from "../ground/dom.js";
import {launchesOf, notMeasured} from "./launches.js";
import {amountText, countText, percentText, secondsText} from "../ground/numbers.js";
import {familyOf, moveTip, tipElement} from "../ground/plot.js";
import {roofsOf} from "../ground/roof.js";
import {clip} from "../ground/scene.js";

const MOST_POINTS = 400;

export async function rooflineView(app) {
  const {data} = app;
  if (!data.head.has.profile) return {node: notMeasured(app)};
  const profile = await data.profile();
  const spent = new Map();
  let total = 0;
  for (const event of profile.events) {
    const entry = spent.get(event.kernel) || {
      kernel: event.kernel,
      time: 0,
      flops: 0,
      bytes: 0,
      operations: [],
    };
    entry.time += event.end - event.start;
    entry.flops += event.flops;
    entry.bytes += event.bytes;
    entry.operations.push(event.operation);
    spent.set(event.kernel, entry);
    total += event.end - event.start;
  }
  const all = [...spent.values()].filter((entry) => entry.time);
  const counted = all.filter((entry) => entry.flops && entry.bytes).sort((a, b) => b.time - a.time);
  const points = counted.slice(0, MOST_POINTS);
  if (!points.length)
    return {
      node: emptyState(
        "Nothing to place",
        "No kernel of this program does arithmetic that was counted.",
      ),
    };
  const {peak, levels, levelOf: levelOfLaunches, roof: roofOfLaunches} = roofsOf(profile);
  const intensity = (entry) => entry.flops / entry.bytes,
    speed = (entry) => entry.flops / entry.time;
  const notes = [];
  if (all.length > counted.length)
    notes.push(`${countText(all.length - counted.length, "kernel")} without arithmetic not shown`);
  if (counted.length > points.length)
    notes.push(`${counted.length - points.length} more kernels with less time not shown`);
  const isAbove = (entry) => peak && speed(entry) > 1.02 * roof(entry);
  if (points.some(isAbove))
    notes.push(
      `above its line: the data was in a nearer ${profile.caches.length ? "level" : "cache"}, ` +
        "or the machine was busy when its peaks were measured",
    );
  if (levels.length > 1)
    notes.push("the line of a kernel is that of the nearest level that holds all its data");
  const host = element("div", {class: "roofline"});
  const picture = element("div", {class: "roofline-picture"});
  const tip = tipElement();
  const list = element(
    "ol",
    {class: "plain"},
    points.slice(0, 12).map((entry) =>
      element(
        "li",
        {},
        element(
          "button",
          {
            type: "button",
            class: "worst",
            "data-kernel": entry.kernel,
            onclick: () => app.select(entry.operations[0], "dock"),
          },
          element("span", {class: "worst-name"}, entry.kernel),
          element(
            "span",
            {class: "mono"},
            peak ? percentText(speed(entry) / roof(entry)) : `${speed(entry).toFixed(1)}`,
          ),
        ),
      ),
    ),
  );
  host.append(
    picture,
    element(
      "aside",
      {class: "heat-side scroll"},
      element("h3", {}, peak ? "longest kernels, share of their roof" : "longest kernels, GFLOP/s"),
      list,
      notes.map((note) => element("p", {class: "cap"}, note)),
      peak
        ? null
        : element(
            "p",
            {class: "cap"},
            "The peaks of this device were not measured: c.profile(with_peaks=True) does it, " +
              "explorer serve by itself.",
          ),
    ),
    tip,
  );
  const marks = new Map();

  // The nearest level that holds what one launch of the kernel reads and writes.
  function levelOf(entry) {
    return levelOfLaunches({...entry, launches: entry.operations.length});
  }

  function roof(entry) {
    return roofOfLaunches({...entry, launches: entry.operations.length});
  }

  function paint() {
    const width = picture.clientWidth,
      height = picture.clientHeight;
    if (!width || !height) return;
    const left = 56,
      right = 16,
      top = 20,
      bottom = 30;
    const ridges = levels.map((level) => peak / level.gbytes);
    const range = (values) => [
      10 ** Math.floor(Math.log10(Math.min(...values) * 0.8)),
      10 ** Math.ceil(Math.log10(Math.max(...values) * 1.25)),
    ];
    const [lowX, highX] = range([...points.map(intensity), ...ridges]);
    const [lowY, highY] = range([...points.map(speed), ...(peak ? [peak] : [])]);
    const x = (value) =>
      left + ((width - left - right) * Math.log10(value / lowX)) / Math.log10(highX / lowX);
    const y = (value) =>
      height -
      bottom -
      ((height - top - bottom) * Math.log10(value / lowY)) / Math.log10(highY / lowY);
    const powers = (low, high) =>
      Array.from({length: Math.round(Math.log10(high / low)) + 1}, (_, index) => low * 10 ** index);
    const plain = (value) =>
      value >= 1 ? amountText(value) : String(Number(value.toPrecision(1)));
    marks.clear();
    const largest = Math.max(...points.map((entry) => entry.time));
    const circles = [...points].reverse().map((entry) => {
      const circle = shape("circle", {
        class: `kernel-point family-${familyOf(data, entry.operations[0])}`,
        cx: x(intensity(entry)),
        cy: y(speed(entry)),
        r: 4 + 8 * Math.sqrt(entry.time / largest),
        role: "button",
        tabindex: -1,
        "data-kernel": entry.kernel,
        "aria-label":
          `${entry.kernel}, ${speed(entry).toFixed(1)} GFLOP/s at ` +
          `${intensity(entry).toFixed(1)} FLOP per byte`,
        onclick: () => app.select(entry.operations[0], "dock"),
        onmouseenter: (event) => showTip(event, entry),
        onmouseleave: () => {
          tip.hidden = true;
          app.hover.set([], []);
        },
      });
      marks.set(entry.kernel, [circle, entry]);
      return circle;
    });
    const lines = [];
    if (peak) {
      const from = ridges.length ? Math.max(Math.min(...ridges), lowX) : lowX;
      lines.push(
        shape("path", {class: "roof", d: `M${x(from)} ${y(peak)}H${x(highX)}`}),
        shape(
          "text",
          {class: "axis roof-label", x: x(highX) - 4, y: y(peak) - 5, "text-anchor": "end"},
          `multiply-adds ${peak.toFixed(0)} GFLOP/s`,
        ),
      );
    }
    for (const [index, {name, gbytes}] of levels.entries()) {
      const start = Math.max(lowX, lowY / gbytes);
      lines.push(
        shape("path", {
          class: name === "memory" ? "roof" : "roof cache-roof",
          d: `M${x(start)} ${y(start * gbytes)}L${x(ridges[index])} ${y(peak)}`,
        }),
      );
    }
    const dots = points.map((entry) => ({
      text: entry.kernel,
      x: x(intensity(entry)),
      y: y(speed(entry)),
      r: Number(marks.get(entry.kernel)[0].getAttribute("r")),
    }));
    const taken = dots.map((dot) => [dot.x - dot.r, dot.y - dot.r, dot.x + dot.r, dot.y + dot.r]);
    lines.push(
      levels.map((level, index) => {
        const start = Math.max(lowX, lowY / level.gbytes);
        return levelLabel(level, taken, {
          from: {x: x(start), y: y(start * level.gbytes)},
          to: {x: x(ridges[index]), y: y(peak)},
        });
      }),
    );
    replace(
      picture,
      shape(
        "svg",
        {
          width,
          height,
          role: "group",
          "aria-label": "kernels by arithmetic intensity and speed, both logarithmic",
        },
        powers(lowY, highY).map((tick) => [
          shape("line", {class: "grid", x1: left, x2: width - right, y1: y(tick), y2: y(tick)}),
          shape(
            "text",
            {class: "axis", x: left - 6, y: y(tick) + 4, "text-anchor": "end"},
            plain(tick),
          ),
        ]),
        powers(lowX, highX).map((tick) => [
          shape("line", {class: "grid", x1: x(tick), x2: x(tick), y1: top, y2: height - bottom}),
          shape(
            "text",
            {class: "axis", x: x(tick), y: height - bottom + 13, "text-anchor": "middle"},
            plain(tick),
          ),
        ]),
        shape(
          "text",
          {class: "axis", x: width - right, y: height - 4, "text-anchor": "end"},
          "FLOP per byte: arithmetic intensity →",
        ),
        shape("text", {class: "axis", x: 4, y: 10}, "GFLOP/s ↑"),
        lines,
        circles,
        pointLabels(dots, taken, {left, top, right: width - right, bottom: height - bottom}),
      ),
    );
    refresh();
  }

  function levelName({name}) {
    return name === "memory" ? name : `${name.toUpperCase()} cache`;
  }

  function showTip(event, entry) {
    app.hover.set(entry.operations, []);
    const level = levelOf(entry);
    const bound = level
      ? intensity(entry) < peak / level.gbytes
        ? `bound by ${levelName(level)}`
        : "bound by arithmetic"
      : "";
    replace(
      tip,
      element("strong", {}, entry.kernel),
      element(
        "div",
        {},
        `${speed(entry).toFixed(1)} GFLOP/s at ${intensity(entry).toFixed(1)} FLOP per byte`,
      ),
      peak
        ? element(
            "div",
            {},
            `${percentText(speed(entry) / roof(entry))} of its roof${bound ? `, ${bound}` : ""}`,
          )
        : null,
      element(
        "div",
        {},
        `${secondsText(entry.time / 1e9)}, ${percentText(entry.time / total)} of all, ` +
          `${countText(entry.operations.length, "launch", "launches")}`,
      ),
    );
    moveTip(tip, host, event);
  }

  function refresh() {
    const marked = launchesOf(app);
    for (const [circle, entry] of marks.values())
      circle.classList.toggle(
        "marked",
        entry.operations.some((operation) => marked.has(operation)),
      );
    for (const item of list.querySelectorAll("button"))
      item.classList.toggle(
        "marked",
        marks.get(item.dataset.kernel)?.[0].classList.contains("marked") ?? false,
      );
  }
  const facts = peak
    ? `measured peaks of ${profile.device}, ${countText(profile.threads, "thread")}`
    : profile.device;
  return {
    node: host,
    aside: element("span", {class: "quiet-text", title: profile.device}, facts),
    refresh,
    resized: paint,
    hovered() {
      const {operations} = app.hover.get();
      for (const [circle, entry] of marks.values())
        circle.classList.toggle(
          "hovered",
          entry.operations.some((operation) => operations.has(operation)),
        );
    },
  };
}

const LABEL_CHARACTER = 5.6;
const LABEL_HEIGHT = 12;
const isFree = (box, taken) =>
  taken.every(
    ([left, top, right, bottom]) =>
      box[2] < left || box[0] > right || box[3] < top || box[1] > bottom,
  );

// Along its line, where nothing stands yet: `taken` are boxes, to which its own is added.
function levelLabel({name, gbytes}, taken, {from, to}) {
  const text = `${name === "memory" ? name : name.toUpperCase()} ${gbytes.toFixed(0)} GB/s`;
  const [wide, high] = [to.x - from.x, to.y - from.y];
  const angle = Math.atan2(high, wide);
  const half = (LABEL_CHARACTER * text.length) / 2;
  const boxes = [0.15, 0.3, 0.45, 0.6, 0.75, 0.9].map((share) => {
    const middle = {x: from.x + share * wide, y: from.y + share * high - 5};
    // The text stands on the line: it reaches up from there.
    const reach = [half * Math.cos(angle) + 4, Math.abs(half * Math.sin(angle)) + 7];
    const centre = {x: middle.x - 4 * Math.sin(-angle), y: middle.y - 4};
    return {
      middle,
      box: [centre.x - reach[0], centre.y - reach[1], centre.x + reach[0], centre.y + reach[1]],
    };
  });
  const {middle, box} = boxes.find((place) => isFree(place.box, taken)) ?? boxes[0];
  taken.push(box);
  return shape(
    "text",
    {
      class: "axis roof-label level-label",
      "text-anchor": "middle",
      transform: `translate(${middle.x} ${middle.y}) rotate(${(angle * 180) / Math.PI})`,
    },
    text,
  );
}

// Names beside the points, the longest kernels first, where nothing stands yet: the others say
// theirs when they are pointed at. dots: [{text, x, y, r}]; room: {left, top, right, bottom}.
function pointLabels(dots, taken, room) {
  const isInside = (box) =>
    box[0] >= room.left && box[2] <= room.right && box[1] >= room.top && box[3] <= room.bottom;
  return dots.map(({text, x, y, r}) => {
    const shown = clip(text, 28);
    const width = LABEL_CHARACTER * shown.length,
      half = LABEL_HEIGHT / 2;
    const box = [
      [x + r + 3, y - half],
      [x - r - 3 - width, y - half],
      [x - width / 2, y - r - 2 - LABEL_HEIGHT],
      [x - width / 2, y + r + 2],
    ]
      .map(([left, top]) => [left, top, left + width, top + LABEL_HEIGHT])
      .find((place) => isInside(place) && isFree(place, taken));
    if (!box) return null;
    taken.push(box);
    return shape("text", {class: "axis point-label", x: box[0], y: box[1] + 10}, shown);
  });
}
