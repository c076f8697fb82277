// Searching the schedule of a kernel: every candidate as a dot, predicted against measured time. In
// the app a button starts the search, and a dot or a row that is pressed becomes a branch.
//
// search = {kernel, default, chosen, why, correlation, total, candidates: [{choices, predicted,
//           measured, ratio, confirmed, status, reason, origin}]}, times in microseconds

import {SCHEDULE} from "../ground/addresses.js";
import {setText} from "../branches/documents.js";
import {button, element, replace, shape} from "../ground/dom.js";
import {countText, decode, exactText, secondsText} from "../ground/numbers.js";
import {moveTip, niceTicks, tipElement} from "../ground/plot.js";
import {clip} from "../ground/scene.js";

const SEARCH_DEFAULTS = {candidates: 16, seconds: 60, keep: false};
const MOST_SEARCHED_ROWS = 8;
const SCATTER = {width: 340, height: 250, left: 58, right: 12, top: 10, bottom: 36};

function candidateText({choices}) {
  return choices.map(([name, value]) => `${name} = ${value}`).join(", ");
}

function candidateTime(microseconds) {
  const value = decode(microseconds);
  return value > 0 && Number.isFinite(value) ? secondsText(value / 1e6) : "–";
}

export function scheduleSearch(app, kernel) {
  const {session} = app;
  const mayRun = Boolean(session && !session.isTrace());
  const found = () =>
    session?.searchOf(kernel.name) ??
    (kernel.search ? {status: "done", result: kernel.search, number: 0, most: 0, error: ""} : null);
  if (!mayRun && !found()) return null;
  app.searchSettings ??= {...SEARCH_DEFAULTS, open: new Set()};
  const settings = app.searchSettings;
  const host = element("details", {
    class: "schedule-search",
    open: settings.open.has(kernel.name) || found()?.status === "running",
  });
  host.addEventListener("toggle", () => {
    settings.open[host.open ? "add" : "delete"](kernel.name);
  });
  const controls = element("div", {class: "actions"}),
    picture = element("div", {class: "search-picture"});
  host.append(
    element("summary", {}, "search this schedule"),
    element(
      "p",
      {class: "quiet-text"},
      "Every dot is a candidate, timed in turns with the default. On the dashed line the cost " +
        "model is right.",
    ),
    controls,
    picture,
  );

  function apply({choices}) {
    const wanted = structuredClone(session.settings());
    const head = `${SCHEDULE}/${kernel.name}/`;
    for (const address of Object.keys(wanted.decisions))
      if (address.startsWith(head)) delete wanted.decisions[address];
    for (const [name, value] of choices) wanted.decisions[head + name] = value;
    session.fork(wanted);
  }

  const field = (name, label, most) => {
    const input = element("input", {
      type: "number",
      min: 2,
      max: most,
      step: 1,
      value: settings[name],
      size: 4,
      "aria-label": label,
      onchange: () => {
        settings[name] = Math.max(
          2,
          Math.min(most, Math.round(Number(input.value)) || SEARCH_DEFAULTS[name]),
        );
        input.value = settings[name];
      },
    });
    return element("label", {}, input, ` ${name}`);
  };
  const start = button(
    "search",
    "measure candidates of this kernel",
    () => session.startSearch(kernel.name, settings),
    {class: "primary"},
  );
  const stop = button("cancel", "stop after the candidate that runs; what was measured stays", () =>
    session.cancelSearch(),
  );
  const keep = element("input", {
    type: "checkbox",
    checked: settings.keep,
    "aria-label": "keep the fastest for later compilations",
    onchange: () => {
      settings.keep = keep.checked;
    },
  });
  const bar = element("progress", {max: 1, value: 0, "aria-label": "progress of the search"});
  const state = element("span", {class: "quiet-text", role: "status"});
  if (mayRun)
    controls.append(
      field("candidates", "most candidates", 200),
      field("seconds", "most seconds", 600),
      element(
        "label",
        {title: "later compilations of this machine use it"},
        keep,
        " keep the fastest",
      ),
      element("span", {class: "grow"}),
      bar,
      stop,
      start,
    );
  controls.append(state);

  function draw() {
    const search = found();
    const isRunning = search?.status === "running";
    [bar.hidden, stop.hidden, start.hidden] = [!isRunning, !isRunning, isRunning];
    start.disabled = Boolean(session?.isSearching()) && !isRunning;
    start.title = start.disabled
      ? "another kernel is being searched"
      : "measure candidates of this kernel";
    if (isRunning) bar.value = search.most ? search.number / search.most : 0;
    setText(
      state,
      !search
        ? ""
        : isRunning
          ? `candidate ${search.number + 1} of at most ${search.most}`
          : search.status === "failed"
            ? `the search failed: ${search.error}`
            : search.status === "cancelled"
              ? "cancelled; what was measured stays"
              : clip(search.result?.why ?? "", 200),
    );
    replace(picture, search?.result ? searchPicture(search.result, mayRun ? apply : null) : null);
  }

  session?.onSearches(draw);
  draw();
  return host;
}

