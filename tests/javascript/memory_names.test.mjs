// What is written on the buffers of the memory map.

import assert from "node:assert/strict";
import {test} from "node:test";

import {paintArena} from "../../build/js/memory/painting.js";

const LONG = "model/conv2d_2/BiasAdd;model/conv2d_2/Conv2D;model/conv2d/Conv2D;biases";

// Texts that are painted for one buffer of `width` pixels, six pixels for each character.
function textsOn(buffer, width, label = "conv 3x3 + relu") {
  const texts = [];
  const context = new Proxy(
    {measureText: (text) => ({width: 6 * text.length}), fillText: (text) => texts.push(text)},
    {get: (target, key) => target[key] ?? (() => {}), set: () => true},
  );
  const data = {
    latest: new Map([["conv2", {label, sources: []}]]),
    layerName: () => LONG,
  };
  const memory = {peak: 64, bound: 64, steps: [], live: [], memories: [], buffers: [buffer]};
  paintArena(context, {colour: () => "black"}, data, {
    memory,
    peakStep: -1,
    width: 1000,
    height: 100,
    margin: {left: 0, right: 0, top: 0, bottom: 0},
    x: (step) => step,
    y: (byte) => byte,
    rectangle: () => [0, 0, width, 40],
  });
  return texts.filter((text) => !/^\d/.test(text));
}

const buffer = (id, more = {}) => ({id, values: ["conv2"], parts: [], ...more});

test("a name that is too long gives way to the kind of the layer", () => {
  assert.deepEqual(textsOn(buffer("conv2"), 120), ["conv 3x3 + relu"]);
  assert.deepEqual(textsOn(buffer("conv2"), 60), ["conv 3x3"]);
  assert.deepEqual(textsOn(buffer("conv2"), 30), []);
});

test("a name that fits is written", () => {
  assert.deepEqual(textsOn(buffer("conv2"), 600), [LONG]);
});

test("scratch of one layer is numbered", () => {
  assert.deepEqual(textsOn(buffer("conv2/scratch_1"), 70), ["scratch 2"]);
});

test("a layer without a kind, and a state", () => {
  assert.deepEqual(textsOn(buffer("conv2"), 120, null), []);
  assert.deepEqual(textsOn(buffer("conv2", {state: "cache"}), 120), ["state cache"]);
});
