// From base to fork: which side of a comparison comes first, and whether a difference is one.

import {percentText, ratioText} from "../ground/numbers.js";

// Keys of branches as they were chosen, those that others were forked from before these. Where none
// of two comes from the other, the one that was chosen first comes first.
export function fromBase(branches, keys) {
  const parents = new Map(branches.map(({key, parent}) => [key, parent]));
  const comesFrom = (key, other) => {
    const seen = new Set();
    for (let at = parents.get(key); at && !seen.has(at); at = parents.get(at)) {
      if (at === other) return true;
      seen.add(at);
    }
    return false;
  };
  const placed = [];
  for (const key of keys) {
    const place = placed.findIndex((other) => comesFrom(other, key));
    placed.splice(place < 0 ? placed.length : place, 0, key);
  }
  return placed;
}

// The measurement in turns of these branches, in this order; null where there is none.
export function turnsOf(session, keys) {
  const wanted = keys.join(".");
  return session?.turns().find(({branches}) => branches.join(".") === wanted) ?? null;
}

// How a time changed from the base to a side, in words, and why: {text, title}.
// times: of turns, with its ratio and spread; null where nobody measured in turns.
export function timeChange(before, after, {isSame, times}) {
  if (isSame || times?.isSame)
    return {
      text: "no difference",
      title: "the same code runs: what was measured differs by chance",
    };
  if (!times) {
    if (!(before > 0) || !(after > 0)) return {text: "–", title: ""};
    return {
      text: `${ratioText(before, after)} ?`,
      title: "measured one after the other: press \u201cmeasure in turns\u201d to know more",
    };
  }
  const spread = `${spreadText(times.lowRatio)} to ${spreadText(times.highRatio)}`;
  return times.isDifferent
    ? {text: ratioText(1, times.ratio), title: `half of the rounds between ${spread}`}
    : {text: "no difference", title: `within the spread: half of the rounds between ${spread}`};
}

function spreadText(ratio) {
  const change = percentText(Math.abs(ratio - 1));
  return ratio < 1 ? `${change} less` : `${change} more`;
}
