// Events of a profile by launch.

import assert from "node:assert/strict";
import {test} from "node:test";

import {launchedOf} from "../../build/js/ground/launched.js";

const event = (operation, lane, start, end) => ({
  operation,
  lane,
  start,
  end,
  name: "",
  flops: 1,
  bytes: 2,
  cycles: 3,
});
const spans = (events) => launchedOf(events).map(({start, end, flops}) => [start, end, flops]);

test("queues that work on one layer at the same time are one launch", () => {
  const layer = [event("a", "load", 0, 5), event("a", "compute", 3, 9), event("a", "load", 5, 6)];
  assert.deepEqual(spans(layer), [[0, 9, 3]]);
});

test("launches of one lane stay, and what is no operation as well", () => {
  const events = [event("a", "cpu", 0, 1), event("a", "cpu", 2, 4), event("", "dma", 4, 5)];
  events.push(event("", "cpu", 5, 6));
  assert.deepEqual(launchedOf(events), events);
  assert.deepEqual(launchedOf([]), []);
});
