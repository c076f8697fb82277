// Which levels of code stand side by side: those that a person chose, or as many as there is room.

// In the order in which a program goes through them.
export const CODE_LEVELS = ["model", "ir", "loops", "c", "assembly", "other"];
const MIN_PIXELS = 376; // of a column: half a line of C without scrolling

// null where one level at a time is shown. hasLines: whether the author's lines are known, which
// then stand first; absent: levels of which nothing is known here, for which no room is kept.
export function levelsShown({preset, levels}, tab, pixels, {hasLines, absent}) {
  if (!CODE_LEVELS.includes(tab)) return null;
  // One level alone is the tab, whichever that is.
  if (levels?.length === 1) return null;
  if (levels) return CODE_LEVELS.filter((level) => level === tab || levels.includes(level));
  if (preset !== "source" || (tab === "model" && !hasLines)) return null;
  const [model, ...all] = CODE_LEVELS;
  const made = all.filter((level) => level === tab || !absent.includes(level));
  const count = Math.max(2, Math.min(made.length - 1, Math.floor(pixels / MIN_PIXELS)));
  if (!hasLines) return around(made, tab, count);
  const others = count === 2 && tab === model ? ["c"] : around(made, tab, count - 1);
  return [model, ...others];
}

// `count` levels, the tab among them, or the last ones: machine code is what most look for.
function around(levels, tab, count) {
  const last = tab === "other" ? levels.length : levels.length - 1;
  const first = Math.min(levels.includes(tab) ? levels.indexOf(tab) : last, last - count);
  return levels.slice(first, first + count);
}
