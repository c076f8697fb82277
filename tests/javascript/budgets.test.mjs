// The slider of the budget: its range, which branches are compared, and where a pin lies.

import assert from "node:assert/strict";
import {test} from "node:test";

import {askedWords, comparable, placeText, rangeOf} from "../../build/js/ground/budgets.js";

test("the range ends where no budget is needed", () => {
  const {least, most, value} = rangeOf([14592, 9600, null], undefined);
  assert.equal(most, 14656);
  assert.equal(value, most);
  assert.equal(least, 1216);
  assert.equal(rangeOf([14592], 9600).value, 9600);
  assert.equal(rangeOf([14592], 1e9).value, 14656);
});

test("without a peak there is a range, too", () => {
  const {least, most} = rangeOf([null, NaN], undefined);
  assert.ok(least > 0 && least < most);
});

test("branches of another model or target are left out", () => {
  const branch = (key, model, target) => ({key, model, settings: {target}});
  const all = [branch("1", "a", "cpu"), branch("2", "a", "cpu"), branch("3", "a", "opencl"),
    branch("4", "b", "cpu")]; // prettier-ignore
  assert.deepEqual(
    comparable(all, "1").map(({key}) => key),
    ["1", "2"],
  );
});

test("a pin in one of several memories has its name", () => {
  const memories = [
    {name: "fast", first: 0, size: 100},
    {name: "slow", first: 128, size: 64},
  ];
  assert.equal(placeText(memories, 64), "fast:64");
  assert.equal(placeText(memories, 128), "slow:0");
  assert.equal(placeText(memories, 192), "slow:64");
  assert.equal(placeText([], 192), 192);
});

test("a decision that was asked for says what became of it, while that is shown", () => {
  const settings = (decisions, model) => ({decisions, model});
  const said = (status, wanted, held = {}) =>
    askedWords(
      {status, model: "a", wanted, settings: settings(held), error: {what: "too few bytes"}},
      "budget",
    );
  const asked = settings({budget: 64}, "a");
  assert.equal(said("working", asked), "is being compiled");
  assert.equal(said("failed", asked), "refused: too few bytes");
  assert.equal(said("idle", asked), "");
  assert.equal(said("failed", asked, {budget: 64}), ""); // it was something else
  assert.equal(said("working", settings({}, "a"), {budget: 64}), "is being compiled");
  assert.equal(said("failed", settings({budget: 64}, "b")), ""); // another model was opened
});
