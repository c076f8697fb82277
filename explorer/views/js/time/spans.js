// Tracks of spans as the page has them: what ran when, gaps included, and who read what whom made.

// {groups: [{name, end, clock, tracks: [{name, total, spans: [{name, kind, start, end, label,
//   operation, kernel, flops, bytes, predicted, count, busy, facts, cause}]}]}], makers, readers};
// times in nanoseconds from the start of the group (payload/tracks.py), clock as of cycles.js.
export function decodeTracks(raw) {
  const groups = raw.groups.map(({name, tracks, clock}) => {
    const made = tracks.map((track) => ({...track, spans: track.spans.map(decodeSpan)}));
    const end = made.reduce((latest, {spans}) => Math.max(latest, spans.at(-1)?.end ?? 0), 1);
    return {name, tracks: made, end, clock: clock ?? null};
  });
  const makers = new Map(), // operation -> those that make what it reads
    readers = new Map();
  for (const [maker, reader] of raw.flows) {
    if (!makers.has(reader)) makers.set(reader, []);
    makers.get(reader).push(maker);
    if (!readers.has(maker)) readers.set(maker, []);
    readers.get(maker).push(reader);
  }
  return {groups, makers, readers};
}

function decodeSpan(raw) {
  const [name, kind, start, end, label, operation, kernel, flops, bytes, predicted] = raw;
  const [count, busy, facts, cause] = raw.slice(10);
  const own = {name, kind, start, end, label, operation, kernel, flops, bytes, predicted};
  return {...own, count, busy: busy ?? end - start, facts, cause};
}

const GAPS = new Set(["overhead", "waiting", "stall"]);

export const isGap = ({kind}) => GAPS.has(kind);

/** Whether it was measured in time, also beside a machine whose cycles are counted. */
export const isOnHost = ({kind}) => kind === "host" || kind === "transfer";

/** What a thread did of a launch, or all instructions of a layer: work seen again. */
export const isShare = ({kind}) => kind === "share";

// layerName(operation): what its layer is called; without it, the compiler's name stays. A part of
// a layer is called "conv1: load".
export const spanText = ({name, label, operation}, layerName = (own) => own) => {
  const isOfLayer = operation && (name === operation || name.startsWith(`${operation}: `));
  const shown = isOfLayer ? layerName(operation) + name.slice(operation.length) : name;
  return label ? `${shown}  ${label}` : shown;
};

// The place of the first span that ends after a time.
export function firstAfter(spans, time) {
  let low = 0,
    high = spans.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (spans[middle].end <= time) low = middle + 1;
    else high = middle;
  }
  return low;
}

// What lies between two times, added up: {tracks: [{name, work, overhead, waiting}], work, count,
// predicted, kernels: [{name, count, time, operations}]}. A span that is cut counts once, with the
// part of its time that lies inside; predicted: null where something has no prediction.
export function sumsOf(tracks, from, to) {
  const kernels = new Map();
  /**
   * @type {{
   *   tracks: any[],
   *   work: number,
   *   count: number,
   *   predicted: number | null,
   *   kernels: any[],
   * }}
   */
  const sums = {tracks: [], work: 0, count: 0, predicted: 0, kernels: []};
  for (const {name, spans} of tracks) {
    const own = {name, work: 0, overhead: 0, waiting: 0};
    for (let place = firstAfter(spans, from); place < spans.length; place += 1) {
      const span = spans[place];
      if (span.start >= to) break;
      const length = span.end - span.start;
      const share = length ? (Math.min(to, span.end) - Math.max(from, span.start)) / length : 1;
      if (isGap(span)) {
        own[span.kind === "overhead" ? "overhead" : "waiting"] += share * length;
        continue;
      }
      const time = share * span.busy;
      own.work += time;
      if (isShare(span)) continue;
      sums.count += span.count;
      if (span.predicted === null) sums.predicted = null;
      else if (sums.predicted !== null) sums.predicted += share * span.predicted;
      const key = span.kernel || (span.kind === "host" ? span.label || span.name : span.name);
      if (!kernels.has(key))
        kernels.set(key, {name: key, count: 0, time: 0, isOnHost: isOnHost(span), operations: []});
      const kernel = kernels.get(key);
      kernel.count += span.count;
      kernel.time += time;
      if (span.operation) kernel.operations.push(span.operation);
    }
    if (!spans.some(isShare)) sums.work += own.work;
    sums.tracks.push(own);
  }
  sums.kernels = [...kernels.values()].sort((a, b) => b.time - a.time);
  return sums;
}
