// Where a page begins: at a fault, at what a link or a cell asks for, or where another branch was.

import assert from "node:assert/strict";
import {suite, test} from "node:test";

import {firstPlace, firstSeen} from "../../build/js/frame/first_place.js";

const PASSES = ["source", "import", "fold", "fuse", "lower"];

function headOf({fault = null, at = null, initially = [], names = PASSES} = {}) {
  return {
    passes: names.map((name) => ({name, level: name === "source" ? "source" : "top"})),
    blocks: {initially},
    summary: {fault},
    first: 3,
    at,
    tabs: [],
    has: {},
  };
}

const RECORDS = [{id: "conv1", sources: ["Conv_1"], family: "convolution"}];

function placeOf(head, {kept = null, isBranch = false, fromLink = {}} = {}) {
  const latest = new Map(RECORDS.map((record) => [record.id, record]));
  return firstPlace({data: {head, latest, blocks: null}, kept, isBranch, fromLink});
}

const seenOf = (head, {kept = null, isBranch = false, address = "", link = null} = {}) =>
  firstSeen({head, kept, isBranch, address, link});

const KEPT = {
  state: {pass: 4, selection: "conv0", dock: "timeline", step: 2, blocks: true, bars: undefined},
  passes: PASSES.slice(0, 4),
  carried: {selection: "conv0", sources: ["Conv_1"], family: "convolution"},
  isRefused: false,
};
const FAULT = {pass: 2, operation: "fused_1"};

suite("a first visit", () => {
  test("it begins at the pass of the head, with its blocks", () => {
    const place = placeOf(headOf({initially: [4]}));
    assert.deepEqual(place, {pass: 3, open: [4], initially: [4]});
    assert.deepEqual(seenOf(headOf()), {pass: 3, selection: null});
  });

  test("a wrong program opens where it is wrong", () => {
    const head = headOf({fault: FAULT});
    const {pass, dock, selection} = placeOf(head);
    assert.deepEqual([pass, dock, selection], [2, "accuracy", "fused_1"]);
    assert.deepEqual(seenOf(head), {pass: 2, selection: "fused_1"});
  });

  test("a model of which nothing was compiled opens with its nodes", () => {
    assert.equal(placeOf(headOf({names: ["source"], fault: FAULT})).dock, "model");
  });

  test("a cell's place goes before the fault, and a link before both", () => {
    const at = {pass: "lower", operation: "conv1", dock: "memory", tab: "c"};
    const head = headOf({fault: FAULT, at});
    const {pass, selection, dock, tab} = placeOf(head);
    assert.deepEqual([pass, selection, dock, tab], [4, "conv1", "memory", "c"]);
    assert.deepEqual(seenOf(head), {pass: 4, selection: "conv1"});
    const fromLink = {pass: 1, selection: "other", dock: "roofline"};
    assert.deepEqual({...placeOf(head, {fromLink}), ...fromLink}, placeOf(head, {fromLink}));
    const address = "#pass=1&selection=other";
    assert.deepEqual(seenOf(head, {address}), {pass: 1, selection: "other"});
  });

  test("a broken link changes nothing", () => {
    const address = "#pass=999&tab=%3Cscript%3E&step=-4&dock=nothing&evil=1";
    assert.deepEqual(seenOf(headOf(), {address}), {pass: 3, selection: null});
    const head = headOf({at: {pass: "gone", operation: "", dock: "", tab: ""}});
    assert.equal(placeOf(head).pass, 3);
  });
});

suite("another branch or model", () => {
  test("a branch is looked at where the one before was", () => {
    const {pass, selection, dock, step} = placeOf(headOf(), {kept: KEPT, isBranch: true});
    assert.deepEqual([pass, selection, dock, step], [3, "conv1", "timeline", 2]);
    const head = headOf({names: ["source", "import", "lower"], fault: FAULT});
    assert.equal(placeOf(head, {kept: KEPT, isBranch: true}).pass, 1, "the last that it has");
    assert.deepEqual(seenOf(headOf(), {kept: KEPT, isBranch: true}), {pass: 3, selection: "conv0"});
  });

  test("another model begins at its own place, in the tab that a person likes", () => {
    const place = placeOf(headOf({initially: [2]}), {kept: KEPT});
    assert.deepEqual(place, {
      pass: 3,
      selection: null,
      dock: "timeline",
      step: null,
      blocks: null,
      open: [2],
      initially: [2],
    });
    assert.equal(placeOf(headOf({fault: FAULT}), {kept: KEPT}).dock, "accuracy");
    const refused = {...KEPT, isRefused: true};
    assert.equal(placeOf(headOf(), {kept: refused}).dock, undefined);
  });

  test("a place to return to is whole", () => {
    const link = "#pass=1";
    assert.deepEqual(seenOf(headOf({fault: FAULT}), {kept: KEPT, link}), {
      pass: 1,
      selection: null,
    });
  });
});
