// What was looked at in one branch, in another one: identities change where passes decide
// otherwise, and a pass may be switched off.

// {selection, sources, family} of what is selected, to be found again in other data.
export function selectedIn(data, selection) {
  const record = data.latest.get(selection);
  return {selection, sources: data.sourcesOf(selection), family: record?.family ?? ""};
}

// The identity in `data` that stands for what was selected: itself where it still comes from some
// of the same nodes of the model, else the operation that comes from most of them and little else,
// rather of the same family. Null where nothing comes from any of them.
export function carriedInto(data, {selection, sources, family}) {
  if (selection === null || data.blocks?.indexOf(selection) !== undefined) return selection;
  const wanted = new Set(sources);
  const shares = (record) => record.sources.filter((source) => wanted.has(source)).length;
  const same = data.latest.get(selection);
  if (same && (!wanted.size || shares(same))) return selection;
  let best = null,
    most = 0;
  for (const record of data.latest.values()) {
    const shared = shares(record);
    if (!shared) continue;
    const likeness =
      shared / Math.max(record.sources.length, wanted.size) + (record.family === family ? 0.5 : 0);
    // Of equals the last: it is what the others became.
    if (likeness >= most) [best, most] = [record.id, likeness];
  }
  return best;
}

// The place of the last of some passes, by name, that a program has, too; -1 where it has none.
export function passCarriedInto(passes, names) {
  const placeOf = (name) => passes.findIndex((pass) => pass.name === name);
  return names.reduceRight((found, name) => (found < 0 ? placeOf(name) : found), -1);
}
