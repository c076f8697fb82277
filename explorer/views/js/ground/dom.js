// Elements are made here and nowhere else. Text becomes a text node, never markup: names of
// models, operations and values come from files of others.

const SVG = "http://www.w3.org/2000/svg";

// element("button", {class: "chip", onclick: f, "aria-pressed": "true"}, "text", otherElement)
export function element(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function shape(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else
      node.setAttribute(
        name,
        value === true ? "" : SPOKEN.has(name) ? spoken(String(value)) : String(value),
      );
  }
  append(node, children);
  return node;
}

// Hover texts and what is read aloud: names of models may have 10,000 characters, and no hover text
// is as large as that. The whole name stands in the element itself, or one press away.
const SPOKEN = new Set(["title", "aria-label", "aria-valuetext"]);
const MAX_SPOKEN = 600;

function spoken(text) {
  const shown = text.replace(DIRECTION_MARKS, "\ufffd");
  return shown.length > MAX_SPOKEN ? `${shown.slice(0, MAX_SPOKEN - 1)}…` : shown;
}

// Marks that turn the direction of the text around them: a name must not reverse our own words.
export const DIRECTION_MARKS = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

export function append(node, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(
      child instanceof Node
        ? child
        : document.createTextNode(String(child).replace(DIRECTION_MARKS, "\ufffd")),
    );
  }
  return node;
}

export function replace(node, ...children) {
  node.replaceChildren();
  return append(node, children);
}

// What a pane shows where there is nothing: what is missing, and what to do about it.
export function emptyState(title, advice, ...actions) {
  return element(
    "div",
    {class: "empty"},
    element("strong", {}, title),
    element("p", {}, advice),
    actions.length ? element("div", {class: "actions"}, actions) : null,
  );
}

export function button(label, title, onclick, attributes = {}) {
  return element("button", {type: "button", title, onclick, ...attributes}, label);
}

// A row of tabs with one stop for the Tab key; arrows move between them (WAI-ARIA, tabs pattern).
// tabs: [{id, label, note, title}]
export function tabRow(tabs, selected, choose, label) {
  const row = element("div", {role: "tablist", "aria-label": label, class: "tabs"});
  const move = (event) => {
    const step = {ArrowRight: 1, ArrowLeft: -1}[event.key];
    if (!step) return;
    event.preventDefault();
    event.stopPropagation();
    const index = tabs.findIndex((tab) => tab.id === event.currentTarget.dataset.tab);
    const next = tabs[(index + step + tabs.length) % tabs.length];
    choose(next.id);
    const root = row.isConnected ? row : event.currentTarget.closest("[role=tablist]");
    root?.querySelector(`[data-tab="${next.id}"]`)?.focus();
  };
  for (const tab of tabs) {
    row.append(
      element(
        "button",
        {
          type: "button",
          role: "tab",
          class: "tab",
          "data-tab": tab.id,
          title: tab.title,
          "aria-selected": tab.id === selected ? "true" : "false",
          tabindex: tab.id === selected ? 0 : -1,
          onclick: () => choose(tab.id),
          onkeydown: move,
        },
        tab.label,
        tab.note ? element("span", {class: "note"}, tab.note) : null,
      ),
    );
  }
  return row;
}

export function markTab(row, selected) {
  for (const tab of row.children) {
    tab.setAttribute("aria-selected", tab.dataset.tab === selected ? "true" : "false");
    tab.tabIndex = tab.dataset.tab === selected ? 0 : -1;
  }
}

/**
 * A table whose columns sort. columns: [{title, value(row), text(row), exact(row), number, hint}];
 * about(row) and attributesOf: attributes of a cell and of a row, for desk/pressed_numbers.js;
 * sortBy: the index of the column that it is sorted by at first; cap: the most rows.
 *
 * @param {any[]} columns
 * @param {any[]} rows
 * @param {{
 *   label: string,
 *   onrow?: (row: any) => void,
 *   isMarked?: (row: any) => boolean,
 *   attributesOf?: (row: any) => {[attribute: string]: string},
 *   sortBy?: number | null,
 *   cap?: number,
 *   ondrawn?: (lines: [Element, any][]) => void,
 * }} options
 */
export function sortableTable(
  columns,
  rows,
  {label, onrow, isMarked, attributesOf, sortBy = null, cap = 400, ondrawn},
) {
  /** @type {{column: number, down: boolean} | null} */
  let order = sortBy === null ? null : {column: sortBy, down: true};
  const host = element("div", {class: "table-host"});
  const draw = () => {
    const sorted = [...rows];
    if (order) {
      const {value} = columns[order.column];
      const sign = order.down ? -1 : 1;
      sorted.sort((a, b) => compareValues(value(a), value(b)) * sign);
    }
    const head = element(
      "tr",
      {},
      columns.map((column, index) =>
        element(
          "th",
          {
            scope: "col",
            class: column.number ? "number" : "",
            "aria-sort":
              order?.column === index ? (order.down ? "descending" : "ascending") : "none",
          },
          element(
            "button",
            {
              type: "button",
              title: column.hint || `sort by ${column.title}`,
              onclick: () => {
                order = {
                  column: index,
                  down: order?.column === index ? !order.down : column.number,
                };
                draw();
                host.querySelectorAll("th button")[index].focus();
              },
            },
            column.title,
            order?.column === index ? (order.down ? " ▾" : " ▴") : "",
          ),
        ),
      ),
    );
    const body = sorted.slice(0, cap).map((row) =>
      element(
        "tr",
        {
          class: isMarked?.(row) ? "marked" : "",
          ...attributesOf?.(row),
          tabindex: onrow ? 0 : null,
          onclick: onrow ? () => onrow(row) : null,
          onkeydown: onrow
            ? (event) => {
                if (event.key === "Enter") onrow(row);
              }
            : null,
        },
        columns.map((column) =>
          element(
            "td",
            {
              class: column.number ? "number" : "",
              title: column.exact?.(row),
              ...column.about?.(row),
            },
            column.text(row),
          ),
        ),
      ),
    );
    replace(
      host,
      element(
        "table",
        {"aria-label": label},
        element("thead", {}, head),
        element("tbody", {}, body),
      ),
      sorted.length > cap
        ? element(
            "p",
            {class: "cap"},
            `${sorted.length - cap} more rows are not shown; sort by another column to see them`,
          )
        : null,
    );
    // Without rows that are pressed the keys reach the numbers by the first one.
    if (!onrow) host.querySelector("td.number[data-about]")?.setAttribute("tabindex", "0");
    ondrawn?.(body.map((line, index) => [line, sorted[index]]));
  };
  draw();
  return host;
}

function compareValues(a, b) {
  if (typeof a === "number" && typeof b === "number") {
    if (Number.isNaN(a)) return Number.isNaN(b) ? 0 : 1;
    return Number.isNaN(b) ? -1 : a - b;
  }
  return String(a).localeCompare(String(b), undefined, {numeric: true});
}

export function section(title, ...children) {
  return element("section", {class: "facts-section"}, element("h3", {}, title), children);
}
