// A person's own numbers from CSV and JSON files.

import assert from "node:assert/strict";
import {suite, test} from "node:test";

import {isSweep, readNumbers, unknownNames} from "../../build/js/graph/overlay_files.js";
import {niceTicks} from "../../build/js/ground/plot.js";

const read = (text, filename = "power.csv") =>
  readNumbers(text, filename).map(({title, values}) => [title, Object.fromEntries(values)]);

suite("files with numbers", () => {
  test("a sweep has a list of points and a base, whether or not it is damaged", () => {
    const sweep = JSON.stringify({base: "mac-128", models: ["net"], points: [], skipped: []});
    for (const text of [sweep, sweep.slice(0, -5), ` ${sweep.replace(":[]", " :\n[")}`])
      assert.ok(isSweep(text), text);
    for (const text of [
      '{"points": 3, "base": 0.5}',
      '{"points": {"conv1": 3}, "base": {"conv1": 1}}',
      '{"points": []}',
      '[{"name": "points", "points": 3, "base": 1}]',
      "points,base\n1,2",
      "",
    ])
      assert.ok(!isSweep(text), text);
    assert.deepEqual(read('{"points": 3, "base": 0.5}'), [["power", {points: 3, base: 0.5}]]);
  });

  test("a table has a column for each title", () => {
    for (const separator of [",", ";", "\t", " , "])
      assert.deepEqual(
        read(
          ["name,power,heat", "conv_1,3.5,10", "Relu_2,1.5e1,-20"]
            .join("\r\n")
            .replaceAll(",", separator),
        ),
        [
          ["power", {conv_1: 3.5, Relu_2: 15}],
          ["heat", {conv_1: 10, Relu_2: -20}],
        ],
      );
  });

  test("a table needs no titles, and lines may be empty, short or comments", () => {
    assert.deepEqual(read("# of today\n\nconv_1,3.5\nrelu\nadd,0\n"), [
      ["power", {conv_1: 3.5, add: 0}],
    ]);
    assert.deepEqual(read("a,1,2\nb,,4"), [
      ["column 2", {a: 1}],
      ["column 3", {a: 2, b: 4}],
    ]);
  });

  test("what is no finite number is left out", () => {
    assert.deepEqual(read("name,power\na,1\nb,NaN\nc,Infinity\nd,three"), [["power", {a: 1}]]);
  });

  test("a cell in quotes holds separators and quotes", () => {
    assert.deepEqual(read('name,power\n"a,b",1\n"say ""c""",2'), [
      ["power", {"a,b": 1, 'say "c"': 2}],
    ]);
  });

  test("an object, an object of objects, and records are read", () => {
    assert.deepEqual(read('{"conv1": 3.5}', "power.of.it.json"), [["power.of.it", {conv1: 3.5}]]);
    assert.deepEqual(read(' {"power": {"a": 1}, "heat": {"b": 2}, "none": {}}'), [
      ["power", {a: 1}],
      ["heat", {b: 2}],
    ]);
    assert.deepEqual(read('[{"name": "a", "power": 1, "unit": "W"}, {"name": "b", "heat": 2}]'), [
      ["power", {a: 1}],
      ["heat", {b: 2}],
    ]);
  });

  for (const [text, said] of [
    ["{", /^none\.json is no JSON: /],
    ["", /holds no numbers/],
    ["{}", /holds no numbers/],
    ["[]", /holds no numbers/],
    ["name,power\na,b", /holds no numbers/],
    ['{"a": 1, "b": "x"}', /“a” is neither|“b” is neither/],
    ['{"a": null}', /“a” is neither a number nor an object/],
    ['{"a": {"b": "x"}}', /the value of “b” is no number/],
    ['[{"power": 1}]', /record 1 has no "name"/],
    ["[3]", /record 1 has no "name"/],
    ["x".repeat(20_000_001), /at most 20000000 are read/],
  ])
    test(`a file without numbers says what is expected: ${text.slice(0, 20)}`, () => {
      assert.throws(() => readNumbers(text, "none.json"), {message: said});
    });
});

suite("names of numbers", () => {
  const data = {
    latest: new Map(["conv_1", "relu_1"].map((id) => [id, {}])),
    knownSources: () => new Set(["Conv_0", "Relu_2"]),
    kernelOf: new Map([["kernel_7", {}]]),
  };

  test("operations, nodes and kernels are known", () => {
    assert.deepEqual(unknownNames(data, ["conv_1", "Relu_2", "kernel_7"]), []);
  });

  test("of an unknown one the nearest is named, that is written alike", () => {
    const near = (name) => unknownNames(data, [name])[0].near;
    assert.equal(near("conv_l"), "conv_1");
    assert.equal(near("Relu_1"), "relu_1");
    assert.equal(near("Relu_3"), "Relu_2");
    assert.equal(near("softmax_of_all"), "");
  });
});

suite("ticks", () => {
  test("they are round, at most as many as wanted, and inside", () => {
    for (const end of [1e-9, 0.7, 1, 3, 9.99, 10, 123, 4.2e6])
      for (const count of [3, 4, 7]) {
        const ticks = niceTicks(end, count);
        assert.equal(ticks[0], 0);
        assert.ok(ticks.length >= 2 && ticks.length <= count + 1, `${end} ${count}: ${ticks}`);
        assert.ok(ticks.at(-1) <= end * (1 + 1e-12));
        assert.match(ticks[1].toExponential(6), /^[125]\.000000e/);
      }
    assert.deepEqual(niceTicks(10, 5, 3), [4, 6, 8, 10]);
  });
});
