// As much of a name as there is room for: what tells it from others goes last.

import {clip} from "../ground/scene.js";

const MAX_MEASURED = 60;

// "conv 3x3 + relu", or "conv 3x3", or "conv" where there is no room for more.
export function kindThatFits(app, label, room, font) {
  const [kind] = label.split(/ (?:\S*\d|\+)/, 1);
  const [first] = label.split(" + ", 1);
  const fits = (text) => fitText(app, text, room, font, clip) === text;
  return [label, first].find(fits) ?? fitText(app, kind, room, font, clip);
}

// "transformer layer 12", or "layer 12" where there is no room for more, or "tra… 12".
export function nameThatFits(app, label, room, font) {
  return (
    shortNames(label).find((text) => fitText(app, text, room, font, clip) === text) ??
    fitText(app, label, room, font, clipName)
  );
}

// "stage 3: 6 × residual block", or "stage 3"; "transformer layer 1", or "layer 1".
export function titleThatFits(app, title, room, font) {
  const [name] = title.split(/: (?=\d+ ×)/);
  return fitText(app, title, room, font, clip) === title
    ? title
    : nameThatFits(app, name, room, font);
}

// The name, then shorter ones: the last word with its number, or the first parts of a list with it.
export function shortNames(label) {
  const number = label.match(/ [\d.]*\d$/)?.[0] ?? "";
  const parts = label.slice(0, label.length - number.length).split(", ");
  if (parts.length === 1) return [label, label.match(/\S+ [\d.]*\d$/)?.[0] ?? label];
  const shorter = parts.map((_, index) => parts.slice(0, parts.length - index).join(", ") + number);
  return [...shorter, parts[0]];
}

// As much of a text as there is room for, in pixels; `cut` makes it shorter.
export function fitText(app, text, room, font, cut) {
  const ruler = rulerOf(app, font);
  const widthOf = (part) => ruler.measureText(part).width;
  let shown = text.length > MAX_MEASURED ? cut(text, MAX_MEASURED) : text;
  while (shown.length > 2 && widthOf(shown) > room) {
    // At least one character, or the rest would be counted from its end: there may be no room.
    const most = Math.max(1, Math.ceil((shown.length * room) / widthOf(shown)));
    shown = cut(text, Math.min(shown.length - 1, most));
  }
  return shown;
}

export function widthOfText(app, text, size) {
  return rulerOf(app, `600 ${size}px`).measureText(text).width;
}

export function rulerOf(app, font) {
  app.rulers ??= new Map();
  if (!app.rulers.has(font)) {
    const canvas = document.createElement("canvas");
    const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    // Asking for it has the page work out its styles.
    app.fontFamily ??= getComputedStyle(app.root).fontFamily;
    context.font = `${font} ${app.fontFamily}`;
    app.rulers.set(font, context);
  }
  return app.rulers.get(font);
}

// Blocks of one name are told apart by their numbers: transformer layer 12 -> transfor… 12.
function clipName(text, most) {
  const [number] = text.match(/[\s._-]*[\d.]*\d$/) ?? [""];
  const room = most - number.length;
  return text.length > most && room > 2
    ? clip(text.slice(0, -number.length || undefined), room) + number
    : clip(text, most);
}
