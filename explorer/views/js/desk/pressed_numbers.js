// Every number in the text of head, tables, panes and charts opens what moves it, or why nothing
// does: by a press, and in a row or a button, which have a press of their own, by the menu key or
// the second button of the mouse. In a table the arrow keys go from a row to its numbers, and Enter
// opens one: a cell has attributes and no button of its own. The graph of operations has names and
// shapes, where a press selects. An element says of all numbers in it what they are about.
// `data-about` is a quantity, or why no decision moves those of which the unit does not say it;
// `data-fixed` is why no decision moves any of them.

import {QUANTITIES} from "../ground/lever_words.js";
import {numbersIn, quantityOf} from "../ground/numbers_in_text.js";
import {canMove, isReason} from "./moves.js";

const NOT_HERE =
  "pre, code, svg.canvas, canvas, .code, .moves, th, input, textarea, select, [data-names]";
const PRESSED = "button, a, summary, label, tr[tabindex], [role=button]";
const CELL = "td.number[data-about]"; // as a whole one number
const UNNAMED = "It is no amount of a quantity that decisions move.";
const HIGHLIGHT = "explorer-number";

/**
 * The attributes with which an element says it of its numbers.
 *
 * @returns {{[attribute: string]: string}}
 */
export const about = (moves) =>
  moves === "" ? {} : isReason(moves) ? {"data-fixed": moves} : {"data-about": moves};

// The same for an element that is there; what it said before is forgotten. hasUnits: a sentence is
// only about numbers of which the unit does not say it.
export function setAbout(node, moves, hasUnits = false) {
  for (const name of ["data-about", "data-fixed"]) node.removeAttribute(name);
  const said = hasUnits ? {"data-about": moves} : about(moves);
  for (const [name, value] of Object.entries(said)) node.setAttribute(name, value);
}

// {quantity, of} or {reason}; null where the text holds no such numbers.
function leverOf(host, unit) {
  if (host.closest(NOT_HERE)) return null;
  const said = host.closest("[data-fixed], [data-about]");
  if (said?.dataset.fixed) return {reason: said.dataset.fixed};
  const quantity = quantityOf(unit, said?.dataset.about ?? "");
  if (!Object.hasOwn(QUANTITIES, quantity)) return {reason: quantity || UNNAMED};
  const row = host.closest("tr");
  return {quantity, of: row?.dataset.of ?? row?.querySelector("td, th")?.textContent ?? ""};
}

export function pressNumbers(app, frame) {
  if (!canMove(app)) return;
  frame.classList.add("has-levers");
  // A number in a column of numbers is pressed in a row that is pressed as well.
  const isPressed = (host) =>
    !host.closest(PRESSED) || Boolean(host.closest("td.number, [data-number]"));
  const open = (event, found) => {
    const lever = leverOf(found.host, found.unit);
    if (!lever) return;
    event.preventDefault();
    event.stopPropagation();
    if (lever.reason) app.openReason(lever.reason, found.range.toString());
    else app.openLevers(lever.quantity, lever.of);
  };
  frame.addEventListener(
    "click",
    (event) => {
      const found = numberAt(event);
      const isSelecting = !(window.getSelection()?.isCollapsed ?? true);
      if (found && isPressed(found.host) && !isSelecting) open(event, found);
    },
    true,
  );
  frame.addEventListener("contextmenu", (event) => {
    const isByKey = event.pointerType !== "mouse" && event.button !== 2;
    const found = numberAt(event) ?? (isByKey ? firstNumber(event.target) : null);
    if (found) open(event, found);
  });
  frame.addEventListener(
    "keydown",
    (event) => {
      const host = event.composedPath()[0];
      if (!(host instanceof Element) || !host.matches(`${CELL}, tr[tabindex]`)) return;
      if (event.key === "Enter" && host.matches(CELL)) open(event, firstNumber(host));
      else if (ARROWS.includes(event.key)) goTo(event, host);
    },
    true,
  );
  frame.addEventListener("mousemove", (event) => {
    const found = event.buttons ? null : numberAt(event);
    frame.classList.toggle("on-number", found !== null && isPressed(found.host));
    if (typeof Highlight !== "function") return;
    if (found) CSS.highlights.set(HIGHLIGHT, new Highlight(found.range));
    else CSS.highlights.delete(HIGHLIGHT);
  });
}

const ARROWS = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"];

// From a row or one of its numbers to the next number or row.
function goTo(event, host) {
  const row = host.closest("tr");
  const stops = [...(row.tabIndex < 0 ? [] : [row]), ...row.querySelectorAll(CELL)];
  const by = {ArrowLeft: -1, ArrowRight: 1}[event.key];
  const other = event.key === "ArrowUp" ? row.previousElementSibling : row.nextElementSibling;
  const across = host === row ? other : other?.cells[host.cellIndex];
  const next = by ? stops[stops.indexOf(host) + by] : across;
  if (!next?.matches(`${CELL}, tr[tabindex]`)) return;
  event.preventDefault();
  event.stopPropagation();
  if (!next.hasAttribute("tabindex")) next.tabIndex = -1;
  const {quantity} = (next !== row && next.matches(CELL) && leverOf(next, "")) || {};
  if (quantity) next.setAttribute("aria-description", `what moves this: ${QUANTITIES[quantity]}`);
  next.focus();
}

// {host, range, unit} of the number under the pointer; null where there is none.
function numberAt(event) {
  const host = event.composedPath()[0];
  if (!(host instanceof Element) || host.closest(NOT_HERE)) return null;
  const {clientX: x, clientY: y} = event;
  const isUnder = ({range}) =>
    [...range.getClientRects()].some(
      ({left, right, top, bottom}) => left <= x && x <= right && top <= y && y <= bottom,
    );
  return numbersOf(host).find(isUnder) ?? null;
}

// Of those in the text of the element itself.
function numbersOf(host) {
  return [...host.childNodes]
    .filter((node) => node.nodeType === Node.TEXT_NODE)
    .flatMap((node) =>
      amountsIn(host, node.textContent).map(({start, end, unit}) => {
        const range = document.createRange();
        range.setStart(node, start);
        range.setEnd(node, end);
        return {host, range, unit};
      }),
    );
}

function amountsIn(host, text) {
  const amounts = numbersIn(text);
  if (!host.closest(CELL) || text.trim() === "") return amounts;
  return [{start: 0, end: text.length, unit: amounts[0]?.unit ?? ""}];
}

function firstNumber(element) {
  for (const host of [element, ...element.querySelectorAll("*")]) {
    const [first] = host.closest(NOT_HERE) ? [] : numbersOf(host);
    if (first) return first;
  }
  return null;
}
