// Times of a piece of work: what was spent, and what is left by the part that is done.

import assert from "node:assert/strict";
import {suite, test} from "node:test";

import {clockText} from "../../build/js/ground/clock.js";
import {stopwatch} from "../../build/js/ground/stopwatch.js";

function watchAt() {
  const clock = {now: 100};
  return {clock, watch: stopwatch(() => clock.now)};
}

suite("a clock", () => {
  test("has hours only where there are some", () => {
    assert.equal(clockText(0), "0:00");
    assert.equal(clockText(59.6), "1:00");
    assert.equal(clockText(123), "2:03");
    assert.equal(clockText(3723), "1:02:03");
  });
});

suite("a stopwatch", () => {
  test("says nothing of what has just begun, or of nothing", () => {
    const {clock, watch} = watchAt();
    assert.equal(watch.words(), "");
    watch.at("passes", 0, 20);
    clock.now += 1.9;
    assert.equal(watch.words(), "");
  });

  test("says what is left by what was done, and counts down between two steps", () => {
    const {clock, watch} = watchAt();
    watch.at("passes", 0, 20);
    clock.now += 10;
    assert.equal(watch.words(), "0:10");
    watch.at("passes", 5, 20);
    assert.equal(watch.words(), "0:10, 0:30 left");
    clock.now += 4;
    assert.equal(watch.words(), "0:14, 0:26 left");
    clock.now += 40;
    assert.equal(watch.words(), "0:54");
  });

  test("does not say what is left where the total is only the next one", () => {
    const {clock, watch} = watchAt();
    watch.at("texts", 0, 1);
    clock.now += 5;
    watch.at("texts", 3, 4);
    assert.equal(watch.words(), "0:05");
  });

  test("begins anew with another work, and with the next round of the same", () => {
    const {clock, watch} = watchAt();
    watch.at("passes", 3, 20);
    clock.now += 60;
    watch.at("accuracy", 0, 20);
    clock.now += 3;
    assert.equal(watch.words(), "0:03");
    watch.at("accuracy", 7, 20);
    clock.now += 3;
    watch.at("accuracy", 1, 20);
    clock.now += 2;
    watch.at("accuracy", 2, 20);
    assert.equal(watch.words(), "0:02, 0:18 left");
    watch.end();
    assert.equal(watch.words(), "");
  });
});
