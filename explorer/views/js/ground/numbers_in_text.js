// The numbers in a text, and the quantity that each is an amount of. Nothing is drawn here.

import {QUANTITIES} from "./lever_words.js";

const NUMBER = "(?<![\\w.:/[\\u2044-])[-−+]?\\d[\\d,]*(?:\\.\\d+)?(?:e[-+]?\\d+)?";
const UNITS = "%|×|dB|(?:[kMGT] )?MACs?|[pnµm]?J|ns|µs|ms|s|B|[KMG]iB|bytes?|cycles?";
const UNIT = `(?:\\s?(${UNITS}|k|M|GFLOP/s|GB/s))?`;
const AMOUNT = new RegExp(`${NUMBER}${UNIT}(?![\\w\\]:/]|[.]\\w)`, "g");
const QUANTITY_OF_UNIT = {
  dB: "sqnr_db",
  ns: "seconds",
  µs: "seconds",
  ms: "seconds",
  s: "seconds",
  cycle: "cycles",
  cycles: "cycles",
};
const MACS = /MACs?$/;
const ENERGY = /J$/;
const BYTES = /^([KMG]i)?B$|^bytes?$/;

// [{start, end, unit}] in the order of the text. Digits within names are no numbers.
export function numbersIn(text) {
  return [...text.matchAll(AMOUNT)].map((found) => ({
    start: found.index,
    end: found.index + found[0].length,
    unit: found[1] ?? "",
  }));
}

// The quantity of a number with this unit where numbers are about `about`, which is a quantity or
// why nothing moves numbers without a unit; "" where nobody knows.
export function quantityOf(unit, about) {
  if (MACS.test(unit)) return "macs";
  if (ENERGY.test(unit)) return "energy_picojoules";
  const known = Object.hasOwn(QUANTITY_OF_UNIT, unit) ? QUANTITY_OF_UNIT[unit] : "";
  // A target without a clock has times in cycles, and the time to compile is a time as well.
  if (known === "seconds" && about === "compile_seconds") return about;
  if (known || Object.hasOwn(QUANTITIES, about)) return known || about;
  return BYTES.test(unit) ? "peak_bytes" : about;
}
