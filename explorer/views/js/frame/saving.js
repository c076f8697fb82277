// Saving what one sees, and sharing it: files for other people and programs, links elsewhere.

import {saveBlob, saveBytes, saveText} from "../ground/download.js";
import {button, element, replace} from "../ground/dom.js";
import {pngOf, svgOf} from "../ground/picture.js";
import {choicesInLink} from "../state/state.js";

// Tables by the tab at which one looks; the first is offered elsewhere.
const TABLES = {
  passes: "every pass: operations, rewrites, time",
  events: "every rewrite, and every candidate that was declined",
  operators: "operators of the model",
  layers: "every launch with its error, time and memory",
  kernels: "every kernel with its costs and schedule",
  errors: "errors of every tensor after every pass",
  buffers: "every buffer of the arena",
  knobs: "all that can be decided",
};
const TABLE_OF_TAB = {
  memory: "buffers",
  accuracy: "errors",
  timeline: "layers",
  roofline: "layers",
  layers: "layers",
  kernels: "kernels",
  model: "operators",
};

// Files that the other side makes: asked for by number, and sent in pieces.
export function createFiles(host) {
  const waiting = new Map(); // number -> {resolve, reject, parts}
  let count = 0;
  return {
    ask: (order) =>
      new Promise((resolve, reject) => {
        count += 1;
        waiting.set(count, {resolve, reject, parts: []});
        host.send({kind: "save", number: count, ...order});
      }),
    receive(message) {
      const found = message.kind === "saved" ? waiting.get(message.number) : null;
      if (!found) return;
      if (!message.error) {
        found.parts[message.part] = message.text;
        if (found.parts.filter((part) => part !== undefined).length < message.parts) return;
      }
      waiting.delete(message.number);
      if (message.error) found.reject(new Error(message.error));
      else found.resolve({name: message.name, type: message.type, base64: found.parts.join("")});
    },
  };
}

export function openSaving(app) {
  app.openDialog("save", (close) => savingContent(app, close), "saving");
}

function savingContent(app, close) {
  const {session, store} = app;
  const said = element("p", {class: "saving-said", role: "status"});
  const say = (text) => replace(said, text);
  // what(): makes and saves a file; the dialog says what came of it
  const saver = (label, title, what) => {
    const control = button(label, title, async () => {
      control.disabled = true;
      say(`Making ${label} …`);
      try {
        const name = await what();
        say(`Saved ${name}.`);
      } catch (failure) {
        say(failure.message);
      }
      control.disabled = false;
    });
    return control;
  };
  const fromOther = (order) => async () => {
    const {name, type, base64} = await app.files.ask(order);
    saveBytes(name, base64, type);
    return name;
  };
  const row = (title, about, ...controls) =>
    element(
      "div",
      {class: "saving-row"},
      element("strong", {}, title),
      element("span", {class: "quiet-text"}, about),
      element("span", {class: "actions"}, controls),
    );
  const kind = element(
    "select",
    {"aria-label": "table"},
    Object.entries(TABLES).map(([name, about]) =>
      element(
        "option",
        {
          value: name,
          title: about,
          selected: name === (TABLE_OF_TAB[store.get().dock] ?? "passes"),
        },
        name,
      ),
    ),
  );
  const table = (form) => () => fromOther({what: kind.value, form})();
  // What the tab of the whole program shows, where it is a view of the compilation.
  const tab = app.data.head.tabs.find(({id}) => id === store.get().dock);
  const after = app.data.head.passes[store.get().pass].name;
  const view = (form) => fromOther({what: "view", view: tab?.view, form, after});
  const drawing = () => app.graph.node.querySelector("svg.canvas");
  const pictureName = () =>
    `${app.data.head.model.name} ${app.data.head.passes[store.get().pass].name}`;
  return [
    element(
      "div",
      {class: "subject-name"},
      element("h2", {}, "Save"),
      element("span", {class: "grow"}),
      button("×", "close (Esc)", close, {class: "icon"}),
    ),
    session
      ? row(
          "Page",
          "the explorer with this compilation, in one file that works offline",
          saver(".html", "a page that opens at this place", fromOther(pageOrder(app))),
        )
      : null,
    session && !session.isTrace()
      ? row(
          "Trace",
          "what this compilation was, for the explorer and for Python",
          saver(".nnx", "read with explorer.open", fromOther({what: "trace"})),
        )
      : null,
    session?.settings().edits
      ? row(
          "Model",
          "with the edits of this branch",
          saver(".onnx", "explorer edit MODEL EDIT ...", fromOther({what: "model"})),
        )
      : null,
    row(
      "Picture",
      "the graph as it is shown",
      saver(".svg", "lines and letters stay sharp", async () => {
        const name = `${pictureName()}.svg`;
        saveText(name, svgOf(drawing()), "image/svg+xml");
        return name;
      }),
      saver(".png", "twice as fine as the screen", async () => {
        const name = `${pictureName()}.png`;
        saveBlob(name, await pngOf(drawing()));
        return name;
      }),
    ),
    session && tab && !tab.session
      ? row(
          `View ${tab.label}`,
          "as a picture for a paper, and as data",
          saver("SVG", "sized for a column", view("svg")),
          saver("PNG", "needs resvg", view("png")),
          saver("CSV", "its tables", view("csv")),
          saver("Parquet", "its tables; needs pyarrow", view("parquet")),
        )
      : null,
    session
      ? row(
          "Table",
          "numbers for a spreadsheet or for Python",
          kind,
          saver(".csv", "text", table("csv")),
          saver(".parquet", "columns with types; needs pyarrow", table("parquet")),
        )
      : null,
    session
      ? row(
          "Source",
          "the program that was generated",
          saver("source", "C or OpenCL C", fromOther({what: "source"})),
        )
      : null,
    session && !session.isTrace()
      ? row(
          "Package",
          "C with weights, interface and a test of itself, which needs no Python",
          saver("package .zip", "explorer package MODEL -o DIR", fromOther({what: "package"})),
        )
      : null,
    session
      ? row(
          "Report",
          "model, decisions, verdict, passes, memory, kernels and errors",
          saver(".md", "Markdown", fromOther({what: "report"})),
          saver(
            "report .html",
            "a page with the pictures, without a script",
            fromOther({what: "report page"}),
          ),
        )
      : element("p", {class: "quiet-text"}, "Tables, source and trace are saved from the app."),
    said,
  ];
}

