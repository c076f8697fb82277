// Slices of two timelines that are the same work: launches of one operation, or of operations that
// come from the same nodes of the model. Nothing is drawn here.
//
// slice = {name, kernel, start, end, sources}, times in nanoseconds

export const slicesOf = ({slices}) =>
  slices.map(([name, kernel, start, end, sources]) => ({name, kernel, start, end, sources}));

// {pairs: [[left, right]], onlyLeft, onlyRight}, each slice in one of them. Slices of one name and
// nodes first, in their order; then those of equal nodes; then those that share most of them,
// a kernel of the same kind before others, and a longer one before shorter ones.
export function matchSlices(left, right) {
  const pairs = [];
  const free = [new Set(left), new Set(right)];
  const pair = (a, b) => {
    pairs.push([a, b]);
    free[0].delete(a);
    free[1].delete(b);
  };
  for (const keyOf of [
    (slice) => JSON.stringify([slice.name, slice.sources]),
    ({sources}) => (sources.length ? JSON.stringify([...sources].sort()) : null),
  ]) {
    const waiting = new Map();
    for (const slice of free[1]) {
      const key = keyOf(slice);
      if (key !== null) waiting.set(key, [...(waiting.get(key) ?? []), slice]);
    }
    for (const slice of [...free[0]]) {
      const other = waiting.get(keyOf(slice))?.shift();
      if (other) pair(slice, other);
    }
  }
  const bySource = new Map();
  for (const slice of free[1])
    for (const source of slice.sources)
      bySource.set(source, [...(bySource.get(source) ?? []), slice]);
  for (const slice of [...free[0]]) {
    const near = new Set(slice.sources.flatMap((source) => bySource.get(source) ?? []));
    const [best] = [...near]
      .filter((other) => free[1].has(other))
      .map((other) => ({
        other,
        share: shared(slice, other),
        isAlike: kindOf(slice) === kindOf(other),
      }))
      .sort(
        (a, b) =>
          b.share - a.share ||
          Number(b.isAlike) - Number(a.isAlike) ||
          length(b.other) - length(a.other),
      )
      .map(({other}) => other);
    if (best) pair(slice, best);
  }
  pairs.sort((a, b) => a[0].start - b[0].start);
  return {pairs, onlyLeft: [...free[0]], onlyRight: [...free[1]]};
}

const kindOf = ({kernel}) => kernel.replace(/_\d+$/, "");

function shared({sources}, other) {
  const own = new Set(sources);
  const both = other.sources.filter((source) => own.has(source)).length;
  return both / (own.size + other.sources.length - both);
}

export const length = ({start, end}) => end - start;

// Rows of what became longer or shorter, the largest change first: {name, before, after, change};
// null on the side where there is no such slice. Slices of one name are taken together.
export function changedSlices({pairs, onlyLeft, onlyRight}) {
  const rows = new Map();
  const add = (name, before, after) => {
    const row = rows.get(name) ?? {name, before: null, after: null};
    if (before !== null) row.before = (row.before ?? 0) + before;
    if (after !== null) row.after = (row.after ?? 0) + after;
    rows.set(name, row);
  };
  for (const [a, b] of pairs) add(a.name, length(a), length(b));
  for (const slice of onlyLeft) add(slice.name, length(slice), null);
  for (const slice of onlyRight) add(slice.name, null, length(slice));
  return [...rows.values()]
    .map((row) => ({...row, change: (row.after ?? 0) - (row.before ?? 0)}))
    .sort((a, b) => Math.abs(b.change) - Math.abs(a.change));
}
