// Boxes inside of boxes.

import {element} from "../ground/dom.js";

// shares: of the box that it lies in, by side.
export function placed(name, shares) {
  const node = element("span", {class: name});
  for (const [side, share] of Object.entries(shares))
    node.style.setProperty(side, `${(100 * share).toFixed(3)}%`);
  return node;
}
