// The sides of a comparison: their letters, the heads of their columns, whether they differ.

import {element} from "./dom.js";
import {clip} from "./scene.js";

export const LETTERS = ["A", "B", "C", "D"];

export function sideHeads(comparison) {
  return comparison.labels.map((label, index) =>
    element(
      "th",
      {scope: "col", title: clip(label, 400)},
      element("strong", {}, LETTERS[index]),
      ` ${clip(label, 36)}`,
    ),
  );
}

export function passDiffers([, sides]) {
  return sides.some(
    (side) =>
      side?.after !== sides[0]?.after ||
      side?.rewrites !== sides[0]?.rewrites ||
      side?.peak !== sides[0]?.peak,
  );
}