// The dots, what they mean, and the fastest as a table.
function searchPicture(search, apply) {
  const rows = search.candidates.map((candidate, number) => ({
    ...candidate,
    number,
    predictedUs: decode(candidate.predicted),
    measuredUs: decode(candidate.measured),
  }));
  const dots = rows.filter(
    ({status, predictedUs, measuredUs}) =>
      status === "measured" && predictedUs > 0 && measuredUs > 0,
  );
  const left = rows.filter(({status}) => status !== "measured");
  const tip = tipElement();
  const host = element("div", {class: "search-scatter"});
  const lookOf = ({number}) =>
    number === search.chosen && number !== search.default
      ? "chosen-schedule"
      : number === search.default
        ? "default-schedule"
        : "other-schedule";
  const nameOf = (row) =>
    ({"chosen-schedule": "fastest", "default-schedule": "default", "other-schedule": ""})[
      lookOf(row)
    ];
  const about = (row) =>
    `${nameOf(row) ? `${nameOf(row)}: ` : ""}${candidateText(row)}; predicted ` +
    `${candidateTime(row.predicted)}, measured ${candidateTime(row.measured)}`;
  if (dots.length > 1)
    host.append(
      scatterOf(
        dots,
        lookOf,
        about,
        apply,
        (event, row) => {
          replace(
            tip,
            element(
              "strong",
              {},
              `candidate ${row.number}${nameOf(row) ? `, ${nameOf(row)}` : ""}`,
            ),
            element("div", {class: "mono"}, clip(candidateText(row), 300)),
            element(
              "div",
              {},
              `predicted ${candidateTime(row.predicted)}, measured ${candidateTime(row.measured)}`,
            ),
            row.number === search.default
              ? null
              : element(
                  "div",
                  {},
                  `${decode(row.ratio).toFixed(3)} of the default's time · ${row.origin}`,
                ),
            apply ? element("div", {class: "quiet-text"}, "a click makes it a branch") : null,
          );
          moveTip(tip, host, event, true);
        },
        () => {
          tip.hidden = true;
        },
      ),
    );
  host.append(tip);
  const key = element(
    "div",
    {class: "search-key"},
    [
      ["default-schedule", "■", "the default"],
      ["chosen-schedule", "◆", "the fastest"],
      ["other-schedule", "●", "others"],
    ].map(([look, glyph, words]) =>
      element(
        "span",
        {},
        element("span", {class: `mark-${look} key-dot`, "aria-hidden": "true"}, glyph),
        ` ${words}`,
      ),
    ),
  );
  const fastest = rows
    .filter(({status}) => status === "measured")
    .sort((a, b) => decode(a.ratio) - decode(b.ratio) || a.number - b.number)
    .slice(0, MOST_SEARCHED_ROWS);
  const table = element(
    "table",
    {class: "search-table", "aria-label": "the fastest candidates"},
    element(
      "thead",
      {},
      element(
        "tr",
        {},
        ["", "predicted", "measured", "ratio", "confirmed", "choices"].map((title) =>
          element("th", {scope: "col"}, title),
        ),
      ),
    ),
    element(
      "tbody",
      {},
      fastest.map((row) =>
        element(
          "tr",
          {class: row.number === search.chosen ? "marked" : ""},
          element(
            "td",
            {},
            apply
              ? button(
                  nameOf(row) || String(row.number),
                  "compile with this schedule: a branch",
                  () => apply(row),
                  {class: "link"},
                )
              : nameOf(row) || String(row.number),
          ),
          element("td", {class: "number"}, candidateTime(row.predicted)),
          element("td", {class: "number"}, candidateTime(row.measured)),
          element("td", {class: "number"}, decode(row.ratio).toFixed(3)),
          element("td", {class: "number"}, row.confirmed ? candidateTime(row.confirmed) : ""),
          element("td", {class: "mono", title: candidateText(row)}, clip(candidateText(row), 80)),
        ),
      ),
    ),
  );
  const correlation = decode(search.correlation);
  const reasons = [
    ...new Set(left.map(({status, reason}) => (reason ? `${status}, ${reason}` : status))),
  ];
  const notes = [
    Number.isFinite(correlation)
      ? `rank correlation of predicted and measured: ${correlation.toFixed(2)}`
      : "",
    left.length
      ? `${countText(left.length, "candidate")} without a time: ${clip(reasons.join("; "), 300)}`
      : "",
    search.total > rows.length ? `${exactText(search.total - rows.length)} more are not drawn` : "",
  ].filter(Boolean);
  return [
    dots.length > 1
      ? [host, key]
      : element("p", {class: "quiet-text"}, "The picture appears with the second time."),
    table,
    notes.map((note) => element("p", {class: "cap"}, note)),
  ];
}

