// The tab "fork" (in the app): decisions that a person changes, collected until they are compiled
// into a branch. What is offered follows the selection: choices of its kernel's schedule, rewrites
// that made it; and what is about the whole program: target, memory, passes.

// {settings, reset()}: what the next fork will be, on top of the branch that is looked at.
function createDraft(session) {
  const fresh = () => structuredClone(session.settings());
  let branch = session.branch();
  let settings = fresh();
  return {
    get() {
      if (branch !== session.branch()) {
        branch = session.branch();
        settings = fresh();
      }
      return settings;
    },
    reset() { settings = fresh(); },
  };
}

// A fork in which one rewrite is declined.
function leaveOut(app, address) {
  const settings = app.session.settings();
  app.session.fork({...settings, decisions: {...settings.decisions, [address]: false}});
}

// What differs between two settings, in words, with what takes it back.
function changesOf(settings, base) {
  const changes = [];
  if (settings.target !== base.target) changes.push([`target ${settings.target}`, () => { settings.target = base.target; }]);
  for (const name of settings.disable) if (!base.disable.includes(name)) changes.push([`without ${name}`, () => { settings.disable = settings.disable.filter((item) => item !== name); }]);
  for (const name of base.disable) if (!settings.disable.includes(name)) changes.push([`with ${name} again`, () => { settings.disable = [...settings.disable, name]; }]);
  for (const address of new Set([...Object.keys(settings.decisions), ...Object.keys(base.decisions)])) {
    const value = settings.decisions[address], before = base.decisions[address];
    if (value === before) continue;
    changes.push([value === undefined ? `${address} as by default` : value === false ? `without ${address}` : `${address} = ${value}`, () => {
      if (before === undefined) delete settings.decisions[address];
      else settings.decisions[address] = before;
    }]);
  }
  if (settings.budget !== base.budget) changes.push([settings.budget === null ? "any arena" : `arena of at most ${bytesText(settings.budget)}`, () => { settings.budget = base.budget; }]);
  const pinned = (pins) => JSON.stringify(pins);
  if (pinned(settings.pins) !== pinned(base.pins)) changes.push([settings.pins.length ? `${settings.pins.map(([id, at]) => `${id} at ${exactText(at)}`).join(", ")}` : "nothing pinned", () => { settings.pins = base.pins; }]);
  return changes;
}

