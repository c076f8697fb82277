// Going through a trace: to passes, rewrites, operations, and to what has most work.

import {button} from "../ground/dom.js";
import {countText} from "../ground/numbers.js";
import {clip} from "../ground/scene.js";

// Gives the app what keys, buttons and panes go with; `isCompiled`: there are passes to follow.
export function addNavigation(app, isCompiled) {
  const {data, store} = app;
  const {passes} = data.head;

  app.goToPass = (pass) => {
    const next = Math.max(0, Math.min(passes.length - 1, pass));
    store.set({pass: next, rewrite: null});
    app.announce(`${passes[next].name}: ${countText(passes[next].after, "operation")}`);
  };
  // Passes that j, k and the slider stop at: all, or those that changed something.
  app.isStop = (pass) => pass === 0 || passes[pass].changed || !store.get().onlyChanges;
  app.stepPass = (step) => {
    let next = store.get().pass + step;
    while (next >= 0 && next < passes.length && !app.isStop(next)) next += step;
    if (next >= 0 && next < passes.length) app.goToPass(next);
  };
  // more: what was picked of it: a line of the author's program, or of its kernel
  app.select = (operation, from, more = {}) => {
    store.set({selection: operation, rewrite: null, ...more});
    if (operation !== null && from !== "graph") app.graph.reveal(operation);
  };
  app.selectSource = async (name) => {
    const graph = await data.graphOfPass(store.get().pass);
    const found =
      data.operationsBySource(graph).get(name)?.[0] ??
      data.records.find((record) => record.sources.includes(name))?.id;
    if (found === undefined) app.say(`Nothing of ${clip(name, 60)} came into the program.`);
    else app.select(found, "inspector");
  };
  app.goToRewrite = (event) => {
    // New weights have no place in the graph, nor has what the same pass took away again.
    const all = [...event.produced, event.site, ...event.matched];
    const shown = all.find((id) => data.latest.has(id)) ?? null;
    store.set({rewrite: event.index, selection: shown});
    if (shown !== null) app.graph.reveal(shown);
  };
  app.stepRewrite = async (step) => {
    const {pass, rewrite} = store.get();
    const {events} = await data.passDetails(pass);
    const applied = events.filter((event) => event.applied);
    if (!applied.length) {
      app.say("This pass rewrote nothing: j and k go to others.");
      return;
    }
    const at = applied.findIndex((event) => event.index === rewrite);
    const next =
      at < 0 ? (step > 0 ? 0 : applied.length - 1) : (at + step + applied.length) % applied.length;
    app.goToRewrite(applied[next]);
  };
  // The convolution or matrix product with most work: what a first visitor follows to its machine
  // code. Undefined where there is neither.
  app.heaviest = () => {
    const isOne = (name) => data.latest.get(name)?.family === "convolution";
    const kernels = data.kernels
      .filter((kernel) => kernel.operations.some(isOne))
      .sort((a, b) => b.flops - a.flops);
    return (
      kernels[0]?.operations.find(isOne) ??
      [...data.latest.values()].find((record) => record.family === "convolution")?.id
    );
  };
  app.followButton = (attributes = {}) => {
    const operation = app.heaviest();
    if (operation === undefined || !isCompiled) return null; // nothing, or nothing was compiled
    const isConvolution = /conv/.test(
      data.latest.get(operation).label + data.sourcesOf(operation).join(" ").toLowerCase(),
    );
    return button(
      isConvolution ? "Follow a convolution" : "Follow a matrix product",
      `select ${clip(operation, 60)}, which has the most work, and see what became of it`,
      () => app.followHeaviest(),
      attributes,
    );
  };
  app.followHeaviest = async () => {
    const operation = app.heaviest();
    const graph = await data.graphOfPass(store.get().pass);
    const here = data.followInGraph(operation, graph);
    app.select(
      here.find((id) => graph.nodes.get(id).family === "convolution") ?? here[0] ?? operation,
      "inspector",
    );
  };
}
