// Which levels of code stand side by side: those that a person chose, or as many as there is room.

// In the order in which a program goes through them.
export const CODE_LEVELS = ["ir", "loops", "c", "assembly", "other"];
const LEAST_PIXELS = 376; // of a column: half a line of C without scrolling

// null where one level at a time is shown.
export function levelsShown({preset, levels}, tab, pixels) {
  if (!CODE_LEVELS.includes(tab)) return null;
  // One level alone is the tab, whichever that is.
  if (levels?.length === 1) return null;
  if (levels) return CODE_LEVELS.filter((level) => level === tab || levels.includes(level));
  if (preset !== "source") return null;
  const count = Math.max(2, Math.min(CODE_LEVELS.length - 1, Math.floor(pixels / LEAST_PIXELS)));
  // The last ones that have the tab among them: machine code is what most look for.
  const last = tab === "other" ? CODE_LEVELS.length : CODE_LEVELS.length - 1;
  const first = Math.min(CODE_LEVELS.indexOf(tab), last - count);
  return CODE_LEVELS.slice(first, first + count);
}
