// The page's own layout on invented graphs: complete, without overlaps, downwards or marked, and in
// the order of the drawing before.

import assert from "node:assert/strict";
import {suite, test} from "node:test";

import {takersBySource} from "../../build/js/ground/scene.js";
import {layeredDrawing} from "../../build/js/layout/layered.js";
import {placeProgram} from "../../build/js/layout/program.js";
import {runSliced} from "../../build/js/layout/slices.js";

const [WIDTH, HEIGHT] = [140, 36];
const WIDE = {width: 700, height: 530};
const TALL = {width: 700, height: 1e6};

// `edges` and `loose` read `a>b b>c`.
function graph(names, edges, loose = "") {
  const order = new Map(words(names).map((name, index) => [name, index]));
  const pairs = [...words(edges), ...words(loose)];
  return {
    nodes: [...order.keys()].map((id) => ({id, width: WIDTH, height: HEIGHT, port: ""})),
    edges: pairs.map((pair) => pair.split(">").map((end) => order.get(end))),
    isLoose: pairs.map((pair) => words(loose).includes(pair)),
  };
}

const words = (text) => text.split(" ").filter((word) => word);

const chainOf = (names) =>
  names
    .slice(1)
    .map((name, index) => `${names[index]}>${name}`)
    .join(" ");

const numbered = (count) => Array.from({length: count}, (_, index) => `n${index}`);

function randomGraph(seed, count, mostEdges) {
  const random = randomNumbers(seed);
  const names = numbered(count);
  const pairs = new Set();
  for (let edge = 0; edge < mostEdges; edge += 1) {
    const from = Math.floor(random() * count);
    const to = (from + 1 + Math.floor(random() * (count - 1))) % count;
    pairs.add(`${names[from]}>${names[to]}`);
  }
  return graph(names.join(" "), [...pairs].sort().join(" "));
}

