// Code of two branches scrolls in step: a line of one leads to the lines of the same operation, or
// of the same statement of its kernel, in the other; and what is equal says that it is.

import {align, leading} from "../code/in_step.js";

// sides: two of branch_pair.js; counterpart(side, operation): its identity on the other side or
// null
export function codeInStep(sides, counterpart) {
  const isLeading = leading(sides.map(({own}) => own.inspector.node));
  sides.forEach((side, index) => {
    const other = sides[1 - index];
    side.own.inspector.node.addEventListener(
      "scroll",
      ({target}) => {
        if (!isLeading(target)) return;
        const pair = pairsOf(side, other).find(([mine]) => mine.node === target);
        if (!pair) return;
        const [mine, theirs] = pair;
        if (isEqual(mine, theirs)) theirs.showAt(0, -target.scrollTop);
        else align(mine, theirs, (owner) => ownerIn(side, other, owner, counterpart));
      },
      {capture: true, passive: true},
    );
  });
}

// ["IR", "C"]: the labels of levels whose text is the same on both sides, and of those with others
export function equalLevels(side, other) {
  const pairs = pairsOf(side, other);
  const labels = (wanted) =>
    pairs.filter(([mine, theirs]) => isEqual(mine, theirs) === wanted).map(([{label}]) => label);
  return {equal: labels(true), other: labels(false)};
}

// Panes of code of the same level.
function pairsOf(side, other) {
  const theirs = other.own.inspector.codePanes();
  return side.own.inspector.codePanes().flatMap(({pane, level}) => {
    const twin = theirs.find((their) => their.level === level);
    return twin ? [[pane, twin.pane]] : [];
  });
}

function isEqual(mine, theirs) {
  return (
    mine.entries.length === theirs.entries.length &&
    mine.entries.every(({line}, index) => line === theirs.entries[index].line)
  );
}

// What owns a line here, as it is called there: an operation, or a statement of a kernel, whose
// name stands before its own. A line of source ("@12") is another one there.
function ownerIn(side, other, owner, counterpart) {
  if (owner.startsWith("@")) return [];
  const [kernel, stage] = owner.split("/");
  if (!stage || !side.data.kernelIndex.has(kernel)) {
    const found = counterpart(side, owner);
    return found === null ? [] : [found];
  }
  const launches = other.data.followToLaunches(other.store.get().selection);
  const twin = other.data.kernels[other.data.kernelOf.get(launches[0])];
  return twin ? [`${twin.name}/${stage}`] : [owner];
}
