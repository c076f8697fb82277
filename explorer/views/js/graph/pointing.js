// The pointer and the keys in the graph: moving, zooming, selecting, opening blocks, and the tip.

import {neighbour} from "./selection.js";
import {replace} from "../ground/dom.js";
import {tipOfEdge, tipOfNode} from "./tips.js";

// sceneNow() -> what is drawn, or null; `moved()` is told when the camera has moved.
export function addPointing({
  app,
  body,
  camera,
  moved,
  overlay,
  sceneNow,
  svg,
  tip,
  toggleBlock,
  zoom,
}) {
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
    const scene = sceneNow();
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

  function step(key) {
    const scene = sceneNow();
    if (!scene?.items.length) return;
    if (!scene.byId.has(scene.selected)) {
      app.select([...scene.items].sort((a, b) => a.y - b.y)[0].id, "graph");
      return;
    }
    const next = neighbour(scene, key);
    if (next !== null) app.select(next, "keys");
  }
}
