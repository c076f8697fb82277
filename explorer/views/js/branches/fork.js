// The tab "fork" (in the app): decisions that a person changes. Each change is compiled at once
// into a branch beside this one, or several are collected first. What is offered follows the
// selection: choices of its kernel's schedule, its layout, rewrites that made it; and what is about
// the whole program: passes, their order, their rules, target, memory.
//
// A knob is {address, value, choices, why, group, of, title}; its choices are the legal values, and
// a number without choices may be any.

import {BUDGET, PINS, PLANNER, decide, pinned, pinsOf} from "../ground/addresses.js";
import {button, element, emptyState, section} from "../ground/dom.js";
import {exactText} from "../ground/numbers.js";
import {clip} from "../ground/scene.js";
import {tailOf} from "../measures/column_names.js";
import {changesOf} from "./draft.js";
import {modelEdits} from "../desk/edit_model.js";
import {passSwitches} from "./fork_passes.js";
import {READ_ONLY} from "./session.js";
import {steady} from "../ground/stable_dom.js";

export async function forkView(app, context) {
  const {data, session, draft} = app;
  if (session.isTrace()) return {node: emptyState("A saved trace is read-only", READ_ONLY)};
  const knobs = new Map((await data.chunk("knobs")).map((knob) => [knob.address, knob]));
  const rewrites = context.record ? await rewritesOf(app, context) : [];
  const host = element("div", {class: "scroll padded fork"});
  const show = steady(host);
  const grouped = (group, of) =>
    [...knobs.values()].filter(
      (knob) => knob.group === group && (of === undefined || knob.of === of),
    );

  // Makes a change: it is compiled at once, or kept among the others. The branch that is looked at
  // may be another one by now than when the control was drawn, and that is what is changed.
  function edit(change) {
    // What was refused stays on the screen until the next change, and is no part of that.
    if (draft.isAtOnce && session.failure()) draft.reset();
    const settings = draft.get();
    change(settings);
    if (draft.isAtOnce && changesOf(settings, session.settings()).length)
      session.fork(structuredClone(settings));
    draw();
  }

  function draw() {
    const settings = draft.get(),
      base = session.settings();
    const changes = changesOf(settings, base);
    const compile = button(
      "compile this fork",
      "compile with these decisions; the result becomes a branch",
      () => {
        session.fork(structuredClone(settings));
      },
      {class: "primary"},
    );
    compile.disabled = !changes.length;
    const atOnce = element("input", {
      type: "checkbox",
      checked: draft.isAtOnce,
      "aria-label": "compile every change at once",
      onchange: () => {
        draft.isAtOnce = atOnce.checked;
        edit(() => {});
      },
    });
    show(
      element(
        "div",
        {},
        element(
          "p",
          {class: "quiet-text"},
          "Every change becomes a branch beside this one; the passes before the change are " +
            "shared, not run again.",
        ),
        element(
          "label",
          {class: "switch-row"},
          atOnce,
          element("span", {}, "compile every change at once"),
        ),
        draft.isAtOnce && !changes.length
          ? null
          : element(
              "div",
              {class: "fork-changes"},
              changes.length
                ? element(
                    "ul",
                    {class: "plain"},
                    changes.map(([text, undo]) =>
                      element(
                        "li",
                        {class: "fork-change"},
                        element("span", {class: "mono"}, clip(text, 160)),
                        button(
                          "×",
                          "take this change back",
                          () => {
                            undo();
                            draw();
                          },
                          {class: "icon", "aria-label": `take back: ${clip(text, 60)}`},
                        ),
                      ),
                    ),
                  )
                : element("p", {class: "quiet-text"}, "Nothing is changed yet."),
              element(
                "div",
                {class: "actions"},
                compile,
                changes.length
                  ? button("reset", "take all changes back", () => {
                      draft.reset();
                      draw();
                    })
                  : null,
              ),
            ),
        kernelKnobs(settings),
        layoutKnobs(settings),
        rewriteKnobs(settings),
        passSwitches({data, knobs, grouped, edit, allow}, settings),
        programKnobs(settings),
        modelEdits({data, edit, session}, settings, context.record),
      ),
    );
  }

  // A rule or a single rewrite: done as by default, or left out.
  function allow(address, isAllowed) {
    edit((wanted) => decide(wanted, address, isAllowed ? undefined : false));
  }

  function kernelKnobs(settings) {
    const kernel = context.kernel === undefined ? null : data.kernels[context.kernel];
    if (!kernel)
      return section(
        "Schedule",
        element(
          "p",
          {class: "quiet-text"},
          session.isPending("program")
            ? "Kernels are being made."
            : "Select an operation that has a kernel to change its schedule.",
        ),
      );
    const own = grouped("schedule", kernel.name);
    const layer = data.layerName(kernel.name);
    return section(
      `Schedule of ${tailOf(layer, 40)}${layer === kernel.name ? "" : ` (${kernel.name})`}`,
      own.length
        ? element(
            "div",
            {class: "knobs"},
            own.map((knob) => knobRow(settings, knob, knob.title, kernel.name)),
          )
        : element("p", {class: "quiet-text"}, "This kernel's schedule has no choices."),
    );
  }

  // Layouts of what is selected, and of whole functions.
  function layoutKnobs(settings) {
    const names = new Set([context.record?.id, ...context.here, ...context.launches]);
    const own = grouped("layout").filter(({title, of}) => title === "block" || names.has(of));
    if (!own.length) return null;
    return section(
      "Layout",
      element(
        "div",
        {class: "knobs"},
        own.map((knob) => knobRow(settings, knob, `${knob.title} ${clip(knob.of, 24)}`.trim(), "")),
      ),
    );
  }

  // A list of the legal values, or a number where any goes; the reason for the value beside it.
  function knobRow(settings, {address, value, choices, why}, name, of) {
    const before = session.settings().decisions[address];
    const current = settings.decisions[address] ?? value;
    const set = (next) =>
      edit((wanted) =>
        decide(wanted, address, next === value && before === undefined ? undefined : next),
      );
    const common = {
      class: "knob",
      "aria-label": of ? `${name} of ${of}` : name,
      "data-address": address,
    };
    const field = choices.length
      ? element(
          "select",
          {...common, onchange: (event) => set(choices[Number(event.target.value)] ?? current)},
          choices.map((choice, index) =>
            element("option", {value: index, selected: choice === current}, choiceText(choice)),
          ),
        )
      : element("input", {
          ...common,
          type: "number",
          min: 0,
          step: "any",
          value: current ?? "",
          placeholder: "any",
          onchange: (event) => {
            if (event.target.value) set(Number(event.target.value));
          },
        });
    const isChanged = current !== value || before !== undefined;
    return element(
      "div",
      {class: `knob-row${isChanged ? " changed" : ""}`},
      element("span", {title: clip(why, 600)}, name.replaceAll("_", " ")),
      field,
      element(
        "span",
        {class: "quiet-text knob-why", title: clip(why, 600)},
        current !== value ? `was ${choiceText(value)}` : clip(why, 300),
        before !== undefined
          ? [
              " ",
              button(
                "as by default",
                `let the compiler decide ${name} again`,
                () => edit((wanted) => decide(wanted, address, undefined)),
                {class: "link"},
              ),
            ]
          : null,
      ),
    );
  }

  function rewriteKnobs(settings) {
    if (!context.record) return null;
    return section(
      `Rewrites that made ${clip(context.record.id, 40)}`,
      rewrites.length
        ? element(
            "div",
            {class: "knobs"},
            rewrites.map((event) => {
              const box = element("input", {
                type: "checkbox",
                checked: settings.decisions[event.address] !== false,
                "aria-label": `do ${clip(event.address, 160)}`,
                onchange: () => allow(event.address, box.checked),
              });
              return element(
                "label",
                {class: "switch-row", title: data.rules.get(event.rule)?.explanation || ""},
                box,
                element("span", {class: "mono"}, clip(event.address, 160)),
              );
            }),
          )
        : element("p", {class: "quiet-text"}, "No rewrite that may be left out made it."),
    );
  }

  function programKnobs(settings) {
    const budget = element("input", {
      class: "knob",
      type: "number",
      min: 0,
      step: 64,
      value: settings.decisions[BUDGET] ?? "",
      placeholder: "any",
      "aria-label": "most bytes of the arena",
      onchange: () =>
        edit((wanted) =>
          decide(wanted, BUDGET, budget.value === "" ? undefined : Number(budget.value)),
        ),
    });
    const target = element(
      "select",
      {
        class: "knob",
        "aria-label": "target of the fork",
        onchange: () =>
          edit((wanted) => {
            wanted.target = target.value;
          }),
      },
      session
        .targets()
        .map((name) => element("option", {value: name, selected: name === settings.target}, name)),
    );
    const {peak} = data.head.summary;
    const pins = pinsOf(settings);
    const planner = pins.length ? [] : grouped("memory").filter((k) => k.address === PLANNER);
    const others = [...grouped("program"), ...planner].filter((k) => k.address !== "target");
    return section(
      "Program",
      element(
        "div",
        {class: "knobs"},
        element(
          "label",
          {class: "knob-row"},
          element("span", {}, "target"),
          target,
          element("span"),
        ),
        element(
          "label",
          {class: "knob-row"},
          element("span", {}, "arena, bytes at most"),
          budget,
          element("span", {class: "quiet-text"}, peak === null ? "" : `now ${exactText(peak)}`),
        ),
        pins.map(([id, at]) =>
          element(
            "div",
            {class: "knob-row"},
            element("span", {}, "pinned"),
            element("span", {class: "mono"}, `${clip(id, 40)} at ${exactText(at)}`),
            button(
              "×",
              "let this buffer go",
              () =>
                edit((wanted) =>
                  decide(wanted, PINS, pinned(pins.filter(([other]) => other !== id))),
                ),
              {class: "icon", "aria-label": `let ${clip(id, 40)} go`},
            ),
          ),
        ),
        others.map((knob) => knobRow(settings, knob, knob.title, "")),
      ),
    );
  }

  draw();
  return {node: host};
}

export function choiceText(choice) {
  return choice === true
    ? "on"
    : choice === false
      ? "off"
      : choice === null
        ? "any"
        : String(choice);
}

// Rewrites of optional passes that made or changed the operation, and the one that is looked at.
async function rewritesOf(app, {record, state}) {
  const {data, session} = app;
  const makers = await data.makersOf(record.id);
  const events = await Promise.all(
    makers.map(async ([pass, event]) => [pass, (await data.passDetails(pass)).events[event]]),
  );
  if (state.rewrite !== null)
    events.push([state.pass, (await data.passDetails(state.pass)).events[state.rewrite]]);
  const kept = new Map();
  for (const [pass, event] of events)
    if (event?.applied && session.isOptional(data.head.passes[pass].name))
      kept.set(event.address, event);
  return [...kept.values()];
}
