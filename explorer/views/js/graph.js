// The graph of one pass: before, after, or both at once with what the pass did. Every operation
// has one place in all passes (the layout is made from all snapshots at once), so that nothing
// moves that did not change. Only what is in sight is in the document.

const VIEWS = [
  {id: "before", label: "before", title: "the program before this pass"},
  {id: "diff", label: "diff", title: "both at once, with what the pass did (d)"},
  {id: "after", label: "after", title: "the program after this pass"},
];
const SMALLEST_ZOOM = 0.04;
const SMALLEST_FIT = 0.16;
const LARGEST_ZOOM = 2.5;
const SIGHT_MARGIN = 160;
const MOST_ELEMENTS = 1500;
const LABEL_CHARACTERS = 14;

function graphPane(app) {
  const {data, store} = app;
  const tabs = tabRow(VIEWS, store.get().view, (view) => store.set({view}), "graph of the pass");
  tabs.classList.add("segmented");
  const title = element("span", {class: "pane-title"}, "Graph");
  const counts = element("span", {class: "graph-counts"});
  const edgesLayer = shape("g", {class: "edges"});
  const marksLayer = shape("g", {class: "brackets"});
  const nodesLayer = shape("g", {class: "nodes"});
  const camera = shape("g", {}, edgesLayer, marksLayer, nodesLayer);
  const svg = shape("svg", {
    class: "canvas", tabindex: 0, role: "application",
    "aria-label": "graph of operations; arrow keys follow the edges, plus and minus zoom, g fits",
  }, camera);
  const tip = element("div", {class: "tip", role: "tooltip", hidden: true});
  const legend = element("details", {class: "legend"});
  const minimap = element("canvas", {class: "minimap", width: 96, height: 144, "aria-hidden": "true"});
  const capNote = element("div", {class: "cap graph-cap", hidden: true});
  const message = element("div", {class: "graph-message", hidden: true});
  const body = element("div", {class: "graph-body"}, svg, capNote, message, legend, minimap, tip);
  const zoomed = element("button", {type: "button", class: "quiet zoom", title: "zoom to 100 %", onclick: () => zoomTo(1)}, "100 %");
  const node = element("section", {class: "pane graph", "aria-label": "graph"},
    element("header", {class: "pane-head"}, title, counts, element("span", {class: "grow"}), tabs,
      button("−", "zoom out (−)", () => zoomTo(view.k / 1.25), {class: "icon"}), zoomed,
      button("+", "zoom in (+)", () => zoomTo(view.k * 1.25), {class: "icon"}),
      button("fit", "fit the graph into the pane (g)", () => fit(), {class: "quiet"})),
    body);

  const view = {x: 0, y: 0, k: 1};
  let scene = null; // what is drawn: {items, edges, brackets, layout, width, height}
  let hasFitted = false;
  const nodeElements = new Map();
  const edgeElements = new Map();

  // ---- what is drawn

  async function update() {
    const state = store.get();
    markTab(tabs, state.view);
    const pass = data.head.passes[state.pass];
    const before = Math.max(0, state.pass - 1);
    let loaded;
    try {
      loaded = await Promise.all([
        data.pictureOfPass(before), data.pictureOfPass(state.pass),
        data.passDetails(state.pass), data.layout(),
      ]);
    } catch (failure) {
      message.hidden = false;
      replace(message, emptyState("The graph could not be loaded", failure.message,
        button("try again", "load the graph again", () => update())));
      return;
    }
    if (store.get().pass !== state.pass || store.get().view !== state.view) return;
    const [graphBefore, graphAfter, details, layout] = loaded;
    message.hidden = true;
    scene = composeScene(data, state, graphBefore, graphAfter, details, layout);
    replace(counts, pass.changed ? `${exactText(pass.before)} → ${exactText(pass.after)} operations`
      : `${countText(pass.after, "operation")}, unchanged`);
    title.textContent = pass.name;
    title.title = pass.description;
    const hidden = pass.hidden;
    legend.replaceChildren(...legendContent(app, scene));
    if (hidden) scene.hiddenNote = `${countText(hidden, "operation")} stand inside collapsed blocks ⊞; select a block to list them, or search with /`;
    for (const elements of [nodeElements, edgeElements]) {
      for (const item of elements.values()) item.remove();
      elements.clear();
    }
    if (!scene.items.length) {
      message.hidden = false;
      replace(message, emptyState("No operations here", "This snapshot has no graph. Choose another pass on the left."));
    }
    if (!hasFitted) first();
    updateSelection();
    draw();
    drawMinimap();
  }

  function updateSelection() {
    if (!scene) return;
    const selection = store.get().selection;
    const followed = data.follow(selection, scene.items.map((item) => [item.id, item.record.sources]));
    // What took the place of an operation is meant, and not what is only still shown of it.
    scene.selected = followed.find((id) => scene.byId.get(id).status !== "removed") ?? followed[0] ?? null;
    scene.related = new Set(followed);
    scene.event = null;
    const {pass, rewrite} = store.get();
    if (rewrite !== null) {
      data.passDetails(pass).then((details) => {
        const event = details.events[rewrite];
        if (!event || store.get().rewrite !== rewrite) return;
        scene.event = new Set([event.site, ...event.matched, ...event.produced]);
        refreshClasses();
      });
    }
    refreshClasses();
    drawMinimap();
  }

  function refreshClasses() {
    for (const [id, item] of nodeElements) item.setAttribute("class", nodeClass(scene.byId.get(id)));
    for (const [key, item] of edgeElements) item.setAttribute("class", edgeClass(scene.edgeByKey.get(key)));
  }

  function nodeClass(item) {
    const names = ["node", `family-${safeName(item.record.family)}`, item.status];
    if (item.isGhost) names.push("ghost");
    if (item.id === scene.selected) names.push("selected");
    else if (scene.related?.has(item.id)) names.push("related");
    if (scene.event?.has(item.id)) names.push("in-event");
    if (app.hover.get().operations.has(item.id)) names.push("hovered");
    return names.filter(Boolean).join(" ");
  }

  function edgeClass(edge) {
    const lit = scene.related?.has(edge.source) && scene.related?.has(edge.target);
    const near = scene.selected !== null && (edge.source === scene.selected || edge.target === scene.selected);
    return ["edge", edge.status, lit ? "related" : near ? "near" : ""].filter(Boolean).join(" ");
  }

  // ---- camera

  function size() {
    return [body.clientWidth || 600, body.clientHeight || 400];
  }

  function apply() {
    camera.setAttribute("transform", `translate(${view.x} ${view.y}) scale(${view.k})`);
    zoomed.textContent = `${Math.round(view.k * 100)} %`;
    svg.classList.toggle("far", view.k < 0.4);
  }

  let asked = false;
  function moved() {
    apply();
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      draw();
      drawMinimap();
    });
  }

  function fit() {
    if (!scene) return;
    const [width, height] = size();
    const whole = Math.min(width / (scene.width + 32), height / (scene.height + 32));
    // A long chain that fits as a whole is a hair: then its width fits, around what is selected.
    view.k = Math.min(1.25, whole >= SMALLEST_FIT ? whole : Math.max(SMALLEST_FIT, Math.min(0.6, width / (scene.width + 32))));
    view.x = (width - scene.width * view.k) / 2;
    view.y = scene.height * view.k <= height ? (height - scene.height * view.k) / 2
      : height / 2 - (scene.byId.get(scene.selected)?.y ?? height / 2 / view.k) * view.k;
    moved();
  }

  // At first: the top of the graph at a size that can be read.
  function first() {
    if (!body.clientWidth) return;
    hasFitted = true;
    const [width, height] = size();
    view.k = Math.min(1, Math.max(0.6, (width - 48) / scene.width));
    if (scene.height * view.k < height) {
      fit();
      view.k = Math.min(view.k, 1);
    }
    const tops = [...scene.items].sort((a, b) => a.y - b.y);
    const anchor = tops.length ? tops[0].x : scene.width / 2;
    const whole = scene.width * view.k < width - 16;
    view.x = whole ? (width - scene.width * view.k) / 2 : width / 2 - anchor * view.k;
    view.y = Math.max(16, (height - scene.height * view.k) / 2 > 16 ? 24 : 16);
    apply();
  }

  function zoomTo(k, at) {
    const [width, height] = size();
    const [x, y] = at || [width / 2, height / 2];
    const next = Math.min(LARGEST_ZOOM, Math.max(SMALLEST_ZOOM, k));
    view.x = x - ((x - view.x) * next) / view.k;
    view.y = y - ((y - view.y) * next) / view.k;
    view.k = next;
    moved();
  }

  // Brings an operation into sight, without moving when it is there already.
  function reveal(id) {
    const item = scene?.byId.get(id);
    if (!item) return;
    const [width, height] = size();
    const x = item.x * view.k + view.x;
    const y = item.y * view.k + view.y;
    if (view.k < 0.45) view.k = 0.75;
    else if (x > 72 && x < width - 72 && y > 32 && y < height - 32) return;
    view.x = width / 2 - item.x * view.k;
    view.y = height / 2 - item.y * view.k;
    moved();
  }

  // ---- drawing

  function draw() {
    if (!scene) return;
    const [width, height] = size();
    const left = (-view.x - SIGHT_MARGIN) / view.k, right = (width - view.x + SIGHT_MARGIN) / view.k;
    const top = (-view.y - SIGHT_MARGIN) / view.k, bottom = (height - view.y + SIGHT_MARGIN) / view.k;
    const inSight = scene.items.filter((item) =>
      item.x > left && item.x < right && item.y > top && item.y < bottom);
    const shown = inSight.slice(0, MOST_ELEMENTS);
    keep(nodeElements, nodesLayer, shown, (item) => item.id, makeNode);
    const edges = scene.edges.filter((edge) =>
      edge.right > left && edge.left < right && edge.bottom > top && edge.top < bottom);
    keep(edgeElements, edgesLayer, edges.slice(0, MOST_ELEMENTS), (edge) => edge.key, makeEdge);
    const notes = [];
    if (inSight.length > shown.length) notes.push(`${inSight.length - shown.length} of ${inSight.length} operations in sight are not drawn: zoom in`);
    if (scene.hiddenNote) notes.push(scene.hiddenNote);
    capNote.hidden = !notes.length;
    capNote.textContent = notes.join(" · ");
    if (marksLayer.dataset.scene !== scene.key) {
      marksLayer.dataset.scene = scene.key;
      replace(marksLayer, scene.brackets.map(makeBracket));
    }
  }

  function keep(elements, layer, wanted, keyOf, make) {
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
      elements.set(keyOf(item), made);
      // Ghosts lie below what replaces them.
      if (item.isGhost) layer.prepend(made);
      else layer.append(made);
    }
  }

  function makeNode(item) {
    const [width, height] = scene.node;
    const {record} = item;
    const group = shape("g", {
      class: nodeClass(item), "data-id": item.id, role: "button",
      "aria-label": `${record.id}, ${record.label}, ${record.shape}${item.status ? `, ${item.status}` : ""}`,
      transform: `translate(${item.x - width / 2} ${item.y - height / 2})`,
    },
    shape("rect", {class: "card", width, height, rx: 6}),
    shape("path", {class: "stripe", d: `M6 0 H5 A5 5 0 0 0 0 5 V${height - 5} A5 5 0 0 0 5 ${height} H6 Z`}),
    shape("text", {class: "glyph", x: 16, y: height / 2 + 5, "text-anchor": "middle"}, app.look.family(record.family).glyph),
    shape("text", {class: "label", x: 28, y: 15}, clip(record.label, LABEL_CHARACTERS)),
    shape("text", {class: "shape", x: 28, y: 29}, clip(record.shape || record.id, LABEL_CHARACTERS + 2)));
    if (record.device && data.devices.size > 1) group.setAttribute("data-device", [...data.devices].indexOf(record.device));
    if (item.status) {
      const look = app.look.difference(item.status);
      group.append(shape("g", {class: "badge", transform: `translate(${width} 0)`},
        shape("circle", {r: 7}), shape("text", {"text-anchor": "middle", y: 4}, look.glyph)));
    }
    return group;
  }

  function makeEdge(edge) {
    return shape("g", {class: edgeClass(edge), "data-edge": edge.key},
      shape("path", {class: "reach", d: edge.path}), shape("path", {class: "wire", d: edge.path}),
      shape("path", {class: "tipped", d: edge.arrow}));
  }

  // A bracket from the operations that were taken over to the one that took them over.
  function makeBracket({from, to}) {
    const [width] = scene.node;
    const right = Math.max(from.x, to.x) + width / 2 + 14;
    const start = from.x + width / 2, end = to.x + width / 2;
    const path = `M${start} ${from.y} H${right - 6} Q${right} ${from.y} ${right} ${from.y + Math.sign(to.y - from.y) * 6} V${to.y - Math.sign(to.y - from.y) * 6} Q${right} ${to.y} ${right - 6} ${to.y} H${end + 2}`;
    return shape("path", {class: "bracket", d: path});
  }

  function drawMinimap() {
    if (!scene) return;
    const [width, height] = size();
    const uniform = Math.min(96 / scene.width, 144 / scene.height);
    const across = Math.max(uniform, 32 / scene.width), down = Math.max(uniform, 32 / scene.height);
    const ratio = window.devicePixelRatio || 1;
    const shownWidth = scene.width * across, shownHeight = scene.height * down;
    minimap.style.width = `${shownWidth}px`;
    minimap.style.height = `${shownHeight}px`;
    minimap.width = shownWidth * ratio;
    minimap.height = shownHeight * ratio;
    const context = minimap.getContext("2d");
    if (!context) return;
    const style = getComputedStyle(node);
    const colour = (name) => style.getPropertyValue(name).trim();
    context.scale(ratio, ratio);
    for (const item of scene.items) {
      if (item.isGhost) continue;
      const isLit = scene.related?.has(item.id);
      context.fillStyle = isLit ? colour("--explorer-accent") : colour(`--explorer-${safeName(item.record.family)}-edge`) || colour("--explorer-line");
      context.globalAlpha = isLit ? 1 : 0.55;
      const w = Math.max(2, scene.node[0] * across), h = Math.max(1.5, scene.node[1] * down);
      context.fillRect(item.x * across - w / 2, item.y * down - h / 2, w, h);
    }
    context.globalAlpha = 1;
    context.strokeStyle = colour("--explorer-accent");
    context.lineWidth = 1.5;
    const clamp = (value, most) => Math.min(most, Math.max(0, value));
    const [x0, x1] = [-view.x / view.k, (width - view.x) / view.k].map((x) => clamp(x * across, shownWidth - 2));
    const [y0, y1] = [-view.y / view.k, (height - view.y) / view.k].map((y) => clamp(y * down, shownHeight - 2));
    context.strokeRect(x0 + 1, y0 + 1, x1 - x0, y1 - y0);
    minimap.scales = [across, down];
  }

  // ---- pointer and keys

  svg.addEventListener("wheel", (event) => {
    event.preventDefault();
    const box = svg.getBoundingClientRect();
    if (event.ctrlKey || event.metaKey) {
      zoomTo(view.k * Math.exp(-event.deltaY * 0.01), [event.clientX - box.left, event.clientY - box.top]);
      return;
    }
    view.x -= event.shiftKey ? event.deltaY : event.deltaX;
    view.y -= event.shiftKey ? 0 : event.deltaY;
    moved();
  }, {passive: false});

  let drag = null;
  svg.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    drag = {x: event.clientX, y: event.clientY, startX: view.x, startY: view.y, far: false,
      id: event.target.closest?.("[data-id]")?.getAttribute("data-id") ?? null};
  });
  svg.addEventListener("pointermove", (event) => {
    if (drag) {
      const dx = event.clientX - drag.x, dy = event.clientY - drag.y;
      if (!drag.far && Math.hypot(dx, dy) > 4) {
        drag.far = true;
        svg.setPointerCapture(event.pointerId);
        svg.classList.add("dragging");
      }
      if (drag.far) {
        view.x = drag.startX + dx;
        view.y = drag.startY + dy;
        moved();
        return;
      }
    }
    showTip(event);
  });
  const drop = () => {
    if (drag && !drag.far) app.select(drag.id, "graph");
    drag = null;
    svg.classList.remove("dragging");
  };
  svg.addEventListener("pointerup", drop);
  svg.addEventListener("pointercancel", () => { drag = null; svg.classList.remove("dragging"); });
  svg.addEventListener("pointerleave", () => {
    tip.hidden = true;
    app.hover.set([], []);
  });

  function showTip(event) {
    const id = event.target.closest?.("[data-id]")?.getAttribute("data-id");
    const key = event.target.closest?.("[data-edge]")?.getAttribute("data-edge");
    app.hover.set(id ? [id] : [], []);
    if (id && scene.byId.has(id)) replace(tip, tipOfNode(scene.byId.get(id)));
    else if (key && scene.edgeByKey.has(key)) replace(tip, tipOfEdge(scene.edgeByKey.get(key)));
    tip.hidden = !(id || key);
    if (tip.hidden) return;
    const box = body.getBoundingClientRect();
    const x = event.clientX - box.left, y = event.clientY - box.top;
    tip.style.left = `${Math.max(8, Math.min(x + 14, box.width - tip.offsetWidth - 8))}px`;
    tip.style.top = `${y + 18 + tip.offsetHeight > box.height ? y - tip.offsetHeight - 10 : y + 18}px`;
  }

  function tipOfNode(item) {
    const {record} = item;
    return [
      element("strong", {}, record.id), element("div", {class: "mono"}, `${record.operation}  ${record.shape}`),
      record.sources.length ? element("div", {}, "from ", clip(record.sources.join(", "), 90)) : null,
      item.status ? element("div", {class: `ink-${item.status}`}, `${app.look.difference(item.status).glyph} ${app.look.difference(item.status).title}`) : null,
      item.changes.map((change) => element("div", {class: "mono"}, `${change[1]}: ${clip(change[2], 40)} → ${clip(change[3], 40)}`)),
    ];
  }

  function tipOfEdge(edge) {
    return [element("strong", {}, edge.value), element("div", {class: "mono"}, edge.type),
      element("div", {}, `${edge.source} → ${edge.target}`)];
  }

  minimap.addEventListener("pointerdown", (event) => {
    const go = (moveEvent) => {
      const box = minimap.getBoundingClientRect();
      const [across, down] = minimap.scales;
      const [width, height] = size();
      view.x = width / 2 - ((moveEvent.clientX - box.left) / across) * view.k;
      view.y = height / 2 - ((moveEvent.clientY - box.top) / down) * view.k;
      moved();
    };
    go(event);
    minimap.setPointerCapture(event.pointerId);
    minimap.onpointermove = go;
    minimap.onpointerup = () => { minimap.onpointermove = null; };
  });

  svg.addEventListener("keydown", (event) => {
    if (event.key === "+" || event.key === "=") zoomTo(view.k * 1.25);
    else if (event.key === "-") zoomTo(view.k / 1.25);
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
    if (key === "ArrowUp") candidates = scene.edges.filter((edge) => edge.target === at.id).map((edge) => edge.source);
    else if (key === "ArrowDown") candidates = scene.edges.filter((edge) => edge.source === at.id).map((edge) => edge.target);
    else {
      const side = key === "ArrowLeft" ? -1 : 1;
      candidates = scene.items.filter((item) => Math.abs(item.y - at.y) < 4 && Math.sign(item.x - at.x) === side)
        .sort((a, b) => Math.abs(a.x - at.x) - Math.abs(b.x - at.x)).map((item) => item.id);
    }
    if (candidates.length) app.select(candidates[0], "keys");
  }

  app.hover.subscribe(() => { if (scene) refreshClasses(); });
  store.subscribe((state, changed) => {
    if (changed.has("pass") || changed.has("view")) update();
    else if (changed.has("selection") || changed.has("rewrite")) updateSelection();
  });
  if (typeof ResizeObserver === "function") {
    new ResizeObserver(() => {
      if (scene && !hasFitted) first();
      if (scene) moved();
    }).observe(body);
  }
  return {node, update, fit, reveal: (id) => reveal(scene?.byId.has(id) ? id : scene?.selected), focus: () => svg.focus(), redraw: drawMinimap};
}

