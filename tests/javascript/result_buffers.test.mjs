// The buffers of results.

import assert from "node:assert/strict";
import {test} from "node:test";

import {resultBuffers} from "../../build/js/memory/result_buffers.js";

test("scratch memory is no buffer of the result, wherever it is listed", () => {
  const scratch = {id: "conv2/scratch_0", values: ["conv2"]};
  const result = {id: "conv2", values: ["conv2", "reshape3"]};
  for (const buffers of [
    [scratch, result],
    [result, scratch],
  ]) {
    const found = resultBuffers(buffers);
    assert.equal(found.get("conv2"), result);
    assert.equal(found.get("reshape3"), result);
  }
  assert.equal(resultBuffers([scratch]).get("conv2"), undefined);
});

test("a value that is only named like scratch memory keeps its buffer", () => {
  const named = {id: "scratch_1", values: ["scratch_1"]};
  assert.equal(resultBuffers([named]).get("scratch_1"), named);
  assert.equal(resultBuffers([]).size, 0);
});
