// Levers in words, what tries one, and what was predicted of a try.

import assert from "node:assert/strict";
import {test} from "node:test";

import {createPredictions} from "../../build/js/desk/predictions.js";
import {
  amountOf,
  changeOf,
  grouped,
  triedSettings,
  valueText,
} from "../../build/js/ground/lever_words.js";

const PEAK = {quantity: "peak_bytes", rises: false};
const DB = {quantity: "sqnr_db", rises: true};

test("a change is better or worse by the quantity", () => {
  assert.deepEqual(changeOf(PEAK, {change: -2048, also: "1 µs more"}), {
    text: "2 KiB less, 1 µs more",
    isBetter: true,
  });
  assert.deepEqual(changeOf(PEAK, {change: 2048, also: ""}), {text: "2 KiB more", isBetter: false});
  assert.deepEqual(changeOf(DB, {change: 3.04, also: ""}), {text: "3 dB more", isBetter: true});
  assert.deepEqual(changeOf(DB, {change: "Infinity", also: ""}).isBetter, true);
  assert.deepEqual(changeOf(DB, {change: null, also: ""}), {text: "not predicted", isBetter: null});
  assert.deepEqual(changeOf(PEAK, {change: 0, also: ""}), {text: "no change", isBetter: null});
});

test("amounts have their units", () => {
  assert.equal(amountOf("seconds", 2.5e-6), "2.5 µs");
  assert.equal(amountOf("sqnr_db", Infinity), "equal");
  assert.equal(amountOf("cycles", 11076.2), "11,076 cycles");
});

test("values are words", () => {
  const values = [null, "", true, false, 1024, [], ["a", "b"], "direct"];
  assert.deepEqual(values.map(valueText), [
    "none",
    "none",
    "on",
    "off",
    "1,024",
    "none",
    "a, b",
    "direct",
  ]);
});

test("a try changes a copy of the settings; none takes a decision back", () => {
  const settings = {target: "cpu", decisions: {a: 1, b: 2}};
  const tried = triedSettings(settings, [
    ["a", null],
    ["c", "x"],
    ["target", "opencl"],
  ]);
  assert.deepEqual(tried, {target: "opencl", decisions: {b: 2, c: "x"}});
  assert.deepEqual(settings, {target: "cpu", decisions: {a: 1, b: 2}});
});

test("what the number is about comes first, and every lever once", () => {
  const levers = [
    {group: "memory", of: ""},
    {group: "schedule", of: "conv_1"},
    {group: "memory", of: "x"},
    {group: "schedule", of: "conv_2"},
  ];
  const names = (groups) => groups.map(([name, own]) => [name, own.length]);
  assert.deepEqual(names(grouped(levers)), [
    ["memory", 2],
    ["schedule", 2],
  ]);
  assert.deepEqual(names(grouped(levers, "conv_2")), [
    ["of conv_2", 1],
    ["memory", 2],
    ["schedule", 1],
  ]);
  assert.deepEqual(grouped([]), []);
});

test("a prediction is found by what its branch decides, the last one first", () => {
  const predictions = createPredictions();
  const note = (change, value) =>
    predictions.note("1", "peak_bytes", {source: "s"}, {decisions: [["a", value]], change});
  note(-5, 1);
  note(-6, 1);
  note(null, 2);
  const branch = (value, parent = "1") => ({
    parent,
    settings: {target: "cpu", decisions: {a: value}},
  });
  assert.equal(predictions.of(branch(1)).change, -6);
  assert.equal(predictions.of(branch(2)).isKnown, false);
  assert.equal(predictions.of(branch(3)), undefined);
  assert.equal(predictions.of(branch(1, "7")), undefined);
});
