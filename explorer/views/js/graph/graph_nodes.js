// The SVG of one operation, block, edge or bracket.

import {shape} from "../ground/dom.js";
import {MINUS, countText} from "../ground/numbers.js";
import {clip} from "../ground/scene.js";
import {letteringAt} from "./lettering.js";
import {
  fitText,
  kindThatFits,
  nameThatFits,
  rulerOf,
  shortNames,
  titleThatFits,
  widthOfText,
} from "./names_that_fit.js";
import {TIP_CHARACTERS} from "./tips.js";
import {LOOK} from "../theme.js";

const PLAIN = letteringAt(1);

export const BACK_CARD = 5; // by how much the cards behind that of a closed block look out

export const TITLE_HEIGHT = 22; // of an open block

const AROUND_KIND = 7; // pixels

// lettering: of letteringAt, how much is written and how large
export function makeNode(app, scene, item, lettering = PLAIN) {
  if (item.isGhost) return makeGhost(app, scene, item, lettering);
  const [width, height] = scene.node;
  const {record, inside} = item;
  const name = inside
    ? `block ${clip(record.label, TIP_CHARACTERS)}`
    : `${clip(record.id, TIP_CHARACTERS)}, ${record.label}`;
  const group = shape(
    "g",
    {
      "data-id": item.id,
      role: "button",
      "aria-label": `${name}, ${record.shape}${item.status ? `, ${item.status}` : ""}`,
      transform: `translate(${item.x - width / 2} ${item.y - height / 2})`,
    },
    inside
      ? [
          shape("rect", {class: "card back", x: BACK_CARD, y: BACK_CARD, width, height, rx: 6}),
          shape("rect", {
            class: "card back",
            x: BACK_CARD / 2,
            y: BACK_CARD / 2,
            width,
            height,
            rx: 6,
          }),
        ]
      : null,
    shape("rect", {class: "card", width, height, rx: 6}),
    shape("path", {
      class: "stripe",
      d: `M6 0 H5 A5 5 0 0 0 0 5 V${height - 5} A5 5 0 0 0 5 ${height} H6 Z`,
    }),
    lettering.level === "full"
      ? wordsInFull(app, item, scene.node, lettering)
      : lettering.level === "kind"
        ? kindOf(app, item, scene.node, lettering)
        : null,
  );
  const broad = inside ? expanderWidth(app, record.label, width, lettering) : 0;
  if (broad) {
    group.append(
      shape(
        "g",
        {
          class: "expander",
          "data-open": item.id,
          role: "button",
          "aria-label": `open block ${record.label}`,
        },
        shape("rect", {x: width - broad - 4, y: 4, width: broad, height: height - 8, rx: 4}),
        shape(
          "text",
          {
            x: width - broad / 2 - 4,
            y: height / 2 + 0.35 * lettering.title,
            "text-anchor": "middle",
            style: `font-size: ${1.2 * lettering.title}px`,
          },
          "+",
        ),
      ),
    );
  }
  if (record.device && app.data.devices.size > 1)
    group.setAttribute("data-device", [...app.data.devices].indexOf(record.device));
  if (item.problem) {
    group.append(
      shape("path", {class: "hatch", d: hatchPath(width, height)}),
      shape(
        "g",
        {class: "problem-sign", transform: `translate(${width} ${height})`},
        shape("circle", {r: 7}),
        shape("text", {"text-anchor": "middle", y: 4}, LOOK.unsupported.glyph),
      ),
    );
    group.setAttribute(
      "aria-label",
      `${group.getAttribute("aria-label")}, ${LOOK.unsupported.title}: ` +
        `${clip(item.problem, TIP_CHARACTERS)}`,
    );
  }
  if (item.status) {
    const look = app.look.difference(item.status);
    group.append(
      shape(
        "g",
        {class: "badge", transform: `translate(${width} 0)`},
        shape("circle", {r: 7}),
        shape("text", {"text-anchor": "middle", y: 4}, look.glyph),
      ),
    );
  }
  return group;
}