async function forkView(app, context) {
  const {data, session, draft} = app;
  const decided = new Map((await data.chunk("decisions")).map(([address, value]) => [address, JSON.parse(value)]));
  const rewrites = context.record ? await rewritesOf(app, context) : [];
  const host = element("div", {class: "scroll padded fork"});

  function draw() {
    const settings = draft.get(), base = session.settings();
    const changes = changesOf(settings, base);
    const compile = button("compile this fork", "compile with these decisions; the result becomes a branch", () => { session.fork(structuredClone(settings)); }, {class: "primary"});
    compile.disabled = !changes.length;
    replace(host,
      element("p", {class: "quiet-text"}, "Change decisions, then compile: the result becomes a branch beside this one, and the passes before the first change are shared."),
      element("div", {class: "fork-changes"}, changes.length ? element("ul", {class: "plain"}, changes.map(([text, undo]) => element("li", {class: "fork-change"},
        element("span", {class: "mono"}, clip(text, 160)), button("×", "take this change back", () => { undo(); draw(); }, {class: "icon"})))) : element("p", {class: "quiet-text"}, "Nothing is changed yet."),
      element("div", {class: "actions"}, compile, changes.length ? button("reset", "take all changes back", () => { draft.reset(); draw(); }) : null)),
      kernelKnobs(settings), rewriteKnobs(settings), programKnobs(settings));
  }

  function kernelKnobs(settings) {
    const kernel = context.kernel === undefined ? null : data.kernels[context.kernel];
    if (!kernel) return section("Schedule", element("p", {class: "quiet-text"}, session.isPending("program") ? "Kernels are being made." : "Select an operation that has a kernel to change its schedule."));
    const prefix = `schedule-loops/${kernel.name}/`;
    const choices = [...decided].filter(([address]) => address.startsWith(prefix));
    return section(`Schedule of ${kernel.name}`, choices.length ? element("div", {class: "knobs"}, choices.map(([address, value]) => knob(settings, address, address.slice(prefix.length), value)))
      : element("p", {class: "quiet-text"}, "This kernel's schedule has no choices."));
  }

  // A number, or one of the words that some kernel of this program chose; the compiler says what
  // is legal when it refuses one.
  function knob(settings, address, name, value) {
    const current = settings.decisions[address] ?? value;
    const set = (next) => {
      if (next === value && session.settings().decisions[address] === undefined) delete settings.decisions[address];
      else settings.decisions[address] = next;
      draw();
      host.querySelector(`[data-address="${CSS.escape(address)}"]`)?.focus();
    };
    const common = {class: "knob", "aria-label": `${name} of ${address.split("/")[1]}`, "data-address": address};
    let field;
    if (typeof value === "number") {
      field = element("input", {...common, type: "number", min: 1, step: 1, value: current, onchange: (event) => { if (event.target.value) set(Number(event.target.value)); }});
    } else {
      const words = new Set([current, value]);
      for (const [other, word] of decided) if (other.startsWith("schedule-loops/") && other.endsWith(`/${name}`)) words.add(word);
      if (words.has("yes") || words.has("no")) for (const word of ["yes", "no"]) words.add(word);
      field = element("input", {...common, type: "text", value: current, list: `words-${app.id}-${name}`, spellcheck: "false", onchange: (event) => { if (event.target.value.trim()) set(event.target.value.trim()); }});
      field = [field, element("datalist", {id: `words-${app.id}-${name}`}, [...words].map((word) => element("option", {value: word})))];
    }
    return element("label", {class: `knob-row${current !== value ? " changed" : ""}`}, element("span", {}, name.replaceAll("_", " ")), field, element("span", {class: "quiet-text"}, current !== value ? `was ${value}` : ""));
  }

  function rewriteKnobs(settings) {
    if (!context.record) return null;
    return section(`Rewrites that made ${clip(context.record.id, 40)}`, rewrites.length ? element("div", {class: "knobs"}, rewrites.map((event) => {
      const box = element("input", {type: "checkbox", checked: settings.decisions[event.address] !== false, "aria-label": `do ${event.address}`, onchange: () => {
        if (box.checked) delete settings.decisions[event.address];
        else settings.decisions[event.address] = false;
        draw();
      }});
      return element("label", {class: "switch-row", title: data.rules.get(event.rule)?.explanation || ""}, box, element("span", {class: "mono"}, clip(event.address, 160)));
    })) : element("p", {class: "quiet-text"}, "No rewrite that may be left out made it."));
  }

  function programKnobs(settings) {
    const budget = element("input", {class: "knob", type: "number", min: 0, step: 64, value: settings.budget ?? "", placeholder: "any", "aria-label": "most bytes of the arena", onchange: () => {
      settings.budget = budget.value === "" ? null : Number(budget.value);
      draw();
    }});
    const target = element("select", {"aria-label": "target of the fork", onchange: () => { settings.target = target.value; draw(); }}, session.targets().map((name) => element("option", {value: name, selected: name === settings.target}, name)));
    const peak = data.head.summary.peak;
    return section("Program", element("div", {class: "knobs"},
      element("label", {class: "knob-row"}, element("span", {}, "target"), target, element("span")),
      element("label", {class: "knob-row"}, element("span", {}, "arena, bytes at most"), budget, element("span", {class: "quiet-text"}, peak === null ? "" : `now ${exactText(peak)}`)),
      settings.pins.map(([id, at]) => element("div", {class: "knob-row"}, element("span", {}, "pinned"), element("span", {class: "mono"}, `${id} at ${exactText(at)}`),
        button("×", "let this buffer go", () => { settings.pins = settings.pins.filter(([other]) => other !== id); draw(); }, {class: "icon"}))),
      [...new Set([...session.optional(), ...settings.disable])].map((name) => {
        const box = element("input", {type: "checkbox", checked: !settings.disable.includes(name), "aria-label": `pass ${name} in the fork`, onchange: () => {
          settings.disable = box.checked ? settings.disable.filter((item) => item !== name) : [...settings.disable, name];
          draw();
        }});
        return element("label", {class: "switch-row"}, box, element("span", {}, name));
      })));
  }
  draw();
  return {node: host};
}

// Rewrites of optional passes that made or changed the operation, and the one that is looked at.
async function rewritesOf(app, {record, state}) {
  const {data, session} = app;
  const makers = await data.makersOf(record.id);
  const events = await Promise.all(makers.map(async ([pass, event]) => [pass, (await data.passDetails(pass)).events[event]]));
  if (state.rewrite !== null) events.push([state.pass, (await data.passDetails(state.pass)).events[state.rewrite]]);
  const kept = new Map();
  for (const [pass, event] of events) if (event?.applied && session.isOptional(data.head.passes[pass].name)) kept.set(event.address, event);
  return [...kept.values()];
}
