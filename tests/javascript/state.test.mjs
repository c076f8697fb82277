// The state of the page and its links: a link brings back what was looked at, and a broken one
// changes nothing.

import assert from "node:assert/strict";
import {suite, test} from "node:test";

import {
  FRESH_PANES,
  PRESETS,
  moved,
  panesOfText,
  panesText,
} from "../../build/js/state/arrangement.js";
import {lookText} from "../../build/js/ground/tries.js";
import {levelsShown} from "../../build/js/state/levels_shown.js";
import {NO_SETTINGS, hasTab, sessionLink} from "../../build/js/state/shared_link.js";
import {
  createStore,
  placeFromLink,
  stateFromLink,
  stateToLink,
} from "../../build/js/state/state.js";

const HEAD = {
  passes: Array(9).fill({}),
  tabs: [
    {id: "memory", needs: [], optional: false, session: false},
    {id: "timeline", needs: ["profile"], optional: true, session: false},
    {id: "compare", needs: ["against"], optional: true, session: true},
  ],
  has: {profile: true, against: false},
};

const fresh = () => createStore({}).get();

suite("links", () => {
  const CHANGED = {
    pass: 8,
    rewrite: 3,
    selection: "conv 3 & <b>",
    line: "nets/net.py:12",
    tab: "loops",
    build: "zig.NEON.-O2",
    dock: "timeline",
    view: "after",
    onlyChanges: true,
    step: 1,
    beside: true,
    mode: "float",
    metric: "sqnr",
    bars: "kernel",
    overlay: "roof",
    blocks: false,
    hold: true,
    open: [4, 7],
    panes: {...FRESH_PANES, preset: "source", levels: ["ir", "c"], inStep: false},
  };

  test("a link brings back everything that was changed", () => {
    const state = {...fresh(), ...CHANGED};
    assert.deepEqual(stateFromLink(stateToLink(state), HEAD, false), CHANGED);
  });

  for (const [name, value] of Object.entries(CHANGED))
    test(`a link brings back ${name} alone`, () => {
      const state = {...fresh(), [name]: value};
      assert.deepEqual(stateFromLink(stateToLink(state), HEAD, false), {pass: 0, [name]: value});
      assert.deepEqual({...fresh(), ...placeFromLink(stateToLink(state), HEAD, false, [])}, state);
    });

  test("what is as it was at first is not written, but for the pass", () => {
    assert.equal(stateToLink(fresh()), "#pass=0");
    assert.equal(stateToLink({...fresh(), open: [2], initially: [2]}), "#pass=0");
    assert.equal(stateToLink({...fresh(), open: [], initially: [2]}), "#open=&pass=0");
  });

  for (const link of [
    "",
    "#",
    "#pass=9",
    "#pass=999&tab=%3Cscript%3E&step=-4&dock=nothing&evil=1",
    "#pass=1.5&rewrite=x&view=sideways&mode=&metric=Infinity&bars=pin&overlay=nan",
    "#panes=elsewhere_large-graph",
    "#panes=constructor",
    "#dock=compare", // there is nothing to compare with
    "#tab=fork", // nobody serves this page
    "#initially=1&pin=1&__proto__=1",
  ])
    test(`of ${link || "nothing"} nothing is taken`, () => {
      assert.deepEqual(stateFromLink(link, HEAD, false), {});
    });

  test("what of a broken link is possible is taken", () => {
    const link = "#pass=2&open=3.x.-1.0.5&tab=c&tab=nothing&blocks=maybe";
    const taken = stateFromLink(link, HEAD, false);
    assert.deepEqual(taken, {pass: 2, open: [3, 5], tab: "c", blocks: false});
  });

  test("a served page has what needs its other side", () => {
    const link = "#dock=compare&tab=fork";
    assert.deepEqual(stateFromLink(link, HEAD, true), {dock: "compare", tab: "fork"});
  });

  test("a served page keeps a link to a tab that comes later", () => {
    const head = {...HEAD, has: {profile: false, against: false}};
    assert.deepEqual(stateFromLink("#dock=timeline", head, true), {dock: "timeline"});
    assert.equal(hasTab(head, "timeline", true), false);
    assert.equal(hasTab(HEAD, "timeline", true), true);
    assert.deepEqual(stateFromLink("#dock=timeline", head, false), {});
    assert.deepEqual(stateFromLink("#dock=elsewhere", head, true), {});
  });

  test("at most sixty open blocks are written", () => {
    const open = Array.from({length: 100}, (_, index) => index + 1);
    const link = stateToLink({...fresh(), open});
    assert.deepEqual(stateFromLink(link, HEAD, false).open, open.slice(0, 60));
  });

  test("a link names the model and its settings", () => {
    const link = (settings) => sessionLink(`#${new URLSearchParams({model: "a b", ...settings})}`);
    assert.equal(sessionLink("#pass=1"), null);
    assert.deepEqual(link({}), {model: "a b", settings: null});
    assert.deepEqual(link({target: "cpu"}), {
      model: "a b",
      settings: {...NO_SETTINGS, target: "cpu"},
    });
    const settings = {target: "cpu", decisions: {a: 1}};
    assert.deepEqual(link({fork: JSON.stringify(settings)}), {model: "a b", settings});
    assert.equal(link({fork: "{"})?.settings, "unreadable");
  });
});

