// What is in sight of a drawing, and only that, in the document; from afar names instead of nodes.

import {edgeLabels} from "./edge_labels.js";
import {letteringAt, namesWithRoom} from "./lettering.js";
import {
  makeBracket,
  makeEdge,
  makeFarName,
  makeFrame,
  makeLabel,
  makeNode,
  makeTitle,
  makeTurn,
} from "./graph_nodes.js";
import {shortNames, widthOfText} from "./names_that_fit.js";
import {edgeClass, nodeClass} from "./selection.js";
import {replace} from "../ground/dom.js";
import {clip, turnsOf} from "../ground/scene.js";

const SIGHT_MARGIN = 160;
const MAX_ELEMENTS = 1500;
const LABEL_ZOOM = 0.7; // from here on edges say what they carry
// Families whose names come first where there is no room for all.
const IMPORTANT = new Map([
  ["input", 9],
  ["output", 9],
  ["convolution", 8],
  ["recurrent", 8],
  ["normalization", 6],
  ["pooling", 5],
  ["reduction", 4],
  ["elementwise", 2],
]);

// {begin(), draw(), refreshClasses(), nodes}; sceneNow() -> what is drawn; size() ->
// [width, height] of the pane; overlay paints the nodes.
export function createSight({app, camera, canvas, overlay, sceneNow, size}) {
  const {
    boxesLayer,
    edgesLayer,
    labelsLayer,
    marksLayer,
    nodesLayer,
    turnsLayer,
    titlesLayer,
    namesLayer,
  } = canvas;
  let lettering = letteringAt(1);
  let isNew = true; // nothing of the drawing is in the document
  const nodeElements = new Map();
  const edgeElements = new Map();
  const labelElements = new Map();

  // Another drawing: nothing of the one before stays.
  function begin() {
    const scene = sceneNow();
    for (const elements of [nodeElements, edgeElements, labelElements]) {
      for (const item of elements.values()) item.remove();
      elements.clear();
    }
    replace(boxesLayer, scene.boxes.map(makeFrame));
    isNew = true;
    replace(
      marksLayer,
      scene.brackets.map((bracket) => makeBracket(scene, bracket)),
    );
  }

  // Draws what came into sight and takes away what went; what is said of the rest.
  function draw() {
    const scene = sceneNow();
    const [width, height] = size();
    const {view} = camera;
    const letters = letteringAt(view.k);
    if (isNew || letters.scale !== lettering.scale) {
      isNew = false;
      lettering = letters;
      for (const elements of [nodeElements, labelElements]) {
        for (const item of elements.values()) item.remove();
        elements.clear();
      }
      drawTitles();
    }
    const left = (-view.x - SIGHT_MARGIN) / view.k,
      right = (width - view.x + SIGHT_MARGIN) / view.k;
    const top = (-view.y - SIGHT_MARGIN) / view.k,
      bottom = (height - view.y + SIGHT_MARGIN) / view.k;
    const inSight = scene.items.filter(
      (item) => item.x > left && item.x < right && item.y > top && item.y < bottom,
    );
    const shown = inSight.slice(0, MAX_ELEMENTS);
    keep(
      nodeElements,
      nodesLayer,
      shown,
      (item) => item.id,
      (item) => makeNode(app, scene, item, lettering),
      (item) => nodeClass(scene, item),
    );
    const edges = scene.edges.filter(
      (edge) => edge.right > left && edge.left < right && edge.bottom > top && edge.top < bottom,
    );
    keep(
      edgeElements,
      edgesLayer,
      edges.slice(0, MAX_ELEMENTS),
      (edge) => edge.key,
      makeEdge,
      (edge) => edgeClass(scene, edge),
    );
    overlay.paint(nodeElements, scene);
    const labels =
      view.k < LABEL_ZOOM
        ? []
        : labelsOfEdges().filter(
            ({box}) => box.right > left && box.left < right && box.bottom > top && box.top < bottom,
          );
    keep(
      labelElements,
      labelsLayer,
      labels.slice(0, MAX_ELEMENTS),
      (label) => label.key,
      (label) => makeLabel(label, lettering),
      () => "edge-label",
    );
    drawTurns(edges);
    drawFarNames(shown);
    const notes = [];
    if (edges.length > MAX_ELEMENTS)
      notes.push(
        `${edges.length - MAX_ELEMENTS} of ${edges.length} edges in sight are not drawn: zoom in`,
      );
    if (inSight.length > shown.length)
      notes.push(
        `${inSight.length - shown.length} of ${inSight.length} operations in sight are not ` +
          "drawn: zoom in",
      );
    if (scene.hiddenNote) notes.push(scene.hiddenNote);
    return notes;
  }

  // In the whole drawing, so that a text stays in its place when the drawing is moved.
  function labelsOfEdges() {
    const scene = sceneNow();
    const margin = camera.beside();
    const key = `${lettering.scale} ${margin}`;
    if (scene.labelled?.key !== key) {
      const widthOf = (text) => widthOfText(app, text, lettering.shape);
      scene.labelled = {key, labels: edgeLabels(scene, lettering, widthOf, margin)};
    }
    return scene.labelled.labels;
  }

  function drawTitles() {
    replace(
      titlesLayer,
      sceneNow().boxes.map((box) => makeTitle(app, box, lettering)),
    );
  }

  // Where the drawing goes on in the next column, the same number stands at both ends.
  function drawTurns(edges) {
    replace(
      turnsLayer,
      turnsOf(edges).map((turn) => makeTurn(turn, lettering)),
    );
  }

  // From far away no node has room for its name: some names stand across the graph.
  function drawFarNames(items) {
    if (lettering.level !== "far") {
      if (namesLayer.childElementCount) namesLayer.replaceChildren();
      return;
    }
    const {selected} = sceneNow();
    const size = lettering.label * lettering.scale;
    const names = items
      .filter((item) => !item.isGhost)
      .map((item) => {
        const [x, y] = camera.onScreen(item);
        const weight =
          (item.inside ? 100 : 0) +
          (item.id === selected ? 1000 : 0) +
          (IMPORTANT.get(item.record.family) ?? 0);
        const texts = shortNames(item.record.label).flatMap((name) => [
          clip(name, 24),
          clip(name, 8),
        ]);
        return {item, x, y, texts, weight};
      });
    const card = sceneNow().node.map((length) => length * camera.view.k);
    const widthOf = (text) => widthOfText(app, text, size);
    const titles = sceneNow().boxes.map((box) => {
      const [left, top] = camera.onScreen(box);
      const [right, bottom] = [left + box.width * camera.view.k, top + size * 1.3];
      return {left, top, right, bottom};
    });
    const chosen = namesWithRoom(names, widthOf, size * 1.3, card, titles);
    replace(
      namesLayer,
      chosen.map((name) => makeFarName(name, lettering)),
    );
  }

  function keep(elements, layer, wanted, keyOf, make, classOf) {
    const keys = new Set(wanted.map(keyOf));
    for (const [key, item] of elements) {
      if (!keys.has(key)) {
        item.remove();
        elements.delete(key);
      }
    }
    for (const item of wanted) {
      if (elements.has(keyOf(item))) continue;
      const made = make(item);
      made.setAttribute("class", classOf(item));
      elements.set(keyOf(item), made);
      // Ghosts lie below what replaces them.
      if (item.isGhost) layer.prepend(made);
      else layer.append(made);
    }
  }

  function refreshClasses() {
    const scene = sceneNow();
    for (const [id, item] of nodeElements)
      item.setAttribute("class", nodeClass(scene, scene.byId.get(id)));
    for (const [key, item] of edgeElements)
      item.setAttribute("class", edgeClass(scene, scene.edgeByKey.get(key)));
  }

  return {begin, draw, refreshClasses, nodes: nodeElements};
}
