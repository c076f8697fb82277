// Names of tensors where there is little room: what tells one from the others.

// The ending, in parts from "_", ":", "/" or ".", that more than half of some names have, like
// "_output" or ":0". It tells none from the others.
export function commonEnding(names) {
  let ending = "";
  for (;;) {
    const counts = new Map();
    for (const name of names) {
      const rest = name.endsWith(ending) ? name.slice(0, name.length - ending.length) : "";
      const [part] = rest.match(/(?<=.)[_:/.][^_:/.]*$/) ?? [""];
      if (part) counts.set(part, (counts.get(part) ?? 0) + 1);
    }
    const [part, count] = [...counts].reduce((a, b) => (b[1] > a[1] ? b : a), ["", 0]);
    if (2 * count <= names.length || names.length < 2) return ending;
    ending = part + ending;
  }
}

// Of fused layers, whose names are those of all that became one ("a/Relu;a/BiasAdd;b/Conv2D"),
// the shortest of these that no other layer has.
export function tellingParts(names) {
  const counts = new Map();
  const partsOf = (name) => [...new Set(name.split(";"))].filter(Boolean);
  for (const part of names.flatMap(partsOf)) counts.set(part, (counts.get(part) ?? 0) + 1);
  return names.map((name) => {
    const own = partsOf(name).filter((part) => counts.get(part) === 1);
    return own.reduce((a, b) => (b.length < a.length ? b : a), own[0] ?? name);
  });
}

// Names that are longer than so many characters as the last of their parts, between "/", that no
// other name has: "net/conv2d_1/BiasAdd" -> "conv2d_1". Names without such a part are whole.
export function shortNames(names, characters) {
  const counts = new Map();
  const partsOf = (name) => [...new Set(name.split("/"))].filter(Boolean);
  for (const part of names.flatMap(partsOf)) counts.set(part, (counts.get(part) ?? 0) + 1);
  return names.map((name) => {
    const own = partsOf(name).filter((part) => counts.get(part) === 1);
    return name.length > characters ? (own.at(-1) ?? name) : name;
  });
}

// Names of one model begin alike: their ends tell them apart.
export function tailOf(name, characters) {
  return name.length <= characters ? name : `…${name.slice(1 - Math.max(2, characters))}`;
}

// A name without its middle: names that differ do so at an end.
export function cutMiddle(name, characters) {
  if (name.length <= characters) return name;
  const end = Math.ceil((characters - 1) * 0.6);
  return `${name.slice(0, characters - 1 - end)}…${name.slice(name.length - end)}`;
}

// What most names begin with, whole parts of them: "mobilenet_v2/features/".
export function commonBeginning(names) {
  let beginning = "";
  for (;;) {
    const counts = new Map();
    for (const name of names) {
      const rest = name.startsWith(beginning) ? name.slice(beginning.length) : "";
      const [part] = rest.match(/^[^:/.]*[:/.](?=.)/) ?? [""];
      if (part) counts.set(part, (counts.get(part) ?? 0) + 1);
    }
    const [part, count] = [...counts].reduce((a, b) => (b[1] > a[1] ? b : a), ["", 0]);
    if (2 * count <= names.length || names.length < 2) return beginning;
    beginning += part;
  }
}

// A name without the beginning that it shares with others, and never without its end.
export function ownPart(name, beginning, characters) {
  const rest = beginning && name.startsWith(beginning) ? name.slice(beginning.length) : name;
  const shown = rest === name ? name : `…${rest}`;
  return shown.length <= characters ? shown : tailOf(rest, characters);
}
