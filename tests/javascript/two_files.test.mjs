// Two files that are compared: which branches they are, and the rows of the totals.

import assert from "node:assert/strict";
import test from "node:test";

import {areTwoFiles, newPair, rowsOfTwoFiles} from "../../build/js/ground/two_files.js";

const branch = (key, model, elements = [64, 10], edits = undefined) => ({
  key,
  model,
  elements,
  settings: {target: "cpu", ...(edits ? {edits} : {})},
});

test("branches of one file are no two files, an edited one is another file", () => {
  assert.equal(areTwoFiles([]), false);
  assert.equal(areTwoFiles([branch("1", "a")]), false);
  assert.equal(areTwoFiles([branch("1", "a"), branch("2", "a")]), false);
  assert.equal(areTwoFiles([branch("1", "a"), branch("2", "b")]), true);
  assert.equal(areTwoFiles([branch("1", "a"), branch("2", "a", [64, 10], ["cut"])]), true);
});

test("a file that was sent is paired once with an open one of the same sizes", () => {
  const paired = new Set();
  const branches = [branch("1", "a"), branch("2", "b", [64, 9]), branch("3", "c")];
  const find = (current, sent) => newPair(branches, current, new Set(sent), paired)?.key;
  assert.equal(find("3", []), undefined); // nothing was sent
  assert.equal(find("2", ["b"]), undefined); // other sizes
  assert.equal(find("9", ["c"]), undefined); // no such branch
  assert.equal(find("1", ["c"]), undefined); // the other one was sent
  assert.equal(find("3", ["c"]), "1");
  assert.equal(find("3", ["c"]), undefined);
  assert.equal(find("1", ["a", "c"]), undefined); // the same two
  branches.push(branch("4", "d"), branch("5", "e"));
  assert.equal(find("5", ["e", "f"]), undefined); // f is on its way
  assert.equal(find("5", ["c", "e"]), "3"); // which was sent, too
  assert.equal(find("3", ["c", "e"]), undefined);
  branches[2].elements = []; // asleep
  paired.clear();
  assert.equal(find("3", ["c"]), undefined);
});

test("totals hold the other file against the reference, which is the float one", () => {
  const found = {
    reference: 1,
    outputs: [
      ["scores", 40, 0.01],
      ["boxes", 12, 0.25],
    ],
  };
  const [decibels, largest] = rowsOfTwoFiles(found, 3);
  assert.deepEqual(decibels, [
    "SQNR against the other file",
    [
      ["12 dB", "", "boxes"],
      ["the reference", ""],
      ["–", ""],
    ],
  ]);
  assert.equal(largest[1][0][0], "0.25");
  const equal = rowsOfTwoFiles({reference: 0, outputs: [["y", "Infinity", 0]]}, 2);
  assert.equal(equal[0][1][1][0], "equal");
  assert.equal(rowsOfTwoFiles(null, 2)[0][1][0][0], "…");
  assert.equal(rowsOfTwoFiles({outputs: []}, 2)[0][1][1][0], "–");
});
