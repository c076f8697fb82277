// All kernels with their costs; a click leads to the source.

import {element, emptyState} from "../ground/dom.js";
import {drawParts} from "../ground/specification.js";

export async function kernelsView(app, tab) {
  const {data, store} = app;
  if (!data.kernels.length)
    return {
      node: app.session?.isPending("program")
        ? emptyState(
            "Kernels are being made",
            "The passes are done; their kernels are printed now.",
          )
        : emptyState(
            "No kernels",
            "The compilation stopped before kernels were made. Choose a target with code.",
          ),
    };
  const {parts} = await data.chunk(tab.view);
  const {nodes, refresh} = drawParts(app, parts, {
    onrow: ([[operations]]) => {
      app.select(operations[0], "dock");
      if (["operation", "tensors"].includes(store.get().tab)) store.set({tab: "c"});
    },
  });
  return {node: element("div", {class: "scroll"}, nodes), refresh};
}
