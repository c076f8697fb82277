// Links that one shares: the page's own state stands in state.js; here is what the served app adds
// to it, and the words for what of a link is not to be found.

import {button, element} from "../ground/dom.js";
import {clip} from "../ground/scene.js";
import {IN_LINK, choicesInLink, tabsThere} from "./state.js";

export const NO_SETTINGS = {target: "", decisions: {}};
const SESSION_IN_LINK = ["model", "target", "fork"];

// {model, settings} that a link asks the other side for; null when it says nothing of that.
export function sessionLink(hash) {
  const parts = new URLSearchParams(hash.replace(/^#/, ""));
  if (!parts.has("model")) return null;
  const target = parts.get("target"),
    fork = parts.get("fork");
  /** @type {object | string | null} */
  let settings = target === null ? null : {...NO_SETTINGS, target};
  if (fork !== null) {
    try {
      settings = JSON.parse(fork);
    } catch {
      settings = "unreadable"; // the other side says so
    }
  }
  return {model: parts.get("model"), settings};
}

export function sameLink(a, b) {
  return JSON.stringify(a) === JSON.stringify(b);
}

// Whether a compilation has a tab about the whole program by now.
export const hasTab = (head, dock, isServed) =>
  tabsThere(head, isServed).some(({id}) => id === dock);

// What a link asks for that this compilation has not, in words; empty when all is there.
export async function linkProblems(hash, data, isServed) {
  const {passes} = data.head;
  const problems = [];
  const parts = new URLSearchParams(hash.replace(/^#/, ""));
  const isIndex = (text, count) => /^\d+$/.test(text) && Number(text) < count;
  for (const [name, value] of parts) {
    if (SESSION_IN_LINK.includes(name)) continue;
    if (!IN_LINK.includes(name)) problems.push(`“${clip(name, 40)}”, which means nothing here`);
    else if (name === "pass" && !isIndex(value, passes.length))
      problems.push(`pass ${clip(value, 20)} (there are ${passes.length}, from 0)`);
    else if (choicesInLink(name, data.head, isServed)?.includes(value) === false)
      problems.push(`${name} “${clip(value, 40)}”`);
    else if (name === "selection" && !isKnown(data, value))
      problems.push(`operation ${clip(value, 80)}`);
  }
  const pass = parts.get("pass"),
    rewrite = parts.get("rewrite");
  if (rewrite !== null && isIndex(pass ?? "", passes.length)) {
    const {events} = await data.passDetails(Number(pass));
    if (!isIndex(rewrite, events.length))
      problems.push(
        `rewrite ${clip(rewrite, 20)} of ${passes[Number(pass)].name} (there are ${events.length})`,
      );
  }
  return problems;
}

export function isKnown(data, selection) {
  return (
    data.latest.has(selection) ||
    data.kernelOf.has(selection) ||
    data.blocks?.indexOf(selection) !== undefined
  );
}

export const LINK_TITLE = "Not all of the link could be restored";

export function noticeBanner(text, dismiss, title) {
  return element(
    "div",
    {class: "banner notice", role: "alert"},
    element("span", {class: "dot within-tolerance", "aria-hidden": "true"}, "!"),
    element(
      "div",
      {class: "banner-words"},
      element("strong", {}, title),
      element("span", {}, text),
    ),
    element("span", {class: "grow"}),
    button("dismiss", "go on with what is shown", dismiss, {}),
  );
}
