// In a notebook the kernel compiles what a person wants otherwise: another decision, the IR after
// a pass as edited text, a rule written here. Each makes a branch, which is shown at once and
// compared with the first one; a cell has it as `widget.branches.shown`.

import {canEditIr, openIrEditor} from "./ir_editor.js";
import {button, element, replace, section} from "../ground/dom.js";
import {clip} from "../ground/scene.js";

const MAX_LABEL = 80;
const panes = new WeakMap(); // of every explorer: what is being written in it stays

export function changeView(app) {
  if (!panes.has(app)) panes.set(app, makePane(app));
  return panes.get(app);
}

async function makePane(app) {
  const {data, host, store} = app;
  const {labels, place, template} = data.head.branches;
  const said = element("p", {class: "quiet-text", role: "status"});
  const passName = () => data.head.passes[store.get().pass].name;
  const send = (message, words) => {
    replace(said, element("span", {class: "spin", "aria-hidden": "true"}), ` ${words}`);
    host.send(message);
  };
  host.receive((message) => {
    if (message?.kind !== "changed") return;
    if (message.error) replace(said, element("span", {class: "ink-wrong"}, message.error));
    else if (message.of === "text") replace(said, "");
  });

  // ---- branches

  const branches = element(
    "select",
    {
      "aria-label": "branch",
      onchange: () => send({kind: "show", place: Number(branches.value)}, "showing it"),
    },
    labels.map((label, index) =>
      element("option", {value: index, selected: index === place}, clip(label, MAX_LABEL)),
    ),
  );

  // ---- a decision

  const knobs = await data.chunk("knobs");
  const value = element("select", {"aria-label": "value"});
  const choose = () => {
    const knob = knobs[Number(knobPick.value)];
    replace(
      value,
      (knob?.choices ?? []).map((choice) =>
        element(
          "option",
          {value: JSON.stringify(choice), selected: choice === knob.value},
          String(choice),
        ),
      ),
    );
    value.disabled = !knob?.choices.length;
  };
  const knobPick = element(
    "select",
    {"aria-label": "decision", onchange: choose},
    knobs.map((knob, index) =>
      knob.choices.length
        ? element("option", {value: index, title: knob.why}, clip(knob.address, MAX_LABEL))
        : null,
    ),
  );
  choose();
  const decide = (address, chosen) =>
    send(
      {kind: "change", what: "decide", decisions: {[address]: chosen}},
      `compiling with another ${address}`,
    );
  const leave = button(
    "without this rewrite",
    "compile again with the rewrite that is looked at declined",
    async () => {
      const {pass, rewrite} = store.get();
      const {events} = await data.passDetails(pass);
      if (rewrite !== null && events[rewrite]?.applied) decide(events[rewrite].address, false);
      else replace(said, "Select a rewrite first: J and K step through those of the pass.");
    },
  );

  // ---- IR

  const edit = button("edit", "the complete text of the program after this pass", () => {
    const {pass} = store.get();
    if (canEditIr(app, pass)) openIrEditor(app, pass);
    else replace(said, "This is the model as it was read: go to a pass first.");
  });

  // ---- a rule

  const rule = element(
    "textarea",
    {"aria-label": "rule", class: "written mono", spellcheck: "false", rows: 10},
    template,
  );
  rule.value = template;
  const insert = button(
    "insert",
    "run it as a pass behind the one that is looked at",
    () =>
      send(
        {kind: "change", what: "rule", after: passName(), text: rule.value},
        `compiling with it after ${passName()}`,
      ),
    {class: "primary"},
  );

  const after = [element("strong", {class: "mono"}), element("strong", {class: "mono"})];
  const refresh = () => {
    for (const name of after) name.textContent = passName();
  };
  refresh();
  const node = element(
    "div",
    {class: "scroll padded changing"},
    said,
    section("Branch", branches),
    section(
      "A decision",
      element(
        "p",
        {},
        knobPick,
        " ",
        value,
        " ",
        button("compile", "compile again with this value", () =>
          decide(knobs[Number(knobPick.value)].address, JSON.parse(value.value)),
        ),
        " ",
        leave,
      ),
    ),
    section("IR after a pass", element("p", {}, "after ", after[0], " ", edit)),
    section(
      "A rule",
      element("p", {}, "behind ", after[1], ", in Python, which this notebook's kernel runs"),
      rule,
      insert,
    ),
  );
  return {node, refresh};
}
