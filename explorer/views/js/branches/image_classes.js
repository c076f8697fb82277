// Dropped folders of images: the folder in which an image lies is its class.
//
//   drop digits/ with digits/0/a.png, digits/1/b.png     a.png, b.png, labels "0\n1\n"
//   drop cats/ and dogs/                                 classes cats = 0, dogs = 1

const COUNT = /^\d+$/;
export const LABELS = "classes of the folders.txt";

// What is sent of the dropped files: [{path, file}] with paths from the dropped entry on, as the
// browser has them. isImage(name), isOther(name): whether it is something that can be opened.
// {files, labels: text or "", classes: [[name, number]], leftOut: names} in the order of paths;
// null where these are no folders of images.
export function imagesOfFolders(dropped, isImage, isOther) {
  const images = dropped.filter(({file}) => isImage(file.name));
  if (!images.length || dropped.some(({file}) => isOther(file.name))) return null;
  if (!images.some(({path}) => partsOf(path).length > 1)) return null;
  const sorted = images.toSorted((a, b) => compare(a.path, b.path));
  const roots = new Set(dropped.map(({path}) => partsOf(path)[0]));
  const named = sorted.map(({path}) => classOf(path, roots.size === 1));
  const classes = named.every(Boolean) ? numbered(named) : new Map();
  return {
    files: sorted.map(({file}) => file),
    labels: classes.size ? named.map((name) => `${classes.get(name)}\n`).join("") : "",
    classes: [...classes],
    leftOut: dropped.filter(({file}) => !isImage(file.name)).map(({file}) => file.name),
  };
}

// The folder right above the image; the only folder that was dropped holds all classes.
function classOf(path, isOneRoot) {
  const folders = partsOf(path).slice(isOneRoot ? 1 : 0, -1);
  return folders.at(-1) ?? "";
}

const partsOf = (path) => path.split("/").filter(Boolean);
const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);

// Whole numbers are the numbers of their classes; other names are counted in their order.
function numbered(names) {
  const all = [...new Set(names)];
  if (all.every((name) => COUNT.test(name)))
    return new Map(all.map((name) => [name, Number(name)]));
  return new Map(all.sort(compare).map((name, index) => [name, index]));
}
