// Models of two files, as they are sent: of those that come together each has its partner said.

// [{file, partner}]: weights right before the layers that they are for, so that both are one model
// as soon as these arrive; partner is the layers' name, or "". pairs: [[".layers", ".weights"]]
export function inPairs(files, pairs) {
  const left = new Set(files);
  const found = [];
  for (const [layersSuffix, weightsSuffix] of pairs ?? []) {
    const nets = files.filter(({name}) => name.toLowerCase().endsWith(layersSuffix));
    const weights = files.filter(({name}) => name.toLowerCase().endsWith(weightsSuffix));
    for (const file of weights) {
      const alike = nets.find(({name}) => stem(name) === stem(file.name));
      const only = nets.length === 1 && weights.length === 1 ? nets[0] : null;
      const net = alike ?? only;
      if (!net || !left.has(net)) continue;
      found.push({file, partner: net.name}, {file: net, partner: ""});
      left.delete(file);
      left.delete(net);
    }
  }
  return [...found, ...[...left].map((file) => ({file, partner: ""}))];
}

function stem(name) {
  return name.slice(0, name.lastIndexOf("."));
}
