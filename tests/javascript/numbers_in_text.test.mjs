// Numbers in texts, and what they are amounts of.

import assert from "node:assert/strict";
import {test} from "node:test";

import {numbersIn, quantityOf} from "../../build/js/ground/numbers_in_text.js";

const found = (text) => numbersIn(text).map(({start, end}) => text.slice(start, end));

test("a number is found with its unit", () => {
  assert.deepEqual(found("33.3 µs per inference · 16.7 µs predicted · 1 thread"), [
    "33.3 µs",
    "16.7 µs",
    "1",
  ]);
  assert.deepEqual(found("14.3 KiB of 23.9 MiB, −6.1 dB, 40.2×, 1.3e-7, 11,076 cycles"), [
    "14.3 KiB",
    "23.9 MiB",
    "−6.1 dB",
    "40.2×",
    "1.3e-7",
    "11,076 cycles",
  ]);
  assert.deepEqual(
    found("12.5 M MACs, 900 MACs, 1 MAC, 3.6 µJ, 7 mJ, 57.8 MAC/cycle, 2 Jobs, 5 M"),
    ["12.5 M MACs", "900 MACs", "1 MAC", "3.6 µJ", "7 mJ", "57.8", "2", "5 M"],
  );
  assert.deepEqual(found("0"), ["0"]);
  assert.deepEqual(found(""), []);
});

test("digits of names, places and versions are none", () => {
  for (const name of ["conv_3x3_2", "relu3", "int8", "/stage1/conv2", "gcc 12.2.0", "float32"])
    assert.deepEqual(found(name), [], name);
});

test("the unit says more than the place, which says more than bytes do", () => {
  assert.equal(quantityOf("dB", "peak_bytes"), "sqnr_db");
  assert.equal(quantityOf("µs", ""), "seconds");
  assert.equal(quantityOf("ms", "compile_seconds"), "compile_seconds");
  assert.equal(quantityOf("KiB", "weights_bytes"), "weights_bytes");
  assert.equal(quantityOf("KiB", ""), "peak_bytes");
  assert.equal(quantityOf("KiB", "It is a count."), "peak_bytes");
  assert.equal(quantityOf("bytes", "It is a count."), "peak_bytes");
  assert.equal(quantityOf("", "It is a count."), "It is a count.");
  assert.equal(quantityOf("KiB", "constructor"), "peak_bytes");
  assert.equal(quantityOf("%", "cycles"), "cycles");
  assert.equal(quantityOf("µJ", "cycles"), "energy_picojoules");
  assert.equal(quantityOf("M MACs", "It is a count."), "macs");
  assert.equal(quantityOf("KiB", "traffic_bytes"), "traffic_bytes");
  assert.equal(quantityOf("", ""), "");
  assert.equal(quantityOf("constructor", ""), "");
});
