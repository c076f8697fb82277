// Names are cut where they are alike, and never where they differ.

import assert from "node:assert/strict";
import {test} from "node:test";

import {commonBeginning, cutMiddle, ownPart} from "../../build/js/measures/column_names.js";

const BERT = ["tf_bert/bert/encoder/layer_0/dense", "tf_bert/bert/encoder/layer_1/dense"];

test("the beginning that most names share is left out, and their ends stay", () => {
  const beginning = commonBeginning(BERT);
  assert.equal(beginning, "tf_bert/bert/encoder/");
  assert.deepEqual(
    BERT.map((name) => ownPart(name, beginning, 40)),
    ["…layer_0/dense", "…layer_1/dense"],
  );
  const shown = BERT.map((name) => ownPart(`${name}${"x".repeat(60)}/end`, beginning, 20));
  for (const name of shown) {
    assert.ok(name.endsWith("x/end"));
    assert.ok(name.length <= 20);
  }
});

test("one name, names with nothing in common and names of one part are whole", () => {
  assert.equal(commonBeginning(["a/b/c"]), "");
  assert.equal(commonBeginning(["a/x", "b/x"]), "");
  assert.equal(commonBeginning(["conv1", "conv2"]), "");
  assert.equal(commonBeginning([]), "");
  assert.equal(ownPart("logits", "tf_bert/", 20), "logits");
});

test("most names suffice, and a name never becomes empty", () => {
  const names = ["net/a", "net/b", "net/c", "other"];
  assert.equal(commonBeginning(names), "net/");
  assert.equal(commonBeginning(["net/", "net/", "net/"]), "");
});

test("a long name loses its middle and keeps both ends", () => {
  const name = `model/conv_1;${"model/bias_add;".repeat(9)}model/relu_17`;
  const shown = cutMiddle(name, 40);
  assert.equal(shown.length, 40);
  assert.ok(shown.startsWith("model/conv_1"));
  assert.ok(shown.endsWith("model/relu_17"));
  assert.equal(cutMiddle("conv_1", 6), "conv_1");
  assert.equal(cutMiddle("conv_12", 6).length, 6);
});
