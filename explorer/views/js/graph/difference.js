// How programs differ after one pass: a drawing for every other side, in which what both have
// stands at one place; and their IR beside each other, line by line.

import {append, button, element, shape} from "../ground/dom.js";
import {makeEdge, makeNode} from "./graph_nodes.js";
import {countText, exactText} from "../ground/numbers.js";
import {runWhole} from "../layout/slices.js";
import {placeUnion} from "../layout/union.js";
import {NODE} from "./drawing.js";
import {clip, edgeShape, safeName} from "../ground/scene.js";
import {LETTERS, passDiffers, sideHeads} from "../ground/sides.js";

const ROOM = {width: 1600, height: 1200}; // what a picture of a difference may fill
const MARGIN = 8;

export function graphDifference(app, comparison, difference) {
  return element(
    "div",
    {class: "graph-differences"},
    difference.graphs.map((drawing, index) => {
      const letter = LETTERS[index + 1],
        {counts} = drawing;
      const words = ["added", "removed", "changed"]
        .filter((name) => counts[name])
        .map((name) =>
          element(
            "span",
            {class: `ink-${name}`},
            `${app.look.difference(name).glyph} ${exactText(counts[name])} ` +
              `${differenceWord(name, letter)}`,
          ),
        );
      const [first, other] = [0, index + 1].map((side) => clip(difference.passes[side], 40));
      const isSamePass = difference.passes[0] === difference.passes[index + 1];
      const title = element(
        "p",
        {class: "difference-title"},
        element("strong", {}, `A and ${letter}`),
        ` after ${first}${isSamePass ? "" : ` and ${other}`}`,
        words.length
          ? words
          : [
              element("span", {class: "quiet-text"}, "the same operations"),
              partingButton(app, comparison),
            ],
        drawing.hidden
          ? element(
              "span",
              {class: "quiet-text"},
              `${countText(drawing.hidden, "operation")} farther from what differs not drawn`,
            )
          : null,
      );
      return element(
        "section",
        {class: "graph-difference"},
        title,
        differencePicture(app, drawing, `difference of A and ${letter}`, {shares: true}),
      );
    }),
  );
}

// A way to the first pass after which the programs are not the same; null when it is looked at.
function partingButton(app, comparison) {
  const names = app.data.head.passes.map((pass) => pass.name);
  const differing = new Set(comparison.passes.filter(passDiffers).map(([name]) => name));
  // A pass that only others have is passed by here: what follows shows its effect.
  const from = comparison.passes.findIndex(([name]) => differing.has(name));
  const place =
    from < 0
      ? -1
      : names.indexOf(comparison.passes.slice(from).find(([name]) => names.includes(name))?.[0]);
  if (place < 0 || place === app.store.get().pass) return null;
  return button(
    `they part at ${clip(names[place], 40)}`,
    "look at that pass",
    () => app.goToPass(place),
    {class: "link"},
  );
}

function differenceWord(name, letter) {
  return {added: `only in ${letter}`, removed: "only in A", changed: "changed"}[name];
}

