// Edits of the model as lines: what is offered, added and taken back.

import assert from "node:assert/strict";
import {test} from "node:test";

import {
  editsOf,
  isWhole,
  offeredEdits,
  withEdit,
  withoutEdit,
} from "../../build/js/ground/model_edits.js";

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
  const deleting = (name) => offeredEdits(name)[0][1];
  assert.equal(deleting("/stage1/conv.1"), "delete /stage1/conv.1");
  assert.equal(deleting("a = b"), 'delete "a = b"');
  assert.equal(deleting('say "x"'), 'delete "say \\"x\\""');
  assert.equal(deleting(""), 'delete ""');
});

test("what is offered is whole, or waits for the rest", () => {
  const offered = new Map(offeredEdits("a:0"));
  assert.equal(offered.get("delete"), 'delete "a:0"');
  const whole = [...offered].filter(([, text]) => isWhole(text)).map(([name]) => name);
  assert.deepEqual(whole, ["delete", "end here"]);
});
