// A line of the author's program and what became of it, both ways: the lines beside what is
// selected, each with its kernels, and above a kernel's text the lines that it is made from.

import {element} from "../ground/dom.js";
import {countText} from "../ground/numbers.js";
import {clip} from "../ground/scene.js";

const MAX_LINES = 3; // beside what is selected
const MAX_MADE_FROM = 6; // above a kernel's text
const MAX_KERNELS = 4; // of one line

/** What was picked in the kernel that is shown, and whether it is made of the picked line. */
export function pickedIn({data}, {state, line, kernel, launches}) {
  const pin = state.pin?.kernel === data.kernels[kernel].name ? state.pin : null;
  return {pin, isOfLine: Boolean(line) && hasPartIn(line, data.sourcesOfLaunch(launches[0]))};
}

// Whether a line, or one that it calls, made one of the nodes.
function hasPartIn(line, names) {
  return line.all.some((name) => names.includes(name));
}

const linesOf = (lines, names) =>
  lines.filter(({nodes}) => nodes.some((name) => names.includes(name)));
const shortPlace = ({file, number}) => `${file.split("/").pop()}:${number}`;

/** Above a kernel's text: the lines that made what it computes; null where none is known. */
export function madeFrom(app, {lines, line: picked, launches}) {
  const found = linesOf(lines, app.data.sourcesOfLaunch(launches[0]));
  if (!found.length) return null;
  const more = found.length - MAX_MADE_FROM;
  return element(
    "div",
    {class: "made-from"},
    element("span", {class: "quiet-text"}, "made from"),
    found.slice(0, MAX_MADE_FROM).map((line) => lineLink(app, line, line === picked)),
    more > 0 ? element("span", {class: "quiet-text"}, `and ${countText(more, "more line")}`) : null,
  );
}

function lineLink(app, line, isPicked) {
  return element(
    "button",
    {
      type: "button",
      class: "line-link mono",
      "aria-current": isPicked ? "true" : null,
      title: `${line.place}  ${clip(line.text, 200)}; press to see it beside what it became`,
      onclick: () => showLine(app, line),
      onmouseenter: () => app.hover.set([], [], {nodes: line.all}),
      onmouseleave: () => app.hover.set([], []),
    },
    shortPlace(line),
  );
}

// The line is marked among the others; they come beside the kernel where they are not in sight.
function showLine(app, {place}) {
  const isShown = app.inspector.codePanes().some(({level}) => level === "model");
  app.store.set({line: place, ...(isShown ? {} : {tab: "model", beside: true})});
}

/** Beside what is selected: the lines that made it; of a picked one its kernels. null: no lines. */
export function lineRow(app, {lines, line: picked, sources}) {
  const found = linesOf(lines, sources).filter((line) => line !== picked);
  // The picked line first: it may be one that calls the others.
  if (picked && hasPartIn(picked, sources)) found.unshift(picked);
  if (!found.length) return null;
  const more = found.length - MAX_LINES;
  return element(
    "div",
    {class: "origin-row python-row"},
    element("span", {class: "row-label"}, "Python"),
    element(
      "span",
      {},
      found.slice(0, MAX_LINES).map((line) => [
        element(
          "button",
          {
            type: "button",
            class: "python-of",
            title: `${line.place}  ${line.text}; press to see it among the others`,
            onclick: () => showLine(app, line),
          },
          element("span", {class: "quiet-text"}, shortPlace(line)),
          line.text,
        ),
        line === picked ? kernelsOf(app, line) : null,
      ]),
      more > 0
        ? element("span", {class: "quiet-text"}, `and ${countText(more, "more line")}`)
        : null,
    ),
  );
}

// Kernels that a line became, where it became several: one of them is shown, these are all.
function kernelsOf(app, line) {
  const {data} = app;
  const launches = new Map(); // name of a kernel -> the first operation that launches it
  for (const [operation, kernel] of data.kernelOf)
    if (!data.isCopy(operation) && hasPartIn(line, data.sourcesOfLaunch(operation)))
      if (!launches.has(data.kernels[kernel].name))
        launches.set(data.kernels[kernel].name, operation);
  if (launches.size < 2) return null;
  const more = launches.size - MAX_KERNELS;
  return element(
    "span",
    {class: "kernels-of-line quiet-text"},
    `${countText(launches.size, "kernel")}: `,
    [...launches].slice(0, MAX_KERNELS).map(([name, operation]) =>
      element(
        "button",
        {
          type: "button",
          class: "line-link mono",
          title: `what the line became in ${name}`,
          onclick: () => app.select(operation, "inspector", {line: line.place}),
        },
        name,
      ),
    ),
    more > 0 ? `and ${countText(more, "more kernel")}` : null,
  );
}
