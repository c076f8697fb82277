// Edits of the model as lines: what is offered, added and taken back.

import assert from "node:assert/strict";
import {test} from "node:test";

import {
  editsOf,
  isWhole,
  offeredEdits,
  quoted,
  withEdit,
  withoutEdit,
} from "../../explorer/views/js/ground/model_edits.js";

test("edits are added in their order and taken back one by one", () => {
  /** @type {any} */
  const settings = {target: "cpu", decisions: {}};
  withEdit(settings, " delete a ");
  withEdit(settings, "");
  withEdit(settings, "outputs b");
  assert.deepEqual(editsOf(settings), ["delete a", "outputs b"]);
  withoutEdit(settings, 0);
  assert.deepEqual(settings.edits, ["outputs b"]);
  withoutEdit(settings, 0);
  assert.equal("edits" in settings, false); // as if nothing had been edited
  assert.deepEqual(editsOf(settings), []);
});

test("names with signs of edits stand in quotes", () => {
  assert.equal(quoted("/stage1/conv.1"), "/stage1/conv.1");
  assert.equal(quoted("a = b"), '"a = b"');
  assert.equal(quoted('say "x"'), '"say \\"x\\""');
  assert.equal(quoted(""), '""');
});

test("what is offered is whole, or waits for the rest", () => {
  const offered = new Map(offeredEdits("a:0"));
  assert.equal(offered.get("delete"), 'delete "a:0"');
  const whole = [...offered].filter(([, text]) => isWhole(text)).map(([name]) => name);
  assert.deepEqual(whole, ["delete", "end here"]);
});
