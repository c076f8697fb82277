// The graph of one pass: before, after, or both at once with what the pass did. What stays from one
// drawing to the next keeps its order and is seen to move. Blocks open and close. Only what is in
// sight is in the document.

import {NODE, createDrawings} from "./drawing.js";
import {createCamera} from "./camera.js";
import {edgeLabels} from "./edge_labels.js";
import {letteringAt, namesWithRoom} from "./lettering.js";
import {moveNodes} from "./motion.js";
import {button, element, emptyState, markTab, replace, shape, tabRow} from "../ground/dom.js";
import {
  legendContent,
  makeBracket,
  makeEdge,
  makeFarName,
  makeFrame,
  makeLabel,
  makeNode,
  makeTitle,
  makeTurn,
  tipOfEdge,
  tipOfNode,
  widthOfText,
} from "./graph_nodes.js";
import {createMinimap} from "./minimap.js";
import {createOverlay} from "./overlay.js";
import {countText, exactText} from "../ground/numbers.js";
import {clip, safeName, turnsOf} from "../ground/scene.js";

const VIEWS = [
  {id: "before", label: "before", title: "the program before this pass"},
  {id: "diff", label: "diff", title: "both at once, with what the pass did (d)"},
  {id: "after", label: "after", title: "the program after this pass"},
];
const SIGHT_MARGIN = 160;
const MOST_ELEMENTS = 1500;
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

