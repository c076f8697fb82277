// The timeline's arithmetic: decoded spans, sums of a marked area, and the part that is looked at.

import assert from "node:assert/strict";
import {before, suite, test} from "node:test";

import {decodeTracks, firstAfter, spanText, sumsOf} from "../../build/js/time/spans.js";
import {timeWindow} from "../../build/js/time/time_window.js";

// [name, kind, start, end, label, operation, kernel, flops, bytes, predicted, count]
const run = (operation, start, end, predicted, count = 1) => [
  operation,
  "kernel",
  start,
  end,
  "",
  operation,
  `k_${operation}`,
  0,
  0,
  predicted,
  count,
];
const gap = (kind, start, end) => ["", kind, start, end, "", "", "", 0, 0, null, 0];

const RAW = {
  groups: [
    {
      name: "inference",
      tracks: [
        {
          name: "cpu",
          spans: [
            run("conv_1", 0, 400, 200),
            gap("overhead", 400, 500),
            gap("waiting", 500, 600),
            run("conv_3", 600, 1000, 500, 3),
          ],
        },
        {name: "host", spans: [["fused_1", "host", 500, 600, "sort", "", "", 0, 0, 0, 1]]},
      ],
    },
  ],
  flows: [
    ["conv_1", "fused_1"],
    ["conv_1", "conv_3"],
    ["fused_1", "conv_3"],
  ],
};

suite("spans", () => {
  const {groups, makers, readers} = decodeTracks(RAW);
  const [{tracks, end, clock}] = groups;

  test("makers and readers follow from what flows", () => {
    assert.deepEqual(makers.get("conv_3"), ["conv_1", "fused_1"]);
    assert.deepEqual(readers.get("conv_1"), ["fused_1", "conv_3"]);
    assert.equal(makers.get("conv_1"), undefined);
    assert.deepEqual([end, clock], [1000, null]);
  });

  test("the first span that ends after a time is found at every edge", () => {
    const [{spans}] = tracks;
    for (const [time, place] of [
      [-1, 0],
      [399, 0],
      [400, 1],
      [599.5, 2],
      [999, 3],
      [1000, 4],
    ])
      assert.equal(firstAfter(spans, time), place, String(time));
    assert.equal(firstAfter([], 0), 0);
  });

  test("a marked area is added up, with the parts of spans that lie inside", () => {
    const sums = sumsOf(tracks, 200, 1000);
    assert.deepEqual(sums.tracks, [
      {name: "cpu", work: 600, overhead: 100, waiting: 100},
      {name: "host", work: 100, overhead: 0, waiting: 0},
    ]);
    assert.deepEqual([sums.work, sums.count, sums.predicted], [700, 5, 600]);
    const kernels = sums.kernels.map(({name, count, time, isOnHost}) => [
      name,
      count,
      time,
      isOnHost,
    ]);
    assert.deepEqual(kernels, [
      ["k_conv_3", 3, 400, false],
      ["k_conv_1", 1, 200, false],
      ["sort", 1, 100, true],
    ]);
  });

  test("nothing is predicted where one span has no prediction", () => {
    const spans = decodeTracks({
      groups: [
        {name: "", tracks: [{name: "", spans: [run("a", 0, 10, 5), run("b", 10, 20, null)]}]},
      ],
      flows: [],
    }).groups[0].tracks;
    assert.equal(sumsOf(spans, 0, 20).predicted, null);
    assert.equal(sumsOf(spans, 0, 10).predicted, 5);
    assert.deepEqual(sumsOf(spans, 30, 40).kernels, []);
  });

  test("shares of a launch are seen again, not counted again", () => {
    const share = ["a", "share", 0, 10, "", "a", "k_a", 0, 0, null, 1];
    const [{tracks: both}] = decodeTracks({
      groups: [
        {
          name: "",
          tracks: [
            {name: "cpu", spans: [run("a", 0, 10, 4)]},
            {name: "thread 1", spans: [share]},
          ],
        },
      ],
      flows: [],
    }).groups;
    const sums = sumsOf(both, 0, 10);
    assert.deepEqual([sums.work, sums.count, sums.predicted], [10, 1, 4]);
    assert.equal(sums.tracks[1].work, 10);
  });
});

suite("window of time", () => {
  let frames = [];
  before(() => {
    globalThis.requestAnimationFrame = (callback) => frames.push(callback);
  });

  test("zooming holds the time under the pointer and stays inside", () => {
    const view = timeWindow(1000, () => {});
    view.zoom(0.5, 250);
    assert.deepEqual([view.from, view.to], [125, 625]);
    view.zoom(2, 250);
    assert.deepEqual([view.from, view.to], [0, 1000]);
    view.zoom(0.5, 0);
    assert.deepEqual([view.from, view.to], [0, 500]);
    view.zoom(100);
    assert.deepEqual([view.from, view.to], [0, 1000]);
    for (let step = 0; step < 100; step += 1) view.zoom(0.5);
    assert.ok(Math.abs(view.to - view.from - 1000 / 1e5) < 1e-9);
    view.all();
    assert.deepEqual([view.from, view.to], [0, 1000]);
  });

  test("it is moved no further than to its ends", () => {
    const view = timeWindow(1000, () => {});
    view.zoom(0.2, 0);
    view.move(-50);
    assert.deepEqual([view.from, view.to], [0, 200]);
    view.move(990);
    assert.deepEqual([view.from, view.to], [800, 1000]);
  });

  test("an interval gets a tenth of its length at both sides", () => {
    const view = timeWindow(1000, () => {});
    view.fit(400, 500);
    assert.deepEqual([view.from, view.to], [390, 510]);
    view.fit(0, 1000);
    assert.deepEqual([view.from, view.to], [0, 1000]);
  });

  test("what is out of sight comes into the middle, the rest stays", () => {
    const view = timeWindow(1000, () => {});
    view.fit(400, 500);
    view.reveal(420, 430);
    assert.deepEqual([view.from, view.to], [390, 510]);
    view.reveal(800, 820);
    assert.deepEqual([view.from, view.to], [750, 870]);
  });

  test("it is drawn once per frame", () => {
    frames = [];
    let drawn = 0;
    const view = timeWindow(1000, () => (drawn += 1));
    view.zoom(0.5);
    view.move(10);
    for (const frame of frames.splice(0)) frame();
    assert.equal(drawn, 1);
    view.all();
    for (const frame of frames.splice(0)) frame();
    assert.equal(drawn, 2);
  });
});

test("a launch is called as its layer, and what is no operation as it is", () => {
  const layerName = (operation) => `layer of ${operation}`;
  const launch = {name: "conv35", label: "conv 1x1", operation: "conv35"};
  assert.equal(spanText(launch, layerName), "layer of conv35  conv 1x1");
  assert.equal(spanText(launch), "conv35  conv 1x1");
  const part = {...launch, name: "conv35: load", label: ""};
  assert.equal(spanText(part, layerName), "layer of conv35: load");
  assert.equal(spanText({...part, name: "conv350: load"}, layerName), "conv350: load");
  assert.equal(spanText({...part, name: ": load", operation: ""}, layerName), ": load");
  assert.equal(spanText({name: "import", label: "", operation: ""}, layerName), "import");
});
