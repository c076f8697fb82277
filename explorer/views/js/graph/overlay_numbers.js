// Numbers for the operations of one pass: what was measured and counted of launched operations,
// errors of tensors, or a person's own. A launch that several operations became is counted once, at
// the one that it is most of; the others know which one that is.

import {MAX_DECIBELS, errorPosition, quantizedPosition} from "../ground/errors.js";
import {
  amountText,
  bytesText,
  decibelsText,
  decode,
  errorText,
  percentText,
  secondsText,
} from "../ground/numbers.js";
import {launchedOf} from "../ground/launched.js";
import {roofsOf} from "../ground/roof.js";

// fold: what stands for a block, and for several values of one operation: "sum" or "worst" of them.
// needs: the part of a trace without which there are none.
export const MEASURES = [
  {
    id: "time",
    label: "time",
    title: "measured time",
    fold: "sum",
    needs: "profile",
    text: secondsText,
    of: timeOfLaunches,
  },
  {
    id: "error",
    label: "error",
    title: "relative error against the source model",
    fold: "worst",
    needs: "accuracy",
    text: errorText,
    position: errorPosition,
    ends: ["≤1e-9", "1"],
    of: errorsOfPass,
  },
  {
    id: "bytes",
    label: "bytes",
    title: "bytes read and written, at least",
    fold: "sum",
    needs: "kernels",
    text: bytesText,
    of: ({data}) => ofKernels(data, (kernel) => kernel.bytes),
  },
  {
    id: "macs",
    label: "MACs",
    title: "multiply-adds",
    fold: "sum",
    needs: "kernels",
    text: amountText,
    of: ({data}) => ofKernels(data, (kernel) => kernel.flops / 2),
  },
  {
    id: "roof",
    label: "share of roof",
    title: "speed as a share of what the device can do at most",
    fold: "worst",
    isLowWorse: true,
    needs: "profile",
    text: percentText,
    position: (value) => Math.min(1, value),
    ends: ["0 %", "100 %"],
    of: sharesOfRoof,
  },
  {
    id: "sqnr",
    label: "SQNR",
    title: "SQNR against the float model, with all errors before",
    fold: "worst",
    isLowWorse: true,
    needs: "float",
    isOfQuantized: true,
    text: decibelsText,
    position: quantizedPosition,
    ends: [`≥${MAX_DECIBELS} dB`, "0 dB"],
    of: againstFloat,
  },
  {
    id: "layer",
    label: "layer SQNR",
    title: "SQNR of each layer by itself: what quantizing it costs",
    fold: "worst",
    isLowWorse: true,
    needs: "float",
    isOfQuantized: true,
    text: decibelsText,
    position: quantizedPosition,
    ends: [`≥${MAX_DECIBELS} dB`, "0 dB"],
    of: ({data}) => ofLayers(data, "layers"),
  },
  {
    id: "saturation",
    label: "saturation",
    title: "share of elements beyond what is represented",
    fold: "worst",
    needs: "float",
    isOfQuantized: true,
    text: percentText,
    of: ({data}) => ofLayers(data, "saturated"),
  },
];

async function timeOfLaunches({data}) {
  const {events} = await data.profile();
  const found = new Map();
  for (const {operation, start, end} of launchedOf(events))
    found.set(operation, (found.get(operation) ?? 0) + (end - start) / 1e9);
  return found;
}

async function sharesOfRoof({data}) {
  const profile = await data.profile();
  if (profile.counted)
    return new Map(
      profile.counted.layers.map(({operation, least, cycles}) => [operation, least / cycles]),
    );
  const {roof} = roofsOf(profile);
  const found = new Map();
  for (const {operation, start, end, flops, bytes} of profile.events) {
    const most = flops && bytes && end > start && roof({flops, bytes, launches: 1});
    if (most) found.set(operation, flops / (end - start) / most);
  }
  return found;
}

function ofKernels(data, valueOf) {
  const found = new Map();
  for (const [operation, index] of data.kernelOf) {
    const value = valueOf(data.kernels[index]);
    if (value) found.set(operation, value);
  }
  return found;
}

async function errorsOfPass({data, pass}) {
  const accuracy = await data.accuracy();
  return foldedByOperation(accuracy, "accumulated", pass, Math.max, 0);
}

// Before the quantization there is nothing to tell: the program is the float model's.
async function againstFloat({data, pass}) {
  const accuracy = await data.accuracy();
  const values = await data.metric("sqnr", "float");
  return foldedByOperation(accuracy, "float", pass, Math.min, Infinity, values);
}

async function ofLayers(data, what) {
  const known = await data.chunk("quantization");
  return new Map(known.data[what].map(([operation, value]) => [operation, decode(value)]));
}

// After a pass, or after the last one before it that was compared.
function foldedByOperation(accuracy, mode, pass, fold, start, values = null) {
  const rows = accuracy[mode];
  let row = rows.length - 1;
  while (row > 0 && rows[row].pass > pass) row -= 1;
  const found = new Map();
  const shown = values?.[row] ?? rows[row]?.values ?? [];
  shown.forEach((value, column) => {
    if (value === null) return;
    const operation = accuracy.maker(column, row, mode);
    found.set(operation, fold(value, found.get(operation) ?? start));
  });
  return found;
}

function worseOf(measure, a, b) {
  if (Number.isNaN(a) || Number.isNaN(b)) return NaN;
  return measure.isLowWorse ? Math.min(a, b) : Math.max(a, b);
}

export function folded(measure, values) {
  return values.reduce((a, b) => (measure.fold === "sum" ? a + b : worseOf(measure, a, b)));
}

// {values: operation of the graph -> number, partOf: operation -> the one that has its number}.
// `numbers` are by identities of any pass or by names of source nodes.
export function numbersInGraph(data, graph, measure, numbers) {
  const found = new Map(),
    partOf = new Map();
  const bySource = data.operationsBySource(graph);
  for (const [name, value] of numbers) {
    const here = graph.nodes.has(name) ? [name] : standIns(data, graph, bySource, name);
    if (!here.length) continue;
    const [owner, ...others] = here;
    if (!found.has(owner)) found.set(owner, []);
    found.get(owner).push(value);
    for (const other of others) partOf.set(other, owner);
  }
  const values = new Map([...found].map(([id, list]) => [id, folded(measure, list)]));
  for (const id of values.keys()) partOf.delete(id);
  return {values, partOf};
}

// Operations of a graph that come from the same source nodes, the one that is meant first.
function standIns(data, graph, bySource, name) {
  const known = data.latest.get(name);
  const sources = known || data.launchSources.has(name) ? data.sourcesOf(name) : [name];
  const shared = new Map();
  for (const source of sources)
    for (const id of bySource.get(source) ?? []) shared.set(id, (shared.get(id) ?? 0) + 1);
  const family = known?.family;
  const rank = (id) => {
    const record = graph.nodes.get(id);
    return (
      shared.get(id) +
      (record.family === "convolution" ? 100 : 0) +
      (record.family === family ? 10 : 0) -
      (record.family === "movement" ? 5 : 0)
    );
  };
  return [...shared.keys()]
    .filter((id) => !ENDS.has(graph.nodes.get(id).family))
    .sort((a, b) => rank(b) - rank(a));
}
const ENDS = new Set(["input", "output"]);
