// A kernel's schedule as a list of steps that a person edits: arguments, order, what is left out or
// added. It is compiled as a branch; a step that is not legal is refused there, with the reason.
//
// One step per row, its arguments as fields. A list that was refused marks the step that is meant.

import {SCHEDULE, STEPS_CHOICE} from "../ground/addresses.js";
import {button, element, replace} from "../ground/dom.js";
import {argumentFields, fieldsOf, stepOf} from "./step_arguments.js";
import {countText, exactText} from "../ground/numbers.js";
import {clip} from "../ground/scene.js";

const MAX_EDITED = 400;

const rowOf = (call, known) => ({step: call.step, fields: fieldsOf(call, known)});

// {step: number from 1, reason} where the last compilation was refused for a step of this kernel.
function refusedStep(app, kernel) {
  const what = app.session.failure()?.what ?? "";
  const found = /^kernel (\S+) cannot be scheduled as asked: step (\d+)(?:, \w+)?: (.*)$/s.exec(
    what,
  );
  if (!found || found[1] !== kernel.name) return null;
  return {number: Number(found[2]), reason: found[3]};
}

// What is edited, by kernel, as long as the page is open and the same branch is looked at.
function draftOf(app, kernel, known) {
  app.scheduleDrafts ??= new Map();
  const key = `${app.session.branch()}/${kernel.name}`;
  if (!app.scheduleDrafts.has(key))
    app.scheduleDrafts.set(key, {
      rows: kernel.schedule.map((call) => rowOf(call, known)),
      isOpen: false,
    });
  return {
    draft: app.scheduleDrafts.get(key),
    reset() {
      app.scheduleDrafts.set(key, {
        rows: kernel.schedule.map((call) => rowOf(call, known)),
        isOpen: true,
      });
    },
  };
}

// known: {step: [what it does, when it is illegal, [[argument, kind, is needed]]]}, or null
export function scheduleEditor(app, kernel, known) {
  if (!app.session || app.session.isTrace() || !kernel.schedule.length) return null;
  if (kernel.schedule.length > MAX_EDITED)
    return element(
      "p",
      {class: "cap"},
      `This schedule has ${exactText(kernel.schedule.length)} steps: c.fork(schedule=...) in ` +
        "a notebook takes them.",
    );
  const host = element("details", {class: "schedule-editor"});
  const offered = element(
    "datalist",
    {id: "schedule-steps"},
    Object.keys(known ?? Object.fromEntries(kernel.schedule.map(({step}) => [step, true]))).map(
      (name) => element("option", {value: name}),
    ),
  );
  const original = JSON.stringify(kernel.schedule);

  function draw() {
    const {draft, reset} = draftOf(app, kernel, known);
    host.open = draft.isOpen;
    const list = element("ol", {
      class: "edited-steps",
      "aria-label": `steps of ${clip(kernel.name, 60)}`,
    });
    const compile = button(
      "compile these steps",
      "compile the kernel with this list; the result becomes a branch",
      () => submit(),
      {class: "primary"},
    );
    const verdict = element("span", {class: "quiet-text", role: "status"});

    function check() {
      const parsed = draft.rows.map(({step, fields}) => stepOf(step, fields));
      const wrong = parsed.findIndex(({problem}) => problem);
      const isSame = wrong < 0 && JSON.stringify(parsed.map(({value}) => value)) === original;
      compile.disabled = wrong >= 0 || isSame;
      replace(
        verdict,
        wrong >= 0
          ? `step ${wrong + 1}: ${parsed[wrong].problem}`
          : isSame
            ? "as it is"
            : `${countText(draft.rows.length, "step")}, changed`,
      );
      for (const [index, item] of [...list.children].entries())
        for (const field of item.querySelectorAll("input"))
          field.setAttribute(
            "aria-invalid",
            String(Boolean(parsed[index].problem) && parsed[index].name === field.dataset.argument),
          );
      return wrong >= 0 ? null : parsed.map(({value}) => value);
    }

    function submit() {
      const steps = check();
      if (!steps) return;
      const settings = structuredClone(app.session.settings());
      const head = `${SCHEDULE}/${kernel.name}/`;
      for (const address of Object.keys(settings.decisions))
        if (address.startsWith(head)) delete settings.decisions[address];
      settings.decisions[head + STEPS_CHOICE] = JSON.stringify(steps);
      app.session.fork(settings);
    }

    const aboutStep = (name) => (known?.[name] ?? []).slice(0, 2).filter(Boolean).join("\n\n");

    // The step that was refused, with the reason where it stands.
    function mark() {
      const refused = refusedStep(app, kernel);
      for (const [index, item] of [...list.children].entries()) {
        item.classList.toggle("refused", refused?.number === index + 1);
        item.querySelector(".step-refusal")?.remove();
        if (refused?.number !== index + 1) continue;
        item.append(
          element(
            "p",
            {class: "step-refusal", role: "alert"},
            `✗ ${refused.reason}. Change this step, leave it out, or press reset for the steps ` +
              "as they were.",
          ),
        );
        item.scrollIntoView({block: "nearest"});
      }
    }

    /** @type {(edit: (rows: any[]) => void, focus?: number | null) => void} */
    function change(edit, focus = null) {
      edit(draft.rows);
      draw();
      if (focus !== null) host.querySelectorAll(".edited-steps input")[focus]?.focus();
    }

    for (const [index, row] of draft.rows.entries())
      list.append(
        element(
          "li",
          {},
          element("span", {class: "mono step", title: aboutStep(row.step)}, row.step),
          argumentFields(row.step, row.fields, index + 1, {
            onchange: check,
            onenter: () => {
              if (!compile.disabled) submit();
            },
          }),
          button(
            "↑",
            "one step earlier",
            () => change((rows) => rows.splice(index - 1, 0, ...rows.splice(index, 1)), index - 1),
            {class: "icon", disabled: index === 0},
          ),
          button(
            "↓",
            "one step later",
            () => change((rows) => rows.splice(index + 1, 0, ...rows.splice(index, 1)), index + 1),
            {class: "icon", disabled: index === draft.rows.length - 1},
          ),
          button("×", "leave this step out", () => change((rows) => rows.splice(index, 1)), {
            class: "icon",
            "aria-label": `leave out step ${index + 1}`,
          }),
        ),
      );
    const choice = element("input", {
      type: "text",
      class: "mono",
      list: offered.id,
      placeholder: "unroll",
      "aria-label": "name of the step to add",
      size: 12,
    });
    replace(
      host,
      element("summary", {}, "edit this schedule"),
      element(
        "p",
        {class: "quiet-text"},
        "Each step is checked where it stands; one that is not legal is refused with its " +
          "reason. What comes out is another branch.",
      ),
      list,
      element(
        "div",
        {class: "actions"},
        offered,
        choice,
        button("add step", "at the end of the list", () =>
          change(
            (rows) => rows.push(rowOf({step: choice.value.trim() || choice.placeholder}, known)),
            draft.rows.length,
          ),
        ),
        element("span", {class: "grow"}),
        verdict,
        button("reset", "the steps as they are", () => {
          reset();
          draw();
        }),
        button("copy as JSON", "for c.fork(schedule=...)", () => {
          const steps = check();
          if (steps) app.copy(JSON.stringify(steps, null, 1));
        }),
        compile,
      ),
    );
    check();
    mark();
    app.markRefusedStep = mark;
  }

  host.addEventListener("toggle", () => {
    draftOf(app, kernel, known).draft.isOpen = host.open;
  });
  draw();
  return host;
}
