// What each tensor costs as bytes, and the ways of choosing modes between INT8 and float: tensors
// by their noise on one scale of decibels, and points of cost and decibels with their Pareto front.
// A point can be compiled.

import {button, element, emptyState, replace} from "../ground/dom.js";
import {countText, decode} from "../ground/numbers.js";
import {frontPlot} from "./front_plot.js";
import {fork} from "./quantization_fork.js";
import {decibels, sensitivityPlot} from "./sensitivity_plot.js";

export async function sensitivityView(app) {
  const {data, store} = app;
  if (!data.head.has.precision)
    return {
      node: emptyState(
        "No modes were searched for",
        "explorer mixed MODEL --table TABLE --data FILE.npz --sqnr DB -o QTABLE finds which " +
          "tensors are better INT16 or F32; a program compiled with its QTABLE " +
          "(modes=explorer.mixed(...) in Python) shows here what they were chosen by.",
      ),
    };
  const found = decoded(await data.chunk("sensitivity"));
  // Kept while other numbers of the same branch arrive.
  app.precision ??= {point: found.chosen};
  const inUse = found.points.findIndex((point) => isCompiled(found, point));
  const said = element("p", {class: "quiet-text quantized-said", role: "status"});
  const words = element("div", {class: "front-words", "aria-live": "polite"});
  const tensors = sensitivityPlot(found, (tensor) => {
    if (tensor.operation) app.select(tensor.operation, "dock");
  });
  const front = frontPlot(found, {inUse, shown: () => app.precision.point, pick});
  const node = element(
    "div",
    {class: "sensitivity"},
    element("div", {class: "sensitivity-list scroll"}, tensors.node),
    element("div", {class: "sensitivity-main scroll"}, words, said, front.node),
  );

  function pick(place) {
    app.precision.point = place;
    replace(said);
    describe();
    front.paint();
  }

  function describe() {
    const place = Math.min(app.precision.point, found.points.length - 1);
    const point = found.points[place];
    const {quality} = point;
    const accuracy = quality.accuracy === null ? "" : `, accuracy ${quality.accuracy.toFixed(2)} %`;
    replace(
      words,
      element(
        "p",
        {},
        element("strong", {}, `${decibels(quality.sqnr)}, ${point.cost.toFixed(2)} times INT8`),
        ` · ${countText(quality.differ, "largest output")} unlike the float model's` +
          accuracy +
          (point.isMeasured ? " · measured in integers" : " · simulated") +
          (point.milliseconds === null ? "" : ` · ${point.milliseconds.toPrecision(3)} ms`),
      ),
      element("p", {class: "quiet-text"}, `${point.words}${roleOf(place)}`),
      place === inUse
        ? null
        : button(
            "compile these modes",
            "a fork in which these tensors have these modes",
            () => fork(app, decisionsOf(found, point), said),
            {class: "quiet"},
          ),
    );
  }

  function roleOf(place) {
    const roles = [
      place === found.chosen ? "chosen by the search" : "",
      place === inUse ? "this program" : "",
      found.points[place].isBest ? "on the front" : "",
    ].filter(Boolean);
    return roles.length ? ` · ${roles.join(", ")}` : "";
  }

  const paint = () => {
    tensors.paint();
    front.paint();
  };

  function refresh() {
    const {selection} = store.get();
    const sources = new Set(selection ? data.sourcesOf(selection) : []);
    tensors.mark(
      ({operation}) =>
        operation !== "" &&
        (operation === selection || data.sourcesOf(operation).some((name) => sources.has(name))),
    );
  }

  describe();
  refresh();
  const aside = element(
    "span",
    {class: "quiet-text aside-note", title: found.summary},
    found.wanted,
  );
  return {node, aside, refresh, resized: paint};
}

function decoded(raw) {
  const quality = ([sqnr, differ, accuracy]) => ({
    sqnr: decode(sqnr),
    differ,
    accuracy: accuracy === null ? null : decode(accuracy),
  });
  return {
    ...raw,
    tensors: raw.tensors.map((tensor) => ({
      ...tensor,
      alone: quality(tensor.alone),
      without: quality(tensor.without),
      wide: quality(tensor.wide),
    })),
    points: raw.points.map((point) => ({
      ...point,
      cost: decode(point.cost),
      quality: quality(point.quality),
      milliseconds: point.milliseconds === null ? null : decode(point.milliseconds),
    })),
  };
}

const modeOf = (point, tensor) => point.modes[tensor] ?? "INT8";

// Whether the program that is shown has the modes of a point.
const isCompiled = ({modes}, point) =>
  Object.entries(modes).every(([tensor, mode]) => modeOf(point, tensor) === mode);

// A mode for each tensor that has another one in the program that is shown.
function decisionsOf({modes, modeAddress}, point) {
  const others = Object.entries(modes).filter(([tensor, mode]) => modeOf(point, tensor) !== mode);
  return Object.fromEntries(
    others.map(([tensor]) => [`${modeAddress}${tensor}`, modeOf(point, tensor)]),
  );
}