// What stands where, with its mark: the pure part of drawing a pass.
function composeScene(data, state, before, after, details, layout) {
  const {diff} = details;
  const isFirst = state.pass === 0;
  const added = new Set(isFirst ? [] : diff.added), removed = new Set(isFirst ? [] : diff.removed);
  const fused = new Map(isFirst ? [] : diff.fused);
  const changes = new Map();
  for (const change of isFirst ? [] : diff.changed) {
    if (!changes.has(change[0])) changes.set(change[0], []);
    changes.get(change[0]).push(change);
  }
  const shown = new Map();
  if (state.view !== "after" && !isFirst) for (const [id, record] of before.nodes) shown.set(id, record);
  if (state.view !== "before" || isFirst) for (const [id, record] of after.nodes) shown.set(id, record);
  const taken = new Map(); // place -> operation of the program after the pass
  for (const id of after.nodes.keys()) if (layout.at.has(id)) taken.set(String(layout.at.get(id)), id);
  const statusOf = (id) => (fused.has(id) ? "fused" : added.has(id) ? "added" : removed.has(id) ? "removed" : changes.has(id) ? "changed" : "");
  const items = [];
  for (const [id, record] of shown) {
    if (!layout.at.has(id)) continue;
    const [x, y] = layout.at.get(id);
    const gone = !after.nodes.has(id);
    const replacedBy = taken.get(`${x},${y}`);
    const isGhost = state.view === "diff" && gone && replacedBy !== undefined;
    // A place that both the old and the new operation take: the old one looks out from behind.
    const shift = isGhost ? 10 : 0;
    items.push({id, record, x: x + shift, y: y - shift, status: state.view === "before" && statusOf(id) !== "removed" && !changes.has(id) ? "" : statusOf(id), isGhost, changes: changes.get(id) || []});
  }
  const byId = new Map(items.map((item) => [item.id, item]));
  const edges = new Map();
  const addEdges = (graph, other) => {
    for (const edge of graph.edges) {
      const key = `${edge.source}\n${edge.target}`;
      if (edges.has(key) || !byId.has(edge.source) || !byId.has(edge.target)) continue;
      const points = layout.routes.get(key);
      if (!points) continue;
      const has = other.keys.has(key);
      const status = state.view !== "diff" || has || isFirst ? "" : graph === after ? "added" : "removed";
      edges.set(key, {...edge, key, status, ...edgeShape(points)});
    }
  };
  const keysOf = (graph) => ({keys: new Set(graph.edges.map((edge) => `${edge.source}\n${edge.target}`))});
  if (state.view !== "before" || isFirst) addEdges(after, keysOf(before));
  if (state.view !== "after" && !isFirst) addEdges(before, keysOf(after));
  const brackets = [];
  if (state.view === "diff") {
    for (const [id, parents] of fused) {
      for (const parent of parents) {
        const from = byId.get(parent), to = byId.get(id);
        if (from && to && !from.isGhost && from.y !== to.y) brackets.push({from, to});
      }
    }
  }
  return {
    key: `${state.pass}/${state.view}`, items, byId, edges: [...edges.values()], edgeByKey: edges,
    brackets, layout, node: layout.node, width: layout.width, height: layout.height,
  };
}