const placeOf = (link) => link.replace(/^#/, "");

// A page knows nothing of models and branches beside its own.
function pageOrder(app) {
  const parts = new URLSearchParams(placeOf(app.here()));
  for (const name of ["model", "target", "fork"]) parts.delete(name);
  for (const name of ["dock", "tab"])
    if (choicesInLink(name, app.data.head, false).includes(parts.get(name)) === false)
      parts.delete(name);
  return {what: "page", place: parts.toString()};
}

export function openSharing(app) {
  app.openDialog("share", (close) => sharingContent(app, close), "saving");
}

function sharingContent(app, close) {
  const link = app.here();
  const copy = (text, said) => () => app.copy(text, said);
  const isApp = Boolean(app.session);
  const row = (title, about, control) =>
    element(
      "div",
      {class: "saving-row"},
      element("strong", {}, title),
      element("span", {class: "quiet-text"}, about),
      element("span", {class: "actions"}, control),
    );
  return [
    element(
      "div",
      {class: "subject-name"},
      element("h2", {}, "Share what you see"),
      element("span", {class: "grow"}),
      button("×", "close (Esc)", close, {class: "icon"}),
    ),
    isApp
      ? row(
          "With anybody",
          "one file that opens at this place in any browser, without the explorer",
          button("save a page …", "to the ways of saving", () => openSaving(app), {}),
        )
      : null,
    row(
      isApp ? "With who has the same model" : "With who has this page",
      isApp
        ? "they start the explorer with the model's file, and put this behind the address"
        : "they put this behind the address of their copy",
      button("copy the place", clipped(link), copy(link, "The place is copied."), {
        class: "copy-place",
      }),
    ),
    row(
      "On this computer only",
      isApp
        ? "this address works here, while this explorer runs; whoever has it sees what you see"
        : "this address is of a file on this computer",
      button(
        "copy the address",
        "",
        copy(`${window.location.href.replace(/#.*$/, "")}${link}`, "The address is copied."),
        {class: "copy-address"},
      ),
    ),
  ];
}

function clipped(text) {
  return text.length > 200 ? `${text.slice(0, 200)}…` : text;
}
