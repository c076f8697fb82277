// The browser's entries: written after the frame that shows a place, each place in its order.

import assert from "node:assert/strict";
import {afterEach, beforeEach, suite, test} from "node:test";

import {createPlaces} from "../../build/js/state/places.js";

// A window as far as places need it: `entries` are those of the browser, the last one is shown.
let entries, frames, timers, listeners, clock;
const GLOBALS = ["window", "requestAnimationFrame", "setTimeout", "clearTimeout", "performance"];
const own = GLOBALS.map((name) => [name, Object.getOwnPropertyDescriptor(globalThis, name)]);

function giveWindow() {
  [entries, frames, timers, listeners, clock] = [[{state: null, link: ""}], [], [], {}, 0];
  const history = {
    get state() {
      return entries.at(-1).state;
    },
    pushState: (state, _, link = entries.at(-1).link) => entries.push({state, link}),
    replaceState: (state, _, link = entries.at(-1).link) => entries.splice(-1, 1, {state, link}),
  };
  const location = {
    get hash() {
      return entries.at(-1).link;
    },
  };
  const values = [
    {
      history,
      location,
      addEventListener: (name, listener) => (listeners[name] = listener),
      removeEventListener: (name) => delete listeners[name],
    },
    (act) => frames.push(act),
    (act) => timers.push(act),
    (number) => (timers[number - 1] = () => {}),
    {now: () => (clock += 1000)},
  ];
  for (const [at, name] of GLOBALS.entries())
    Object.defineProperty(globalThis, name, {value: values[at], configurable: true});
}

function takeWindow() {
  for (const [name, before] of own)
    if (before) Object.defineProperty(globalThis, name, before);
    else delete globalThis[name];
}

const links = () => entries.map(({link}) => link);
const drain = (list) => list.splice(0).forEach((act) => act());
function frame() {
  drain(frames);
  drain(timers);
}

const placesOf = (options = {}) =>
  createPlaces({isGuarded: false, onreturn: () => {}, onleave: () => {}, ...options});

suite("entries of the browser", () => {
  beforeEach(giveWindow);
  afterEach(takeWindow);

  test("a place is written after the frame that shows it", () => {
    const places = placesOf();
    places.move("#pass=1", new Set(["pass"]), "b");
    assert.deepEqual(links(), [""]);
    frame();
    assert.deepEqual(links(), ["", "#pass=1"]);
    assert.deepEqual(entries.at(-1).state, {explorer: {branch: "b"}});
    frame();
    assert.deepEqual(links(), ["", "#pass=1"], "it is written once");
  });

  test("smaller moves change the address of the place that waits", () => {
    const places = placesOf();
    places.move("#pass=1", new Set(["pass"]), "b");
    places.move("#open=4&pass=1", new Set(["open"]), "b");
    places.move("#open=4.5&pass=1", new Set(["open"]), "b");
    frame();
    assert.deepEqual(links(), ["", "#open=4.5&pass=1"]);
  });

  test("several places of one frame are several entries, in their order", () => {
    const places = placesOf();
    places.move("#pass=1", new Set(["pass"]), "b");
    places.move("#pass=1&selection=a", new Set(["selection"]), "b");
    places.arrive("#pass=2", "c", false);
    places.arrive("#pass=3", "c", true);
    frame();
    assert.deepEqual(links(), ["", "#pass=1", "#pass=1&selection=a", "#pass=3"]);
  });

  test("a page that draws no frames, is left or stopped, writes what waits", () => {
    const places = placesOf();
    places.move("#pass=1", new Set(["pass"]), "b");
    drain(timers);
    assert.deepEqual(links(), ["", "#pass=1"]);
    places.move("#pass=2", new Set(["selection"]), "b");
    listeners.pagehide();
    assert.deepEqual(links(), ["", "#pass=1", "#pass=2"]);
    places.move("#pass=3", new Set(["tab"]), "b");
    places.stop();
    assert.deepEqual(links(), ["", "#pass=1", "#pass=2", "#pass=3"]);
    assert.deepEqual(Object.keys(listeners), []);
  });

  test("what waits never takes the place of where the person went", () => {
    const went = [];
    const places = placesOf({onreturn: (place) => went.push(place)});
    places.move("#pass=1", new Set(["pass"]), "b");
    listeners.popstate({state: {explorer: {branch: "a"}}});
    frame();
    assert.deepEqual(links(), [""]);
    assert.deepEqual(went, [{branch: "a", link: ""}]);
    places.move("#pass=2", new Set(["pass"]), "b");
    entries.push({state: null, link: "#typed"});
    listeners.hashchange();
    frame();
    assert.deepEqual(links(), ["", "#typed"]);
  });

  test("Back says first that the next step leaves", () => {
    let leaves = 0;
    const places = placesOf({isGuarded: true, onleave: () => (leaves += 1)});
    places.arrive("#pass=0", "a", true);
    frame();
    assert.deepEqual(entries[0].state, {explorer: {isGuard: true}});
    assert.deepEqual(links(), ["", "#pass=0"]);
    listeners.popstate({state: entries[0].state});
    assert.equal(leaves, 1);
  });
});
