// Kernels by arithmetic intensity and speed, under the lines that the device cannot pass: its
// multiply-adds, its memory (Williams, Waterman, Patterson, "Roofline", CACM 52(4), 2009), and each
// level of its caches (Ilic, Pratas, Sousa, "Cache-aware Roofline Model", IEEE CAL 13(1), 2014).

import {element, emptyState, replace, shape} from "../ground/dom.js";
import {launchesOf, notMeasured} from "./launches.js";
import {amountText, countText, percentText} from "../ground/numbers.js";
import {familyOf, moveTip, tipElement} from "../ground/plot.js";
import {rooflineOf} from "./roof_points.js";
import {clip} from "../ground/scene.js";

const MOST_POINTS = 400;

export async function rooflineView(app) {
  const {data} = app;
  if (!data.head.has.profile) return {node: notMeasured(app)};
  const profile = await data.profile();
  const found = rooflineOf(profile);
  const {noun, words, peak, levels, speed, roof} = found;
  const all = found.entries.filter((entry) => entry.time);
  const total = all.reduce((sum, entry) => sum + entry.time, 0);
  const counted = all.filter((entry) => entry.work && entry.bytes).sort((a, b) => b.time - a.time);
  const points = counted.slice(0, MOST_POINTS);
  if (!points.length)
    return {
      node: emptyState(
        "Nothing to place",
        `No ${noun} of this program does arithmetic that was counted.`,
      ),
    };
  const intensity = (entry) => entry.work / entry.bytes;
  const notes = [];
  if (all.length > counted.length)
    notes.push(`${countText(all.length - counted.length, noun)} ${words.idle} not shown`);
  if (counted.length > points.length)
    notes.push(`${counted.length - points.length} more ${noun}s with less time not shown`);
  if (points.some(found.isAbove)) notes.push(found.above);
  notes.push(...found.notes);
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
            peak ? percentText(speed(entry) / roof(entry)) : words.short(speed(entry)),
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
      element("h3", {}, words.heading),
      list,
      notes.map((note) => element("p", {class: "cap"}, note)),
      found.advice ? element("p", {class: "cap"}, found.advice) : null,
    ),
    tip,
  );
  const marks = new Map();

  function paint() {
    const width = picture.clientWidth,
      height = picture.clientHeight;
    if (!width || !height) return;
    const left = 56,
      right = 16,
      top = 20,
      bottom = 30;
    const ridges = levels.map((level) => peak / level.rate);
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
          `${entry.kernel}, ${words.speed(speed(entry))} at ` +
          `${words.intensity(intensity(entry))}`,
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
          found.peakText,
        ),
      );
    }
    for (const [index, {name, rate}] of levels.entries()) {
      const start = Math.max(lowX, lowY / rate);
      lines.push(
        shape("path", {
          class: name === "memory" || found.hasOwnRoofs ? "roof" : "roof cache-roof",
          d: `M${x(start)} ${y(start * rate)}L${x(ridges[index])} ${y(peak)}`,
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
        const start = Math.max(lowX, lowY / level.rate);
        return levelLabel(level, taken, {
          from: {x: x(start), y: y(start * level.rate)},
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
          "aria-label": `${noun}s by arithmetic intensity and speed, both logarithmic`,
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
          words.axisX,
        ),
        shape("text", {class: "axis", x: 4, y: 10}, words.axisY),
        lines,
        found.hasOwnRoofs ? points.map(ownRoof) : null,
        circles,
        pointLabels(dots, taken, {left, top, right: width - right, bottom: height - bottom}),
      ),
    );
    refresh();

    // From a point to what it could reach at most.
    function ownRoof(entry) {
      const [at, to] = [x(intensity(entry)), y(roof(entry))];
      return [
        shape("path", {class: "own-roof", d: `M${at} ${y(speed(entry))}V${to}`}),
        shape("path", {class: "own-roof own-roof-end", d: `M${at - 6} ${to}H${at + 6}`}),
      ];
    }
  }

  function showTip(event, entry) {
    app.hover.set(entry.operations, []);
    const bound = found.bound(entry);
    replace(
      tip,
      element("strong", {}, entry.kernel),
      element("div", {}, `${words.speed(speed(entry))} at ${words.intensity(intensity(entry))}`),
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
        `${words.time(entry.time)}, ${percentText(entry.time / total)} of all, ` +
          words.details(entry),
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
  return {
    node: host,
    aside: element("span", {class: "quiet-text", title: profile.device}, found.facts),
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
function levelLabel({text}, taken, {from, to}) {
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