function scatterOf(dots, lookOf, about, apply, show, hide) {
  const {width, height, left, right, top, bottom} = SCATTER;
  const range = (values) => [Math.min(...values) / 1.15, Math.max(...values) * 1.15];
  const [lowX, highX] = range(dots.map(({predictedUs}) => predictedUs)),
    [lowY, highY] = range(dots.map(({measuredUs}) => measuredUs));
  const x = (value) =>
    left + ((width - left - right) * Math.log(value / lowX)) / Math.log(highX / lowX);
  const y = (value) =>
    height - bottom - ((height - top - bottom) * Math.log(value / lowY)) / Math.log(highY / lowY);
  const order = {"other-schedule": 0, "default-schedule": 1, "chosen-schedule": 2};
  const marks = [...dots]
    .sort((a, b) => order[lookOf(a)] - order[lookOf(b)])
    .map((row) => {
      const look = lookOf(row),
        cx = x(row.predictedUs),
        cy = y(row.measuredUs);
      const attributes = {
        class: `candidate mark-${look}`,
        "data-candidate": row.number,
        role: apply ? "button" : "img",
        tabindex: apply ? 0 : null,
        "aria-label": about(row),
        onmouseenter: (event) => show(event, row),
        onmouseleave: hide,
        onclick: apply ? () => apply(row) : null,
        onkeydown: apply
          ? (event) => {
              if (event.key === "Enter") apply(row);
            }
          : null,
      };
      if (look === "chosen-schedule")
        return shape("path", {
          ...attributes,
          d: `M${cx} ${cy - 8}L${cx + 8} ${cy}L${cx} ${cy + 8}L${cx - 8} ${cy}Z`,
        });
      if (look === "default-schedule")
        return shape("rect", {...attributes, x: cx - 6, y: cy - 6, width: 12, height: 12});
      return shape("circle", {...attributes, cx, cy, r: 4.5});
    });
  const from = Math.max(lowX, lowY),
    to = Math.min(highX, highY);
  const tick = (value) => secondsText(value / 1e6);
  return shape(
    "svg",
    {
      width,
      height,
      viewBox: `0 0 ${width} ${height}`,
      role: "group",
      "aria-label": "candidates by predicted and measured time, both logarithmic",
    },
    shape("rect", {
      class: "frame",
      x: left,
      y: top,
      width: width - left - right,
      height: height - top - bottom,
    }),
    from < to
      ? shape("line", {class: "right-line", x1: x(from), y1: y(from), x2: x(to), y2: y(to)})
      : null,
    timeTicks(lowX, highX).map((value) => [
      shape("line", {class: "grid", x1: x(value), x2: x(value), y1: top, y2: height - bottom}),
      shape(
        "text",
        {class: "axis", x: x(value), y: height - bottom + 13, "text-anchor": "middle"},
        tick(value),
      ),
    ]),
    timeTicks(lowY, highY).map((value) => [
      shape("line", {class: "grid", x1: left, x2: width - right, y1: y(value), y2: y(value)}),
      shape(
        "text",
        {class: "axis", x: left - 5, y: y(value) + 4, "text-anchor": "end"},
        tick(value),
      ),
    ]),
    shape(
      "text",
      {class: "axis", x: width - right, y: height - 5, "text-anchor": "end"},
      "predicted →",
    ),
    shape("text", {class: "axis", x: 4, y: height - 5}, "measured ↑"),
    marks,
  );
}

// Round numbers between two times on a logarithmic scale, at most five.
function timeTicks(low, high) {
  const wide = Math.log10(high / low) > 0.7;
  if (!wide) {
    // Finer ones until there are two: a single tick says nothing of the scale.
    const inside = [3, 5, 8, 12]
      .map((count) => niceTicks(high, count, low).filter((value) => value > low))
      .find((ticks) => ticks.length > 1);
    return inside ?? [low, high];
  }
  const found = [];
  for (let exponent = Math.floor(Math.log10(low)); 10 ** exponent <= high; exponent += 1)
    for (const step of [1, 2, 5]) found.push(step * 10 ** exponent);
  const inside = found.filter((value) => value >= low && value <= high);
  return inside.filter((_, index) => index % Math.ceil(inside.length / 5) === 0);
}