// Stripes over what cannot be imported, from lower left to upper right.
function hatchPath(width, height) {
  const inset = 3,
    step = 8;
  let path = "";
  for (let at = inset + step; at < width + height - inset; at += step) {
    const left = Math.max(inset, at - height + inset),
      right = Math.min(width - inset, at - inset);
    path += `M${left} ${at - left}L${right} ${at - right}`;
  }
  return path;
}

// What an operation is, below it what it gives; a chip says how many constants it uses.
function wordsInFull(app, {record, inside, constants}, [width, height], {label, shape: small}) {
  const chip = constants?.length ? `${app.look.family("weight").glyph}${constants.length}` : "";
  const room = width - (inside ? 58 : 34);
  return [
    shape(
      "text",
      {class: "glyph", x: 16, y: height / 2 + 5, "text-anchor": "middle"},
      app.look.family(record.family).glyph,
    ),
    shape(
      "text",
      {class: "label", x: 28, y: 15, style: `font-size: ${label}px`},
      inside
        ? nameThatFits(app, record.label, room, `600 ${label}px`)
        : fitText(app, record.label, room, `600 ${label}px`, clip),
    ),
    shape(
      "text",
      {class: "shape", x: 28, y: 30, style: `font-size: ${small}px`},
      fitText(app, record.shape || record.id, room - (chip ? 22 : 0), `${small}px`, clip),
    ),
    chip
      ? shape(
          "g",
          {class: "constants", "data-id": constants[0]},
          shape("rect", {x: width - 27, y: height - 15, width: 24, height: 13, rx: 6.5}),
          shape("text", {x: width - 15, y: height - 5.5, "text-anchor": "middle"}, chip),
        )
      : null,
  ];
}

// From farther away: one line in the middle, as large as there is room for.
function kindOf(app, {record, inside}, [width, height], lettering) {
  const {label, scale} = lettering;
  const size = label * scale;
  const button = inside ? expanderWidth(app, record.label, width, lettering) : 0;
  const room = (width - button) * scale - AROUND_KIND;
  const font = `500 ${size}px`;
  const written = inside
    ? nameThatFits(app, record.label, room, font)
    : kindThatFits(app, record.label, room, font);
  return shape(
    "text",
    {
      class: "label",
      x: (width - button) / 2 + 2,
      y: height / 2 + 0.36 * label,
      "text-anchor": "middle",
      style: `font-size: ${label}px`,
    },
    written,
  );
}

// None where it would take the room that the name needs: a double click opens a block, too.
function expanderWidth(app, name, width, {level, scale, label}) {
  if (level === "far") return 0;
  const broad = Math.max(20, 14 / scale);
  if (level === "full") return broad;
  const [short] = shortNames(name).slice(-1);
  const needed = rulerOf(app, `500 ${label * scale}px`).measureText(short).width + AROUND_KIND;
  return needed > (width - broad) * scale && needed <= width * scale ? 0 : broad;
}

// A name across the graph, where no node has room for it.
export function makeFarName({item, text}, {label}) {
  return shape(
    "text",
    {
      class: `far-name${item.inside ? " block" : ""}`,
      "data-id": item.id,
      x: item.x,
      y: item.y + 0.36 * label,
      "text-anchor": "middle",
      style: `font-size: ${label}px; stroke-width: ${0.3 * label}px`,
    },
    text,
  );
}

export const turnRadius = ({scale}) => Math.max(7, 6 / scale);

// Both ends of what goes on in another column.
export function makeTurn({from, heads, number}, lettering) {
  const radius = turnRadius(lettering);
  const end = ([x, y], what) =>
    shape(
      "g",
      {class: "turn", transform: `translate(${x} ${y})`, "aria-label": `${what} ${number}`},
      shape("circle", {r: radius}),
      shape(
        "text",
        {"text-anchor": "middle", y: 0.36 * 1.4 * radius, style: `font-size: ${1.4 * radius}px`},
        String(number),
      ),
    );
  return shape(
    "g",
    {},
    end(from, "goes on at"),
    heads.map((head) => end(head, "comes from")),
  );
}

