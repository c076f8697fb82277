// Budgets and places of the arena as data. Nothing is drawn here.

export const STEP_BYTES = 64;
const MIN_SHARE = 8; // of the smallest peak that is known

// Branches that differ in decisions alone.
export function comparable(branches, branch) {
  const own = branches.find(({key}) => key === branch);
  return branches.filter(
    ({model, settings}) => model === own?.model && settings?.target === own?.settings?.target,
  );
}

// What became of a decision of this model that was asked for; "" where none waits or was refused.
export function askedWords({status, model, wanted, settings, error}, address) {
  const [next, held] = [wanted, settings].map(({decisions}) => JSON.stringify(decisions[address]));
  if (status === "idle" || wanted.model !== model || next === held) return "";
  return status === "failed" ? `refused: ${error.what}` : "is being compiled";
}

// {least, most, value}: of the slider, in bytes; the largest is no budget.
export function rangeOf(peaks, budget) {
  const known = peaks.filter((peak) => Number.isFinite(peak) && peak > 0);
  const up = (bytes) => Math.ceil(bytes / STEP_BYTES) * STEP_BYTES;
  const most = up(Math.max(...known, STEP_BYTES)) + STEP_BYTES;
  const least = up(Math.min(...known, most) / MIN_SHARE);
  return {least, most, value: Math.min(budget ?? most, most)};
}

// The byte of a pin; of several memories, which lie one after the other, with the memory's name.
export function placeText(memories, offset) {
  const own = memories.filter(({first}) => first <= offset).at(-1);
  return own ? `${own.name}:${offset - own.first}` : offset;
}