// A way through points, in curves with vertical ends; its box; and the arrow at its end.
function edgeShape(points) {
  let path = `M${points[0]} ${points[1]}`;
  let left = Infinity, right = -Infinity, top = Infinity, bottom = -Infinity;
  for (let index = 0; index < points.length; index += 2) {
    const x = points[index], y = points[index + 1];
    left = Math.min(left, x);
    right = Math.max(right, x);
    top = Math.min(top, y);
    bottom = Math.max(bottom, y);
    if (index === 0) continue;
    const fromX = points[index - 2], fromY = points[index - 1];
    if (fromX === x) path += `V${y}`;
    else path += `C${fromX} ${(fromY + y) / 2} ${x} ${(fromY + y) / 2} ${x} ${y}`;
  }
  const x = points[points.length - 2], y = points[points.length - 1];
  const down = y >= points[points.length - 3] ? 1 : -1;
  return {path, left, right, top, bottom, arrow: `M${x - 3.5} ${y - 6 * down}L${x} ${y}L${x + 3.5} ${y - 6 * down}`};
}

function legendContent(app, scene) {
  const families = new Map();
  for (const item of scene.items) families.set(item.record.family, (families.get(item.record.family) || 0) + 1);
  const marks = new Set(scene.items.map((item) => item.status).filter(Boolean));
  return [
    element("summary", {}, "legend"),
    element("ul", {},
      [...families].map(([name, count]) => element("li", {},
        element("span", {class: `swatch family-${safeName(name)}`}, app.look.family(name).glyph), `${app.look.family(name).title} `,
        element("span", {class: "quiet-text"}, count))),
      [...marks].map((mark) => element("li", {},
        element("span", {class: `swatch mark-${mark}`}, app.look.difference(mark).glyph), app.look.difference(mark).title))),
  ];
}

function clip(text, most) {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

// Families come from the trace: only letters may become a part of a class name.
function safeName(name) {
  return name.replace(/[^a-z]/g, "") || "other";
}
