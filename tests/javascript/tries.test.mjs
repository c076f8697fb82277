// The table of tries: what dominates what, filters, order, predictions, its text in links and files.

import assert from "node:assert/strict";
import {test} from "node:test";

import {
  COLUMNS,
  csvText,
  dominated,
  filled,
  lookOf,
  lookText,
  matching,
  predictedWords,
  sorted,
  timesOf,
} from "../../build/js/ground/tries.js";

function branch(key, peak, milliseconds, more = {}) {
  return {
    key,
    label: `try ${key}`,
    decided: "",
    differs: "",
    parent: "1",
    note: "",
    peak,
    milliseconds,
    numbers: {weights: null, counted: null, againstFloat: null, task: null},
    ...more,
  };
}
const TRIES = [
  branch("1", 100, 4),
  branch("2", 80, 4),
  branch("3", 60, 9),
  branch("4", 60, 9),
  branch("5", 200, null),
  branch("6", 90, "NaN"),
];

test("a try is dominated where another one is better and no worse", () => {
  // Equal ones do not dominate one another; without a number nothing is said.
  assert.deepEqual(dominated(TRIES, "peak", "latency"), new Set(["1"]));
  assert.deepEqual(dominated(TRIES, "peak", "peak"), new Set(["1", "2", "5", "6"]));
  assert.deepEqual(dominated([], "peak", "latency"), new Set());
  assert.deepEqual(dominated([TRIES[0]], "peak", "latency"), new Set());
});

test("more decibels and right answers are better", () => {
  const at = (key, dB, right) =>
    branch(key, 10, 1, {numbers: {againstFloat: ["y", dB, 0.1], task: [right, 64, 64]}});
  const tries = [at("a", 44, 63), at("b", "Infinity", 64), at("c", 1, 10)];
  assert.deepEqual(dominated(tries, "dB", "peak"), new Set(["a", "c"]));
  assert.deepEqual(dominated(tries, "right", "peak"), new Set(["a", "c"]));
});

test("columns without any number are left out at first", () => {
  assert.deepEqual(filled(TRIES), ["latency", "peak"]);
  assert.deepEqual(filled([branch("n", 0, null)]), ["peak"]);
  const npu = branch("n", null, null, {numbers: {counted: [11, 0, null]}});
  assert.deepEqual(filled([npu]), ["cycles", "traffic"]);
});

test("the order is that of a column, those without a number last", () => {
  const keys = (sort) =>
    sorted(TRIES, sort)
      .map(({key}) => key)
      .join("");
  assert.equal(keys("peak"), "342615");
  assert.equal(keys("-peak"), "516234");
  assert.equal(keys("-latency").slice(0, 4), "3412");
  assert.equal(keys("latency").slice(4), "56");
  assert.equal(keys("nothing"), "123456");
});

test("a filter asks for all its words, wherever they stand", () => {
  const one = branch("7", 1, 1, {differs: "conv_1 pixels = 7", note: "the Best"});
  assert.deepEqual(matching([one, TRIES[0]], "pixels best"), [one]);
  assert.deepEqual(matching([one], "pixels worst"), []);
  assert.equal(matching(TRIES, "  ").length, TRIES.length);
});

test("what was predicted is next to what came of it", () => {
  const prediction = {quantity: "peak_bytes", change: -2048};
  const [parent, child] = [branch("1", 8192, 1), branch("2", 7168, 1)];
  assert.equal(predictedWords(child, parent, prediction), "predicted 2 KiB less: 1 KiB less");
  assert.equal(
    predictedWords(child, parent, {...prediction, change: null}),
    "not predicted: 1 KiB less",
  );
  const late = branch("3", null, null);
  assert.match(predictedWords(late, parent, prediction), /not measured yet$/);
  assert.equal(predictedWords(parent, parent, prediction), "predicted 2 KiB less: no change");
  assert.equal(predictedWords(child, undefined, prediction), "");
  assert.equal(predictedWords(child, parent, undefined), "");
});

test("the last measurement in turns with its parent counts", () => {
  const side = (median) => ({latency: {median, isDifferent: false}});
  const done = (branches, medians) => ({
    branches,
    status: "done",
    result: {sides: medians.map(side)},
  });
  const turns = [
    done(["1", "2"], [10, 20]),
    done(["1", "2"], [11, 21]),
    done(["9", "2"], [5, 22]),
    {branches: ["1", "2"], status: "running", result: null},
  ];
  assert.equal(timesOf(turns, branch("2", 1, 1)).times.median, 21);
  assert.equal(timesOf(turns, branch("1", 1, 1, {parent: ""})).isBase, true);
  assert.equal(timesOf(turns, branch("7", 1, 1)), null);
});

test("the look of the table is the same after a link", () => {
  const looks = [
    {columns: null, x: "peak", y: "latency", sort: "", filter: ""},
    {columns: ["peak"], x: "dB", y: "cycles", sort: "-peak", filter: "a*b = 7 & c"},
    {columns: COLUMNS.map(({id}) => id), x: "weights", y: "right", sort: "dB", filter: " x"},
  ];
  for (const look of looks) assert.deepEqual(lookOf(lookText(look)), look);
  assert.equal(lookText(looks[0]), "");
  assert.deepEqual(lookOf("evil.peak*<b>*moon*-moon*f"), {
    columns: ["peak"],
    x: "peak",
    y: "latency",
    sort: "",
    filter: "f",
  });
});

test("a file has numbers in full, and names are no formulas", () => {
  const odd = branch("2", 80, 4, {label: '=HYPERLINK("x")', note: "a,b\nc", differs: "-1"});
  const text = csvText([TRIES[0], odd], new Map([["2", "predicted 1 B less: no change"]]));
  const [head, first, second] = text.split("\n");
  assert.ok(head.startsWith("branch,differs from its parent in,latency,peak,"));
  assert.ok(first.startsWith("try 1,,0.004,100,"));
  assert.ok(second.startsWith(`"'=HYPERLINK(""x"")",-1,0.004,80,`));
  assert.ok(text.includes('"a,b\nc"'));
});
