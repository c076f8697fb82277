// The table of tries, as data: its columns, what dominates what, filters, predictions next to what
// was measured, and its text in a link and in a file. Nothing is drawn here.
//
// A try is a branch of session.js: {key, label, decided, differs, parent, note, peak, milliseconds,
// numbers: {weights, counted: [cycles, traffic, picojoules], againstFloat: [output, dB, relative],
//           task: [right, source, total], bitExact, data: {words}}}

import {amountOf} from "./lever_words.js";
import {
  bytesText,
  decode,
  decibelsText,
  errorText,
  exactText,
  picojoulesText,
  secondsText,
} from "./numbers.js";

const known = (value) => (value === null || value === undefined ? null : decode(value));
const counted = (index) => (branch) => known(branch.numbers?.counted?.[index]);

// {id, title, value(branch), text(value), rises, quantity}; quantity: of which there are levers.
export const COLUMNS = [
  {
    id: "latency",
    title: "latency",
    value: ({milliseconds}) => (known(milliseconds) === null ? null : decode(milliseconds) / 1e3),
    text: secondsText,
    quantity: "seconds",
  },
  {
    id: "peak",
    title: "peak",
    value: ({peak}) => known(peak),
    text: bytesText,
    quantity: "peak_bytes",
  },
  {
    id: "weights",
    title: "weights",
    value: ({numbers}) => known(numbers?.weights),
    text: bytesText,
    quantity: "weights_bytes",
  },
  {
    id: "dB",
    title: "SQNR",
    value: ({numbers}) => known(numbers?.againstFloat?.[1]),
    text: decibelsText,
    rises: true,
    quantity: "sqnr_db",
  },
  {
    id: "relative",
    title: "largest error",
    value: ({numbers}) => known(numbers?.againstFloat?.[2]),
    text: errorText,
    quantity: "sqnr_db",
  },
  {
    id: "right",
    title: "right answers",
    value: ({numbers}) => known(numbers?.task?.[0]),
    text: exactText,
    rises: true,
    quantity: "sqnr_db",
  },
  {id: "cycles", title: "cycles", value: counted(0), text: exactText, quantity: "cycles"},
  {id: "traffic", title: "traffic", value: counted(1), text: bytesText, quantity: "traffic_bytes"},
  {
    id: "energy",
    title: "energy",
    value: counted(2),
    text: picojoulesText,
    quantity: "energy_picojoules",
  },
  {
    id: "compile",
    title: "compiled in",
    value: ({numbers}) => known(numbers?.seconds),
    text: secondsText,
    quantity: "compile_seconds",
  },
];
/** @type {Map<string, any>} */
const COLUMN = new Map(COLUMNS.map((column) => [column.id, column]));
export const columnOf = (id) => COLUMN.get(id);
const FIRST = {x: "peak", y: "latency"};

// Keys of the tries that another one is better than in one of two columns, and no worse than in the
// other. Tries that lack a number dominate nothing and are not dominated.
export function dominated(branches, x, y) {
  const points = branches
    .map((branch) => ({key: branch.key, at: [x, y].map((id) => cost(branch, id))}))
    .filter(({at}) => at.every((value) => value !== null));
  const isBetter = (a, b) =>
    a.every((value, index) => value <= b[index]) && a.some((value, index) => value < b[index]);
  return new Set(
    points.filter(({at}) => points.some((other) => isBetter(other.at, at))).map(({key}) => key),
  );
}

// Less is better.
function cost(branch, id) {
  const {value, rises} = COLUMN.get(id);
  const found = value(branch);
  return found === null || Number.isNaN(found) ? null : rises ? -found : found;
}

// Columns of which a try has a number.
export const filled = (branches) =>
  COLUMNS.filter(({value}) => branches.some((branch) => value(branch) !== null)).map(({id}) => id);

export function matching(branches, text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const said = ({label, decided, differs, note}) =>
    [label, decided, differs, note].join(" ").toLowerCase();
  return branches.filter((branch) => words.every((word) => said(branch).includes(word)));
}

