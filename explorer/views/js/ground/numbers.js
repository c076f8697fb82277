// Numbers as a person reads them: 1.1 MiB, 2.9 ms, 1.2e-6. The same forms as numbers.py.

export const MINUS = "−";

// JSON has no NaN and no infinities; the payload says them in words.
export function decode(value) {
  return typeof value === "string" ? Number(value) : value;
}

function short(value) {
  const magnitude = Math.abs(value);
  if (magnitude >= 100 || Number.isInteger(value)) return Math.round(value).toLocaleString("en-US");
  if (magnitude < 1) return String(Number(value.toPrecision(2)));
  return value.toFixed(magnitude < 100 ? 1 : 0).replace(/\.0$/, "");
}

/** @type {[number, string][]} */
const SECONDS = [
  [1, "s"],
  [1e-3, "ms"],
  [1e-6, "µs"],
];
/** @type {[number, string][]} */
const PICOJOULES = [
  [1e9, "mJ"],
  [1e6, "µJ"],
  [1e3, "nJ"],
];
/** @type {[number, string][]} */
const AMOUNTS = [
  [1e12, "T"],
  [1e9, "G"],
  [1e6, "M"],
  [1e3, "k"],
];

export function notFinite(value) {
  return Number.isNaN(value) ? "not a number" : value > 0 ? "∞" : `${MINUS}∞`;
}

export function bytesText(size) {
  if (!Number.isFinite(size)) return notFinite(size);
  let unit = 0;
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  while (size >= 1023.5 && unit < units.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${short(size)} ${units[unit]}`;
}

export function secondsText(seconds) {
  if (!Number.isFinite(seconds)) return notFinite(seconds);
  if (seconds === 0) return "0 s";
  for (const [scale, unit] of SECONDS) {
    if (seconds >= 0.9995 * scale) return `${short(seconds / scale)} ${unit}`;
  }
  return `${short(seconds / 1e-9)} ns`;
}

export function picojoulesText(picojoules) {
  if (!Number.isFinite(picojoules)) return notFinite(picojoules);
  for (const [scale, unit] of PICOJOULES) {
    if (picojoules >= 0.9995 * scale) return `${short(picojoules / scale)} ${unit}`;
  }
  return `${short(picojoules)} pJ`;
}

export function amountText(amount) {
  if (!Number.isFinite(amount)) return notFinite(amount);
  for (const [scale, unit] of AMOUNTS) {
    if (amount >= 0.9995 * scale) return `${short(amount / scale)} ${unit}`;
  }
  return short(amount);
}

export function exactText(value) {
  return value.toLocaleString("en-US");
}

export function errorText(error) {
  if (error === null || error === undefined) return "–";
  if (!Number.isFinite(error)) return notFinite(error);
  if (error === 0) return "0";
  if (Math.abs(error) >= 0.001 && Math.abs(error) < 1000)
    return String(Number(error.toPrecision(2)));
  const [mantissa, exponent] = error.toExponential(1).split("e");
  return `${mantissa}e${Number(exponent)}`;
}

// The number that a verdict rests on beside the most that is allowed, in one unit:
// "1.4e-6 of 1.0e-4 allowed". {worst, allowed, isExact} as a head has them.
export function judgedText({worst, allowed, isExact}) {
  if (worst === null || worst === undefined) return "–";
  const words = `${errorText(decode(worst))} of ${errorText(decode(allowed))} allowed`;
  return isExact ? `${words}, from float64` : words;
}

export function countText(count, noun, plural) {
  return `${exactText(count)} ${count === 1 ? noun : plural || `${noun}s`}`;
}

export function changeText(before, after) {
  const change = after - before;
  if (change === 0) return "=";
  return change > 0 ? `+${exactText(change)}` : MINUS + exactText(-change);
}

export function decibelsText(decibels) {
  if (decibels === Infinity) return "equal";
  return Number.isFinite(decibels) ? `${Math.round(decibels)} dB` : notFinite(decibels);
}

export function percentText(fraction) {
  return Number.isFinite(fraction)
    ? `${short(Number((100 * fraction).toPrecision(2)))} %`
    : notFinite(fraction);
}

// How much smaller or larger: 3% less, 40% more, from twice on 2.1× less; ≈, =.
export function ratioText(before, after) {
  if (before === after) return "=";
  if (!(before > 0) || !(after > 0)) return "–";
  const word = after < before ? "less" : "more";
  const factor = Math.max(before, after) / Math.min(before, after);
  if (factor >= 2) return `${factor < 10 ? Number(factor.toPrecision(2)) : short(factor)}× ${word}`;
  const percent = Math.round((100 * Math.abs(after - before)) / before);
  return percent ? `${percent}% ${word}` : "≈";
}
