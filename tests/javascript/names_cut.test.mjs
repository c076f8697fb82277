// Names are cut where they are alike, and never where they differ.

import assert from "node:assert/strict";
import {test} from "node:test";

import {
  commonBeginning,
  cutMiddle,
  ownPart,
  shortNames,
  tellingParts,
} from "../../build/js/measures/column_names.js";

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

test("of a fused layer's names the shortest that no other layer has is shown", () => {
  const names = [
    "net/relu/Relu;net/norm/Fused;net/conv2d/BiasAdd/resource;net/conv2d/Conv2D1",
    "net/relu_1/Relu;net/norm_1/Fused;net/conv2d/BiasAdd/resource",
    "net/relu_2/Relu;net/norm_2/Fused;net/conv2d/BiasAdd/resource;;net/relu_2/Relu",
    "Identity",
  ];
  assert.deepEqual(tellingParts(names), [
    "net/relu/Relu",
    "net/relu_1/Relu",
    "net/relu_2/Relu",
    "Identity",
  ]);
  // Names with no part of their own are whole, and so are those of one part.
  assert.deepEqual(tellingParts(["a;b", "b;a", "c", ";", ""]), ["a;b", "b;a", "c", ";", ""]);
  assert.deepEqual(tellingParts(["a", "a"]), ["a", "a"]);
  assert.deepEqual(tellingParts([]), []);
});

test("a long name with little room is the last of its parts that no other name has", () => {
  const names = ["conv2d/BiasAdd", "conv2d_1/BiasAdd", "pool/AvgPool", "a/b", "Identity", "x/pool"];
  assert.deepEqual(shortNames(names, 5), ["conv2d", "conv2d_1", "AvgPool", "a/b", "Identity", "x"]);
  assert.deepEqual(shortNames(names, 99), names);
  const layers = ["layer_0/a/dense", "layer_0/b/dense", "layer_1/a/dense", "layer_1/b/dense"];
  assert.deepEqual(shortNames(layers, 5), layers, "no part alone tells them apart");
  assert.deepEqual(shortNames(["a/a/long_one", "/"], 5), ["long_one", "/"]);
});
