// Events of a profile by launch. Nothing is drawn here.

// One event for each launch: those of a layer on several queues, which work at the same time, are
// one from the first to the last (results/runs/events.py does the same).
export function launchedOf(events) {
  const lanes = new Map();
  for (const {operation, lane} of events)
    lanes.set(operation, (lanes.get(operation) ?? new Set()).add(lane));
  const found = new Map();
  events.forEach((event, number) => {
    const {operation} = event;
    const key = operation && lanes.get(operation).size > 1 ? operation : number;
    const known = found.get(key);
    found.set(key, known ? joined(known, event) : event);
  });
  return [...found.values()];
}

const joined = (first, second) => ({
  ...first,
  name: first.operation,
  lane: "",
  start: Math.min(first.start, second.start),
  end: Math.max(first.end, second.end),
  flops: first.flops + second.flops,
  bytes: first.bytes + second.bytes,
  cycles: first.cycles + second.cycles,
});
