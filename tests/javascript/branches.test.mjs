// Branches: which is the base, and what was looked at in one of them, found again in another one.

import assert from "node:assert/strict";
import {suite, test} from "node:test";

import {carriedInto, passCarriedInto} from "../../build/js/branches/propagated.js";
import {fromBase, timeChange} from "../../build/js/branches/direction.js";
import {inPairs} from "../../build/js/branches/file_pairs.js";
import {align} from "../../build/js/code/in_step.js";

suite("from base to fork", () => {
  const branches = [
    {key: "1", parent: ""},
    {key: "2", parent: "1"},
    {key: "3", parent: "2"},
    {key: "4", parent: "1"},
    {key: "9", parent: ""},
  ];
  for (const [chosen, expected] of [
    ["2 1", "1 2"],
    ["1 2", "1 2"],
    ["3 1", "1 3"],
    ["3 4", "3 4"],
    ["4 3", "4 3"],
    ["9 2 1", "9 1 2"],
    ["3 2 1", "1 2 3"],
  ])
    test(`${chosen}: what others come from goes first, else what was chosen first`, () => {
      assert.deepEqual(fromBase(branches, chosen.split(" ")), expected.split(" "));
    });

  test("times that were not measured in turns are not judged", () => {
    const said = (before, after, more) => timeChange(before, after, {isSame: false, ...more}).text;
    assert.equal(said(1, 2, {isSame: true, times: null}), "no difference");
    assert.match(said(1, 2, {times: null}), / \?$/);
    assert.equal(said(0, 2, {times: null}), "–");
    const spread = {ratio: 2, lowRatio: 1.9, highRatio: 2.1};
    assert.equal(said(1, 2, {times: {...spread, isDifferent: false}}), "no difference");
    assert.doesNotMatch(said(1, 2, {times: {...spread, isDifferent: true}}), /\?|no difference/);
  });
});

suite("carried into another branch", () => {
  const record = (id, source, family) => ({id, sources: [source], family});
  const records = [
    record("conv1", "Conv_1", "convolution"),
    record("relu1", "Relu_1", "elementwise"),
    record("conv2", "Conv_2", "convolution"),
    record("conv9", "Conv_1", "convolution"),
  ];
  const data = {latest: new Map(records.map((each) => [each.id, each]))};
  const fused = {selection: "conv8", sources: ["Conv_1", "Relu_1"], family: "convolution"};

  test("what is selected is found again by the nodes it comes from", () => {
    assert.equal(carriedInto(data, fused), "conv9"); // what conv1 became
    // The same name for another operation is not the same.
    assert.equal(carriedInto(data, {...fused, selection: "conv2"}), "conv9");
    assert.equal(carriedInto(data, {...fused, selection: "relu1"}), "relu1");
    assert.equal(carriedInto(data, {selection: "x", sources: ["Other"], family: ""}), null);
    assert.equal(carriedInto(data, {selection: null, sources: [], family: ""}), null);
  });

  test("a branch without a pass is looked at where the pass was", () => {
    const placeIn = (names) => {
      const passes = names.split(" ").map((name) => ({name}));
      return passCarriedInto(passes, ["model", "import", "fold", "fuse"]);
    };
    assert.equal(placeIn("model import fold fuse plan"), 3);
    assert.equal(placeIn("model import fold plan"), 2);
    assert.equal(placeIn("source"), -1);
  });

  test("code of two branches scrolls by what owns its lines", () => {
    const shown = [];
    const pane = (owners, top) => ({
      entries: owners.map((name) => ({line: name, owners: name ? [name] : []})),
      node: {clientHeight: 180},
      top: () => top,
      showAt: (index, pixels) => shown.push([index, pixels]),
    });
    // The base begins with a prologue that the fork lacks; its add is the fork's conv.
    const base = pane(["", "", "", "init", "main", "main", "add", "add"], 1);
    const fork = pane(["init", "main", "main", "main", "main", "conv"], 0);
    const renamed = (owner) => (owner === "add" ? ["conv"] : [owner]);
    align(base, fork, renamed);
    base.top = () => 3;
    align(base, fork, renamed);
    // A third down the base stands the first line of main, then the first of add.
    assert.deepEqual(shown, [
      [1, 54],
      [5, 54],
    ]);
  });
});

suite("models of two files", () => {
  const named = (...names) => names.map((name) => ({name}));
  const paired = (...names) =>
    inPairs(named(...names), [[".prototxt", ".caffemodel"]]).map(
      ({file, partner}) => file.name + (partner && ` for ${partner}`),
    );

  test("weights go right before the layers of the same name", () => {
    assert.deepEqual(paired("a.prototxt", "b.onnx", "b.prototxt", "b.caffemodel", "A.caffemodel"), [
      "b.caffemodel for b.prototxt",
      "b.prototxt",
      "a.prototxt",
      "b.onnx",
      "A.caffemodel",
    ]);
  });

  test("one file of each kind needs no name in common", () => {
    assert.deepEqual(paired("deploy.prototxt", "iter_10.caffemodel"), [
      "iter_10.caffemodel for deploy.prototxt",
      "deploy.prototxt",
    ]);
    assert.deepEqual(paired("iter_10.caffemodel"), ["iter_10.caffemodel"]);
  });
});
