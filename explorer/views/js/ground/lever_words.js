// Levers in words: what a decision would change, and which settings try it. Nothing is drawn here.
//
// levers = {quantity, unit, rises, value, levers: [{address, group, of, title, value, options:
//           [{value, decisions: [[address, value]], change, also}], source, why, commands}], fixed}

import {bytesText, decode, exactText, picojoulesText, secondsText} from "./numbers.js";

export const QUANTITIES = {
  peak_bytes: "peak memory",
  seconds: "latency",
  weights_bytes: "weights",
  code_bytes: "code size",
  sqnr_db: "decibels against the source",
  cycles: "cycles",
  traffic_bytes: "traffic",
  energy_picojoules: "energy",
  macs: "multiply-accumulates",
  compile_seconds: "the time to compile",
};
// Why no decision moves a number.
export const FIXED = {
  model: "The file of the model has it. The line “edit of the model” in the tab “fork” changes it.",
  passes: "It follows from what passes did. The tab “fork” switches passes and rules off.",
  decisions: "It belongs to the list of decisions, which are changed here.",
  files: "It compares two files as they are. Levers belong to each of them: open one for itself.",
  rows: "It is the number of things that are listed.",
  progress: "It says how far the work in the background is.",
  data: "The data on which the model is judged have it. Attach other data to change it.",
};
const MAX_OTHER_LEVERS = 40;

// An amount of a quantity with its unit.
export function amountOf(quantity, value) {
  if (quantity === "seconds" || quantity === "compile_seconds") return secondsText(value);
  if (quantity === "sqnr_db")
    return Number.isFinite(value) ? `${Number(value.toFixed(1))} dB` : "equal";
  if (quantity === "cycles") return `${exactText(Math.round(value))} cycles`;
  if (quantity === "energy_picojoules") return picojoulesText(value);
  if (quantity === "macs") return `${exactText(Math.round(value))} MACs`;
  return bytesText(value);
}

// {text, isBetter: true | false | null} of an option.
export function changeOf({quantity, rises}, {change, also}) {
  const rest = also ? `, ${also}` : "";
  if (change === null) return {text: `not predicted${rest}`, isBetter: null};
  const value = decode(change);
  if (value === 0) return {text: `no change${rest}`, isBetter: null};
  const text = `${amountOf(quantity, Math.abs(value))} ${value > 0 ? "more" : "less"}${rest}`;
  return {text, isBetter: value > 0 === rises};
}

// A value of a decision as a person reads it.
export function valueText(value) {
  if (value === null || value === undefined || value === "") return "none";
  if (value === true) return "on";
  if (value === false) return "off";
  if (Array.isArray(value)) return value.length ? value.join(", ") : "none";
  return typeof value === "number" ? exactText(value) : String(value);
}

// The settings that try an option. A target is a setting of its own.
export function triedSettings(settings, decisions) {
  const tried = structuredClone(settings);
  for (const [address, value] of decisions) {
    if (address === "target") tried.target = value;
    else if (address === "quantize") tried.quantize = value;
    else if (value === null || value === undefined) delete tried.decisions[address];
    else tried.decisions[address] = value;
  }
  return tried;
}

// Levers of one kernel, value or pass first, where a number is about one; then by group, in the
// order of their first lever.
export function grouped(levers, of = "") {
  const own = of ? levers.filter((lever) => lever.of === of) : [];
  const others = levers.filter((lever) => !own.includes(lever)).slice(0, MAX_OTHER_LEVERS);
  /** @type {Map<string, any[]>} */
  const groups = new Map(own.length ? [[`of ${of}`, own]] : []);
  for (const lever of others) groups.set(lever.group, [...(groups.get(lever.group) ?? []), lever]);
  return [...groups];
}