// drawing: a graph that holds two, as payload/difference.py makes it; shares: whether what replaces
// an operation lies where that one lay, or stands beside it.
export function differencePicture(app, drawing, label, {shares}) {
  const scene = {node: NODE};
  const placed = placedDifference(drawing, shares);
  const items = drawing.ids.map((id, index) => {
    const [text, family, shapeText, status, changes] = drawing.nodes[index];
    return {
      id,
      x: placed.at.get(id)[0],
      y: placed.at.get(id)[1],
      status,
      isGhost: false,
      changes: changes.map((change) => [id, ...change]),
      record: {id, label: text, family, shape: shapeText, operation: text, device: "", sources: []},
    };
  });
  const edges = drawing.edges.map(([source, target, status]) => ({
    key: `${source} ${target}`,
    status,
    ...edgeShape(placed.route(drawing.ids[source], drawing.ids[target]).points),
  }));
  const scale = 0.8;
  const picture = shape(
    "svg",
    {
      role: "group",
      "aria-label": label,
      width: Math.ceil((placed.width + 2 * MARGIN) * scale),
      height: Math.ceil((placed.height + 2 * MARGIN) * scale),
      viewBox: [
        -MARGIN,
        -MARGIN,
        Math.ceil(placed.width) + 2 * MARGIN,
        Math.ceil(placed.height) + 2 * MARGIN,
      ].join(" "),
    },
    edges.map((edge) => {
      const drawn = makeEdge(edge);
      drawn.setAttribute("class", `edge ${edge.status}`);
      return drawn;
    }),
    items.map((item) => {
      const node = makeNode(app, scene, item);
      node.setAttribute(
        "class",
        `node family-${safeName(item.record.family)} ` +
          `${item.status ? `${item.status} mark-${item.status}` : ""}`,
      );
      node.append(
        shape(
          "title",
          {},
          [
            clip(item.id, 200),
            clip(item.record.shape, 200),
            ...item.changes.map(
              (change) => `${change[1]}: ${clip(change[2], 80)} → ${clip(change[3], 80)}`,
            ),
          ].join("\n"),
        ),
      );
      const select = () => {
        if (app.data.latest.has(item.id)) app.select(item.id, "dock");
      };
      node.setAttribute("tabindex", item.status ? 0 : -1);
      node.addEventListener("click", select);
      node.addEventListener("keydown", (event) => {
        if (event.key === "Enter") select();
      });
      return node;
    }),
  );
  const host = element("div", {class: "difference-picture scroll"}, picture);
  // What differs is what one wants to see first.
  const first = items.find((item) => item.status);
  if (first)
    requestAnimationFrame(() => {
      if (!host.scrollTop)
        host.scrollTo(
          Math.max(0, first.x * scale - host.clientWidth / 2),
          Math.max(0, first.y * scale - host.clientHeight / 2),
        );
    });
  return host;
}

// Where both graphs stand, in one drawing.
function placedDifference({ids, nodes, edges}, shares) {
  const graphs = ["added", "removed"].map((other) => ({
    items: ids.flatMap((id, index) => {
      const [, family, , status, , sources] = nodes[index];
      return status === other ? [] : [{id, block: 0, family, sources}];
    }),
    edges: edges
      .filter(([, , status]) => status !== other)
      .map(([source, target]) => [ids[source], ids[target]]),
  }));
  return runWhole(
    placeUnion({graphs, shares, chainOf: () => [0], node: NODE, memory: null, room: ROOM}),
  );
}

export function lineDifference(app, comparison, difference) {
  const sides = comparison.labels.length;
  const {rows} = difference;
  const isSame = rows.every((row) => row[0] !== "≠");
  const cell = (line, mark) => element("td", {class: mark}, line === null ? "" : line);
  const body = rows.map((row) => {
    if (row[0] === "fold")
      return element(
        "tr",
        {class: "folded"},
        element("td", {colspan: sides}, countText(row[1], "equal line")),
      );
    if (row[0] === "=")
      return element(
        "tr",
        {},
        Array.from({length: sides}, () => cell(row[1], "")),
      );
    const [, ...lines] = row;
    return element(
      "tr",
      {class: "unequal"},
      lines.map((line, index) =>
        cell(
          line,
          line === null
            ? "absent"
            : index === 0
              ? lines.some((other) => other !== line)
                ? "removed"
                : ""
              : line === lines[0]
                ? ""
                : "added",
        ),
      ),
    );
  });
  return element(
    "div",
    {class: "scroll line-difference"},
    element(
      "table",
      {"aria-label": "IR side by side"},
      element(
        "thead",
        {},
        element(
          "tr",
          {},
          sideHeads(comparison).map((head, index) =>
            append(head, [
              element(
                "span",
                {class: "quiet-text"},
                ` after ${clip(difference.passes[index], 32)}`,
              ),
            ]),
          ),
        ),
      ),
      element("tbody", {}, body),
    ),
    isSame
      ? element(
          "p",
          {class: "quiet-text padded"},
          "The IR after this pass is the same in all of them. ",
          partingButton(app, comparison),
        )
      : null,
    difference.hiddenRows
      ? element(
          "p",
          {class: "cap"},
          `${countText(difference.hiddenRows, "row")} more are not shown; look at an earlier ` +
            "pass, whose program is shorter",
        )
      : null,
  );
}
