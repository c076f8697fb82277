// The arguments of a step of a schedule, as fields: names and numbers as one writes them, no JSON.
//
//     {"step": "split", "loop": "j", "into": "jt jp", "factors": [14]}
//     loop [j]   into [jt jp]   factors [14]

import {element} from "../ground/dom.js";

const KINDS = {
  name: "a name, or several with blanks between them",
  number: "a whole number",
  numbers: "whole numbers with blanks between them",
  layout: "lists of [dimension, divisor, modulus], as JSON",
};

// What kind a value is, for steps that nobody describes.
function kindOf(value) {
  if (typeof value === "string") return "name";
  if (typeof value === "number") return "number";
  const isNumbers = Array.isArray(value) && value.every((item) => typeof item === "number");
  return isNumbers ? "numbers" : "layout";
}

function textOf(value, kind) {
  if (value === undefined) return "";
  if (kind === "numbers" && Array.isArray(value)) return value.join(" ");
  return kind === "layout" ? JSON.stringify(value) : String(value);
}

// [{name, kind, isNeeded, text}] of a step: what it is given, and what else it may be given.
export function fieldsOf({step, ...given}, known) {
  const taken = known?.[step]?.[2] ?? [];
  const names = [...new Set([...taken.map(([name]) => name), ...Object.keys(given)])];
  return names.map((name) => {
    const [, kind = kindOf(given[name]), isNeeded = false] =
      taken.find(([other]) => other === name) ?? [];
    return {name, kind, isNeeded, text: textOf(given[name], kind)};
  });
}

// The step again, or {problem} in words; what is left empty is not given.
export function stepOf(step, fields) {
  const value = {step};
  for (const {name, kind, isNeeded, text} of fields) {
    const written = text.trim();
    if (!written && kind !== "name") {
      if (isNeeded) return {problem: `${name} is missing: ${KINDS[kind]}`, name};
      continue;
    }
    if (!written && !isNeeded) continue;
    const read = valueOf(written, kind);
    if (read === undefined) return {problem: `${name} is ${KINDS[kind]}`, name};
    value[name] = read;
  }
  return {value};
}

function valueOf(text, kind) {
  if (kind === "name") return /^\w*( \w+)*$/.test(text) ? text : undefined;
  if (kind === "number") return /^-?\d+$/.test(text) ? Number(text) : undefined;
  if (kind === "numbers") {
    const parts = text.split(/[\s,]+/).filter(Boolean);
    return parts.every((part) => /^\d+$/.test(part)) ? parts.map(Number) : undefined;
  }
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

// Labelled fields; `number`: of the step, from 1.
export function argumentFields(step, fields, number, {onchange, onenter}) {
  return element(
    "div",
    {class: "step-arguments"},
    fields.map((field) =>
      element(
        "label",
        {
          title:
            `${field.name} of ${step}: ${KINDS[field.kind]}` +
            (field.isNeeded ? "" : "; may be left empty"),
        },
        element("span", {class: "quiet-text"}, field.name),
        element("input", {
          type: "text",
          class: "mono",
          value: field.text,
          spellcheck: "false",
          placeholder: field.isNeeded ? "" : "as it is",
          size: Math.max(4, Math.min(28, field.text.length + 1)),
          "data-argument": field.name,
          "aria-label": `${field.name} of step ${number}, ${step}`,
          oninput: (event) => {
            field.text = event.target.value;
            onchange();
          },
          onkeydown: (event) => {
            if (event.key === "Enter") onenter();
          },
        }),
      ),
    ),
  );
}
