// Another threshold or mode of a tensor: a branch in the app, one that the notebook's kernel makes,
// and elsewhere the line of Python that does it.

import {decide} from "../ground/addresses.js";
import {element, replace} from "../ground/dom.js";
import {READ_ONLY} from "../branches/session.js";

const MODES = ["INT8", "INT16", "F32"];
/** @type {Record<string, string>} */
const MODE_TITLES = {
  INT8: "8 bits",
  INT16: "16 bits, for whoever is hurt most",
  F32: "stays float",
  INT4: "4 bits around zero",
  UINT4: "4 bits with a zero point",
  UINT8: "8 bits with a zero point",
};

// A fork in which both ends of the tensor's range move in proportion.
export function forkThreshold(app, tensor, threshold, said) {
  fork(app, {[tensor.address]: Number(threshold.toPrecision(6))}, said);
}

// tensor: its mode and the address that decides it; of weights alone, with modes of their own.
export function modeChoice(app, tensor, said, modes = MODES) {
  const choice = element(
    "select",
    {
      class: "quiet",
      "aria-label": "what it is stored in",
      title: MODE_TITLES[tensor.mode],
      onchange: () => {
        const wanted = choice.value;
        choice.value = tensor.mode;
        if (wanted !== tensor.mode) fork(app, {[tensor.modeAddress]: wanted}, said);
      },
    },
    modes.map((mode) =>
      element(
        "option",
        {value: mode, title: MODE_TITLES[mode], selected: mode === tensor.mode},
        mode,
      ),
    ),
  );
  return choice;
}

// decisions: values by address; undefined takes one back. What cannot be done here is said.
export function fork(app, decisions, said) {
  if (app.session && !app.session.isTrace()) {
    const settings = structuredClone(app.session.settings());
    for (const [address, value] of Object.entries(decisions)) decide(settings, address, value);
    app.session.fork(settings);
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
