// What a device can do at most: its multiply-adds, or what its memory brings for them (Williams,
// Waterman, Patterson, "Roofline", CACM 52(4), 2009).

// levels: caches and the memory, the nearest first; none where the peaks were not measured.
// roof({flops, bytes, launches}) -> GFLOP/s under the nearest level that holds what one launch
// reads and writes; undefined without peaks.
export function roofsOf(profile) {
  const {peakGflops: peak, peakGbytes: bandwidth} = profile;
  const memory = bandwidth ? [{name: "memory", bytes: Infinity, gbytes: bandwidth}] : [];
  const levels = peak ? [...profile.caches.filter(({gbytes}) => gbytes), ...memory] : [];
  const levelOf = ({bytes, launches}) => levels.find((level) => bytes / launches <= level.bytes);
  const roof = (entry) => {
    if (!peak) return undefined;
    const level = levelOf(entry);
    return level ? Math.min(peak, (entry.flops / entry.bytes) * level.gbytes) : peak;
  };
  return {peak, levels, levelOf, roof};
}
