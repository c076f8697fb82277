// What only the served app has: choosing and uploading models, the target, switching passes off,
// and the progress of the compilation, which runs on the other side.
//
// session = {models: [{key, label}], targets, optional, model, target, disabled,
//            status: "idle" | "working" | "failed", progress: {pass, index, total} | null,
//            error: {what, where, advice} | null, wanted: {model, target, disabled}, uploadLimit}
// `wanted` is what the last compilation was asked for; model, target and disabled are what is shown.

const NO_SESSION = {models: [], targets: [], optional: [], disabled: [], status: "idle"};
const UPLOAD_PIECE = 240_000; // bytes; as base64 in a message well below 1 MB

function createSession(host, onchange) {
  if (host.mode !== "app") return null;
  const now = () => host.get("session") || NO_SESSION;
  let live = []; // controls on the screen, as functions that set them to what is shown
  host.on("session", () => {
    if (now().status !== "working") for (const set of live) set();
    onchange();
  });
  const compile = (patch) => {
    const {model, target, disabled} = now();
    host.send({kind: "compile", model, target, disabled, ...patch});
  };

  function controls() {
    const {models, targets, model, target} = now();
    const file = element("input", {type: "file", class: "file", accept: ".onnx", "aria-label": "model file", onchange: () => { if (file.files[0]) upload(file.files[0]); }});
    const models_ = element("select", {class: "model-select", "aria-label": "model", title: "model", onchange: (event) => {
      if (event.target.value === "") {
        event.target.value = now().model;
        file.click();
      } else compile({model: event.target.value, disabled: []});
    }}, models.map(({key, label}) => element("option", {value: key, selected: key === model}, clip(label, 40))), element("option", {value: ""}, "open a file …"));
    const targets_ = element("select", {"aria-label": "target", title: "target", onchange: (event) => compile({target: event.target.value})},
      targets.map((name) => element("option", {value: name, selected: name === target}, name)));
    live = [() => { models_.value = now().model; }, () => { targets_.value = now().target; }];
    return [models_, targets_, file];
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

  // A line over the screen while something is compiled, or when it failed; null when all is well.
  function banner() {
    const {status, progress, error} = now();
    if (status === "working") {
      const share = progress && progress.total ? progress.index / progress.total : 0;
      const bar = element("progress", {max: 1, value: share, "aria-label": "progress of the compilation"});
      return element("div", {class: "banner working", role: "status"}, element("span", {class: "spin", "aria-hidden": "true"}),
        element("span", {class: "banner-text"}, progress ? `${progress.pass}` : "starting"), bar,
        element("span", {class: "quiet-text"}, progress && progress.total ? `${progress.index} of ${progress.total}` : ""),
        button("cancel", "stop this compilation and keep what is shown", () => host.send({kind: "cancel"}), {class: "primary"}));
    }
    if (status === "failed" && error) {
      return element("div", {class: "banner failed", role: "alert"}, element("span", {class: "dot wrong"}, "✗"),
        element("div", {class: "banner-words"}, element("strong", {}, error.what), element("span", {class: "quiet-text"}, error.where), element("span", {}, error.advice)),
        element("span", {class: "grow"}), button("try again", "compile once more", () => compile(now().wanted), {}), button("dismiss", "keep what is shown", () => host.send({kind: "dismiss"}), {}));
    }
    return null;
  }

  // Several passes may be switched while a compilation runs: each starts from what was asked last.
  const toggle = (name, isOn) => {
    const {disabled} = now().status === "working" ? now().wanted : now();
    compile({disabled: isOn ? disabled.filter((item) => item !== name) : [...disabled, name]});
  };
  function passSwitch(name, isOn) {
    const box = element("input", {type: "checkbox", class: "switch", checked: isOn, "aria-label": `run ${name}`,
      title: isOn ? "switch this pass off and compile again" : "switch this pass on and compile again",
      onchange: () => toggle(name, box.checked)});
    // A compilation that failed or was cancelled changes nothing: the box goes back.
    live.push(() => { box.checked = !now().disabled.includes(name); });
    return box;
  }

  return {
    controls, banner, passSwitch,
    isKnown: () => now().models.length > 0,
    status: () => now().status,
    isOptional: (name) => now().optional.includes(name),
    switchedOff: () => now().disabled,
  };
}
