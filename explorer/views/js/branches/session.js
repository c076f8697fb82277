// What only the served app has: several models and traces, branches, switching passes off, and the
// progress of the compilation, which runs on the other side.
//
// session = {models: [{key, label, kind: "model" | "trace", isUpload, isOpen}], model, isTrace,
//            targets, optional,
//            settings: {target, decisions: {address: value}}, switchedOff: names of passes,
//            wanted: settings of the last compilation that was asked for, with its model,
//            status: "idle" | "working" | "failed", progress: {stage, name, index, total} | null,
//            error: {what, where, advice, line} | null, edited: [pass, file] of what was asked for,
//            notice: what of a link could not be restored,
//            missing: the other file of a model of which one was sent, in words,
//            branches: [{key, model, label, fullLabel, stages, verdict, settings}], branch,
//            a branch has name, note, parent, decided, isAsleep, too; workspace: its name,
//            looks: of the page, as they were; place: the link of what was looked at,
//            points: what was done, in words; at: index of the one at which things stand,
//            switchedOffAfter: for passes of switchedOff, the pass behind which they stood,
//            pending: stages to come,
//            bisection: {pass, rule, operation, address} | null, isBisecting,
//            searches apart: [{kernel, branches, number, most, error,
//                       status: "running" | "done" | "cancelled" | "failed",
//                       result: see schedule_search.js}],
//            upload: {name, received, parts} | null, refusals: number, uploadLimit,
//            suffixes: of files that can be opened, mostCompared,
//            pairs: [[suffix of layers, suffix of their weights]]}

import {decide, isOff} from "../ground/addresses.js";
import {acceptDrops, documentStrip, setText} from "./documents.js";
import {openDialog} from "./open_dialog.js";
import {button, element, replace} from "../ground/dom.js";
import {askedWords} from "../ground/budgets.js";
import {createPredictions} from "../desk/predictions.js";
import {elapsedText} from "../ground/elapsed.js";
import {cutMiddle} from "../measures/column_names.js";
import {triedSettings} from "../ground/lever_words.js";
import {exactText} from "../ground/numbers.js";
import {clip} from "../ground/scene.js";
import {quantizeButtons} from "./quantizing.js";
import {undoButtons} from "./undoing.js";
import {newPair} from "../ground/two_files.js";
import {
  LINK_TITLE,
  NO_SETTINGS,
  noticeBanner,
  sameLink,
  sessionLink,
} from "../state/shared_link.js";

const NO_SESSION = {
  models: [],
  model: "",
  isTrace: false,
  targets: [],
  optional: [],
  settings: NO_SETTINGS,
  switchedOff: [],
  wanted: NO_SETTINGS,
  status: "idle",
  notice: "",
  missing: "",
  branches: [],
  branch: "",
  pending: [],
  bisection: null,
  upload: null,
  refusals: 0,
  mostCompared: 2,
  pairs: [],
  pair: [],
  turns: [],
  looks: {},
  place: "",
  points: [],
  at: -1,
  switchedOffAfter: {},
  edited: [],
};
const BRANCHES = "branches: compilations of this model with other decisions";
const NOTING_MILLISECONDS = 400; // how long the place may change before the other side is told
const STAGE_WORDS = {
  passes: "",
  program: "printing kernels",
  texts: "printing",
  kernels: "taking schedules apart",
  accuracy: "comparing",
  profile: "measuring",
  assembly: "disassembling",
};
export const READ_ONLY =
  "This is a saved trace: it shows what a compilation was, and runs nothing. To change a " +
  "decision, open the model's own file: drop it on the page, or start the explorer " +
  "with it.";