export function graphPane(app) {
  const {data, store} = app;
  const tabs = tabRow(VIEWS, store.get().view, (view) => store.set({view}), "graph of the pass");
  tabs.classList.add("segmented");
  const title = element("span", {class: "pane-title"}, "Graph");
  const counts = element("span", {class: "graph-counts"});
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
  const tip = element("div", {class: "tip", role: "tooltip", hidden: true});
  const legend = element("details", {class: "legend"});
  const minimap = createMinimap((x, y) => {
    camera.goTo({x, y});
    moved();
  });
  const lost = element(
    "button",
    {
      type: "button",
      class: "graph-lost",
      hidden: true,
      onclick: () => {
        camera.goTo(camera.nearest());
        moved();
      },
    },
    "Nothing of the graph is here: go back to it",
  );
  const capNote = element("div", {class: "cap graph-cap", hidden: true});
  const message = element("div", {class: "graph-message", hidden: true});
  const body = element("div", {class: "graph-body"}, svg, lost, message, minimap.node, tip);
  const zoomed = element(
    "button",
    {type: "button", class: "quiet zoom", title: "zoom to 100 %", onclick: () => zoom(1)},
    "100 %",
  );
  const blocksButton = button(
    "blocks",
    "operations in blocks that open and close, or one by one",
    () => store.set({blocks: !drawings.usesBlocks()}),
    {class: "quiet blocks-switch", hidden: !data.blocks || !data.head.blocks.flat},
  );
  const closeButton = button("close all", "close all blocks", () => openBlocks(new Set()), {
    class: "quiet close-all",
  });
  const makeRoom = (isShown) => {
    node.classList.toggle("numbered", isShown);
    fit();
  };
  const overlay = createOverlay(app, () => draw(), makeRoom);
  overlay.acceptDrops(app.node);
  const holdButton = button(
    element("span", {}, "hold", element("span", {class: "long"}, " still")),
    "one place for every operation in all passes, with room for those that are not there",
    () => store.set({hold: !store.get().hold}),
    {class: "quiet hold-switch", "aria-label": "hold still"},
  );
  const node = element(
    "section",
    {class: "pane graph", "aria-label": "graph"},
    element(
      "header",
      {class: "pane-head"},
      title,
      counts,
      element("span", {class: "grow"}),
      closeButton,
      blocksButton,
      holdButton,
      tabs,
      button("−", "zoom out (−)", () => zoom(camera.view.k / 1.25), {class: "icon"}),
      zoomed,
      button("+", "zoom in (+)", () => zoom(camera.view.k * 1.25), {class: "icon"}),
      button("fit", "fit the graph into the pane (g)", () => fit(), {class: "quiet"}),
    ),
    body,
    overlay.panel,
    element("footer", {class: "graph-foot"}, legend, capNote, overlay.choice),
  );

  let scene = null; // what is drawn: {items, edges, brackets, layout, width, height}
  let anchor = null; // {block, at}: what stays in its place on the screen when it is drawn next
  let hasFitted = false;
  let lettering = letteringAt(1);
  let asking = 0; // the number of the drawing that was asked for last
  let drawn = Promise.resolve(); // the last drawing that was asked for
  const nodeElements = new Map();
  const edgeElements = new Map();
  const labelElements = new Map();
  const drawings = createDrawings(data, store);
  const camera = createCamera(size, () => scene);

  // ---- what is drawn

  const isOpen = () => new Set(store.get().open);

  function openBlocks(open) {
    store.set({open: [...open].sort((a, b) => a - b)});
  }

  // Opens a closed block and closes an open one, with it those that repeat it; what is around it
  // stays where it is on the screen.
  function toggleBlock(unit, alone = false) {
    const block = data.blocks?.indexOf(unit);
    if (block === undefined || !drawings.usesBlocks()) return;
    anchor = {block, at: topOf(block)};
    camera.stay();
    openBlocks(data.blocks.toggled(isOpen(), block, alone));
  }

  // The middle of the upper border of a block, open or closed, on the screen.
  function topOf(block) {
    const box = scene.boxes.find((item) => item.block === block);
    const item = scene.byId.get(`#${block}`);
    if (!box && !item) return null;
    const [x, y] = box ? [box.x + box.width / 2, box.y] : [item.x, item.y - scene.node[1] / 2];
    return camera.onScreen({x, y});
  }

  async function update() {
    const state = store.get();
    markTab(tabs, state.view);
    asking += 1;
    const number = asking;
    const isWanted = () => number === asking;
    const pass = data.head.passes[state.pass];
    let drawing;
    try {
      const [before, after, details] = await Promise.all([
        data.graphOfPass(Math.max(0, state.pass - 1)),
        data.graphOfPass(state.pass),
        data.passDetails(state.pass),
      ]);
      const pictures = {before, after, details};
      await drawings.decide(pictures, camera.room(), isWanted);
      if (!isWanted()) return drawn;
      drawing = await drawings.draw(pictures, state, camera.room(), isWanted);
      if (!drawing || !isWanted()) return drawn;
      show({...drawing, before, after}, pass);
    } catch (failure) {
      message.hidden = false;
      replace(
        message,
        emptyState(
          "The graph could not be loaded",
          failure.message,
          button("try again", "load the graph again", () => update()),
        ),
      );
    }
    return undefined;
  }

  function show({scene: next, ...others}, pass) {
    const places = new Map(
      scene?.items.filter((item) => !item.isGhost).map((item) => [item.id, camera.onScreen(item)]),
    );
    message.hidden = true;
    tip.hidden = true;
    const selectedBefore = scene?.selected;
    scene = {...next, ...others};
    replace(
      counts,
      pass.changed ? `${exactText(pass.before)} → ${exactText(pass.after)}` : exactText(pass.after),
      element("span", {class: "long"}, pass.changed ? " operations" : " operations, unchanged"),
    );
    if (pass.level === "source")
      replace(
        counts,
        countText(pass.after, "node"),
        element("span", {class: "long"}, " of the file"),
      );
    counts.title = pass.changed
      ? `${exactText(pass.before)} operations before, ${exactText(pass.after)} after`
      : `${countText(pass.after, "operation")}, unchanged`;
    title.textContent = pass.name;
    title.title = pass.description;
    legend.replaceChildren(...legendContent(app, scene));
    blocksButton.setAttribute("aria-pressed", String(drawings.usesBlocks()));
    holdButton.setAttribute("aria-pressed", String(store.get().hold));
    closeButton.hidden = !drawings.usesBlocks() || !scene.boxes.length;
    const closed = scene.items.filter((item) => item.inside);
    const hidden = closed.reduce(
      (sum, item) => sum + Math.max(item.inside.before, item.inside.after),
      0,
    );
    scene.hiddenNote = hidden
      ? `${countText(hidden, "operation")} in ${countText(closed.length, "closed block")}: ` +
        "open one with +, or search with /"
      : "";
    for (const elements of [nodeElements, edgeElements, labelElements]) {
      for (const item of elements.values()) item.remove();
      elements.clear();
    }
    replace(boxesLayer, scene.boxes.map(makeFrame));
    lettering = letteringAt(camera.view.k);
    drawTitles();
    replace(
      marksLayer,
      scene.brackets.map((bracket) => makeBracket(scene, bracket)),
    );
    if (!scene.items.length) {
      message.hidden = false;
      replace(
        message,
        emptyState(
          "No operations here",
          "This snapshot has no graph. Choose another pass on the left.",
        ),
      );
    }
    if (!hasFitted) {
      if (body.clientWidth) {
        hasFitted = true;
        camera.fit();
      }
    } else camera.follow(anchorsOf(places, selectedBefore));
    anchor = null;
    apply();
    updateSelection();
    draw();
    overview();
    const half = [NODE[0] / 2, NODE[1] / 2];
    const fades = [edgesLayer, labelsLayer, marksLayer, boxesLayer, turnsLayer];
    moveNodes(nodeElements, scene.byId, places, camera.view, half, fades);
  }

  // What stays where it is on the screen: the block that was opened or closed, what is selected, or
  // what was closest to the middle.
  function anchorsOf(places, selected) {
    const wanted = anchor?.at && topOf(anchor.block);
    if (wanted) {
      const {x, y, k} = camera.view;
      return [[{x: (wanted[0] - x) / k, y: (wanted[1] - y) / k}, ...anchor.at]];
    }
    const [width, height] = size();
    const far = ([x, y]) => Math.hypot(x - width / 2, y - height / 2);
    const staying = [...places]
      .filter(([id]) => scene.byId.has(id))
      .sort(
        (a, b) => Number(b[0] === selected) - Number(a[0] === selected) || far(a[1]) - far(b[1]),
      );
    return staying.slice(0, 1).map(([id, [x, y]]) => [scene.byId.get(id), x, y]);
  }

  function updateSelection() {
    if (!scene) return;
    const {selection} = store.get();
    const records = new Map([...scene.before.nodes, ...scene.after.nodes]);
    const unitOf = (id) => scene.unitOf(records.get(id));
    const followed = data.follow(
      selection,
      [...records].map(([id, record]) => [id, record.sources]),
    );
    const seen = followed.map(unitOf).filter((unit) => scene.byId.has(unit));
    // What took the place of an operation is meant, and not what is only still shown of it.
    scene.selected =
      scene.byId.has(selection) && scene.byId.get(selection).status !== "removed"
        ? selection
        : (seen.find((unit) => scene.byId.get(unit).status !== "removed") ?? seen[0] ?? null);
    scene.related = new Set(seen);
    scene.event = null;
    const {pass, rewrite} = store.get();
    if (rewrite !== null) {
      data.passDetails(pass).then((details) => {
        const event = details.events[rewrite];
        if (!event || store.get().rewrite !== rewrite) return;
        scene.event = new Set(
          [event.site, ...event.matched, ...event.produced].map((id) =>
            records.has(id) ? unitOf(id) : id,
          ),
        );
        refreshClasses();
      });
    }
    refreshClasses();
    overview();
  }

  function refreshClasses() {
    for (const [id, item] of nodeElements)
      item.setAttribute("class", nodeClass(scene.byId.get(id)));
    for (const [key, item] of edgeElements)
      item.setAttribute("class", edgeClass(scene.edgeByKey.get(key)));
  }

  function nodeClass(item) {
    const names = ["node", `family-${safeName(item.record.family)}`, item.status];
    if (item.isGhost) names.push("ghost");
    if (item.inside) names.push("block");
    if (item.problem) names.push("unsupported");
    if (item.id === scene.selected) names.push("selected");
    else if (scene.related?.has(item.id)) names.push("related");
    if (scene.event?.has(item.id)) names.push("in-event");
    if (scene.hovered?.has(item.id)) names.push("hovered");
    return names.filter(Boolean).join(" ");
  }

  function edgeClass(edge) {
    const lit = scene.related?.has(edge.source) && scene.related?.has(edge.target);
    const near =
      scene.selected !== null && (edge.source === scene.selected || edge.target === scene.selected);
    return ["edge", edge.status, edge.kind, lit ? "related" : near ? "near" : ""]
      .filter(Boolean)
      .join(" ");
  }

  // ---- camera

  /** @returns {[number, number]} */
  function size() {
    return [body.clientWidth || 600, body.clientHeight || 400];
  }

  function apply() {
    const {x, y, k} = camera.view;
    plane.setAttribute("transform", `translate(${x} ${y}) scale(${k})`);
    zoomed.textContent = `${Math.round(k * 100)} %`;
    for (const level of ["full", "kind", "far"])
      svg.classList.toggle(level, letteringAt(k).level === level);
  }

  let asked = false;
  function moved() {
    apply();
    app.graphMoved?.();
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      draw();
      overview();
    });
  }

  function fit() {
    camera.fit();
    moved();
  }

  function zoom(k, at) {
    camera.zoomTo(k, at);
    moved();
  }

  // Brings an operation into sight, without moving when it is there already.
  function reveal(id) {
    const item = scene?.byId.get(id);
    if (!item) return;
    const [width, height] = size();
    const [x, y] = camera.onScreen(item);
    const isNear = x > 72 && x < width - 72 && y > 32 && y < height - 32;
    if (lettering.level !== "far" && isNear) return;
    if (lettering.level === "far") camera.zoomTo(0.75);
    camera.goTo(item);
    moved();
  }

  // ---- drawing

  function draw() {
    if (!scene) return;
    const [width, height] = size();
    const {view} = camera;
    const letters = letteringAt(view.k);
    if (letters.scale !== lettering.scale) {
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
    const shown = inSight.slice(0, MOST_ELEMENTS);
    keep(
      nodeElements,
      nodesLayer,
      shown,
      (item) => item.id,
      (item) => makeNode(app, scene, item, lettering),
      (item) => nodeClass(item),
    );
    const edges = scene.edges.filter(
      (edge) => edge.right > left && edge.left < right && edge.bottom > top && edge.top < bottom,
    );
    keep(
      edgeElements,
      edgesLayer,
      edges.slice(0, MOST_ELEMENTS),
      (edge) => edge.key,
      makeEdge,
      edgeClass,
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
      labels.slice(0, MOST_ELEMENTS),
      (label) => label.key,
      (label) => makeLabel(label, lettering),
      () => "edge-label",
    );
    drawTurns(edges);
    drawFarNames(shown);
    lost.hidden = !scene.items.length || scene.items.some(camera.isInSight);
    const notes = [];
    if (edges.length > MOST_ELEMENTS)
      notes.push(
        `${edges.length - MOST_ELEMENTS} of ${edges.length} edges in sight are not drawn: zoom in`,
      );
    if (inSight.length > shown.length)
      notes.push(
        `${inSight.length - shown.length} of ${inSight.length} operations in sight are not ` +
          "drawn: zoom in",
      );
    if (scene.hiddenNote) notes.push(scene.hiddenNote);
    capNote.hidden = !notes.length;
    capNote.textContent = notes.join(" · ");
  }

  // In the whole drawing, so that a text stays in its place when the drawing is moved.
  function labelsOfEdges() {
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
      scene.boxes.map((box) => makeTitle(app, box, lettering)),
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
    const size = lettering.label * lettering.scale;
    const names = items
      .filter((item) => !item.isGhost)
      .map((item) => {
        const [x, y] = camera.onScreen(item);
        const weight =
          (item.inside ? 100 : 0) +
          (item.id === scene.selected ? 1000 : 0) +
          (IMPORTANT.get(item.record.family) ?? 0);
        return {item, x, y, text: clip(item.record.label, 24), weight};
      });
    const chosen = namesWithRoom(names, (text) => widthOfText(app, text, size), size * 1.3);
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

  function overview() {
    if (!scene) return;
    minimap.node.hidden = camera.showsAll();
    if (!minimap.node.hidden) minimap.draw(scene, camera.view, size());
  }

  // ---- pointer and keys

  svg.addEventListener(
    "wheel",
    (event) => {
      const zooms = event.ctrlKey || event.metaKey;
      // In a notebook the wheel is the notebook's: it would end wherever an explorer stands.
      if (app.host.mode === "notebook" && !zooms) return;
      event.preventDefault();
      const box = svg.getBoundingClientRect();
      if (zooms) {
        zoom(camera.view.k * Math.exp(-event.deltaY * 0.01), [
          event.clientX - box.left,
          event.clientY - box.top,
        ]);
        return;
      }
      camera.moveTo(
        camera.view.x - (event.shiftKey ? event.deltaY : event.deltaX),
        camera.view.y - (event.shiftKey ? 0 : event.deltaY),
      );
      moved();
    },
    {passive: false},
  );

  let drag = null;
  svg.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    const part = event.target.closest?.("[data-open], [data-close]");
    drag = {
      x: event.clientX,
      y: event.clientY,
      startX: camera.view.x,
      startY: camera.view.y,
      far: false,
      toggles: part?.getAttribute("data-open") ?? part?.getAttribute("data-close") ?? null,
      id: event.target.closest?.("[data-id]")?.getAttribute("data-id") ?? null,
    };
  });
  svg.addEventListener("pointermove", (event) => {
    if (drag) {
      const dx = event.clientX - drag.x,
        dy = event.clientY - drag.y;
      if (!drag.far && Math.hypot(dx, dy) > 4) {
        drag.far = true;
        svg.setPointerCapture(event.pointerId);
        svg.classList.add("dragging");
      }
      if (drag.far) {
        camera.moveTo(drag.startX + dx, drag.startY + dy);
        moved();
        return;
      }
    }
    showTip(event);
  });
  const drop = (event) => {
    if (drag && !drag.far) {
      if (drag.toggles) toggleBlock(drag.toggles, event.shiftKey);
      else app.select(drag.id, "graph");
    }
    drag = null;
    svg.classList.remove("dragging");
  };
  svg.addEventListener("pointerup", drop);
  svg.addEventListener("dblclick", (event) => {
    const id = event.target.closest?.("[data-id]")?.getAttribute("data-id");
    if (id && !event.target.closest("[data-open]")) toggleBlock(id);
  });
  svg.addEventListener("pointercancel", () => {
    drag = null;
    svg.classList.remove("dragging");
  });
  svg.addEventListener("pointerleave", () => {
    tip.hidden = true;
    app.hover.set([], []);
  });

  function showTip(event) {
    const id = event.target.closest?.("[data-id]")?.getAttribute("data-id");
    const key = event.target.closest?.("[data-edge]")?.getAttribute("data-edge");
    app.hover.set(id ? [id] : [], []);
    if (id && scene.byId.has(id))
      replace(tip, tipOfNode(app, scene.byId.get(id)), overlay.lineOf(scene.byId.get(id)));
    else if (key && scene.edgeByKey.has(key)) replace(tip, tipOfEdge(scene.edgeByKey.get(key)));
    tip.hidden = !(id || key);
    if (tip.hidden) return;
    const box = body.getBoundingClientRect();
    const x = event.clientX - box.left,
      y = event.clientY - box.top;
    tip.style.left = `${Math.max(8, Math.min(x + 14, box.width - tip.offsetWidth - 8))}px`;
    const isLow = y + 18 + tip.offsetHeight > box.height;
    tip.style.top = `${isLow ? y - tip.offsetHeight - 10 : y + 18}px`;
  }

  svg.addEventListener("keydown", (event) => {
    if (event.key === "+" || event.key === "=") zoom(camera.view.k * 1.25);
    else if (event.key === "-") zoom(camera.view.k / 1.25);
    else if (event.key.startsWith("Arrow")) step(event.key);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });

  // Up and down follow the edges; left and right go to the neighbours at the same height.
  function step(key) {
    if (!scene?.items.length) return;
    const at = scene.byId.get(scene.selected);
    if (!at) {
      app.select([...scene.items].sort((a, b) => a.y - b.y)[0].id, "graph");
      return;
    }
    let candidates;
    if (key === "ArrowUp")
      candidates = scene.edges.filter((edge) => edge.target === at.id).map((edge) => edge.source);
    else if (key === "ArrowDown")
      candidates = scene.edges.filter((edge) => edge.source === at.id).map((edge) => edge.target);
    else {
      const side = key === "ArrowLeft" ? -1 : 1;
      candidates = scene.items
        .filter((item) => Math.abs(item.y - at.y) < 4 && Math.sign(item.x - at.x) === side)
        .sort((a, b) => Math.abs(a.x - at.x) - Math.abs(b.x - at.x))
        .map((item) => item.id);
    }
    if (candidates.length) app.select(candidates[0], "keys");
  }

  // A closed block stands for what is hovered inside of it.
  app.hover.subscribe(({operations}) => {
    if (!scene) return;
    const unit = (id) =>
      scene.byId.has(id)
        ? id
        : scene.unitOf(scene.after.nodes.get(id) ?? scene.before.nodes.get(id) ?? {id});
    scene.hovered = new Set([...operations].map(unit));
    refreshClasses();
  });
  store.subscribe((_, changed) => {
    if (["pass", "view", "open", "blocks", "hold"].some((name) => changed.has(name)))
      drawn = update();
    else if (changed.has("selection") || changed.has("rewrite")) updateSelection();
  });
  if (typeof ResizeObserver === "function") {
    new ResizeObserver(() => {
      if (!scene || !body.clientWidth) return;
      if (!hasFitted) {
        hasFitted = true;
        camera.fit();
      } else camera.follow([]);
      moved();
      again();
    }).observe(body);
  }
  // A pane of another shape gets other columns, once it has that shape.
  let shaping = 0,
    shapedFor = 0;
  function again() {
    clearTimeout(shaping);
    const {width, height} = camera.room();
    shapedFor ||= width / height;
    const change = width / height / shapedFor;
    if (!camera.isFitted() || (change < 1.25 && change > 0.8)) return;
    shaping = setTimeout(() => {
      shapedFor = width / height;
      drawn = update();
    }, 120);
  }

  // Brings the selection into sight; the blocks around it open.
  async function showOperation(id) {
    if (drawings.usesBlocks()) {
      const open = isOpen();
      const around = data.blocks.around(id, data.latest).filter((block) => !open.has(block));
      if (around.length) {
        for (const block of around) open.add(block);
        openBlocks(open);
        await drawn;
      }
    }
    reveal(scene?.byId.has(id) ? id : scene?.selected);
  }

  return {
    node,
    update,
    fit,
    toggleBlock,
    reveal: showOperation,
    // Identities of the operations before and after this pass; null before the first drawing.
    operations: () => scene && new Set([...scene.after.nodes.keys(), ...scene.before.nodes.keys()]),
    focus: () => svg.focus(),
    learn: overlay.learn, // more was measured
    redraw: overview,
    camera: camera.state,
    // Identity of what stands in the middle; null while nothing is drawn.
    middle: () => camera.nearest()?.id ?? null,
    // Brings an operation, or what it is drawn as, into the middle, at that scale.
    bring(id, scale) {
      const item = scene?.byId.get(id);
      if (!item) return;
      camera.zoomTo(scale);
      camera.goTo(item);
      moved();
    },
    // Where another branch was looked at: the same part of this one.
    lookAt(view) {
      camera.lookAt(view);
      hasFitted = true;
      apply();
    },
  };
}
