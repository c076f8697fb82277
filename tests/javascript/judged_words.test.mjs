// What the head of the page says about the data.

import assert from "node:assert/strict";
import test from "node:test";

import {judgedOn} from "../../build/js/ground/judged_words.js";

const NOISE = {
  words: "seeded noise",
  isDrawn: true,
  isNoise: true,
  examples: 0,
  leftOut: 0,
  notes: [],
};
const EVAL = {...NOISE, words: "eval.npz, 64 examples", isDrawn: false, isNoise: false};

test("noise is called so, with what that means", () => {
  const shown = judgedOn(NOISE, []);
  assert.equal(shown.text, "judged on seeded noise");
  assert.match(shown.title, /random numbers/);
});

test("data are named, with examples that were left out and how images were read", () => {
  const shown = judgedOn({...EVAL, leftOut: 1, notes: ["images in gray"]}, ["eval.npz"]);
  assert.equal(shown.text, "judged on eval.npz, 64 examples");
  assert.equal(shown.title, "eval.npz, 64 examples; 1 example left out; images in gray");
});

test("what was attached and is not measured yet is no result", () => {
  assert.equal(judgedOn(NOISE, ["a.npz", "l.txt"]).text, "measuring on a.npz and l.txt …");
  assert.equal(judgedOn(null, ["a.npz"]).text, "measuring on a.npz …");
  // What does not fit is not measured for ever.
  assert.equal(judgedOn(null, ["a.npz"], false).text, "not judged: a.npz");
  assert.equal(judgedOn(EVAL, ["eval.npz"], false).text, "judged on eval.npz, 64 examples");
});

test("nothing is said where nothing was measured", () => {
  assert.equal(judgedOn(null, []), null);
});
