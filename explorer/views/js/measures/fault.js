// What was wrong first, and what a bisection blamed, with the way to leave that out.

import {button, element} from "../ground/dom.js";
import {leaveOut} from "../branches/draft.js";
import {decode, errorText} from "../ground/numbers.js";
import {canFork} from "./placing.js";
import {clip} from "../ground/scene.js";
import {READ_ONLY} from "../branches/session.js";

// Null where nothing is wrong.
export function faultBanner(app, accuracy) {
  const found = accuracy.fault;
  if (!found) return null;
  const guilty = app.session?.bisection() ?? accuracy.guilty;
  const go = () => {
    if (found.pass >= 0) app.goToPass(found.pass);
    app.select(found.operation, "dock");
  };
  return element(
    "div",
    {class: "fault", role: "note"},
    element("span", {class: "dot wrong"}, "✗"),
    element(
      "span",
      {},
      "first wrong after ",
      button(found.name, "go there", go, {class: "link"}),
      `: ${clip(found.tensor, 60)} is off by ${errorText(decode(found.relative))}, ` +
        `${errorText(accuracy.tolerance)} allowed (${found.mode})`,
    ),
    element("span", {class: "grow"}),
    guilty ? faultWords(app, guilty) : bisectButton(app),
  );
}

// Bisection runs the pass again and again, which takes a compiler: what to do where there is none.
function bisectButton(app) {
  const where = app.session
    ? READ_ONLY
    : app.host.mode === "page"
      ? "A page has no compiler: run c.accuracy().bisect() in a notebook, or open the model " +
        "with explorer serve."
      : "Run c.accuracy().bisect() in a cell, then c.explore() again.";
  const isLive = canFork(app);
  return element(
    "span",
    {class: "aside-row"},
    isLive ? null : element("span", {class: "quiet-text"}, where),
    button(
      "bisect",
      isLive
        ? "run this pass again with fewer and fewer rewrites, until the guilty one is found"
        : where,
      () => app.session.bisect(),
      {class: "quiet", disabled: !isLive || app.session.isBisecting()},
    ),
  );
}

// The rewrite that a bisection blamed, with the way to leave it out.
function faultWords(app, found) {
  return element(
    "span",
    {class: "aside-row"},
    element(
      "span",
      {},
      "guilty: ",
      element("strong", {}, found.rule || found.pass),
      " at ",
      element(
        "button",
        {type: "button", class: "link mono", onclick: () => app.select(found.operation, "dock")},
        found.operation,
      ),
    ),
    found.address && canFork(app)
      ? button("fork without it", found.address, () => leaveOut(app, found.address), {
          class: "quiet",
        })
      : null,
  );
}