suite("store", () => {
  test("listeners hear what changed, and nothing of what stayed", () => {
    const store = createStore({pass: 2});
    const heard = [];
    store.subscribe((state, changed) => heard.push([state.pass, [...changed]]));
    store.set({pass: 2});
    store.set({pass: 3, tab: "operation"});
    assert.deepEqual(heard, [[3, ["pass"]]]);
  });

  test("another selection or line drops what was picked in a text", () => {
    const store = createStore({selection: "a", line: "net.py:1", pin: {kernel: "k"}});
    store.set({pass: 1});
    assert.deepEqual([store.get().line, store.get().pin], ["net.py:1", {kernel: "k"}]);
    store.set({line: "net.py:2"});
    assert.deepEqual([store.get().line, store.get().pin], ["net.py:2", null]);
    store.set({pin: {kernel: "k"}});
    store.set({selection: "b"});
    assert.deepEqual([store.get().line, store.get().pin], ["", null]);
  });
});

suite("arrangement", () => {
  test("every pane can go to every place, and the middle is never empty", () => {
    for (const preset of Object.keys(PRESETS))
      for (const name of ["passes", "graph", "inspector", "dock"])
        for (const place of ["left", "centre", "right", "bottom", ""]) {
          const {places} = moved({...FRESH_PANES, preset}, name, place);
          const panes = Object.values(places ?? PRESETS[preset].places);
          assert.equal(new Set(panes).size, panes.length, "no pane stands twice");
          assert.ok((places ?? PRESETS[preset].places).centre);
          const from = PRESETS[preset].places;
          const had = new Set([...Object.values(from), name]);
          for (const pane of panes) assert.ok(had.has(pane));
          if (place) assert.ok(panes.includes(name));
        }
  });

  test("two panes change places", () => {
    const {places} = moved(FRESH_PANES, "graph", "right");
    assert.deepEqual(places, {left: "passes", centre: "inspector", right: "graph", bottom: "dock"});
    assert.deepEqual(moved({...FRESH_PANES, places}, "graph", "centre").places, {
      left: "passes",
      centre: "graph",
      right: "inspector",
      bottom: "dock",
    });
  });

  test("a text holds every arrangement", () => {
    for (const panes of [
      {...FRESH_PANES, preset: "time"},
      {...FRESH_PANES, large: "dock"},
      {...FRESH_PANES, isColoured: false, levels: ["ir", "assembly"]},
      moved(FRESH_PANES, "graph", "right"),
      moved(FRESH_PANES, "inspector", ""),
    ])
      assert.deepEqual(panesOfText(panesText(panes)), panes);
    assert.equal(panesText(FRESH_PANES), "");
  });

  test("of a text with unknown words the others are taken", () => {
    assert.deepEqual(panesOfText("source_large-moon_levels-ir-x_at-graph-none-dock_plain_what"), {
      ...FRESH_PANES,
      preset: "source",
      levels: ["ir"],
      isColoured: false,
    });
  });
});

