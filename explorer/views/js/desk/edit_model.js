// Edits of the model's file, in the tab "fork": each makes a branch, which is saved as ONNX.

import {button, element, section} from "../ground/dom.js";
import {editsOf, isWhole, offeredEdits, withEdit, withoutEdit} from "../ground/model_edits.js";
import {clip} from "../ground/scene.js";

const HELP =
  "cut IN, … : OUT, …   outputs OUT, …   rename OLD = NEW   attribute NODE.NAME = JSON   " +
  "value WEIGHT = JSON   delete NODE";

// edit(change) changes the settings of the next fork; record: what is selected, or undefined.
export function modelEdits({data, edit}, settings, record) {
  if (data.head.model.format !== "onnx") return null;
  const field = element("input", {
    class: "mono edit-line",
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
  const begin = (text) => {
    if (isWhole(text)) edit((wanted) => withEdit(wanted, text));
    else {
      field.value = text;
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
