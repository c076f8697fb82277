// Lays out graphs one after another with the page's own engine or with ELK; graph_layout.py calls it.
//
//     node graph_layout.mjs graphs.json page explorer/views/js/layout/layered.js
//     node graph_layout.mjs graphs.json elk node_modules/elkjs/lib/elk.bundled.js
//
// graphs.json: {graphs: [{nodes: [id], edges: [[from, to]]}], node: [width, height], room: [width,
// height]}. Prints [{milliseconds, at: {id: [x, y]}, ways: [{points: [[x, y]], kind}]}].

import fs from "node:fs";
import {createRequire} from "node:module";
import {pathToFileURL} from "node:url";

const [file, engine, library] = process.argv.slice(2);
const {graphs, node, room} = JSON.parse(fs.readFileSync(file, "utf8"));
const [width, height] = node;

async function pageEngine() {
  const {layeredDrawing} = await import(pathToFileURL(library));
  let memory = null;
  return async ({nodes, edges}) => {
    const index = new Map(nodes.map((id, position) => [id, position]));
    const steps = layeredDrawing(
      {
        nodes: nodes.map((id) => ({id, width, height, port: ""})),
        edges: edges.map((ends) => ends.map((id) => index.get(id))),
        isLoose: edges.map(() => false),
      },
      memory,
      {width: room[0], height: room[1]},
    );
    let step = steps.next();
    while (!step.done) step = steps.next();
    const drawing = step.value;
    memory = drawing.memory;
    return {
      at: Object.fromEntries(nodes.map((id, position) => [id, drawing.at[position]])),
      ways: drawing.ways,
    };
  };
}

async function elkEngine() {
  const Elk = createRequire(import.meta.url)(library);
  const elk = new Elk();
  return async ({nodes, edges}) => {
    const found = await elk.layout({
      id: "graph",
      layoutOptions: {
        "elk.algorithm": "layered",
        "elk.direction": "DOWN",
        "elk.aspectRatio": String(room[0] / room[1]),
        "elk.layered.considerModelOrder.strategy": "NODES_AND_EDGES",
        "elk.layered.wrapping.strategy": "MULTI_EDGE",
      },
      children: nodes.map((id) => ({id, width, height})),
      edges: edges.map(([from, to], position) => ({
        id: `edge ${position}`,
        sources: [from],
        targets: [to],
      })),
    });
    const place = ({x, y}) => [x, y];
    return {
      at: Object.fromEntries(
        found.children.map(({id, x, y}) => [id, [x + width / 2, y + height / 2]]),
      ),
      ways: found.edges.map(({sections}) => ({
        points: sections.flatMap(({startPoint, bendPoints = [], endPoint}) =>
          [startPoint, ...bendPoints, endPoint].map(place),
        ),
        kind: "",
      })),
    };
  };
}

const layOut = await (engine === "elk" ? elkEngine() : pageEngine());
const results = [];
for (const graph of graphs) {
  const start = performance.now();
  const drawing = await layOut(graph);
  results.push({milliseconds: performance.now() - start, ...drawing});
}
process.stdout.write(JSON.stringify(results));