export function createSession(host, onchange, root) {
  if (host.mode !== "app") return null;
  const now = () => host.get("session") || NO_SESSION;
  let live = []; // controls on the screen, as functions that set them to what is shown
  let against = []; // keys of the branches that are compared with
  // The branch from which something was asked for that the other side has not heard of yet: what
  // it says of other things in the meantime must not turn the controls back.
  let askedFrom = null;
  const sent = new Set(); // names of model files that were sent since the page was loaded
  const paired = new Set();
  let typedEdit = {model: "", text: "", hasFocus: false, caret: 0};
  let noting = 0;
  let watching = null; // what waits for the other side's word on an edited text
  const dialog = openDialog(host, now, root, (files) => strip.openFiles(files));
  const strip = documentStrip(host, now, dialog.ask, (name) => sent.add(name));
  acceptDrops(root, strip.openDropped);
  const undoing = undoButtons(host, now);
  const predictions = createPredictions();
  strip.node.append(undoing.node);
  // What was refused, with another value of one decision.
  const data = () => now().data ?? [];
  const calibrations = () => now().calibrations ?? [];
  const chooseData = () => strip.chooseData();
  const bar = statusBar(host, {data, calibrations, chooseData}, (remedy) => {
    const {target, decisions, quantize} = triedSettings(now().wanted, [remedy]);
    fork({target, decisions, quantize});
  });
  host.on("session", () => {
    const {status, branch, branches} = now();
    if (askedFrom !== null && (status !== "idle" || branch !== askedFrom)) askedFrom = null;
    if (status !== "working" && askedFrom === null) for (const set of live) set();
    against = against.filter(
      (key) => branches.some((other) => other.key === key) && key !== branch,
    );
    strip.update();
    dialog.update();
    undoing.update();
    watching?.();
    onchange();
  });
  // Searches for schedules come apart from the rest: they tell more with every candidate.
  let drawSearch = () => {};
  host.on("searches", () => drawSearch());
  const searches = () => host.get("searches") || [];
  const fork = (settings) => {
    askedFrom = now().branch;
    host.send({kind: "fork", settings});
  };
  // While a compilation runs, a further change starts from what was asked for last.
  const base = () => (now().status === "working" ? now().wanted : now().settings);
  const siblings = () => now().branches.filter((branch) => branch.model === now().model);

  // Target and branch; `live` controls follow what is shown.
  function controls() {
    const {targets, settings, isTrace} = now();
    const targetSelect = element(
      "select",
      {
        class: "target-select",
        "aria-label": "target",
        title: isTrace ? "a saved trace has the target that it was compiled for" : "target",
        onchange: (event) => fork({...base(), target: event.target.value}),
      },
      targets.map((name) =>
        element("option", {value: name, selected: name === settings.target}, name),
      ),
    );
    const head = host.get("head");
    const readOnly = isTrace
      ? element(
          "span",
          {class: "chip read-only", title: READ_ONLY, tabindex: 0},
          `saved trace, read-only`,
        )
      : null;
    const target = isTrace
      ? element("span", {class: "target", title: head?.device}, head?.target ?? "")
      : targetSelect;
    const branchSelect = element("select", {
      class: "branch-select",
      "aria-label": "branch",
      onchange: (event) => {
        askedFrom = now().branch;
        host.send({kind: "show", branch: event.target.value});
      },
    });
    const drop = button(
      "×",
      "drop the branches but this one and the first",
      () => {
        for (const branch of siblings().slice(1))
          if (branch.key !== now().branch) host.send({kind: "forget", branch: branch.key});
      },
      {class: "icon drop-branches", "aria-label": "drop the other branches"},
    );
    const drawBranches = () => {
      const {branch} = now();
      const branches = siblings();
      branchSelect.hidden = branches.length < 2;
      drop.hidden = branches.length < 3;
      const seen = JSON.stringify(branches.map(({key, label}) => [key, label]));
      if (branchSelect.dataset.seen !== seen) {
        branchSelect.dataset.seen = seen;
        replace(
          branchSelect,
          branches.map(({key, label}, index) =>
            element(
              "option",
              {value: key, title: `${index + 1}  ${clip(label, 300)}`},
              `${index + 1}  ${cutMiddle(clip(label, 300), 44)}`,
            ),
          ),
        );
      }
      branchSelect.value = branch;
      const shown = branches.find(({key}) => key === branch);
      branchSelect.title = clip(`${shown?.label ?? ""}; ${BRANCHES}`, 400);
    };
    drawBranches();
    live = [
      () => {
        targetSelect.value = now().settings.target;
      },
      drawBranches,
    ];
    return [target, readOnly, branchSelect, drop];
  }

  // What is made in the background: its words, "" when everything is there, and how far it is.
  function background() {
    const {status, pending, progress, isBisecting} = now();
    const work = (words, key = "", done = 0, total = 0) => ({words, key, done, total});
    if (status === "working") return work("");
    if (isBisecting) return work("bisecting", "bisecting");
    if (!pending.length) return work("");
    const [stage] = pending;
    const isHere = progress && progress.stage === stage && progress.total;
    const words = (isHere && stage === "texts" && progress.name) || STAGE_WORDS[stage] || stage;
    if (!isHere) return work(words, stage);
    const {index, total} = progress;
    return work(`${words} ${index} of ${total}`, stage, index, total);
  }

  function passSwitch(name, isOn) {
    const box = element("input", {
      type: "checkbox",
      class: "switch",
      checked: isOn,
      "aria-label": `run ${name}`,
      title: isOn
        ? "switch this pass off: the result becomes a branch"
        : "switch this pass on again",
      onchange: () => {
        const settings = structuredClone(base());
        decide(settings, name, box.checked ? undefined : false);
        fork(settings);
      },
    });
    // A compilation that failed or was cancelled changes nothing: the box goes back.
    live.push(() => {
      box.checked = !isOff(now().settings, name);
    });
    return box;
  }

  // What a link says of this side: the model, and its decisions where they aren't the default.
  function link() {
    const {settings, isTrace} = now();
    const {label} = modelOf(now().model) ?? {label: ""};
    if (isTrace) return {model: label};
    const isPlain = JSON.stringify({...settings, target: ""}) === JSON.stringify(NO_SETTINGS);
    return isPlain
      ? {model: label, target: settings.target}
      : {model: label, fork: JSON.stringify(settings)};
  }

  // {error, line} of an edited text, when the other side has compiled it or says why not.
  function editIr(pass, text) {
    const {edited: before, refusals} = now();
    let isTaken = false;
    return new Promise((resolve) => {
      const settle = (error, line = 0) => {
        watching = null;
        resolve({error, line});
      };
      watching = () => {
        const {edited, status, error} = now();
        const isOurs = edited.join() !== before.join();
        if (now().refusals !== refusals) settle(`${error.what}: ${error.where}`);
        else if (isTaken && !isOurs) settle("cancelled");
        else if (isOurs && status === "failed") settle(error.what, error.line);
        else if (isOurs && status === "idle") settle("");
        isTaken ||= isOurs;
      };
      strip.upload(new File([text], `${pass}.mlir`), "edit");
    });
  }

  const linkText = () => {
    const parts = Object.entries(link());
    return new URLSearchParams(parts).toString();
  };
  const modelOf = (key) => now().models.find((model) => model.key === key);
  return {
    strip: strip.node,
    controls,
    background,
    passSwitch,
    fork,
    openFiles: strip.openFiles,
    editIr,
    banner: () => bar.show(now()),
    // Why the last compilation was refused, while that is shown; null otherwise.
    failure: () => (now().status === "failed" ? now().error : null),
    asked: (address) => askedWords(now(), address),
    isKnown: () => now().models.length > 0,
    status: () => now().status,
    askAgain: (why) => dialog.ask(now().model, why),
    // The name of what is waited for, or looked at.
    opening: () => modelOf(now().wanted.model ?? now().model)?.label ?? "",
    model: () => now().model,
    isTrace: () => now().isTrace,
    isOptional: (name) => now().optional.includes(name),
    optional: () => now().optional,
    switchedOff: () => now().switchedOff,
    switchedOffAfter: () => now().switchedOffAfter,
    looks: () => now().looks,
    place: () => now().place,
    notePlace(place) {
      clearTimeout(noting);
      noting = setTimeout(() => host.send({kind: "place", place}), NOTING_MILLISECONDS);
    },
    // {text, hasFocus, caret} of the line in which the model is edited: of this model, until a
    // branch has that edit.
    typedEdit(made) {
      if (typedEdit.model !== now().model || made.includes(typedEdit.text.trim()))
        typedEdit = {model: now().model, text: "", hasFocus: false, caret: 0};
      return typedEdit;
    },
    points: () => now().points,
    at: () => now().at,
    undo: () => host.send({kind: "undo"}),
    redo: () => host.send({kind: "redo"}),
    goToPoint: (point) => host.send({kind: "go to", point}),
    show(branch) {
      askedFrom = now().branch;
      host.send({kind: "show", branch});
    },
    rename: (branch, name) => host.send({kind: "rename", branch, name}),
    note: (branch, note) => host.send({kind: "note", branch, note}),
    forget: (branch) => host.send({kind: "forget", branch}),
    // What was predicted of a try, until its branch is there: [{decisions, quantity, ...}].
    tryLever: (quantity, lever, option) => predictions.note(now().branch, quantity, lever, option),
    predictedOf: (branch) => predictions.of(branch),
    data,
    calibrations,
    dropData: () => host.send({kind: "drop data"}),
    chooseData,
    settings: () => now().settings,
    targets: () => now().targets,
    branches: () => now().branches,
    branch: () => now().branch,
    isPending: (stage) => now().pending.includes(stage),
    isMeasuring: () => now().pending.length > 0,
    mostCompared: () => now().mostCompared,
    against: () => against,
    // The branch of another file with which one that was just sent is compared, once.
    takePair() {
      const models = now().models.filter(({kind}) => kind === "model");
      const known = new Set(models.map(({key}) => key));
      const branches = now().branches.filter(({model}) => known.has(model));
      // Those that are still on their way count, by their names.
      const arrived = [...sent].map(
        (name) => models.find(({label, isUpload}) => isUpload && label === name)?.key ?? name,
      );
      const pair = newPair(branches, now().branch, new Set([...arrived, ...now().pair]), paired);
      if (pair && now().pair.length) host.send({kind: "paired"});
      return pair;
    },
    compareWith(keys) {
      against = keys;
      onchange();
    },
    searchOf: (kernel) =>
      searches().find(
        (search) => search.kernel === kernel && search.branches.includes(now().branch),
      ) ?? null,
    isSearching: () => searches().some(({status}) => status === "running"),
    startSearch: (kernel, {candidates, seconds, keep}) =>
      host.send({kind: "search", kernel, candidates, seconds, keep}),
    cancelSearch: () => host.send({kind: "cancel search"}),
    onSearches(draw) {
      drawSearch = draw;
    },
    models: () => now().models,
    turns: () => now().turns ?? [],
    measureInTurns: (branches) => host.send({kind: "turns", branches}),
    cancelTurns: () => host.send({kind: "cancel turns"}),
    bisection: () => now().bisection,
    isBisecting: () => now().isBisecting,
    bisect: () => host.send({kind: "bisect"}),
    link,
    // Another link in the same page.
    follow(hash) {
      const wanted = sessionLink(hash);
      if (wanted && !sameLink(wanted, sessionLink(linkText())))
        host.send({kind: "link", link: wanted});
    },
  };
}

