// The x of every node and dummy: near its neighbours, in the order of its rank, at least a gap
// from the next; the spine, the longest path, is one vertical line. Alternating least squares
// within the order.

export const HORIZONTAL_GAP = 20;
const LANE_GAP = 10; // between lanes, and beside them
const SWEEPS = 5;
const SPINE_WEIGHT = 1e7;
const LOOSE_WEIGHT = 0.05; // of what has no neighbours on the side that is looked at

export function* placeRanks(order, lanes, widths, weights, spine) {
  const isOnSpine = new Uint8Array(lanes.ranks.length);
  for (const node of spine) isOnSpine[node] = 1;
  const offsets = order.map((row) => offsetsOf(row, widths, lanes.nodes));
  const x = new Float64Array(lanes.ranks.length);
  order.forEach((row, rank) => {
    const offset = offsets[rank];
    const pinned = row.findIndex((node) => isOnSpine[node]);
    const middle = pinned >= 0 ? offset[pinned] : offset[offset.length - 1] / 2;
    row.forEach((node, index) => (x[node] = offset[index] - middle));
  });
  const ranks = order.map((_, rank) => rank);
  for (let sweep = 0; sweep < 2 * SWEEPS; sweep += 1) {
    const near = sweep % 2 ? lanes.below : lanes.above;
    for (const rank of sweep % 2 ? [...ranks].reverse() : ranks)
      placeRow(order[rank], offsets[rank], near, weights, isOnSpine, x);
    yield;
  }
  return x;
}

// The least distance of every node of a rank from its first.
function offsetsOf(row, widths, nodes) {
  const offsets = [0];
  for (let index = 1; index < row.length; index += 1) {
    const left = row[index - 1],
      right = row[index];
    const gap = left >= nodes || right >= nodes ? LANE_GAP : HORIZONTAL_GAP;
    offsets.push(offsets[index - 1] + (widths[left] + widths[right]) / 2 + gap);
  }
  return offsets;
}

// Minimizes the weighted squared distance to where the nodes of a rank want to be. With
// z = x - offset the least distances become z[0] <= z[1] <= ..., an isotonic regression:
// neighbours that violate the order are pooled at their weighted mean.
function placeRow(row, offsets, near, weights, isOnSpine, x) {
  const totals = [],
    pooled = [],
    sizes = [];
  row.forEach((node, index) => {
    const neighbours = near[node];
    const wanted = isOnSpine[node]
      ? 0
      : neighbours.length
        ? weightedMean(neighbours, x, weights)
        : x[node];
    let weight = isOnSpine[node] ? SPINE_WEIGHT : neighbours.length ? weights[node] : LOOSE_WEIGHT;
    let total = (wanted - offsets[index]) * weight,
      size = 1;
    while (
      totals.length &&
      totals[totals.length - 1] * weight > total * pooled[pooled.length - 1]
    ) {
      total += totals.pop();
      weight += pooled.pop();
      size += sizes.pop();
    }
    totals.push(total);
    pooled.push(weight);
    sizes.push(size);
  });
  let index = 0;
  totals.forEach((total, pool) => {
    for (let member = 0; member < sizes[pool]; member += 1, index += 1)
      x[row[index]] = total / pooled[pool] + offsets[index];
  });
}

function weightedMean(nodes, x, weights) {
  let total = 0,
    sum = 0;
  for (const node of nodes) {
    total += weights[node];
    sum += x[node] * weights[node];
  }
  return sum / total;
}
