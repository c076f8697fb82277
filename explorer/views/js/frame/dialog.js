// Dialogs over the panes, one at a time: what had the focus before gets it back.

import {element} from "../ground/dom.js";

// One for the page, whatever compilation it shows: the same key closes what any of them opened.
export function createDialogs(root) {
  let dialog = null; // {node, before}
  const hasDialog = () => dialog !== null;
  const closeDialog = () => {
    if (!dialog) return false;
    dialog.node.remove();
    const {before} = dialog;
    dialog = null;
    (before?.isConnected ? before : root).focus({preventScroll: true});
    return true;
  };
  // content(close) -> what stands in it. What had the focus before gets it back.
  const openDialog = (label, content, className = "") => {
    const before = dialog?.before ?? root.querySelector(":focus");
    dialog?.node.remove();
    const box = element(
      "div",
      {
        class: `dialog ${className}`,
        role: "dialog",
        "aria-modal": "true",
        "aria-label": label,
        tabindex: -1,
        onkeydown: keepFocus,
      },
      content(closeDialog),
    );
    dialog = {
      before,
      node: element(
        "div",
        {
          class: "veil",
          onclick: (event) => {
            if (event.target === event.currentTarget) closeDialog();
          },
        },
        box,
      ),
    };
    root.append(dialog.node);
    box.focus();
  };
  return {openDialog, closeDialog, hasDialog};
}

// The Tab key goes round within a dialog.
function keepFocus(event) {
  if (event.key !== "Tab") return;
  const stops = [
    ...event.currentTarget.querySelectorAll('button, [tabindex="0"], a, input, select, textarea'),
  ];
  const index = stops.indexOf(event.target);
  if (!stops.length || (index >= 0 && index + (event.shiftKey ? -1 : 1) in stops)) return;
  event.preventDefault();
  stops[event.shiftKey ? stops.length - 1 : 0].focus();
}
