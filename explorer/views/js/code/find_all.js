// Text that is looked for in everything that a compilation holds, one kind after another. What the
// page has not got yet is asked for at the other side, kernel by kernel.
//
//     for await (const {kind, hits, done, total} of findAll(app, "fmadd")) ...
//
// hit = {kind, where, line: index or -1, text, go: {selection, tab, step, rule} }

export const KINDS = [
  ["operation", "operations"],
  ["weight", "weights"],
  ["tensor", "tensors"],
  ["ir", "IR"],
  ["loops", "loops"],
  ["c", "source"],
  ["assembly", "assembly"],
  ["rule", "rules"],
];
const MAX_NOTE = 160;

export async function* findAll(app, query) {
  const {data, store} = app;
  const wanted = query.toLowerCase();
  const has = (text) => text.toLowerCase().includes(wanted);
  const whole = (kind, hits) => ({kind, hits, done: 1, total: 1});

  const records = [...data.latest.values()].filter((record) => has(textOf(record)));
  const isWeight = ({family}) => family === "weight";
  const asHit = (kind) => (record) => ({
    kind,
    where: record.id,
    line: -1,
    text: textOf(record).slice(record.id.length + 1, MAX_NOTE),
    go: {selection: record.id},
  });
  yield whole("operation", records.filter((record) => !isWeight(record)).map(asHit("operation")));
  yield whole("weight", records.filter(isWeight).map(asHit("weight")));
  yield whole("tensor", await tensors(data, has));

  const {pass} = store.get();
  const {name, snapshot} = data.head.passes[pass];
  const ir = await data.text(snapshot);
  yield whole(
    "ir",
    linesOf(ir, has, (line) => ({
      kind: "ir",
      where: name,
      go: {selection: ir.owners[line][0], tab: "ir", view: "after"},
    })),
  );

  const total = data.kernels.length;
  for (let index = 0; index < total; index += 1) {
    const kernel = await data.kernel(index);
    const texts = [
      ["loops", kernel.steps.at(-1)?.text],
      ["c", kernel.source],
      ["assembly", kernel.assembly],
    ];
    for (const [kind, text] of texts)
      yield {
        kind,
        done: index + 1,
        total,
        hits: linesOf(text, has, () => ({
          kind,
          where: kernel.name,
          go: {selection: kernel.operations[0], tab: kind, step: null},
        })),
      };
  }
  yield whole("rule", await rules(data, has));
}

function textOf(record) {
  const attributes = record.attributes.map(([name, value]) => `${name} = ${value}`).join(", ");
  return [record.id, record.operation, record.label, record.shape, record.sources.join(" ")]
    .concat(attributes)
    .filter(Boolean)
    .join("  ");
}

function linesOf(text, has, about) {
  if (!text) return [];
  const hits = [];
  text.lines.forEach((line, index) => {
    if (has(line)) hits.push({...about(index), line: index, text: line.trim()});
  });
  return hits;
}

// Tensors have names of their own where errors were measured, and in the plan of memory.
async function tensors(data, has) {
  const found = new Map();
  if (data.head.has.accuracy) {
    const {tensors: names, maker} = await data.accuracy();
    names.forEach((name, column) => {
      if (has(name)) found.set(name, ["compared with the source model", maker(column, Infinity)]);
    });
  }
  if (data.head.has.memory) {
    const {buffers} = await data.memory();
    for (const {id, values, size} of buffers)
      for (const value of values)
        if (has(value) && !found.has(value))
          found.set(value, [`${size.toLocaleString("en-US")} bytes in the buffer ${id}`, value]);
  }
  return [...found].map(([name, [text, operation]]) => ({
    kind: "tensor",
    where: name,
    line: -1,
    text,
    go: {selection: operation},
  }));
}

async function rules(data, has) {
  const hits = [];
  for (const [name, {explanation}] of data.rules) {
    const go = {rule: name};
    if (has(name) || has(explanation))
      hits.push({kind: "rule", where: name, line: -1, text: explanation.split("\n")[0], go});
    const {lines} = await data.ruleText(name);
    lines.forEach((line, index) => {
      if (has(line)) hits.push({kind: "rule", where: name, line: index, text: line.trim(), go});
    });
  }
  return hits;
}
