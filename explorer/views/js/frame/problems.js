// What stands above everything while the opened model cannot be compiled.

import {quantizeButtons} from "../branches/quantizing.js";
import {button, element} from "../ground/dom.js";
import {countText, exactText} from "../ground/numbers.js";
import {triedSettings} from "../ground/lever_words.js";
import {clip} from "../ground/scene.js";
import {LOOK} from "../theme.js";

function problemsTitle({problems: {nodes, of}}) {
  return nodes
    ? `${exactText(nodes)} of ${countText(of, "node")} cannot be imported`
    : "This model cannot be compiled";
}

// A sentence with its end, which it may have already: "did you mean Attention?"
const ended = (text) => (/[.?!…]$/.test(text) ? text : `${text}.`);

// The banner; null where the model can be compiled.
export function problemsBanner(app) {
  const {reasons} = app.data.head.problems ?? {reasons: []};
  if (!reasons.length) return null;
  const more = reasons.length > 1 ? ` (and ${reasons.length - 1} more)` : "";
  return element(
    "div",
    {class: "banner failed refused", role: "alert"},
    element(
      "span",
      {class: "ink-unsupported glyph", "aria-hidden": "true"},
      LOOK.unsupported.glyph,
    ),
    element(
      "div",
      {class: "banner-words"},
      element("strong", {}, problemsTitle(app.data.head)),
      element(
        "span",
        {},
        `${clip(reasons[0][0], 60)}: ${ended(clip(reasons[0][1], 240) + more)} ` +
          "The model is shown as it is; nothing was compiled.",
      ),
    ),
    element("span", {class: "grow"}),
    app.session && app.data.head.problems.quantize
      ? quantizeButtons(app.session, (method) =>
          app.session.fork(triedSettings(app.session.settings(), [["quantize", method]])),
        )
      : null,
    app.session
      ? button(
          "other sizes or values …",
          "what to compile the model with",
          () => app.session.askAgain(reasons[0][1]),
          {class: "ask-again"},
        )
      : null,
    app.data.head.problems.nodes
      ? button("list them", "every node that cannot be imported, with the reason", () =>
          app.store.set({dock: "model"}),
        )
      : null,
  );
}
