// What hovering says about an operation, a block or an edge.

import {element} from "../ground/dom.js";
import {countText} from "../ground/numbers.js";
import {clip} from "../ground/scene.js";
import {LOOK} from "../theme.js";

// Of a name in a hover text; the whole name stands in the inspector.
export const TIP_CHARACTERS = 160;

export function tipOfNode(app, item) {
  const {record, inside} = item;
  const refused = item.problem
    ? element(
        "div",
        {class: "ink-unsupported"},
        `${LOOK.unsupported.glyph} ${clip(item.problem, TIP_CHARACTERS)}`,
      )
    : null;
  if (inside) {
    const kinds = [...item.families]
      .sort((a, b) => b[1] - a[1])
      .slice(0, 6)
      .map(([name, count]) => `${count} ${app.look.family(name).title}`);
    const marks = ["added", "removed", "changed", "fused"].filter((name) => inside[name]);
    return [
      element("strong", {}, clip(record.label, TIP_CHARACTERS)),
      element("div", {class: "mono"}, `block, ${record.shape}`),
      item.holds ? element("div", {}, countText(inside.after || inside.before, "op")) : null,
      element("div", {}, kinds.join(", ")),
      refused,
      marks.map((name) =>
        element(
          "div",
          {class: `ink-${name}`},
          `${app.look.difference(name).glyph} ${countText(inside[name], "operation")}: ` +
            `${app.look.difference(name).title}`,
        ),
      ),
      element("div", {class: "quiet-text"}, openingText(app, item.id)),
    ];
  }
  return [
    element("strong", {}, clip(record.id, TIP_CHARACTERS)),
    element("div", {class: "mono"}, clip(`${record.operation}  ${record.shape}`, TIP_CHARACTERS)),
    refused,
    record.sources.length ? element("div", {}, "from ", clip(record.sources.join(", "), 90)) : null,
    item.constants?.length
      ? element(
          "div",
          {},
          `${app.look.family("weight").glyph} ${countText(item.constants.length, "constant")}: `,
          element("span", {class: "mono"}, clip(item.constants.join(", "), 90)),
        )
      : null,
    item.status
      ? element(
          "div",
          {class: `ink-${item.status}`},
          `${app.look.difference(item.status).glyph} ${app.look.difference(item.status).title}`,
        )
      : null,
    item.changes.map((change) =>
      element(
        "div",
        {class: "mono"},
        `${change[1]}: ${clip(change[2], 40)} → ${clip(change[3], 40)}`,
      ),
    ),
  ];
}

function openingText(app, unit) {
  const {blocks} = app.data;
  const others = blocks.repetitions(blocks.indexOf(unit)).length - 1;
  return others
    ? "click +, click twice or press e to open it and " +
        `${countText(others, "block")} that repeat it; with Shift, it alone`
    : "click +, click twice or press e to open it";
}

export function tipOfEdge(edge) {
  return [
    element("strong", {}, clip(edge.value, TIP_CHARACTERS)),
    element("div", {class: "mono"}, clip(edge.type, TIP_CHARACTERS)),
    element("div", {}, `${clip(edge.source, 80)} → ${clip(edge.target, 80)}`),
    edge.kind === "back" ? element("div", {}, "runs upwards: it leads back") : null,
    edge.kind === "turn" ? element("div", {}, "goes on in another column") : null,
    edge.isOnChip
      ? element("div", {}, "stays on the chip: its layers are one group (group-layers)")
      : null,
    edge.count > 1 ? element("div", {}, countText(edge.count, "edge")) : null,
  ];
}