// Numbers from 0 to 1 (mulberry32), the same for a seed.
function randomNumbers(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

function finished(steps) {
  let step = steps.next();
  while (!step.done) step = steps.next();
  return step.value;
}

// Drawings of graphs, each under the order of the one before.
function laidOut(graphs, room = WIDE) {
  let memory = null;
  return graphs.map((drawn) => {
    const drawing = finished(layeredDrawing(drawn, memory, room));
    memory = drawing.memory;
    return drawing;
  });
}

const runsUp = (points) =>
  points.some((point, index) => index > 0 && point[1] < points[index - 1][1] - 0.01);

function assertNoOverlap(at) {
  // Sorted by height, a node can only meet those that follow within its own height.
  const sorted = [...at].sort((a, b) => a[1] - b[1]);
  sorted.forEach(([ax, ay], index) => {
    for (let next = index + 1; next < sorted.length && sorted[next][1] < ay + HEIGHT; next += 1)
      assert.ok(Math.abs(ax - sorted[next][0]) >= WIDTH, `${[ax, ay]} meets ${sorted[next]}`);
  });
}

function assertRight(invented, drawn) {
  assert.equal(drawn.at.length, invented.nodes.length);
  assert.equal(drawn.ways.length, invented.edges.length);
  assertNoOverlap(drawn.at);
  for (const [x, y] of drawn.at) {
    assert.ok(WIDTH / 2 <= x + 0.01 && x - 0.01 <= drawn.width - WIDTH / 2);
    assert.ok(HEIGHT / 2 <= y + 0.01 && y - 0.01 <= drawn.height - HEIGHT / 2);
  }
  invented.edges.forEach(([from, to], index) => {
    const {points, kind} = drawn.ways[index];
    assert.ok(Math.abs(points[0][0] - drawn.at[from][0]) < 1e-3);
    assert.ok(Math.abs(points.at(-1)[0] - drawn.at[to][0]) < 1e-3);
    assert.ok(kind || !runsUp(points), "what runs upwards is marked");
    assert.ok(kind !== "turn" || runsUp(points), "only what turns is marked so");
  });
}

suite("layered drawing", () => {
  for (let seed = 0; seed < 24; seed += 1)
    test(`nothing overlaps and what runs upwards is marked: seed ${seed}`, () => {
      const invented = randomGraph(seed, 4 + 3 * (seed % 12), 2 + 4 * (seed % 12));
      assertRight(invented, laidOut([invented])[0]);
    });

  test("five thousand operations in a chain of residual blocks have places of their own", () => {
    const names = numbered(5000);
    const skips = names.filter((_, index) => index % 4 === 0 && index < 4990);
    const edges = skips.map((name, index) => `${name}>n${4 * index + 4}`).join(" ");
    const large = graph(names.join(" "), `${chainOf(names)} ${edges}`);
    for (const drawn of laidOut([large, large])) assertRight(large, drawn);
  });

  test("a long chain stands in columns", () => {
    const names = numbered(40);
    const chain = graph(names.join(" "), chainOf(names));
    const [[wide], [tall]] = [laidOut([chain]), laidOut([chain], TALL)];
    const columnsOf = ({at}) => new Set(at.map(([x]) => x)).size;
    assert.equal(columnsOf(tall), 1);
    assert.ok(tall.ways.every(({kind}) => !kind));
    assert.ok(columnsOf(wide) >= 3);
    assert.equal(wide.ways.filter(({kind}) => kind === "turn").length, columnsOf(wide) - 1);
    const scale = Math.min(WIDE.width / wide.width, WIDE.height / wide.height);
    assert.ok(scale > (2 * WIDE.height) / tall.height);
  });

  test("a large node in the middle leaves two columns", () => {
    const names = words("a b c d e f g h");
    const chain = graph(names.join(" "), chainOf(names));
    chain.nodes[4].height = 400;
    const [drawn] = laidOut([chain]);
    assert.equal(new Set(drawn.at.map(([x]) => Math.round(x))).size, 2);
    assert.ok(WIDE.height / drawn.height > 0.8);
  });

  for (const ends of ["results", "inputs"])
    test(`a dozen ${ends} of one operation stand in rows`, () => {
      const names = numbered(12);
      const edges = names.map((name) => (ends === "results" ? `b>${name}` : `${name}>b`));
      const [drawn] = laidOut([graph(`a b c ${names.join(" ")}`, `a>b b>c ${edges.join(" ")}`)]);
      assert.ok(drawn.width < 7 * (WIDTH + 20));
      assert.ok(drawn.ways.every(({kind}) => !kind));
      const rows = new Set(drawn.at.slice(3).map(([, y]) => y));
      assert.equal(rows.size, 3);
      const middle = drawn.at[1][1];
      for (const y of rows) assert.ok(ends === "results" ? y > middle : y < middle);
    });

  test("only a cycle runs upwards, and rather by what is loose", () => {
    const kindsOf = (drawn) => laidOut([drawn])[0].ways.map(({kind}) => kind);
    assert.deepEqual(kindsOf(graph("a b c", "a>b b>c c>a")), ["", "", "back"]);
    // Before the pass a stood above b, now it is the other way round.
    const loose = graph("a b c", "b>a b>c", "a>b a>c");
    assert.deepEqual(kindsOf(loose), ["", "", "back", ""]);
  });

  test("what stays keeps its order", () => {
    // Without the drawing before, d would stand left of c, for it is named first.
    const before = graph("x a b c y", "x>a x>b x>c a>y b>y c>y");
    const after = graph("x d c b a y", "x>a x>c x>d a>y c>y d>y x>b b>y");
    const rises = (drawn, names) => {
      const [a, b, c] = ["a", "b", "c"].map((name) => drawn.at[names.indexOf(name)][0]);
      return a < b && b < c;
    };
    const [first, second] = laidOut([before, after], TALL);
    const [alone] = laidOut([after], TALL);
    assert.ok(!rises(alone, "xdcbay"));
    assert.ok(rises(second, "xdcbay"));
    assert.ok(rises(first, "xabcy"));
  });
});

suite("placed program", () => {
  for (const isFlat of [true, false])
    test(`what took a place stands there in one drawing: ${isFlat ? "no" : "two"} blocks`, () => {
      // conv of block 1 and relu of block 2 became one operation, which stands in neither.
      const item = (id, block, sources) => ({id, block, record: {family: "convolution", sources}});
      const nodes = (id) => ({nodes: new Map([[id, id]])});
      const items = [item("conv", 1, ["c"]), item("conv_relu", 0, ["c", "r"])];
      const blockOf = isFlat ? () => 0 : ({block}) => block;
      const takers = takersBySource(items, nodes("conv"), nodes("conv_relu"), blockOf);
      assert.deepEqual([...takers], isFlat ? [["conv", "conv_relu"]] : []);
    });

  test("an open block has room of its own and edges enter it at its top", () => {
    const block = (id, number) => ({id, block: number});
    const edge = (source, target) => ({source, target});
    const placed = finished(
      placeProgram({
        items: [block("x", 0), block("a", 1), block("b", 1), block("y", 0)],
        edges: [edge("x", "a"), edge("a", "b"), edge("b", "y")],
        chainOf: (number) => (number ? [0, 1] : [0]),
        node: [WIDTH, HEIGHT],
        memory: null,
        room: {width: 700, height: 1000},
      }),
    );
    const [x, a, b, y] = [..."xaby"].map((id) => placed.at.get(id));
    const [box] = placed.boxes;
    const down = [x[1], box.y, a[1], b[1], box.y + box.height, y[1]];
    assert.deepEqual(
      down,
      [...new Set(down)].sort((one, other) => one - other),
    );
    const heights = placed.route("x", "a").points.filter((_, index) => index % 2);
    assert.deepEqual(
      heights,
      [...heights].sort((one, other) => one - other),
    );
    assert.ok(heights.some((height) => Math.abs(height - box.y) < 0.01));
    assert.deepEqual(placed.route("a", "b").points, [a[0], a[1] + 18, b[0], b[1] - 18]);
  });

  test("the work ends for who waits no more", async () => {
    let [taken, asked] = [0, 0];
    function* endless() {
      for (;;) {
        taken += 1;
        yield;
      }
    }
    assert.equal(await runSliced(endless(), () => ++asked < 3), null);
    assert.equal(asked, 3);
    assert.ok(taken > 3);
  });
});
