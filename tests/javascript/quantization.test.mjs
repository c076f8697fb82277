// Thresholds: what they cost, and names of the methods' ranges that never touch.

import assert from "node:assert/strict";
import {suite, test} from "node:test";

import {errorsOf, marksOf, shortRange} from "../../build/js/measures/threshold_marks.js";

const WIDTH = 440;
const LETTER = 6;
const widthOf = (name) => LETTER * name.length;

const METHODS = ["min-max", "percentile", "mean-squared-error", "entropy", "signal-to-noise"];

function marksAt(highs, low = 0) {
  const candidates = METHODS.slice(0, highs.length).map((method, place) => ({
    method,
    low: low && -highs[place],
    high: highs[place],
    own: 0.25,
  }));
  const x = (value) => 10 + ((value - low) / (1 - low)) * (WIDTH - 20);
  return marksOf({candidates}, x, widthOf);
}

function assertApart(marks) {
  const named = marks.filter(({label}) => label);
  const boxes = named.map(({at, label, isBefore, line}) => {
    const left = isBefore ? at - 3 - widthOf(label) : at + 3;
    assert.ok(line >= 0 && line < 3);
    return {left, right: left + widthOf(label), line, label, at};
  });
  boxes.forEach((a, place) => {
    assert.ok(a.left >= 0, `${a.label} begins outside of the picture`);
    for (const b of boxes.slice(place + 1))
      assert.ok(
        a.line !== b.line || a.right + 2 <= b.left || b.right + 2 <= a.left,
        `${a.label} touches ${b.label}`,
      );
    for (const b of boxes)
      assert.ok(
        a.line >= b.line || b.at <= a.left || b.at >= a.right,
        `the mark of ${b.label} crosses ${a.label}`,
      );
  });
}

suite("names of thresholds", () => {
  for (const apart of [0, 0.0005, 0.002, 0.02, 0.05, 0.2])
    test(`those that are ${100 * apart} % apart do not touch`, () => {
      const marks = marksAt(METHODS.map((_, place) => 1 - apart * place));
      assertApart(marks);
      assert.ok(marks.some(({label}) => label));
    });

  test("neither do those at the left end, nor any of many", () => {
    assertApart(marksAt([0.01, 0.011, 0.02, 0.03, 0.5]));
    for (let seed = 1; seed < 500; seed += 1)
      assertApart(marksAt(METHODS.map((_, place) => ((seed * 7919 * (place + 1)) % 997) / 997)));
  });

  test("methods that agree share a mark", () => {
    const [mark, ...others] = marksAt([1, 1, 1]);
    assert.deepEqual(others, []);
    assert.equal(mark.label, "min-max, percentile, mean-squared-error");
    assert.equal(mark.title.split("\n").length, 3);
    assert.match(mark.title, /^min-max 1: squared error 0\.25$/m);
  });

  test("of a range with both signs only the upper end has a name", () => {
    const marks = marksAt([1], -1);
    assert.deepEqual(
      marks.map(({at, label}) => [at, label]),
      [
        [10, ""],
        [WIDTH - 10, "min-max"],
      ],
    );
  });
});

suite("errors of a threshold", () => {
  // Centers 0.5, 1.5, 2.5, 3.5.
  const histogram = {start: 0, width: 1, counts: [4, 3, 2, 1], zeros: 1};

  test("inside, a number errs by a twelfth of the squared step, and zero by nothing", () => {
    const step = 4 / 15;
    const {error, clipped} = errorsOf(histogram, 0, 4, 4);
    assert.ok(Math.abs(error - (9 * step ** 2) / 12 / 10) < 1e-15);
    assert.equal(clipped, 0);
  });

  test("outside, it errs by its distance from the end", () => {
    const step = 2 / 15;
    const {error, clipped} = errorsOf(histogram, 0, 2, 4);
    const cut = 2 * 0.5 ** 2 + 1.5 ** 2;
    assert.ok(Math.abs(error - (cut + (6 * step ** 2) / 12) / 10) < 1e-15);
    assert.equal(clipped, 0.3);
    assert.equal(errorsOf(histogram, 1, 4, 8).clipped, 0.4, "the lower end saturates, too");
  });

  test("of nothing there is no error", () => {
    const nothing = {start: 0, width: 1, counts: [0, 0], zeros: 0};
    assert.deepEqual(errorsOf(nothing, 0, 1, 8), {error: 0, clipped: 0});
  });

  test("a range is written with three digits", () => {
    const texts = [0.123456, 1234.5, 2, -0.5, 1e-9].map(shortRange);
    assert.deepEqual(texts, ["0.123", "1230", "2", "-0.5", "1e-9"]);
  });
});
