// Which classes images of dropped folders have.

import assert from "node:assert/strict";
import {test} from "node:test";

import {imagesOfFolders} from "../../build/js/branches/image_classes.js";

const dropped = (...paths) =>
  paths.map((path) => ({path, file: {name: path.slice(path.lastIndexOf("/") + 1)}}));
const found = (...paths) =>
  imagesOfFolders(
    dropped(...paths),
    (name) => name.endsWith(".png"),
    (name) => name.endsWith(".onnx"),
  );
const names = ({files}) => files.map(({name}) => name);

test("folders with numbers are the classes of their images", () => {
  const all = found("/digits/10/b.png", "/digits/2/a.png", "/digits/10/a.png");
  assert.deepEqual(names(all), ["a.png", "b.png", "a.png"]);
  assert.equal(all.labels, "10\n10\n2\n");
});

test("other names are counted in their order, within one folder or dropped side by side", () => {
  for (const root of ["", "/pets"]) {
    const all = found(`${root}/dog/z.png`, `${root}/cat/a.png`, `${root}/dog/notes.md`);
    assert.deepEqual(names(all), ["a.png", "z.png"]);
    assert.equal(all.labels, "0\n1\n");
    assert.deepEqual(all.classes, [
      ["cat", 0],
      ["dog", 1],
    ]);
    assert.deepEqual(all.leftOut, ["notes.md"]);
  }
});

test("the folder right above an image is its class, however deep it lies", () => {
  assert.equal(found("/set/train/0/a.png", "/set/val/1/b.png").labels, "0\n1\n");
});

test("images without a folder of their own have no classes", () => {
  const all = found("/pets/a.png", "/pets/cat/b.png");
  assert.equal(all.labels, "");
  assert.deepEqual(names(all), ["a.png", "b.png"]);
  assert.equal(found("/pets/a.png").labels, "");
});

test("files, and folders with models, are no folders of images", () => {
  assert.equal(found("a.png", "b.png"), null);
  assert.equal(found("/model/net.onnx", "/model/picture.png"), null);
  assert.equal(found("/empty/readme.md"), null);
  assert.equal(found(), null);
});
