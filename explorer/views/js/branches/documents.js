// What is open in the served app: a strip of models and saved traces, each with its branches, and
// the ways to open another one: from the list, from a file, or by dropping a file on the page.
// Nothing in here is drawn anew while results arrive: tabs are kept and their words changed.

import {DIRECTION_MARKS, button, element, replace} from "../ground/dom.js";
import {countText} from "../ground/numbers.js";
import {MAX_DROPPED, filesOf, openedOf} from "./dropped_files.js";
import {inPairs} from "./file_pairs.js";
import {LABELS, imagesOfFolders} from "./image_classes.js";
import {clip} from "../ground/scene.js";

const UPLOAD_PIECE = 240_000; // bytes; as base64 in a message well below 1 MB
const IMAGES = /\.(png|jpe?g|bmp)$/i;
const PIECES_AHEAD = 4; // how many pieces may be on their way before the first is acknowledged

// {node, update()}: `now()` gives the session
// `ask(model)` opens the dialog that asks for sizes and values first; `onmodel(name)`: a model or a
// trace was sent
export function documentStrip(host, now, ask, onmodel = (_) => {}) {
  const list = element("div", {
    class: "documents",
    role: "tablist",
    "aria-label": "open models and traces",
  });
  const file = element("input", {
    type: "file",
    class: "file",
    multiple: true,
    "aria-label": "model file",
    onchange: () => {
      openFiles([...file.files]);
      file.value = "";
    },
  });
  const opener = element("select", {
    class: "opener",
    "aria-label": "open a model or a saved trace",
    title: "open another model or saved trace (.nnx); files can also be dropped on the page",
    onchange: () => {
      const {value} = opener;
      opener.value = "+";
      if (value === "file") file.click();
      else if (value === "ask") ask(null);
      else if (value !== "+") host.send({kind: "open", model: value});
    },
  });
  const sending = element("span", {class: "quiet-text sending", role: "status"});
  const node = element("div", {class: "document-strip"}, list, opener, sending, file);
  const tabs = new Map(); // key of a model -> {item, tab, label, note, close}

  function makeTab(key) {
    const label = element("span", {class: "document-label"}),
      note = element("span", {class: "note"});
    const tab = element(
      "button",
      {
        type: "button",
        role: "tab",
        class: "document-tab",
        "data-model": key,
        onclick: () => host.send({kind: "open", model: key}),
        onkeydown: (event) => move(event, key),
      },
      label,
      note,
    );
    const close = button("×", "close", () => host.send({kind: "close", model: key}), {
      class: "document-close",
    });
    const item = element("span", {class: "document", role: "presentation"}, tab, close);
    tabs.set(key, {item, tab, label, note, close});
    return tabs.get(key);
  }

  function move(event, key) {
    const step = {ArrowRight: 1, ArrowLeft: -1}[event.key];
    const open = now().models.filter((model) => model.isOpen);
    if (event.key === "Delete") host.send({kind: "close", model: key});
    if (!step || !open.length) return;
    event.preventDefault();
    event.stopPropagation();
    const next =
      open[(open.findIndex((model) => model.key === key) + step + open.length) % open.length];
    host.send({kind: "open", model: next.key});
    tabs.get(next.key)?.tab.focus();
  }

  function update() {
    const {models, model: current, branches, status, wanted, upload, suffixes} = now();
    file.accept = [...(suffixes ?? []), now().sweepSuffix ?? ""].join(",");
    const open = models.filter((model) => model.isOpen);
    for (const [key, made] of tabs) {
      if (open.some((model) => model.key === key)) continue;
      made.item.remove();
      tabs.delete(key);
    }
    for (const {key, label, kind, isUpload} of open) {
      const made = tabs.get(key) ?? makeTab(key);
      if (!made.item.isConnected) list.append(made.item);
      const count = branches.filter((branch) => branch.model === key).length;
      setText(made.label, clip(label, 60));
      setText(
        made.note,
        [kind === "trace" ? "trace" : "", count > 1 ? countText(count, "branch", "branches") : ""]
          .filter(Boolean)
          .join(", "),
      );
      const nature = kind === "trace" ? ": a saved compilation, read-only" : "";
      const owner = isUpload ? " (a copy that this page alone has; closing it removes it)" : "";
      made.tab.title = clip(`${label}${nature}${owner}`, 300);
      made.tab.setAttribute("aria-selected", String(key === current));
      made.tab.tabIndex = key === current ? 0 : -1;
      made.item.classList.toggle("current", key === current);
      made.close.title = `close ${clip(label, 60)}${count > 1 ? " with its branches" : ""}`;
      made.close.setAttribute("aria-label", made.close.title);
      made.item.toggleAttribute("data-working", status === "working" && wanted.model === key);
    }
    const choices = models.filter((model) => !model.isOpen);
    const seen = JSON.stringify(choices.map((model) => [model.key, model.label]));
    if (opener.dataset.seen !== seen) {
      opener.dataset.seen = seen;
      replace(
        opener,
        element("option", {value: "+", selected: true}, "+ open"),
        choices.map(({key, label, kind}) =>
          element(
            "option",
            {value: key, title: clip(label, 300)},
            `${clip(label, 60)}${kind === "trace" ? " (trace)" : ""}`,
          ),
        ),
        element("option", {value: "file"}, "a file …"),
        element("option", {value: "ask"}, "with sizes, values or labels …"),
      );
      opener.value = "+";
    }
    const share = upload ? Math.floor((100 * upload.received) / upload.parts) : 0;
    setText(sending, upload ? `sending ${clip(upload.name, 40)}: ${share} %` : note);
    acknowledge();
  }

  // ---- files

  let wake = () => {}; // of an upload that waits for an answer
  const acknowledge = () => wake();

  let note = ""; // what became of the folders that were dropped last

  function areTooMany(files) {
    if (files.length > MAX_DROPPED) host.send({kind: "too many files", most: MAX_DROPPED});
    return files.length > MAX_DROPPED;
  }

  // While the dialog is open files go to it; values are always for a model.
  async function openFiles(files) {
    if (areTooMany(files)) return;
    const holdsValues = ({name}) =>
      (now().valueSuffixes ?? []).some((suffix) => name.toLowerCase().endsWith(suffix));
    const isSweep = ({name}) => now().sweepSuffix && name.toLowerCase().endsWith(now().sweepSuffix);
    const pairs = inPairs(files, now().pairs);
    const last = pairs.map(({file: chosen}) => holdsValues(chosen)).lastIndexOf(true);
    for (const {file: chosen} of pairs)
      if (!holdsValues(chosen) && !isSweep(chosen)) onmodel(chosen.name);
    for (const [index, {file: chosen, partner}] of pairs.entries()) {
      const isValues = holdsValues(chosen);
      const opened = now().dialog ? "asked" : "";
      const purpose = isValues ? "values" : isSweep(chosen) ? "sweep" : opened;
      if (!(await upload(chosen, purpose, partner, isValues && index < last))) return;
    }
  }

  // What was dropped: [{path, file}]. Images in folders are sent with the classes that these are.
  async function openDropped(dropped) {
    if (areTooMany(dropped)) return; // the rest was not read, nor which of it are images
    const endsWith = (suffixes, name) =>
      (suffixes ?? []).some((suffix) => name.toLowerCase().endsWith(suffix));
    const found = imagesOfFolders(
      dropped,
      (name) => IMAGES.test(name),
      (name) => endsWith(now().suffixes, name) || /\.np[yz]$/i.test(name),
    );
    note = "";
    if (!found) return openFiles(dropped.map(({file}) => file));
    const {files, labels, classes, leftOut} = found;
    const named = classes.filter(([name, number]) => name !== String(number));
    const words = [
      named.length ? `classes ${named.map((pair) => pair.join(" = ")).join(", ")}` : "",
      leftOut.length ? `${countText(leftOut.length, "file")} left out: no image` : "",
    ];
    note = clip(words.filter(Boolean).join("; "), 120);
    await openFiles(labels ? [...files, new File([labels], LABELS)] : files);
  }

  // Whether the file arrived; the other side says on the page why when it didn't.
  // `more`: further files of the same data follow.
  async function upload(chosen, purpose, partner = "", more = false) {
    if (chosen.size > now().uploadLimit) {
      host.send({kind: "refused", name: chosen.name, size: chosen.size});
      return false;
    }
    const parts = Math.max(1, Math.ceil(chosen.size / UPLOAD_PIECE));
    const {refusals} = now();
    for (let part = 0; part < parts; part += 1) {
      let bytes;
      try {
        bytes = new Uint8Array(
          await chosen.slice(part * UPLOAD_PIECE, (part + 1) * UPLOAD_PIECE).arrayBuffer(),
        );
      } catch {
        host.send({kind: "unreadable", name: chosen.name});
        return false;
      }
      let text = "";
      for (let start = 0; start < bytes.length; start += 8192)
        text += String.fromCharCode(...bytes.subarray(start, start + 8192));
      host.send({
        kind: "upload",
        name: chosen.name,
        size: chosen.size,
        purpose,
        partner,
        more,
        part,
        parts,
        bytes: btoa(text),
      });
      while (
        part + 1 < parts &&
        now().refusals === refusals &&
        part - (now().upload?.received ?? 0) >= PIECES_AHEAD
      )
        await new Promise((resolve) => {
          wake = () => resolve(undefined);
        });
      if (now().refusals !== refusals) return false;
    }
    return true;
  }

  const data = element("input", {
    type: "file",
    class: "file",
    hidden: true,
    multiple: true,
    "aria-label": "data on which the model is judged",
    onchange: () => {
      openFiles([...data.files]);
      data.value = "";
    },
  });
  node.append(data);
  const chooseData = () => {
    data.accept = (now().valueSuffixes ?? []).join(",");
    data.click();
  };

  return {node, update, openFiles, openDropped, upload, chooseData};
}