// sort: a column's id, with a "-" before it for the largest first; "" for the order of making.
export function sorted(branches, sort) {
  const column = COLUMN.get(sort.replace(/^-/, ""));
  if (!column) return branches;
  const sign = sort.startsWith("-") ? -1 : 1;
  const rank = (branch) => column.value(branch) ?? NaN;
  return [...branches].sort((a, b) => {
    const [left, right] = [rank(a), rank(b)];
    if (Number.isNaN(left) || Number.isNaN(right))
      return Number(Number.isNaN(left)) - Number(Number.isNaN(right));
    return sign * (left - right);
  });
}

// The last measurement in turns in which a try and its parent took part: {times, isBase}.
export function timesOf(turns, {key, parent}) {
  const done = turns.filter(
    ({status, result, branches}) => result && status === "done" && branches.includes(key),
  );
  const own = done.filter(({branches}) => branches[0] === key || branches[0] === parent).at(-1);
  const found = own ?? done.at(-1);
  if (!found) return null;
  const index = found.branches.indexOf(key);
  return {times: found.result.sides[index].latency, base: found.branches[0], isBase: index === 0};
}

// What was predicted of a try, and what came of it: "predicted 2 KiB less: 1.9 KiB less".
export function predictedWords(branch, parent, prediction) {
  if (!prediction || !parent) return "";
  const {quantity, change} = prediction;
  const column = COLUMNS.find((one) => one.quantity === quantity);
  const [before, after] = [parent, branch].map((one) => column?.value(one) ?? null);
  const told =
    change === null ? "not predicted" : `predicted ${changeText(quantity, decode(change))}`;
  if (before === null || after === null) return `${told}: not measured yet`;
  return `${told}: ${changeText(quantity, after - before)}`;
}

function changeText(quantity, change) {
  if (!change || Number.isNaN(change)) return "no change";
  return `${amountOf(quantity, Math.abs(change))} ${change > 0 ? "more" : "less"}`;
}

// The table for a file, names of columns first: every column, numbers in full; null is no number.
export function tableOf(branches, predictions = new Map()) {
  const head = ["branch", "differs from its parent in", ...COLUMNS.map(({id}) => id)];
  const rest = ["labels", "bit-exact", "judged on", "predicted", "note"];
  const rows = branches.map((branch) => [
    branch.label,
    branch.differs,
    ...COLUMNS.map(({value}) => value(branch)),
    branch.numbers?.task?.[2] ?? null,
    branch.numbers?.bitExact ?? null,
    branch.numbers?.data?.words ?? "",
    predictions.get(branch.key) ?? "",
    branch.note,
  ]);
  return [[...head, ...rest], ...rows];
}

export function csvText(branches, predictions = new Map()) {
  const lines = tableOf(branches, predictions).map((row) => row.map((cell) => field(cell ?? "")));
  return lines.map((line) => line.join(",") + "\n").join("");
}

function field(value) {
  const text = String(value);
  // A spreadsheet must not take a name for a formula.
  const safe = /^[=+@-]/.test(text) && Number.isNaN(Number(text)) ? `\u0027${text}` : text;
  return /[",\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

// How the table is looked at, as text in a link: "latency.peak*peak*latency*-peak*winograd".
export function lookText({columns, x, y, sort, filter}) {
  const isFresh = !columns && x === FIRST.x && y === FIRST.y && !sort && !filter;
  return isFresh ? "" : [columns ? columns.join(".") : "", x, y, sort, filter].join("*");
}

// columns: null for those that have numbers. Unknown names are dropped.
export function lookOf(text) {
  const [columns = "", x = "", y = "", sort = "", ...filter] = text.split("*");
  const ids = columns.split(".").filter((id) => COLUMN.has(id));
  return {
    columns: ids.length ? ids : null,
    x: COLUMN.has(x) ? x : FIRST.x,
    y: COLUMN.has(y) ? y : FIRST.y,
    sort: COLUMN.has(sort.replace(/^-/, "")) ? sort : "",
    filter: filter.join("*").slice(0, 80),
  };
}
