// A line to find text in one pane of code, with the keys of a browser: Enter and F3 go on, Shift
// goes back, Escape ends it. The browser's own search sees only the lines that stand in the page.

import {button, element} from "../ground/dom.js";
import {exactText} from "../ground/numbers.js";

const bars = new WeakMap(); // pane -> its bar

// Opens the line above a pane's text, or goes to the one that is open.
export function openFind(pane, query = "") {
  const bar = bars.get(pane) ?? makeBar(pane);
  if (!bar.node.isConnected) pane.node.before(bar.node);
  bar.begin(query || pane.query() || "");
}

function makeBar(pane) {
  let current = 0;
  let total = 0;
  const count = element("span", {class: "hits-count quiet-text", role: "status"});
  const field = element("input", {
    type: "search",
    class: "find-field",
    "aria-label": "find in this text",
    placeholder: "find in this text",
    spellcheck: "false",
    autocomplete: "off",
  });
  const say = () => {
    count.textContent = !field.value
      ? ""
      : total
        ? `${exactText(current + 1)} of ${exactText(total)}`
        : "not found";
  };
  const look = () => {
    total = pane.find(field.value);
    current = total ? pane.showHit(pane.nearestHit()) : 0;
    say();
  };
  const step = (by) => {
    if (!total) return;
    current = pane.showHit((current + by + total) % total);
    say();
  };
  const close = () => {
    pane.find("");
    node.remove();
    pane.node.focus({preventScroll: true});
  };
  field.addEventListener("input", look);
  field.addEventListener("keydown", (event) => {
    const isNext = event.key === "Enter" || event.key === "F3";
    if (isNext) step(event.shiftKey ? -1 : 1);
    else if (event.key === "Escape") close();
    if (isNext || event.key === "Escape") event.preventDefault();
    // Typing is not for the page's keys; its ways to search are.
    if (!(event.ctrlKey || event.metaKey)) event.stopPropagation();
  });
  const node = element(
    "div",
    {class: "find-bar"},
    field,
    count,
    button("‹", "hit before (Shift Enter)", () => step(-1), {class: "icon"}),
    button("›", "next hit (Enter)", () => step(1), {class: "icon"}),
    button("×", "end (Esc)", close, {class: "icon", "aria-label": "end the search"}),
  );
  const bar = {
    node,
    begin(query) {
      field.value = query;
      look();
      field.focus();
      field.select();
    },
  };
  bars.set(pane, bar);
  return bar;
}
