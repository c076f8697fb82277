// What takes no room in the drawing of a graph: weights, and what is computed from nothing but
// constants. It is shown at the operation that uses it.

// graph: of TraceData.graph; isKept(record): whether it is drawn in any case. Returns a map from
// such an operation to the first one that uses it and is drawn.
export function constantsOf(graph, isKept) {
  const dependent = dependsOnInputs(graph);
  const isConstant = (record) =>
    (record.family === "weight" || !dependent.has(record.id)) &&
    !ENDS.has(record.family) &&
    !record.problem &&
    !isKept(record);
  const hostOf = new Map();
  // Users come after what they use, so that theirs are known by then.
  for (const record of [...graph.nodes.values()].reverse()) {
    if (!isConstant(record)) continue;
    const users = (graph.uses.get(record.id) ?? []).map((edge) => edge.target);
    const host =
      users.find(
        (id) => !isConstant(graph.nodes.get(id)) && !ENDS.has(graph.nodes.get(id).family),
      ) ?? users.map((id) => hostOf.get(id)).find((id) => id !== undefined);
    if (host !== undefined) hostOf.set(record.id, host);
  }
  return hostOf;
}
const ENDS = new Set(["input", "output"]);

// Everything that data flows through; of a graph without inputs all but weights.
function dependsOnInputs(graph) {
  const inputs = [...graph.nodes.values()].filter((record) => record.family === "input");
  const reached = new Set(
    (inputs.length ? inputs : [...graph.nodes.values()]).map((record) => record.id),
  );
  for (const id of reached) for (const edge of graph.uses.get(id) ?? []) reached.add(edge.target);
  return reached;
}
