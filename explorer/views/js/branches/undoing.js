// Undo and redo of what is done in the app: two buttons beside the open models, and their keys.

import {button, element} from "../ground/dom.js";
import {clip} from "../ground/scene.js";

// {node, update()}: `now()` gives the session
export function undoButtons(host, now) {
  const undo = button("↶", "", () => host.send({kind: "undo"}), {class: "icon undo"});
  const redo = button("↷", "", () => host.send({kind: "redo"}), {class: "icon redo"});
  const node = element("span", {class: "undoing", role: "group", "aria-label": "undo"}, undo, redo);

  function mark(control, word, keys, point) {
    control.disabled = point === undefined;
    control.title =
      point === undefined ? `nothing to ${word}` : `${word} (${keys}): ${clip(point, 80)}`;
    control.setAttribute("aria-label", control.title);
  }

  function update() {
    const {points, at} = now();
    mark(undo, "undo", "Ctrl+Z", at > 0 ? points[at] : undefined);
    mark(redo, "redo", "Ctrl+Shift+Z", points[at + 1]);
  }
  update();
  return {node, update};
}

// Whether a key is one of these, which does its work then; in a field for text it is the field's.
export function undoKey(session, event) {
  const isZ = event.key.toLowerCase() === "z",
    isY = event.key.toLowerCase() === "y";
  if (!session || !(event.ctrlKey || event.metaKey) || event.altKey || !(isZ || isY)) return false;
  const origin = event.composedPath()[0];
  const isText = origin?.isContentEditable || ["TEXTAREA", "SELECT"].includes(origin?.tagName);
  const isField = origin?.tagName === "INPUT" && !["range", "checkbox"].includes(origin.type);
  if (isText || isField) return false;
  event.preventDefault();
  if (isY || event.shiftKey) session.redo();
  else session.undo();
  return true;
}
