// The whole graph in a corner, with a frame around what is in sight; a press moves there.

import {element} from "../ground/dom.js";
import {safeName} from "../ground/scene.js";

const MINIMAP_WIDTH = 96,
  MINIMAP_HEIGHT = 144,
  MINIMAP_LEAST = 32;

// {node, draw(scene, view, size)}; `goTo(x, y)` gets a place of the graph.
export function createMinimap(goTo) {
  const node = element("canvas", {
    class: "minimap",
    width: MINIMAP_WIDTH,
    height: MINIMAP_HEIGHT,
    "aria-hidden": "true",
  });
  let scales = [1, 1];

  // Asking for a colour has the page work out its styles, so that each is asked for once.
  const known = new Map();
  let theme = "";
  function coloursNow() {
    const now = node.closest(".explorer")?.getAttribute("data-theme") ?? "";
    if (now !== theme || !now) known.clear();
    theme = now;
    return (name) => {
      if (!known.has(name))
        known.set(name, getComputedStyle(node).getPropertyValue(`--explorer-${name}`).trim());
      return known.get(name);
    };
  }

  function draw(scene, view, [width, height]) {
    const uniform = Math.min(MINIMAP_WIDTH / scene.width, MINIMAP_HEIGHT / scene.height);
    const across = Math.max(uniform, MINIMAP_LEAST / scene.width),
      down = Math.max(uniform, MINIMAP_LEAST / scene.height);
    const ratio = window.devicePixelRatio || 1;
    const shownWidth = scene.width * across,
      shownHeight = scene.height * down;
    node.style.width = `${shownWidth}px`;
    node.style.height = `${shownHeight}px`;
    node.width = shownWidth * ratio;
    node.height = shownHeight * ratio;
    scales = [across, down];
    const context = node.getContext("2d");
    if (!context) return;
    const colour = coloursNow();
    context.scale(ratio, ratio);
    for (const item of scene.items) {
      if (item.isGhost) continue;
      const isLit = scene.related?.has(item.id);
      context.fillStyle = isLit
        ? colour("accent")
        : colour(`${safeName(item.record.family)}-edge`) || colour("line");
      context.globalAlpha = isLit ? 1 : 0.55;
      const w = Math.max(2, scene.node[0] * across),
        h = Math.max(1.5, scene.node[1] * down);
      context.fillRect(item.x * across - w / 2, item.y * down - h / 2, w, h);
    }
    context.globalAlpha = 1;
    context.lineWidth = 1;
    context.strokeStyle = colour("line");
    for (const box of scene.boxes)
      context.strokeRect(box.x * across, box.y * down, box.width * across, box.height * down);
    context.strokeStyle = colour("accent");
    context.lineWidth = 1.5;
    const clamp = (value, most) => Math.min(most, Math.max(0, value));
    const [x0, x1] = [-view.x / view.k, (width - view.x) / view.k].map((x) =>
      clamp(x * across, shownWidth - 2),
    );
    const [y0, y1] = [-view.y / view.k, (height - view.y) / view.k].map((y) =>
      clamp(y * down, shownHeight - 2),
    );
    context.strokeRect(x0 + 1, y0 + 1, x1 - x0, y1 - y0);
  }

  node.addEventListener("pointerdown", (event) => {
    const go = (moveEvent) => {
      const box = node.getBoundingClientRect();
      goTo((moveEvent.clientX - box.left) / scales[0], (moveEvent.clientY - box.top) / scales[1]);
    };
    go(event);
    node.setPointerCapture(event.pointerId);
    node.onpointermove = go;
    node.onpointerup = () => {
      node.onpointermove = null;
    };
  });
  return {node, draw};
}
