// How a person set the page up: the theme, sizes of panes. Another model, another branch and
// another visit find them again: this browser remembers them, and in the app the workspace, too.
//
// looks.get("theme")    looks.set("theme", "dark")
// sizesOf(looks)        noteSizes(looks, {graph: {bottom: 312}})

import {recall, remember} from "./browser_memory.js";

const SENDING_MILLISECONDS = 300;
const NAME = "looks";

export function createLooks(host) {
  const isKept = host.mode !== "notebook"; // a cell follows its notebook
  let values = isKept ? parsed(recall("browser", NAME)) : {};
  let timer = 0;
  const changed = () => {
    if (!isKept) return;
    remember("browser", NAME, JSON.stringify(values));
    clearTimeout(timer);
    timer = setTimeout(() => host.send({kind: "looks", looks: values}), SENDING_MILLISECONDS);
  };
  return {
    names: () => Object.keys(values),
    get: (name) => values[name] ?? null,
    set(name, value) {
      if (value === null) delete values[name];
      else values[name] = value;
      changed();
    },
    // What the workspace knows wins over what this browser remembers of others.
    restore(known) {
      if (isKept) values = {...values, ...known};
    },
  };
}

const SIZE = /^size (\w+) (\w+)$/; // of a place in a preset of panes, in pixels

export function sizesOf(looks) {
  /** @type {Record<string, Record<string, number>>} */
  const sizes = {};
  for (const name of looks.names()) {
    const found = SIZE.exec(name);
    const pixels = looks.get(name);
    if (found && typeof pixels === "number") (sizes[found[1]] ??= {})[found[2]] = pixels;
  }
  return sizes;
}

export function noteSizes(looks, sizes) {
  const wanted = new Map();
  for (const [preset, places] of Object.entries(sizes))
    for (const [place, pixels] of Object.entries(places))
      wanted.set(`size ${preset} ${place}`, pixels);
  for (const name of looks.names()) if (SIZE.test(name) && !wanted.has(name)) looks.set(name, null);
  for (const [name, pixels] of wanted) if (looks.get(name) !== pixels) looks.set(name, pixels);
}

function parsed(text) {
  try {
    const values = JSON.parse(text ?? "{}");
    return typeof values === "object" && values !== null && !Array.isArray(values) ? values : {};
  } catch {
    return {};
  }
}
