// What only the served app has: choosing and uploading models, branches, switching passes off, and
// the progress of the compilation, which runs on the other side.
//
// session = {models: [{key, label}], targets, optional, model,
//            settings: {target, disable, decisions: {address: value}, budget, pins: [[buffer, at]]},
//            wanted: settings of the last compilation that was asked for,
//            status: "idle" | "working" | "failed", progress: {stage, name, index, total} | null,
//            error: {what, where, advice} | null, branches: [{key, label, stages, verdict}], branch,
//            pending: stages to come, bisection: {pass, rule, operation, address} | null,
//            isBisecting, uploadLimit}

const NO_SETTINGS = {target: "", disable: [], decisions: {}, budget: null, pins: []};
const NO_SESSION = {models: [], targets: [], optional: [], settings: NO_SETTINGS, wanted: NO_SETTINGS, status: "idle", branches: [], branch: "", pending: [], bisection: null};
const UPLOAD_PIECE = 240_000; // bytes; as base64 in a message well below 1 MB
const STAGE_WORDS = {passes: "", program: "printing kernels", kernels: "taking schedules apart", accuracy: "comparing", profile: "measuring", assembly: "disassembling"};

function createSession(host, onchange) {
  if (host.mode !== "app") return null;
  const now = () => host.get("session") || NO_SESSION;
  let live = []; // controls on the screen, as functions that set them to what is shown
  let against = null; // key of the branch that is compared with
  // The branch from which something was asked for that the other side has not heard of yet: what
  // it says of other things in the meantime must not turn the controls back.
  let askedFrom = null;
  host.on("session", () => {
    const {status, branch} = now();
    if (askedFrom !== null && (status !== "idle" || branch !== askedFrom)) askedFrom = null;
    if (status !== "working" && askedFrom === null) for (const set of live) set();
    onchange();
  });
  const fork = (settings) => {
    askedFrom = now().branch;
    host.send({kind: "fork", settings});
  };
  // While a compilation runs, a further change starts from what was asked for last.
  const base = () => (now().status === "working" ? now().wanted : now().settings);

  // Model, target and branch; `live` controls follow what is shown.
  function controls() {
    const {models, targets, model, settings} = now();
    const file = element("input", {type: "file", class: "file", accept: ".onnx", "aria-label": "model file", onchange: () => { if (file.files[0]) upload(file.files[0]); }});
    const modelSelect = element("select", {class: "model-select", "aria-label": "model", title: "model", onchange: (event) => {
      if (event.target.value === "") {
        event.target.value = now().model;
        file.click();
      } else {
        askedFrom = now().branch;
        host.send({kind: "compile", model: event.target.value});
      }
    }}, models.map(({key, label}) => element("option", {value: key, selected: key === model}, clip(label, 40))), element("option", {value: ""}, "open a file …"));
    const targetSelect = element("select", {class: "target-select", "aria-label": "target", title: "target", onchange: (event) => fork({...base(), target: event.target.value})},
      targets.map((name) => element("option", {value: name, selected: name === settings.target}, name)));
    const branchSelect = element("select", {class: "branch-select", "aria-label": "branch", title: "branches: compilations of this model with other decisions", onchange: (event) => {
      askedFrom = now().branch;
      host.send({kind: "show", branch: event.target.value});
    }});
    const drop = button("×", "drop the branches but this one and the first", () => {
      for (const branch of now().branches.slice(1)) if (branch.key !== now().branch) host.send({kind: "forget", branch: branch.key});
    }, {class: "icon drop-branches", "aria-label": "drop the other branches"});
    const drawBranches = () => {
      const {branches, branch} = now();
      branchSelect.hidden = branches.length < 2;
      drop.hidden = branches.length < 3;
      replace(branchSelect, branches.map(({key, label}, index) => element("option", {value: key, selected: key === branch, title: label}, `${index + 1}  ${clip(label, 44)}`)));
      branchSelect.value = branch;
    };
    drawBranches();
    live = [() => { modelSelect.value = now().model; }, () => { targetSelect.value = now().settings.target; }, drawBranches];
    return [modelSelect, targetSelect, branchSelect, drop, file];
  }

  async function upload(file) {
    const limit = now().uploadLimit;
    if (file.size > limit) {
      host.send({kind: "refused", name: file.name, size: file.size});
      return;
    }
    const parts = Math.max(1, Math.ceil(file.size / UPLOAD_PIECE));
    for (let part = 0; part < parts; part += 1) {
      const bytes = new Uint8Array(await file.slice(part * UPLOAD_PIECE, (part + 1) * UPLOAD_PIECE).arrayBuffer());
      let text = "";
      for (let start = 0; start < bytes.length; start += 8192) text += String.fromCharCode(...bytes.subarray(start, start + 8192));
      host.send({kind: "upload", name: file.name, size: file.size, part, parts, bytes: btoa(text)});
    }
  }

  // A line over the screen while something is waited for, or when it failed; null when all is well.
  function banner() {
    const {status, progress, error} = now();
    if (status === "working") {
      const share = progress && progress.total ? progress.index / progress.total : 0;
      const bar = element("progress", {max: 1, value: share, "aria-label": "progress of the compilation"});
      return element("div", {class: "banner working", role: "status"}, element("span", {class: "spin", "aria-hidden": "true"}),
        element("span", {class: "banner-text"}, progress ? `${progress.name}` : "starting"), bar,
        element("span", {class: "quiet-text"}, progress && progress.total ? `${progress.index} of ${progress.total}` : ""),
        button("cancel", "stop this compilation and keep what is shown", () => host.send({kind: "cancel"}), {class: "primary"}));
    }
    if (status === "failed" && error) {
      return element("div", {class: "banner failed", role: "alert"}, element("span", {class: "dot wrong"}, "✗"),
        element("div", {class: "banner-words"}, element("strong", {}, error.what), element("span", {class: "quiet-text"}, error.where), element("span", {}, error.advice)),
        element("span", {class: "grow"}), button("try again", "compile once more", () => host.send({kind: "retry"}), {}), button("dismiss", "keep what is shown", () => host.send({kind: "dismiss"}), {}));
    }
    return null;
  }

  // What is made in the background, in a few words; "" when everything is there.
  function background() {
    const {status, pending, progress, isBisecting} = now();
    if (status === "working") return "";
    if (isBisecting) return "bisecting";
    if (!pending.length) return "";
    const isHere = progress && progress.stage === pending[0] && progress.total;
    return `${STAGE_WORDS[pending[0]] || pending[0]}${isHere ? ` ${progress.index} of ${progress.total}` : ""}`;
  }

  function passSwitch(name, isOn) {
    const box = element("input", {type: "checkbox", class: "switch", checked: isOn, "aria-label": `run ${name}`,
      title: isOn ? "switch this pass off: the result becomes a branch" : "switch this pass on again",
      onchange: () => {
        const settings = base();
        fork({...settings, disable: box.checked ? settings.disable.filter((item) => item !== name) : [...settings.disable, name]});
      }});
    // A compilation that failed or was cancelled changes nothing: the box goes back.
    live.push(() => { box.checked = !now().settings.disable.includes(name); });
    return box;
  }

  return {
    controls, banner, background, passSwitch, fork,
    isKnown: () => now().models.length > 0,
    status: () => now().status,
    isOptional: (name) => now().optional.includes(name),
    optional: () => now().optional,
    switchedOff: () => now().settings.disable,
    settings: () => now().settings,
    targets: () => now().targets,
    branches: () => now().branches,
    branch: () => now().branch,
    isPending: (stage) => now().pending.includes(stage),
    against: () => against,
    compareWith(key) {
      against = key;
      onchange();
    },
    bisection: () => now().bisection,
    isBisecting: () => now().isBisecting,
    bisect: () => host.send({kind: "bisect"}),
  };
}