// A line over the screen while something is waited for, when it failed, or when a link could not be
// restored; it stays the same element while its words change, so that a click on it is not lost.
function statusBar(host, quantizing, onremedy) {
  const bar = element("progress", {max: 1, value: 0, "aria-label": "progress of the compilation"});
  const words = element("span", {class: "banner-text"}),
    counts = element("span", {class: "quiet-text"}),
    times = elapsedText();
  const working = element(
    "div",
    {class: "banner working", role: "status"},
    element("span", {class: "spin", "aria-hidden": "true"}),
    words,
    bar,
    counts,
    times.node,
    button(
      "cancel",
      "stop this compilation and keep what is shown",
      () => host.send({kind: "cancel"}),
      {class: "primary"},
    ),
  );
  let failed = null,
    seen = "";

  function remedies([address, value]) {
    if (address === "quantize")
      return quantizeButtons(quantizing, (method) => onremedy([address, method]));
    return button(
      `with ${exactText(value)} bytes`,
      "compile with the least that all decisions together reach",
      () => onremedy([address, value]),
      {class: "primary"},
    );
  }

  function failure(error) {
    const key = JSON.stringify([error, quantizing.data()]);
    if (seen !== key) {
      seen = key;
      failed = element(
        "div",
        {class: "banner failed", role: "alert"},
        element("span", {class: "dot wrong"}, "✗"),
        element(
          "div",
          {class: "banner-words"},
          element("strong", {}, error.what),
          element("span", {class: "quiet-text"}, error.where),
          element("span", {}, error.advice),
        ),
        element("span", {class: "grow"}),
        error.remedy ? remedies(error.remedy) : null,
        button("try again", "compile once more", () => host.send({kind: "retry"}), {}),
        button("dismiss", "keep what is shown", () => host.send({kind: "dismiss"}), {}),
      );
    }
    return failed;
  }

  function notice(text, title) {
    if (seen !== text) {
      seen = text;
      failed = noticeBanner(text, () => host.send({kind: "dismiss"}), title);
    }
    return failed;
  }

  return {
    show({status, progress, error, notice: text, missing}) {
      if (status === "working") {
        bar.value = progress?.total ? progress.index / progress.total : 0;
        setText(words, progress ? clip(progress.name, 80) : "starting the compiler");
        setText(counts, progress?.total ? `${progress.index} of ${progress.total}` : "");
        times.show(progress?.stage ?? "", progress?.index ?? 0, progress?.total ?? 0);
        return working;
      }
      times.end();
      if (status === "failed" && error) return failure(error);
      if (missing) return notice(missing, "A file is missing");
      if (text) return notice(text, LINK_TITLE);
      seen = "";
      return null;
    },
  };
}