// Where its tab stands: on the left half of the card, above it.
export function ghostBox({x, y}, [, height]) {
  const bottom = y - height / 2;
  return {left: x - 84, right: x - 8, top: bottom - 17, bottom};
}

// A removed operation whose place was taken: a tab on the card of the one that took it.
function makeGhost(app, scene, item, {level}) {
  const {left, right, top, bottom} = ghostBox(item, scene.node);
  const tabHeight = bottom - top,
    tabWidth = right - left;
  return shape(
    "g",
    {
      "data-id": item.id,
      role: "button",
      "aria-label":
        `${clip(item.record.id, TIP_CHARACTERS)}, ${item.record.label}, removed: ` +
        "its place was taken",
      transform: `translate(${left} ${top})`,
    },
    shape("path", {
      class: "card",
      d:
        `M0 ${tabHeight} V5 A5 5 0 0 1 5 0 H${tabWidth - 5} A5 5 0 0 1 ${tabWidth} 5 ` +
        `V${tabHeight} Z`,
    }),
    level === "full"
      ? [
          shape("text", {class: "sign", x: 6, y: 12}, app.look.difference("removed").glyph),
          shape("text", {class: "label", x: 17, y: 12}, clip(item.record.label, 9)),
        ]
      : null,
  );
}

// The frame of an open block lies below edges and nodes; its title, which closes it, above them.
export function makeFrame(box) {
  return shape("rect", {
    class: `block-box${box.isRegion ? " region" : ""}`,
    "data-box": box.block,
    x: box.x,
    y: box.y,
    width: box.width,
    height: box.height,
    rx: 8,
  });
}

export function makeTitle(app, box, {title}) {
  const height = TITLE_HEIGHT,
    middle = height / 2 + 0.36 * title;
  const count = countText(box.inside, "op");
  const font = `600 ${title}px`;
  const room = box.width - 2.6 * title - widthOfText(app, count, title) - 20;
  const isShort = room < 5 * title; // then its name alone
  return shape(
    "g",
    {
      class: "block-title",
      "data-close": `#${box.block}`,
      role: "button",
      "aria-label": `close block ${box.label}`,
      transform: `translate(${box.x} ${box.y})`,
    },
    shape("rect", {class: "title-ground", x: 1, y: 1, width: box.width - 2, height, rx: 7}),
    shape("text", {class: "sign", x: title, y: middle, style: `font-size: ${title}px`}, MINUS),
    shape(
      "text",
      {class: "label", x: 2 * title, y: middle, style: `font-size: ${title}px`},
      titleThatFits(app, box.label, isShort ? box.width - 2.4 * title : room, font),
    ),
    isShort
      ? null
      : shape(
          "text",
          {
            class: "shape",
            x: box.width - 10,
            y: middle,
            "text-anchor": "end",
            style: `font-size: ${title}px`,
          },
          count,
        ),
  );
}

export function makeEdge(edge) {
  return shape(
    "g",
    {"data-edge": edge.key},
    shape("path", {class: "reach", d: edge.path}),
    shape("path", {class: "wire", d: edge.path}),
    shape("path", {class: "tipped", d: edge.arrow}),
  );
}

export function makeLabel({x, y, text, anchor}, {shape: size}) {
  return shape("text", {x, y, "text-anchor": anchor, style: `font-size: ${size}px`}, text);
}

// A bracket from the operations that were taken over to the one that took them over.
export function makeBracket(scene, {from, to}) {
  const [width] = scene.node;
  const right = Math.max(from.x, to.x) + width / 2 + 14;
  const start = from.x + width / 2,
    end = to.x + width / 2;
  const sign = Math.sign(to.y - from.y);
  const path =
    `M${start} ${from.y} H${right - 6} Q${right} ${from.y} ${right} ` +
    `${from.y + sign * 6} V${to.y - sign * 6} Q${right} ${to.y} ${right - 6} ${to.y} H${end + 2}`;
  return shape("path", {class: "bracket", d: path});
}
