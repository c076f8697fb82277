// Files and folders that are dropped: read no further than to one file too many.

import assert from "node:assert/strict";
import test from "node:test";

import {MAX_DROPPED, filesOf, openedOf} from "../../build/js/branches/dropped_files.js";

const PART = 100; // entries that a browser hands out at once

function fileOf(path, counts) {
  const file = (resolve) => {
    counts.files += 1;
    resolve({name: path});
  };
  return {isFile: true, isDirectory: false, fullPath: path, file};
}

function folderOf(path, count, inner, counts) {
  const createReader = () => {
    let at = 0;
    const readEntries = (resolve) => {
      counts.reads += 1;
      const end = Math.min(count, at + PART);
      const part = Array.from({length: end - at}, (_, index) => inner(`${path}/${at + index}`));
      at = end;
      resolve(part);
    };
    return {readEntries};
  };
  return {isFile: false, isDirectory: true, fullPath: path, createReader};
}

const dropped = (entries) => ({
  items: entries.map((entry) => ({webkitGetAsEntry: () => entry})),
  files: entries.map(({fullPath}) => ({name: fullPath})),
});

test("of a folder of 100,000 files little more than the limit is read", async () => {
  const counts = {files: 0, reads: 0};
  const folder = folderOf("many", 100_000, (path) => fileOf(path, counts), counts);
  const found = await filesOf(dropped([folder]));
  assert.equal(found.length, MAX_DROPPED + 1);
  assert.deepEqual(counts, {files: MAX_DROPPED + 1, reads: 6});
});

test("100,000 folders with a file each are not walked to their end", async () => {
  const counts = {files: 0, reads: 0};
  const inner = (path) => folderOf(path, 1, (own) => fileOf(own, counts), counts);
  const found = await filesOf(dropped([folderOf("many", 100_000, inner, counts)]));
  assert.equal(found.length, MAX_DROPPED + 1);
  assert.ok(counts.reads < 3 * MAX_DROPPED, String(counts.reads));
});

test("tables of numbers are not opened, and make too many files no fewer", () => {
  const named = (name) => ({path: name, file: {name}});
  const many = Array.from({length: MAX_DROPPED + 1}, (_, index) => named(`${index}.txt`));
  assert.equal(openedOf(many).length, MAX_DROPPED + 1);
  assert.deepEqual(openedOf(many.slice(1)), []);
  assert.equal(openedOf([named("a.onnx"), named("b.csv")]).length, 1);
});

test("an empty folder, a file beside a folder, files alone", async () => {
  const counts = {files: 0, reads: 0};
  const empty = folderOf("empty", 0, () => null, counts);
  assert.deepEqual(await filesOf(dropped([empty])), []);
  assert.deepEqual(await filesOf(dropped([])), []);
  const both = await filesOf(dropped([fileOf("a.onnx", counts), empty]));
  assert.deepEqual(
    both.map(({path}) => path),
    ["a.onnx"],
  );
  const alone = await filesOf(dropped([fileOf("a.onnx", counts), fileOf("b.npz", counts)]));
  assert.equal(alone.length, 2);
});
