// What the pointer is over, in any pane: operations and statements ("conv_1/main"). Apart from the
// state, for it changes with every move and belongs into no link.

function createHover() {
  let current = {operations: new Set(), tags: new Set()};
  const listeners = [];
  const key = (operations, tags) => `${[...operations].join("\n")}\t${[...tags].join("\n")}`;
  return {
    get: () => current,
    set(operations, tags) {
      if (key(operations, tags) === key(current.operations, current.tags)) return;
      current = {operations: new Set(operations), tags: new Set(tags)};
      for (const listener of listeners) listener(current);
    },
    subscribe: (listener) => listeners.push(listener),
  };
}
