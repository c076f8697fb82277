// Another content in the same place, while results arrive, without losing the person's place: a
// press that has begun is waited for, and what was scrolled, opened, typed or focused is so again.

import {replace} from "./dom.js";

// steady(host)(node, {isFresh, after}): shows the node in the host, then calls `after`; a fresh one
// has nothing to do with what was there before
export function steady(host) {
  let isPressed = false;
  let waiting = null;
  const release = () => {
    if (!isPressed) return;
    isPressed = false;
    // After the click that this press becomes.
    setTimeout(() => {
      const show = waiting;
      waiting = null;
      show?.();
    });
  };
  host.addEventListener(
    "pointerdown",
    () => {
      isPressed = true;
    },
    {capture: true},
  );
  for (const name of ["pointerup", "pointercancel", "blur"])
    window.addEventListener(name, release, {capture: true});
  return (node, {isFresh = false, after = () => {}} = {}) => {
    const show = () => {
      const restore = isFresh ? () => {} : placeIn(host);
      replace(host, node);
      restore();
      after();
    };
    waiting = null;
    if (isPressed && !isFresh) waiting = show;
    else show();
  };
}

// What restores the order of tables, scroll positions, open details, the focus and what was typed.
function placeIn(host) {
  const scrolled = [...host.querySelectorAll("*")]
    .filter((node) => node.scrollTop || node.scrollLeft)
    .map((node) => [keyOf(host, node), node.scrollTop, node.scrollLeft]);
  const opened = [...host.querySelectorAll("details[open]")].map((node) => keyOf(host, node));
  const sorted = [...host.querySelectorAll("table")]
    .map((table, index) => [
      index,
      [...table.querySelectorAll("th")].findIndex((head) =>
        /ending/.test(head.getAttribute("aria-sort")),
      ),
    ])
    .filter(([, column]) => column >= 0)
    .map(([index, column]) => [
      index,
      column,
      host
        .querySelectorAll("table")
        [index].querySelectorAll("th")
        [column].getAttribute("aria-sort"),
    ]);
  const active = host.getRootNode().activeElement;
  const focused =
    active && host.contains(active) && active !== host
      ? {
          key: keyOf(host, active),
          value: isTyped(active) ? active.value : null,
          start: isTyped(active) && active.type === "text" ? active.selectionStart : null,
        }
      : null;
  return () => {
    for (const [table, column, order] of sorted) sortAgain(host, table, column, order);
    for (const key of opened) find(host, key)?.setAttribute("open", "");
    for (const [key, top, left] of scrolled) {
      const node = find(host, key);
      if (node) [node.scrollTop, node.scrollLeft] = [top, left];
    }
    const target = focused && find(host, focused.key);
    if (!target) return;
    target.focus({preventScroll: true});
    if (focused.value !== null && isTyped(target)) target.value = focused.value;
    if (focused.start !== null && target.type === "text")
      target.setSelectionRange(focused.start, focused.start);
  };
}

// Tables draw themselves anew when a column's head is pressed, at most once for each direction.
function sortAgain(host, table, column, order) {
  const head = () => host.querySelectorAll("table")[table]?.querySelectorAll("th")[column];
  for (let press = 0; press < 2 && head() && head().getAttribute("aria-sort") !== order; press += 1)
    head().querySelector("button")?.click();
}

const isTyped = (node) =>
  node.tagName === "INPUT" && ["text", "number", "search"].includes(node.type);

// An element's own words, or its class, and the how-manieth of that kind it is.
function keyOf(host, node) {
  const label = node.getAttribute("aria-label") || node.dataset?.tab || node.dataset?.key;
  const selector = label
    ? null
    : `${node.tagName.toLowerCase()}${[...node.classList]
        .filter((name) => !/^(hovered|marked|selected)$/.test(name))
        .map((name) => `.${CSS.escape(name)}`)
        .join("")}`;
  const same = [...host.querySelectorAll(selector ?? node.tagName)].filter(
    (other) =>
      selector ||
      (other.getAttribute("aria-label") || other.dataset?.tab || other.dataset?.key) === label,
  );
  return {tag: node.tagName, label, selector, index: same.indexOf(node)};
}

function find(host, {tag, label, selector, index}) {
  const same = [...host.querySelectorAll(selector ?? tag)].filter(
    (other) =>
      selector ||
      (other.getAttribute("aria-label") || other.dataset?.tab || other.dataset?.key) === label,
  );
  return same[index];
}