suite("levels of code", () => {
  const SOURCE = {preset: "source", levels: null};
  const shown = (panes, tab, pixels, more = {}) =>
    levelsShown(panes, tab, pixels, {hasLines: false, absent: [], ...more});

  test("as many stand side by side as there is room for, the tab among them", () => {
    assert.deepEqual(shown(SOURCE, "c", 800), ["c", "assembly"]);
    assert.deepEqual(shown(SOURCE, "c", 1200), ["loops", "c", "assembly"]);
    assert.deepEqual(shown(SOURCE, "ir", 800), ["ir", "loops"]);
    assert.deepEqual(shown(SOURCE, "c", 100), ["c", "assembly"], "at least two");
    assert.deepEqual(shown(SOURCE, "other", 800), ["assembly", "other"]);
  });

  test("no column is kept for a level that is not there", () => {
    assert.deepEqual(shown(SOURCE, "c", 1200, {absent: ["assembly"]}), ["ir", "loops", "c"]);
  });

  test("the author's lines stand first where they are known", () => {
    assert.deepEqual(shown(SOURCE, "c", 1200, {hasLines: true}), ["model", "c", "assembly"]);
    assert.deepEqual(shown(SOURCE, "model", 800, {hasLines: true}), ["model", "c"]);
    assert.equal(shown(SOURCE, "model", 800), null);
  });

  test("what a person chose is shown, with the tab", () => {
    const chosen = {preset: "graph", levels: ["c", "ir"]};
    assert.deepEqual(shown(chosen, "assembly", 300), ["ir", "c", "assembly"]);
    assert.equal(shown({preset: "source", levels: ["c"]}, "c", 900), null);
    assert.equal(shown({preset: "graph", levels: null}, "c", 900), null);
    assert.equal(shown(SOURCE, "operation", 900), null);
  });
});

// Random walks through the page: whatever is changed, in whatever order, a link brings it back.
suite("state -> link -> state", () => {
  // mulberry32: the same walks in every run
  function generator(seed) {
    return () => {
      seed = (seed + 0x6d2b79f5) | 0;
      let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
      t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
      return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
    };
  }
  const NAMES = ["conv 3 & <b>", "", "a=b#c?d", "ünï/код", "x+y%20z", "null", "%", "0", "true"];
  const HEAD_OF_APP = {
    ...HEAD,
    tabs: [...HEAD.tabs, {id: "tries", needs: ["workspace"], optional: true, session: true}],
  };

  function walk(random) {
    const pick = (values) => values[Math.floor(random() * values.length)];
    const whole = (most) => Math.floor(random() * most);
    const moves = {
      pass: () => whole(HEAD.passes.length),
      rewrite: () => pick([null, whole(400)]),
      selection: () => pick([null, ...NAMES.filter(Boolean)]),
      line: () => pick(["", ...NAMES]),
      tab: () => pick(["operation", "model", "ir", "loops", "c", "assembly", "other", "fork"]),
      build: () => pick(["", "zig.NEON.-O2"]),
      dock: () => pick(["memory", "timeline", "compare", "tries"]),
      view: () => pick(["before", "diff", "after"]),
      onlyChanges: () => random() < 0.5,
      step: () => pick([null, whole(20)]),
      beside: () => random() < 0.5,
      mode: () => pick(["accumulated", "isolated", "float"]),
      metric: () => pick(["relative", "sqnr", "cosine"]),
      bars: () => pick(["time", "kernel", "source"]),
      overlay: () => pick(["", "time", "error", "bytes", "macs", "roof", "own"]),
      blocks: () => pick([null, true, false]),
      hold: () => random() < 0.5,
      open: () => [...new Set(Array.from({length: whole(60)}, () => 1 + whole(5000)))],
      tries: () =>
        lookText({
          columns: pick([null, ["peak"], ["latency", "dB", "right"]]),
          x: pick(["peak", "weights"]),
          y: pick(["latency", "cycles"]),
          sort: pick(["", "peak", "-dB"]),
          filter: pick(["", "a*b", "conv_1 = 7 & x"]),
        }),
      panes: () => ({
        ...FRESH_PANES,
        preset: pick(Object.keys(PRESETS)),
        inStep: random() < 0.5,
      }),
    };
    const store = createStore({initially: [4, 9], open: [4, 9]});
    for (let step = 0; step < 12; step += 1) {
      const name = pick(Object.keys(moves));
      store.set({[name]: moves[name]()});
    }
    return store.get();
  }

  // Sizes of panes belong to the browser, and what was picked in a text to no link.
  const seen = (state) => {
    const {pin, initially, panes, ...others} = state;
    return {...others, panes: panesText(panes)};
  };

  test("300 random walks end where their links begin", () => {
    for (let seed = 1; seed <= 300; seed += 1) {
      const state = walk(generator(seed));
      const link = stateToLink(state);
      const place = placeFromLink(link, HEAD_OF_APP, true, state.initially);
      const back = createStore({initially: state.initially, ...place}).get();
      assert.deepEqual(seen(back), seen(state), `seed ${seed}: ${link}`);
      assert.equal(stateToLink(back), link, `seed ${seed}`);
    }
  });
});
