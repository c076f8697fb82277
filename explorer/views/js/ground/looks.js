// How a person set the page up: the theme, sizes of panes. Another model, another branch and
// another visit find them again: this browser remembers them, and in the app the workspace, too.
//
// looks.get("--dock")    looks.set("--dock", 312)    looks.set("theme", "dark")

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

function parsed(text) {
  try {
    const values = JSON.parse(text ?? "{}");
    return typeof values === "object" && values !== null && !Array.isArray(values) ? values : {};
  } catch {
    return {};
  }
}
