// What the cheapest assignment costs where transfers were so many times as fast: a slider over the
// factors, a bar of the time for each, and what runs where with the chosen one.

import {element} from "../ground/dom.js";
import {specificationPane} from "../ground/specification.js";

/** The pane of the placement: its specification with the slider. */
export const placementPane = (app, tab) =>
  specificationPane(app, tab, {bandwidths: (_, data) => bandwidthSlider(data)});

/**
 * @typedef {{factor: string, share: number, time: string, words: string}} Point
 * @param {{points: Point[], start: number}} data
 *   share: of the longest time; start: the point of the prices as they are
 */
function bandwidthSlider({points, start}) {
  const bars = points.map(({factor, share, time}) =>
    element(
      "span",
      {class: "bandwidth-column"},
      element("span", {class: "bandwidth-time"}, time),
      element("span", {class: "bandwidth-bar", style: `height: ${(60 * share).toFixed(2)}px`}),
      element("span", {class: "quiet-text"}, factor),
    ),
  );
  const said = element("output", {class: "bandwidth-said"});
  const slider = element("input", {
    type: "range",
    min: 0,
    max: points.length - 1,
    step: 1,
    value: start,
    "aria-label": "bandwidth between devices",
    oninput: () => show(),
  });
  const show = () => {
    const at = Number(slider.value);
    bars.forEach((bar, number) => bar.classList.toggle("chosen", number === at));
    said.textContent = `bandwidth ${points[at].factor}: ${points[at].words}`;
    slider.setAttribute("aria-valuetext", said.textContent);
  };
  show();
  return element(
    "div",
    {class: "bandwidths"},
    element("h3", {}, "predicted time by the bandwidth between devices"),
    element("div", {class: "bandwidth-bars", "aria-hidden": "true"}, bars),
    slider,
    said,
  );
}
