// What the pointer is over, in any pane: operations, statements ("conv_1/main") and nodes of the
// source model. Apart from the state, for it changes with every move and belongs into no link.

export function createHover() {
  let current = {operations: new Set(), tags: new Set(), nodes: new Set(), from: null};
  const listeners = [];
  const key = (...names) => names.map((list) => [...list].join("\n")).join("\t");
  return {
    get: () => current,
    // `from`: the pane of code that is hovered; the others scroll to what belongs to it.
    set(operations, tags, {nodes = [], from = null} = {}) {
      if (key(operations, tags, nodes) === key(current.operations, current.tags, current.nodes))
        return;
      current = {operations: new Set(operations), tags: new Set(tags), nodes: new Set(nodes), from};
      for (const listener of listeners) listener(current);
    },
    subscribe: (listener) => listeners.push(listener),
  };
}
