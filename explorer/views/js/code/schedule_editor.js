// A kernel's schedule as a list of steps that a person edits: arguments, order, what is left out or
// added. It is compiled as a branch; a step that is not legal is refused there, with the reason.
//
// One step per row, its arguments as JSON: `"loop": "j", "into": "jt jp", "factors": [14]`.

import {SCHEDULE, STEPS_CHOICE} from "../ground/addresses.js";
import {button, element, replace} from "../ground/dom.js";
import {countText, exactText} from "../ground/numbers.js";
import {clip} from "../ground/scene.js";

const MOST_EDITED = 400;

function stepRow({step, ...given}) {
  return {
    step,
    text: JSON.stringify(given).slice(1, -1).replaceAll('":', '": ').replaceAll(',"', ', "'),
  };
}

// The step of a row, or why it is none.
function parsedRow({step, text}) {
  let given;
  try {
    given = JSON.parse(`{${text}}`);
  } catch {
    return {problem: 'arguments are written as "name": value, with commas between them'};
  }
  if ("step" in given) return {problem: "the step's name stands before its arguments"};
  return {value: {step, ...given}};
}

// What is edited, by kernel, as long as the page is open and the same branch is looked at.
function draftOf(app, kernel) {
  app.scheduleDrafts ??= new Map();
  const key = `${app.session.branch()}/${kernel.name}`;
  if (!app.scheduleDrafts.has(key))
    app.scheduleDrafts.set(key, {rows: kernel.schedule.map(stepRow), isOpen: false});
  return {
    draft: app.scheduleDrafts.get(key),
    reset() {
      app.scheduleDrafts.set(key, {rows: kernel.schedule.map(stepRow), isOpen: true});
    },
  };
}

export function scheduleEditor(app, kernel) {
  if (!app.session || app.session.isTrace() || !kernel.schedule.length) return null;
  if (kernel.schedule.length > MOST_EDITED)
    return element(
      "p",
      {class: "cap"},
      `This schedule has ${exactText(kernel.schedule.length)} steps: c.fork(schedule=...) in ` +
        "a notebook takes them.",
    );
  const host = element("details", {class: "schedule-editor"});
  const known = element(
    "datalist",
    {id: "schedule-steps"},
    [...new Set(kernel.schedule.map(({step}) => step))].map((name) =>
      element("option", {value: name}),
    ),
  );
  const original = JSON.stringify(kernel.schedule);

  function draw() {
    const {draft, reset} = draftOf(app, kernel);
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
      const parsed = draft.rows.map(parsedRow);
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
        item
          .querySelector("input")
          .setAttribute("aria-invalid", parsed[index].problem ? "true" : "false");
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
          element("span", {class: "mono step"}, row.step),
          element("input", {
            type: "text",
            class: "mono",
            value: row.text,
            spellcheck: "false",
            "aria-label": `arguments of step ${index + 1}, ${row.step}`,
            oninput: (event) => {
              row.text = event.target.value;
              check();
            },
            onkeydown: (event) => {
              if (event.key === "Enter" && !compile.disabled) submit();
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
      list: known.id,
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
        known,
        choice,
        button("add step", "at the end of the list", () =>
          change(
            (rows) => rows.push({step: choice.value.trim() || choice.placeholder, text: ""}),
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
  }

  host.addEventListener("toggle", () => {
    draftOf(app, kernel).draft.isOpen = host.open;
  });
  draw();
  return host;
}
