// What layers are called on a screen, and which names across the graph have room.

import assert from "node:assert/strict";
import {test} from "node:test";

import {namesWithRoom} from "../../build/js/graph/lettering.js";
import {shortNames} from "../../build/js/graph/names_that_fit.js";
import {layerNames, withLayers} from "../../build/js/measures/layer_names.js";

const LAUNCHES = new Map([
  ["conv35", ["net/conv2d_34/Conv2D", "net/re_lu_34/Relu6"]],
  ["layout2", ["net/conv2d_34/Conv2D"]],
  ["add1", ["net/gru/GRU"]],
  ["add2", ["net/gru/GRU"]],
  ["pad1", []],
  ["mul1", ["scale/Mul"]],
]);
const named = (launches = LAUNCHES) =>
  layerNames(
    launches,
    (id) => id.startsWith("layout"),
    (id) => (id === "conv7" ? ["net/conv2d_34/Conv2D"] : (LAUNCHES.get(id) ?? [])),
  );

test("a layer has the name of its node in all passes, without what most names begin with", () => {
  const nameOf = named();
  assert.equal(nameOf("conv35"), "conv2d_34/Conv2D");
  assert.equal(nameOf("conv7"), "conv2d_34/Conv2D", "the same layer in another pass");
  assert.equal(nameOf("mul1"), "scale/Mul");
});

test("copies and operations of no node keep their names, and several of a node are its parts", () => {
  const nameOf = named();
  for (const id of ["layout2", "pad1", "unheard"]) assert.equal(nameOf(id), id);
  assert.deepEqual(["add1", "add2"].map(nameOf), ["gru/GRU: add1", "gru/GRU: add2"]);
  const same = layerNames(
    [
      ["add1", ["add1"]],
      ["add2", ["add1"]],
    ],
    () => false,
    () => ["add1"],
  );
  assert.deepEqual(["add1", "add2"].map(same), ["add1", "add1: add2"]);
  assert.equal(named(new Map())("conv35"), "conv35", "nothing is known of what runs");
});

test("of several nodes one that computes gives the name", () => {
  const launches = new Map([
    ["conv1", ["pad_0", "conv_1", "relu_2"]],
    ["pad2", ["pad_3"]],
  ]);
  const isPlain = (node) => node.startsWith("pad");
  const nameOf = layerNames(
    launches,
    () => false,
    (id) => launches.get(id) ?? [],
    isPlain,
  );
  assert.equal(nameOf("conv1"), "conv_1");
  assert.equal(nameOf("pad2"), "pad_3", "nothing else is there to name it");
  assert.equal(nameOf("unheard"), "unheard");
});

test("a name of several parts loses the last ones first, and keeps its number", () => {
  assert.deepEqual(shortNames("GRU, matmul, reshape 2"), [
    "GRU, matmul, reshape 2",
    "GRU, matmul 2",
    "GRU 2",
    "GRU",
  ]);
  assert.deepEqual(shortNames("transformer layer 12"), ["transformer layer 12", "layer 12"]);
  assert.deepEqual(shortNames("stem"), ["stem", "stem"]);
});

test("a sentence has layers for the operations that it names, and nothing else is replaced", () => {
  const nameOf = (name) => `<${name}>`;
  const swap = (text, ...names) => withLayers(text, names, nameOf);
  assert.equal(swap("conv1 before conv12.", "conv1"), "<conv1> before conv12.");
  assert.equal(swap("conv12 before conv1.", "conv1", "conv12"), "<conv12> before <conv1>.");
  assert.equal(
    swap("net/conv1, conv1/scratch: conv1:", "conv1"),
    "net/conv1, conv1/scratch: <conv1>:",
  );
  assert.equal(swap("conv1.device is conv1", "conv1"), "conv1.device is <conv1>");
  assert.equal(swap("3 x 3, x", "x"), "3 <x> 3, <x>", "who names it has it replaced");
  assert.equal(swap("a+b(c) of $& and .*", "a+b(c)", ".*"), "<a+b(c)> of $& and <.*>");
  assert.equal(swap("conv1"), "conv1");
  assert.equal(
    withLayers("conv1", ["conv1"], () => "$&$1"),
    "$&$1",
    "a name is no pattern",
  );
});

test("names across the graph cover neither one another nor the cards of others", () => {
  const widthOf = (text) => 6 * text.length;
  const row = [0, 60, 120].map((x, index) => ({
    x,
    y: 0,
    texts: ["matmul, GRU, reshape", "GRU"],
    weight: index,
  }));
  const alone = {x: 0, y: 100, texts: ["matmul, GRU, reshape", "GRU"], weight: 0};
  const chosen = namesWithRoom([...row, alone], widthOf, 10, [40, 16]);
  const texts = new Map(chosen.map(({x, y, text}) => [`${x} ${y}`, text]));
  assert.equal(texts.get("0 100"), "matmul, GRU, reshape", "there is room around it");
  for (const {x} of row) assert.equal(texts.get(`${x} 0`), "GRU");
  // Where cards are too small to be read, the heavier names stand across them.
  const far = namesWithRoom(row, widthOf, 10, [4, 2]);
  assert.equal(far[0].text, "matmul, GRU, reshape");
  assert.equal(far[0].weight, 2);
  // Where something else is written is no room.
  const title = {left: 80, right: 160, top: -8, bottom: 8};
  const beside = namesWithRoom(row, widthOf, 10, [4, 2], [title]);
  assert.ok(beside.every(({x}) => x !== 120));
  assert.ok(beside.length);
});
