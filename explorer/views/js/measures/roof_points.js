// What a roofline places, and under which lines: kernels by their measured times, or layers of a
// machine whose cycles are counted, whose peaks follow from its target file.

import {amountText, countText, percentText, secondsText} from "../ground/numbers.js";
import {roofsOf} from "../ground/roof.js";

// {noun, entries: [{kernel, time, work, bytes, operations}], speed, roof, isAbove(entry), bound,
//  peak, peakText, levels: [{name, rate, text}], hasOwnRoofs, words, facts, notes, advice}
// speed and roof in work per unit of time, peak and rates in the same; undefined without peaks.
export function rooflineOf(profile) {
  return profile.counted ? countedRoofline(profile) : measuredRoofline(profile);
}

function measuredRoofline(profile) {
  const spent = new Map();
  for (const event of profile.events) {
    const entry = spent.get(event.kernel) || {
      kernel: event.kernel,
      time: 0,
      work: 0,
      bytes: 0,
      operations: [],
    };
    entry.time += event.end - event.start;
    entry.work += event.flops;
    entry.bytes += event.bytes;
    entry.operations.push(event.operation);
    spent.set(event.kernel, entry);
  }
  const {peak, levels, levelOf, roof} = roofsOf(profile);
  const launchesOfEntry = ({work, bytes, operations}) => ({
    flops: work,
    bytes,
    launches: operations.length,
  });
  const roofOf = (entry) => roof(launchesOfEntry(entry));
  const speed = (entry) => entry.work / entry.time;
  const named = ({name}) => (name === "memory" ? name : `${name.toUpperCase()} cache`);
  const short = ({name}) => (name === "memory" ? name : name.toUpperCase());
  return {
    noun: "kernel",
    entries: [...spent.values()],
    speed,
    roof: roofOf,
    isAbove: (entry) => peak && speed(entry) > 1.02 * roofOf(entry),
    above:
      `above its line: the data was in a nearer ${profile.caches.length ? "level" : "cache"}, ` +
      "or the machine was busy when its peaks were measured",
    bound: (entry) => {
      const level = levelOf(launchesOfEntry(entry));
      if (!level) return "";
      const isMoving = entry.work / entry.bytes < peak / level.gbytes;
      return isMoving ? `bound by ${named(level)}` : "bound by arithmetic";
    },
    peak,
    peakText: peak ? `multiply-adds ${peak.toFixed(0)} GFLOP/s` : "",
    levels: levels.map((level) => ({
      name: level.name,
      rate: level.gbytes,
      text: `${short(level)} ${level.gbytes.toFixed(0)} GB/s`,
    })),
    hasOwnRoofs: false,
    words: {
      axisX: "FLOP per byte: arithmetic intensity →",
      axisY: "GFLOP/s ↑",
      speed: (value) => `${value.toFixed(1)} GFLOP/s`,
      intensity: (value) => `${value.toFixed(1)} FLOP per byte`,
      time: (value) => secondsText(value / 1e9),
      short: (value) => value.toFixed(1),
      heading: peak ? "longest kernels, share of their roof" : "longest kernels, GFLOP/s",
      idle: "without arithmetic",
      details: ({operations}) => countText(operations.length, "launch", "launches"),
    },
    facts: peak
      ? `measured peaks of ${profile.device}, ${countText(profile.threads, "thread")}`
      : profile.device,
    notes:
      levels.length > 1
        ? ["the line of a kernel is that of the nearest level that holds all its data"]
        : [],
    advice: peak
      ? ""
      : "The peaks of this device were not measured: c.profile(with_peaks=True) does it, " +
        "explorer serve by itself.",
  };
}

function countedRoofline({counted}) {
  const {peak, layers, memories} = counted;
  const levels = memories.map(([name, rate, channels]) => ({
    name,
    rate,
    text: `${name} ${short(rate)} B/cycle${channels > 1 ? ` on ${channels} channels` : ""}`,
  }));
  return {
    noun: "layer",
    entries: layers.map((layer) => ({
      ...layer,
      kernel: layer.operation,
      time: layer.cycles,
      work: layer.macs,
      operations: [layer.operation],
    })),
    speed: (entry) => entry.work / entry.time,
    roof: (entry) => entry.work / entry.least,
    isAbove: () => false,
    above: "",
    bound: (entry) => `bound by ${entry.bound === "matrix engine" ? "the array" : entry.bound}`,
    peak,
    peakText: `array ${short(peak)} MAC/cycle`,
    levels,
    hasOwnRoofs: true,
    words: {
      axisX: "MAC per byte: arithmetic intensity →",
      axisY: "MAC/cycle ↑",
      speed: (value) => `${short(value)} MAC/cycle`,
      intensity: (value) => `${short(value)} MAC per byte`,
      time: (value) => countText(value, "cycle"),
      short,
      heading: "longest layers, share of their roof",
      idle: "without multiply-accumulates",
      details: (entry) =>
        `${percentText(entry.work / (peak * entry.time))} of the array is used` +
        (entry.arrayMacs > entry.work
          ? `, ${percentText((entry.arrayMacs - entry.work) / (peak * entry.time))} for padding`
          : ""),
    },
    facts: "peaks by the target's file, in cycles",
    notes: [
      "the tick above a layer is its roof: its multiply-accumulates, or its bytes of all " +
        "memories together, at the peaks of the target file",
      `${percentText(counted.utilization)} of the array is used in all, padding included`,
    ],
    advice: "",
  };
}

const short = (value) => (value >= 100 ? amountText(value) : String(Number(value.toPrecision(3))));
