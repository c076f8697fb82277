// One face for the three places that run this module: a notebook (anywidget), the served app
// (Panel's JSComponent), and one offline page, whose model is a plain object with all chunks.

import {recall, remember} from "./browser_memory.js";
import {sessionLink} from "./shared_link.js";

const WORKSPACE = "workspace"; // under which name a browser remembers what it had open

export function adaptHost(model) {
  if (typeof model.chunk === "function") {
    return {
      mode: "page",
      get: (name) => model.get(name),
      on: () => {},
      send: () => {},
      receive: () => {},
      chunk: model.chunk,
      holds: model.holds,
      ready: () => {},
    };
  }
  if (typeof model.save_changes === "function") {
    return {
      mode: model.get("mode") || "notebook",
      get: (name) => model.get(name),
      on: (name, listener) => model.on(`change:${name}`, listener),
      send: (message) => model.send(message),
      receive: (listener) => model.on("msg:custom", listener),
      chunk: null,
      ready: () => {},
    };
  }
  return adaptPanel(model);
}

// In the app the state travels in messages, not in parameters: a parameter that changes while the
// page is still loading may never arrive. "hello" says that this side listens.
function adaptPanel(model) {
  const values = new Map();
  const listeners = [];
  /** @type {(message: any) => void} */
  let forward = () => {};
  model.on("msg:custom", (event) => {
    // Panel hands the message itself; its documentation, an event that holds it.
    const message = event.kind ? event : event.data;
    if (message.kind !== "state") {
      forward(message);
      return;
    }
    const names = Object.keys(message.values);
    for (const name of names) values.set(name, message.values[name]);
    const workspace = message.values.session?.workspace;
    if (workspace) for (const scope of ["tab", "browser"]) remember(scope, WORKSPACE, workspace);
    for (const [name, listener] of listeners) if (names.includes(name)) listener();
  });
  return {
    mode: "app",
    get: (name) => values.get(name),
    on: (name, listener) => listeners.push([name, listener]),
    send: (message) => model.send_msg(message),
    receive: (listener) => {
      forward = listener;
    },
    chunk: null,
    ready: () =>
      model.send_msg({
        kind: "hello",
        link: sessionLink(window.location.hash),
        workspaces: [recall("tab", WORKSPACE), recall("browser", WORKSPACE)],
      }),
  };
}
