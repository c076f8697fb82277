// One face for the three places that run this module: a notebook (anywidget), the served app
// (Panel's JSComponent), and one offline page, whose model is a plain object with all chunks.

function adaptHost(model) {
  if (typeof model.chunk === "function") {
    return {
      mode: "page", get: (name) => model.get(name), on: () => {}, send: () => {}, receive: () => {},
      chunk: model.chunk,
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
    };
  }
  return {
    mode: model.mode || "app",
    get: (name) => model[name],
    on: (name, listener) => model.on(name, listener),
    send: (message) => model.send_msg(message),
    // Panel hands the message itself; its documentation, an event that holds it.
    receive: (listener) => model.on("msg:custom", (event) => listener(event.kind ? event : event.data)),
    chunk: null,
  };
}
