// What a layer is called on a screen: by the node of the file that it comes from, which its author
// knows, and not by the name that a pass gave it.

import {commonBeginning} from "./column_names.js";

// A function from the name of an operation to that of its layer. launches: [operation, names of its
// nodes], of what runs; isCopy(operation): whether it moves another one's result, and keeps the
// compiler's name. Of a node of which several operations are left each is a part: "gru: add1".
// sourcesOf(operation): of any operation, in any pass. isPlain(node): true of one that only moves
// or converts values; of several nodes another one gives the name.
export function layerNames(launches, isCopy, sourcesOf, isPlain = (_) => false) {
  const counts = new Map();
  const nameOf = (nodes) => nodes.find((node) => !isPlain(node)) ?? nodes[0];
  for (const [operation, nodes] of launches) {
    const node = isCopy(operation) ? undefined : nameOf(nodes);
    if (node !== undefined) counts.set(node, (counts.get(node) ?? 0) + 1);
  }
  const beginning = commonBeginning([...counts.keys()]);
  return (operation) => {
    const node = nameOf(sourcesOf(operation));
    if (node === undefined || isCopy(operation) || !counts.size) return operation;
    const name = node.startsWith(beginning) ? node.slice(beginning.length) || node : node;
    const isPart = (counts.get(node) ?? 0) > 1 && name !== operation;
    return isPart ? `${name}: ${operation}` : name;
  };
}

// A text with each of these operations called by its layer. Names are whole words: "conv1" is none
// in "conv12" or "net/conv1", and neither is the "x" of "3 x 3" unless it is among them.
export function withLayers(text, operations, layerName) {
  if (!operations.length) return text;
  const longestFirst = [...operations].sort((a, b) => b.length - a.length);
  const names = longestFirst.map((name) => name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  const word = new RegExp(`(?<![\\w./:-])(?:${names.join("|")})(?![\\w/-]|[.:]\\w)`, "g");
  return text.replace(word, layerName);
}
