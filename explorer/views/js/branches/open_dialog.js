// What is asked before a model is compiled: sizes that it leaves open, values for its inputs,
// the labels of their samples, the target. It opens when a person wants it, and again, with the
// message at the field, when the model could not be compiled with what was given.
//
// session.dialog: {model, files: names, form: null | {error} | {inputs: [[name, type]], outputs,
//                  sizes: [{name, size: number | null, where}], constraints: [text]}} | null

import {button, element, replace} from "../ground/dom.js";
import {clip} from "../ground/scene.js";

const RANGE = /^\s*(\d+)(?:\s*\.\.\s*(\d+))?\s*$/; // 8 or 1..8

// {ask(model, why), update()}; `openFiles` sends files, to this dialog while it is open
export function openDialog(host, now, root, openFiles) {
  let node = null;
  let drawn = ""; // what the dialog shows, as JSON
  let given = {}; // size by name, as it was typed
  let target = "";
  let complaint = ""; // why the model could not be compiled
  let sent = null; // {model, branch, error} of what was asked for last, until its answer is there
  let before = null; // what had the focus

  const file = element("input", {
    type: "file",
    class: "file",
    multiple: true,
    "aria-label": "files of values and labels, or a model",
    onchange: () => {
      openFiles([...file.files]);
      file.value = "";
    },
  });

  function ask(model, why = "") {
    const models = now().models.filter((choice) => choice.kind !== "trace");
    const wanted = models.find((choice) => choice.key === (model ?? now().model)) ?? models[0];
    if (!wanted) return;
    complaint = why;
    if (now().dialog?.model !== wanted.key) host.send({kind: "examine", model: wanted.key});
  }

  function close() {
    host.send({kind: "close dialog"});
  }

  // The sizes as they are sent; null where one of them is none, and is marked.
  function sizes(form) {
    const found = {};
    let isWhole = true;
    for (const {name} of form.sizes) {
      const field = node.querySelector(`[name="${CSS.escape(name)}"]`);
      const text = field.value.trim();
      const match = RANGE.exec(text);
      const isFine = !text || Boolean(match);
      setError(name, isFine ? "" : "a whole number, or a range such as 1..8");
      if (!isFine) isWhole = false;
      else if (match)
        found[name] = match[2] ? [Number(match[1]), Number(match[2])] : Number(match[1]);
    }
    return isWhole ? found : null;
  }

  function setError(name, text) {
    const place = node.querySelector(`[data-error="${CSS.escape(name)}"]`);
    if (place) place.textContent = text;
    node
      .querySelector(`[name="${CSS.escape(name)}"]`)
      ?.setAttribute("aria-invalid", String(Boolean(text)));
  }

  function compile(form) {
    const found = sizes(form);
    if (!found) {
      node.querySelector('[aria-invalid="true"]')?.focus();
      return;
    }
    const {model} = now().dialog;
    sent = {model, error: now().error, revision: host.get("revision")};
    complaint = "";
    host.send({kind: "open with", model, target, sizes: found});
  }

  // Whether what was asked for last could not be compiled: then it is asked for again.
  function answered() {
    if (!sent || now().dialog || now().status === "working") return;
    const {status, error, wanted} = now();
    if (wanted.model !== sent.model) {
      sent = null;
      return;
    }
    const reasons = host.get("head")?.problems?.reasons ?? [];
    const isNew = host.get("revision") !== sent.revision;
    const why =
      status === "failed" && error
        ? error.what
        : isNew && reasons.length
          ? reasons[0].join(": ")
          : "";
    const {model} = sent;
    if (why || isNew || status === "failed") sent = null;
    if (why) ask(model, why);
  }

  // As what is shown was compiled; of another model nothing is decided yet.
  function decided(name) {
    if (now().dialog?.model !== now().model) return undefined;
    const size = now().settings.decisions?.[`dimensions/${name}`];
    return size === undefined ? undefined : [size].flat().join("..");
  }

  function sizeRow({name, size, where}) {
    return element(
      "label",
      {class: "open-size"},
      element("span", {class: "mono"}, clip(name, 60)),
      element("input", {
        name,
        type: "text",
        inputmode: "numeric",
        class: "mono",
        value: given[name] ?? decided(name) ?? (size === null ? "" : String(size)),
        placeholder: "a size, or 1..8",
        oninput: (event) => {
          given[name] = event.target.value;
        },
      }),
      element("span", {class: "quiet-text"}, clip(where, 80)),
      element("span", {class: "open-error", role: "alert", "data-error": name}),
    );
  }

  function valuesPart(files) {
    return element(
      "section",
      {},
      element("h3", {}, "Values and labels"),
      element(
        "p",
        {class: "quiet-text"},
        "Arrays by the names of inputs (.npz); labels as an array \u201clabels\u201d in it, or a " +
          "file of one class number a sample (.npy, .txt). Without them random values are " +
          "compared.",
      ),
      element(
        "div",
        {class: "open-files"},
        files.map((name) =>
          element(
            "span",
            {class: "chip"},
            clip(name, 60),
            button("\u00d7", `without ${clip(name, 60)}`, () =>
              host.send({kind: "drop values", name}),
            ),
          ),
        ),
        button("choose files …", "or drop them here", () => file.click(), {class: "quiet"}),
      ),
    );
  }

  function formPart(form) {
    if (!form)
      return element(
        "p",
        {class: "quiet-text", role: "status"},
        "reading the file and its sizes …",
      );
    if (form.error)
      return element("p", {class: "open-error", role: "alert"}, clip(form.error, 600));
    return element(
      "div",
      {class: "open-form"},
      element(
        "section",
        {},
        element("h3", {}, "Inputs"),
        form.inputs.map(([name, type]) =>
          element(
            "p",
            {class: "mono"},
            clip(name, 60),
            element("span", {class: "quiet-text"}, `  ${clip(type, 80)}`),
          ),
        ),
      ),
      form.sizes.length
        ? element(
            "section",
            {},
            element("h3", {}, "Sizes"),
            element("p", {class: "open-error", role: "alert", "data-error": ""}),
            form.sizes.map(sizeRow),
            form.constraints
              .slice(0, 12)
              .map((text) => element("p", {class: "mono quiet-text"}, clip(text, 120))),
          )
        : element("p", {class: "quiet-text"}, "All sizes are in the file."),
    );
  }

  function draw({model, form, files}) {
    const models = now().models.filter((choice) => choice.kind !== "trace");
    target = target || now().settings.target || now().targets[0] || "";
    const ready = form && !form.error;
    replace(
      node,
      element(
        "form",
        {
          onsubmit: (event) => {
            event.preventDefault();
            if (ready) compile(form);
          },
        },
        element("h2", {}, "Open a model"),
        element(
          "label",
          {class: "open-size"},
          element("span", {}, "model"),
          element(
            "select",
            {
              "aria-label": "model to open",
              onchange: (event) => {
                if (event.target.value === "file") file.click();
                else {
                  given = {};
                  complaint = "";
                  host.send({kind: "examine", model: event.target.value});
                }
              },
            },
            models.map(({key, label}) =>
              element("option", {value: key, selected: key === model}, clip(label, 60)),
            ),
            element("option", {value: "file"}, "a file …"),
          ),
        ),
        formPart(form),
        valuesPart(files),
        element(
          "label",
          {class: "open-size"},
          element("span", {}, "target"),
          element(
            "select",
            {
              "aria-label": "target to compile for",
              onchange: (event) => {
                target = event.target.value;
              },
            },
            now().targets.map((name) =>
              element("option", {value: name, selected: name === target}, name),
            ),
          ),
        ),
        element(
          "div",
          {class: "open-buttons"},
          button("cancel", "close this dialog", close, {class: "quiet"}),
          element("button", {type: "submit", class: "primary", disabled: !ready}, "compile"),
        ),
      ),
      file,
    );
    if (ready && complaint) {
      // At the field that the message names; else above all of them.
      const named =
        form.sizes.find(({name}) => complaint.includes(`'${name}'`)) ??
        (form.sizes.length === 1 ? form.sizes[0] : null);
      setError(named ? named.name : "", complaint);
    }
    (node.querySelector(".open-size input") ?? node.querySelector("select"))?.focus();
  }

  function update() {
    const {dialog} = now();
    if (!dialog) {
      node?.remove();
      if (node) before?.focus?.();
      [node, drawn] = [null, ""];
      answered();
      return;
    }
    const seen = JSON.stringify([dialog, complaint]);
    if (node && seen === drawn) return;
    if (!node) {
      before = /** @type {HTMLElement | null} */ (document.activeElement);
      node = element("div", {
        class: "open-dialog",
        role: "dialog",
        "aria-modal": "true",
        "aria-label": "open a model",
        onkeydown: (event) => {
          event.stopPropagation(); // the page's own keys wait
          if (event.key === "Escape") close();
        },
      });
      root.append(node);
    }
    drawn = seen;
    draw(dialog);
  }

  return {ask, update};
}
