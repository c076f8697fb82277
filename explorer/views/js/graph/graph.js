// The graph of one pass: before, after, or both at once with what the pass did. What stays from one
// drawing to the next keeps its order and is seen to move. Blocks open and close. Only what is in
// sight is in the document.

import {FIXED} from "../ground/lever_words.js";
import {NODE, createDrawings} from "./drawing.js";
import {addPointing} from "./pointing.js";
import {createCamera} from "./camera.js";
import {createCanvas} from "./canvas.js";
import {createHead} from "./head.js";
import {createSight} from "./viewport.js";
import {letteringAt} from "./lettering.js";
import {moveNodes} from "./motion.js";
import {markSelection} from "./selection.js";
import {button, element, emptyState, replace} from "../ground/dom.js";
import {legendContent} from "./legend.js";
import {createMinimap} from "./minimap.js";
import {createOverlay} from "./overlay.js";
import {createSameChanges} from "./same_changes.js";
import {countText} from "../ground/numbers.js";

export function graphPane(app) {
  const {data, store} = app;
  const canvas = createCanvas();
  const {svg, plane} = canvas;
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
  const makeRoom = (isShown) => {
    node.classList.toggle("numbered", isShown);
    fit();
  };
  const same = createSameChanges(data, (open, operation) => {
    store.set({blocks: true, open: [...open].sort((a, b) => a - b), selection: operation});
    drawn.then(() => {
      fit();
      reveal(operation);
    });
  });
  const overlay = createOverlay(app, () => draw(), makeRoom);
  overlay.acceptDrops(app.node);
  const head = createHead(app, {
    closeAll: () => openBlocks(new Set()),
    fit: () => fit(),
    usesBlocks: () => drawings.usesBlocks(),
    zoom: (k) => zoom(k),
    zoomBy: (factor) => zoom(camera.view.k * factor),
  });
  const node = element(
    "section",
    {class: "pane graph", "aria-label": "graph", "data-about": FIXED.passes},
    head.node,
    body,
    overlay.panel,
    element("footer", {class: "graph-foot"}, legend, same.node, capNote, overlay.choice),
  );

  let scene = null; // what is drawn: {items, edges, brackets, layout, width, height}
  let anchor = null; // {block, at}: what stays in its place on the screen when it is drawn next
  let aim = null; // the operation that the next drawing has in sight
  let hasFitted = false;
  let asking = 0; // the number of the drawing that was asked for last
  let drawn = Promise.resolve(); // the last drawing that was asked for
  const drawings = createDrawings(data, store);
  const sceneNow = () => scene;
  const camera = createCamera(size, sceneNow);
  const sight = createSight({app, camera, canvas, overlay, sceneNow, size});

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
    head.showView(state.view);
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
      same.show(pictures, state.view === "diff" && drawings.usesBlocks());
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
    head.show(pass, scene);
    legend.replaceChildren(...legendContent(app, scene));
    const closed = scene.items.filter((item) => item.inside);
    const hidden = closed.reduce(
      (sum, item) => sum + Math.max(item.inside.before, item.inside.after),
      0,
    );
    scene.hiddenNote = hidden
      ? `${countText(hidden, "operation")} in ${countText(closed.length, "closed block")}: ` +
        "open one with +, or search with /"
      : "";
    sight.begin();
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
    markSelection(scene, app, sight.refreshClasses);
    const isAimed = aim !== null && aimAt(aim);
    aim = null;
    apply();
    if (isAimed) app.graphMoved?.();
    draw();
    overview();
    if (isAimed) return; // it is elsewhere: nothing is seen to move
    const half = [NODE[0] / 2, NODE[1] / 2];
    const late = [
      canvas.edgesLayer,
      canvas.labelsLayer,
      canvas.marksLayer,
      canvas.boxesLayer,
      canvas.turnsLayer,
    ];
    moveNodes(sight.nodes, scene.byId, places, camera.view, half, late);
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

  function draw() {
    if (!scene) return;
    const notes = sight.draw();
    lost.hidden = !scene.items.length || scene.items.some(camera.isInSight);
    capNote.hidden = !notes.length;
    capNote.textContent = capNote.title = notes.join(" · ");
  }

  function updateSelection() {
    if (!scene) return;
    markSelection(scene, app, sight.refreshClasses);
    sight.refreshClasses();
    overview();
  }

  // ---- camera

  // Asking the pane would lay the page out anew: it says itself when it has another size.
  /** @type {[number, number] | null} */
  let seenSize = null;
  /** @returns {[number, number]} */
  function size() {
    const [width, height] = seenSize ?? [body.clientWidth, body.clientHeight];
    return [width || 600, height || 400];
  }

  function apply() {
    const {x, y, k} = camera.view;
    plane.setAttribute("transform", `translate(${x} ${y}) scale(${k})`);
    head.showZoom(k);
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

  // About a place of the pane: by default that of the selection, where it is in sight.
  function zoom(k, at) {
    const chosen = scene?.byId.get(store.get().selection);
    const isSeen = chosen && camera.isInSight(chosen);
    camera.zoomTo(k, at ?? (isSeen ? camera.onScreen(chosen) : undefined));
    moved();
  }

  // Brings an operation, or what it is drawn as, into sight; whether the camera moved for it.
  function aimAt(id) {
    const item = scene?.byId.get(id) ?? scene?.byId.get(scene.selected);
    if (!item) return false;
    const [width, height] = size();
    const [x, y] = camera.onScreen(item);
    const isNear = camera.showsAll() || (x > 72 && x < width - 72 && y > 32 && y < height - 32);
    const isFar = letteringAt(camera.view.k).level === "far";
    if (!isFar && isNear) return false;
    if (isFar) camera.zoomTo(0.75);
    camera.goTo(item);
    return true;
  }

  function reveal(id) {
    if (aimAt(id)) moved();
  }

  function overview() {
    if (!scene) return;
    minimap.node.hidden = camera.showsAll();
    if (!minimap.node.hidden) minimap.draw(scene, camera.view, size());
  }

  addPointing({app, body, camera, moved, overlay, sceneNow, svg, tip, toggleBlock, zoom});

  // A closed block stands for what is hovered inside of it.
  app.hover.subscribe(({operations}) => {
    if (!scene) return;
    const unit = (id) =>
      scene.byId.has(id)
        ? id
        : scene.unitOf(scene.after.nodes.get(id) ?? scene.before.nodes.get(id) ?? {id});
    scene.hovered = new Set([...operations].map(unit));
    sight.refreshClasses();
  });
  store.subscribe((_, changed) => {
    if (["pass", "view", "open", "blocks", "hold"].some((name) => changed.has(name)))
      drawn = update();
    else if (["selection", "line", "rewrite"].some((name) => changed.has(name))) updateSelection();
  });
  if (typeof ResizeObserver === "function") {
    new ResizeObserver(() => {
      seenSize = [body.clientWidth, body.clientHeight];
      if (!scene || !seenSize[0]) return;
      if (!hasFitted || camera.isFitted()) {
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
        aim = id;
        openBlocks(open);
        await drawn;
        aim = null;
        return;
      }
    }
    reveal(id);
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
