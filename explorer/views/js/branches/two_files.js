// Two model files, tensor by tensor: the first tensor that differs, the layer with the largest
// error, and the error along the network (app/worker/two_files.py).

import {element} from "../ground/dom.js";
import {clip} from "../ground/scene.js";
import {drawParts} from "../ground/specification.js";

/** What is seen of it: a node that is pressed is selected where it is drawn. */
export function twoFilesView(app, {view}) {
  const onrow = (row) => visit(app, row, view);
  const {nodes} = drawParts(app, view.parts, {onrow});
  return element("div", {class: "scroll padded specification"}, nodes);
}

function visit(app, row, {parts}) {
  const {columns} = parts.find(({kind}) => kind === "table");
  const place = (key) => columns.findIndex(([known]) => known === key) + 1;
  const names = ["node_a", "node_b"].map((key) => textOf(row[place(key)] ?? ""));
  const drawn = [...app.data.latest.values()].find(({sources}) =>
    sources.some((source) => names.includes(source)),
  );
  if (drawn) app.select(drawn.id, "dock");
  else app.say(`${clip(names[0], 40)} is not drawn here.`);
}

const textOf = (cell) => (Array.isArray(cell) ? cell[1] : cell);
