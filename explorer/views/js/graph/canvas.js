// The empty drawing: one layer over the other, what is written on top.

import {shape} from "../ground/dom.js";

export function createCanvas() {
  const boxesLayer = shape("g", {class: "boxes"});
  const edgesLayer = shape("g", {class: "edges"});
  const labelsLayer = shape("g", {class: "edge-labels"});
  const marksLayer = shape("g", {class: "brackets"});
  const titlesLayer = shape("g", {class: "titles"});
  const nodesLayer = shape("g", {class: "nodes"});
  const turnsLayer = shape("g", {class: "turns"});
  const namesLayer = shape("g", {class: "far-names"});
  const plane = shape(
    "g",
    {},
    boxesLayer,
    edgesLayer,
    labelsLayer,
    marksLayer,
    nodesLayer,
    turnsLayer,
    titlesLayer,
    namesLayer,
  );
  const svg = shape(
    "svg",
    {
      class: "canvas",
      tabindex: 0,
      role: "application",
      "aria-label": "graph of operations; arrow keys follow the edges, plus and minus zoom, g fits",
    },
    plane,
  );
  const layers = {
    boxesLayer,
    edgesLayer,
    labelsLayer,
    marksLayer,
    nodesLayer,
    turnsLayer,
    titlesLayer,
    namesLayer,
  };
  return {svg, plane, ...layers};
}
