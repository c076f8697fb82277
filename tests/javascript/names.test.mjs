// Names where there is little room: in nodes and blocks of the graph, and at columns of tables.

import assert from "node:assert/strict";
import {before, suite, test} from "node:test";

import {
  kindThatFits,
  fitText,
  nameThatFits,
  titleThatFits,
} from "../../build/js/graph/names_that_fit.js";
import {clip} from "../../build/js/ground/scene.js";
import {commonEnding, tailOf} from "../../build/js/measures/column_names.js";

const LETTER = 7; // pixels; every letter has this width here
const FONT = "600 14px";

suite("names that fit", () => {
  const app = {root: null};

  before(() => {
    const ruler = {font: "", measureText: (text) => ({width: LETTER * text.length})};
    globalThis.document = /** @type {any} */ ({createElement: () => ({getContext: () => ruler})});
    globalThis.getComputedStyle = /** @type {any} */ (() => ({fontFamily: "sans-serif"}));
  });

  test("a name ends where there is some room, and is two letters where there is none", () => {
    const long = `${"transformer layer ".repeat(8)}12`;
    for (const room of [400, 80, 30, 14]) {
      const shown = fitText(app, long, room, FONT, clip);
      assert.ok(LETTER * shown.length <= room, shown);
      assert.ok(LETTER * shown.length > room - 2 * LETTER, "no room is left over");
      assert.ok(shown.endsWith("…") && long.startsWith(shown.slice(0, -1)));
    }
    for (const room of [3, 0, -80])
      assert.ok(fitText(app, long, room, FONT, clip).length <= 2, String(room));
  });

  test("a number tells names apart and is shown last", () => {
    const shown = (room) => nameThatFits(app, "transformer layer 12", room, FONT);
    assert.equal(shown(400), "transformer layer 12");
    assert.equal(shown(80), "layer 12");
    assert.equal(shown(50), "tra… 12");
    for (const room of [3, 0, -80]) assert.ok(shown(room).length <= 2, String(room));
  });

  test("an operation that took others up keeps its own kind", () => {
    const shown = (room) => kindThatFits(app, "conv 3x3 + relu", room, FONT);
    assert.equal(shown(15 * LETTER), "conv 3x3 + relu");
    assert.equal(shown(14 * LETTER), "conv 3x3");
    assert.equal(shown(7 * LETTER), "conv");
  });

  test("a title loses what it counts before its number", () => {
    const shown = (room) => titleThatFits(app, "stage 3: 6 × residual block", room, FONT);
    assert.equal(shown(27 * LETTER), "stage 3: 6 × residual block");
    assert.equal(shown(26 * LETTER), "stage 3");
  });
});

suite("names of columns", () => {
  test("they lose the ending that most of them have", () => {
    assert.equal(commonEnding(["/a/conv_output_0", "/b/relu_output_0", "y"]), "_output_0");
    assert.equal(commonEnding(["a/Relu:0", "b/Add:0"]), ":0");
    assert.equal(commonEnding(["conv_1", "conv_2"]), "");
    assert.equal(commonEnding(["a_0", "b_1"]), "", "half of them is not most");
    assert.equal(commonEnding(["y_0"]), "");
    assert.equal(commonEnding([]), "");
  });

  test("the end of a long one is shown", () => {
    assert.equal(tailOf("block/conv_1", 12), "block/conv_1");
    assert.equal(tailOf("block/conv_1", 7), "…conv_1");
    assert.equal(tailOf("block", 0), "…k");
  });
});
