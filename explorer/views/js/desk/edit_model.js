// Edits of the model's file, in the tab "fork": each makes a branch, which is saved as ONNX.

import {button, element, section} from "../ground/dom.js";
import {editsOf, isWhole, offeredEdits, withEdit, withoutEdit} from "../ground/model_edits.js";
import {clip} from "../ground/scene.js";

const HELP =
  "cut IN, … : OUT, …   outputs OUT, …   rename OLD = NEW   attribute NODE.NAME = JSON   " +
  "value WEIGHT = JSON   delete NODE";

// edit(change) changes the settings of the next fork; record: what is selected, or undefined. What
// is typed stays while panes of another branch take the place of these, and until it is made.
export function modelEdits({data, edit, session}, settings, record) {
  if (data.head.model.format !== "onnx") return null;
  const typed = session.typedEdit(editsOf(session.settings()));
  const field = element("input", {
    class: "mono edit-line",
    value: typed.text,
    oninput: () => Object.assign(typed, {text: field.value, caret: field.selectionStart}),
    onfocus: () => (typed.hasFocus = true),
    // A field that is taken away with its panes is still the one in which is typed.
    onblur: () => setTimeout(() => field.isConnected && (typed.hasFocus = false)),
    placeholder: "delete NODE",
    maxlength: 4000,
    title: HELP,
    "aria-label": "edit of the model",
    onkeydown: (event) => {
      event.stopPropagation();
      if (event.key === "Enter" && field.value.trim())
        edit((wanted) => withEdit(wanted, field.value));
    },
  });
  if (typed.hasFocus)
    requestAnimationFrame(() => {
      if (!field.isConnected || field.matches(":focus")) return;
      field.focus({preventScroll: true});
      field.setSelectionRange(typed.caret, typed.caret);
    });
  const begin = (text) => {
    if (isWhole(text)) edit((wanted) => withEdit(wanted, text));
    else {
      field.value = text;
      typed.text = text;
      field.focus();
    }
  };
  const [node] = record?.sources ?? [];
  return section(
    "The model's file",
    editsOf(settings).map((text, index) =>
      element(
        "div",
        {class: "fork-change"},
        element("span", {class: "mono", title: text}, clip(text, 120)),
        button("×", "take this edit back", () => edit((wanted) => withoutEdit(wanted, index)), {
          class: "icon",
          "aria-label": `take back: ${clip(text, 60)}`,
        }),
      ),
    ),
    node
      ? element(
          "div",
          {class: "actions"},
          offeredEdits(node).map(([label, text]) =>
            button(label, clip(text, 200), () => begin(text), {class: "quiet"}),
          ),
        )
      : element("p", {class: "quiet-text"}, "Select an operation to edit its node."),
    element("div", {class: "edit-row"}, field),
    element("p", {class: "quiet-text mono"}, HELP),
  );
}
