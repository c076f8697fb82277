// Other decisions: a branch in the app, one that the notebook's kernel makes,
// and elsewhere the line of Python that does it.

import {element, replace} from "../ground/dom.js";
import {triedSettings} from "../ground/lever_words.js";
import {READ_ONLY} from "../branches/session.js";

// decisions: values by address; undefined takes one back. What cannot be done here is said.
// replaces: those whose addresses begin so are taken back before.
export function fork(app, decisions, said, replaces = "") {
  if (app.session && !app.session.isTrace()) {
    const settings = structuredClone(app.session.settings());
    for (const address of Object.keys(settings.decisions))
      if (replaces && address.startsWith(replaces)) delete settings.decisions[address];
    app.session.fork(triedSettings(settings, Object.entries(decisions)));
    return;
  }
  if (app.data.head.branches) {
    replace(said, "compiling it");
    app.host.receive((message) => {
      if (message?.kind === "changed" && message.error)
        replace(said, element("span", {class: "ink-wrong"}, message.error));
    });
    app.host.send({kind: "change", what: "decide", decisions});
    return;
  }
  replace(
    said,
    app.session ? READ_ONLY : "This page has no compiler. In a notebook: ",
    app.session
      ? null
      : element("code", {class: "mono"}, `c.fork(decisions=${pythonOf(decisions)})`),
  );
}

// Strings and numbers are written alike in both languages.
function pythonOf(decisions) {
  const pairs = Object.entries(decisions).map(
    ([address, value]) => `${JSON.stringify(address)}: ${JSON.stringify(value)}`,
  );
  return `{${pairs.join(", ")}}`;
}