// Files that are dropped anywhere on the explorer. The browser must not leave the page for them.
// openFiles: see `openDropped` of the strip.
export function acceptDrops(root, openFiles) {
  const veil = element(
    "div",
    {class: "drop-veil", hidden: true},
    element(
      "div",
      {class: "drop-words"},
      element("strong", {}, "Drop a model or a saved trace (.nnx) to open it"),
      element("p", {}, "data for the model that is shown: arrays (.npz), images or their folder"),
      element("p", {}, "a sweep of machines (.json) for the model that is shown"),
      element("p", {}, "a model of two files: both at once, one after the other, or a zip of them"),
    ),
  );
  root.append(veil);
  let depth = 0; // dragenter and dragleave come for every element that is crossed
  const holdsFiles = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
  const show = (isShown) => {
    veil.hidden = !isShown;
  };
  root.addEventListener("dragenter", (event) => {
    if (!holdsFiles(event)) return;
    event.preventDefault();
    depth += 1;
    show(true);
  });
  root.addEventListener("dragover", (event) => {
    if (holdsFiles(event)) event.preventDefault();
  });
  root.addEventListener("dragleave", (event) => {
    if (!holdsFiles(event)) return;
    depth = Math.max(0, depth - 1);
    if (!depth) show(false);
  });
  root.addEventListener("drop", (event) => {
    if (!holdsFiles(event)) return;
    event.preventDefault();
    depth = 0;
    show(false);
    filesOf(event.dataTransfer).then((files) => {
      const opened = openedOf(files);
      if (opened.length) openFiles(opened);
    });
  });
}

export function setText(node, text) {
  const clean = text.replace(DIRECTION_MARKS, "\ufffd");
  if (node.textContent !== clean) node.textContent = clean;
}
