// Small pictures of buttons, drawn here: no font that everybody has holds such signs.

import {shape} from "./dom.js";

const STROKES = {
  enlarge: "M2 6V2h4 M10 2h4v4 M14 10v4h-4 M6 14H2v-4",
  place: "M2 3h12v10H2z M6 3v10 M6 9h8",
  columns: "M2 3h12v10H2z M6 3v10 M10 3v10",
  step: "M5 3v10 M2.5 5.5L5 3l2.5 2.5 M11 13V3 M8.5 10.5L11 13l2.5-2.5",
  colours: "M2 4h7 M2 8h12 M2 12h9",
  find: "M7 2.5a4.5 4.5 0 1 0 .01 0 M10.5 10.5L14 14",
};

export function icon(name) {
  return shape(
    "svg",
    {class: "sign", viewBox: "0 0 16 16", width: 14, height: 14, "aria-hidden": "true"},
    shape("path", {d: STROKES[name]}),
  );
}
