// The tab of an operation: what it is and what it is connected with; and that of a closed block.

import {button, element, emptyState, section} from "../ground/dom.js";
import {bytesText, errorText, exactText, percentText, secondsText} from "../ground/numbers.js";
import {launchedOf} from "../ground/launched.js";
import {about} from "../desk/pressed_numbers.js";
import {columnsOf} from "../measures/tensors.js";

const MAX_LISTED = 200;

// What stands in a block, by its name, and how much of each kind.
export function blockView(app, {here, graph}, tab) {
  const {store} = app;
  if (tab !== "operation")
    return {
      node: emptyState(
        "A block is many operations",
        "Select one of them: open the block with e, or choose one under the tab of operations.",
        button("operations", "list what is inside", () => store.set({tab: "operation"})),
      ),
    };
  const kinds = new Map();
  for (const id of here) {
    const {operation} = graph.nodes.get(id);
    kinds.set(operation, (kinds.get(operation) || 0) + 1);
  }
  const shown = here.slice(0, MAX_LISTED);
  return {
    node: element(
      "div",
      {class: "scroll padded"},
      section(
        "Kinds",
        element(
          "dl",
          {class: "facts"},
          [...kinds]
            .sort((a, b) => b[1] - a[1])
            .map(([kind, count]) => [
              element("dt", {class: "mono"}, kind),
              element("dd", {}, exactText(count)),
            ]),
        ),
      ),
      section(
        "Operations",
        element(
          "ul",
          {class: "plain"},
          shown.map((id) =>
            element(
              "li",
              {},
              element(
                "button",
                {type: "button", class: "link mono", onclick: () => app.select(id, "inspector")},
                id,
              ),
              " ",
              element("span", {class: "quiet-text"}, graph.nodes.get(id).label),
            ),
          ),
        ),
        here.length > shown.length
          ? element(
              "p",
              {class: "cap"},
              `${here.length - shown.length} more are not listed; search finds them`,
            )
          : null,
      ),
    ),
  };
}

export function operationView(app, context) {
  const {data} = app;
  const {record, graph, details, before} = context;
  if (!record)
    return {
      node: emptyState(
        "Not in this trace",
        "The link names an operation that this compilation doesn't have.",
      ),
    };
  const id = record.id;
  const operation = (name) =>
    element(
      "button",
      {type: "button", class: "link mono", onclick: () => app.select(name, "inspector")},
      name,
    );
  const edgeList = (edges, end) =>
    (edges || []).map((edge) =>
      element(
        "li",
        {},
        operation(edge[end]),
        " ",
        element("span", {class: "quiet-text mono"}, edge.type),
      ),
    );
  const at = graph.nodes.has(id) ? graph : before;
  const operands = edgeList(at.operands.get(id), "source"),
    uses = edgeList(at.uses.get(id), "target");
  const changed = details.diff.changed.filter((change) => change[0] === id);
  const fused = details.diff.fused.find(([name]) => name === id);
  const place = element("dl", {class: "facts"});
  const facts = (list) =>
    element(
      "dl",
      {class: "facts"},
      list
        .filter(Boolean)
        .map(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]),
    );
  describePlace(app, context, place);
  return {
    node: element(
      "div",
      {class: "scroll padded"},
      facts([
        ["result", element("span", {class: "mono"}, record.shape)],
        data.devices.size > 1 && ["device", record.device],
        record.scope && ["scope", record.scope],
      ]),
      changed.length || fused
        ? section(
            "In this pass",
            fused
              ? element(
                  "p",
                  {},
                  "took over ",
                  fused[1].map((name, index) => [index ? ", " : "", operation(name)]),
                )
              : null,
            changed.map((change) =>
              element(
                "div",
                {class: "field-change mono"},
                element("span", {class: "row-label"}, change[1]),
                " ",
                element("span", {class: "was"}, change[2]),
                " → ",
                element("span", {class: "now"}, change[3]),
              ),
            ),
          )
        : null,
      record.attributes.length
        ? section(
            "Attributes",
            facts(
              record.attributes.map(([name, value]) => [
                name,
                element("span", {class: "mono"}, value),
              ]),
            ),
          )
        : null,
      operands.length ? section("Operands", element("ul", {class: "plain"}, operands)) : null,
      uses.length ? section("Used by", element("ul", {class: "plain"}, uses)) : null,
      section("In the program that runs", place),
    ),
  };
}

// Kernel, place in memory, time and error: filled in as they arrive.
function describePlace(app, context, host) {
  const {data, store} = app;
  const add = (name, moves, ...value) =>
    host.append(element("dt", {}, name), element("dd", about(moves), value));
  const {launches, kernel} = context;
  if (kernel !== undefined) {
    const name = data.kernels[kernel].name;
    add(
      "kernel",
      "",
      element(
        "button",
        {type: "button", class: "link mono", onclick: () => store.set({tab: "c"})},
        name,
      ),
    );
  }
  const operation = launches[0] ?? context.record.id;
  const jobs = [];
  if (data.head.has.memory) {
    jobs.push(
      data.memory().then((memory) => {
        const buffer = memory.bufferOf.get(operation) || memory.bufferOf.get(context.record.id);
        if (!buffer) return;
        add(
          "memory",
          "peak_bytes",
          element(
            "button",
            {type: "button", class: "link", onclick: () => store.set({dock: "memory"})},
            `${bytesText(buffer.size)} at ${exactText(buffer.offset)}`,
          ),
          element(
            "span",
            {class: "quiet-text"},
            `, live in steps ${buffer.first} to ${buffer.last - 1}`,
          ),
        );
      }),
    );
  }
  if (data.head.has.profile) {
    jobs.push(
      data.profile().then((profile) => {
        const events = launchedOf(profile.events);
        const total = events.reduce((sum, event) => sum + event.end - event.start, 0);
        const spent = events
          .filter((event) => event.operation === operation)
          .reduce((sum, event) => sum + event.end - event.start, 0);
        if (spent)
          add(
            "time",
            "seconds",
            element(
              "button",
              {type: "button", class: "link", onclick: () => store.set({dock: "timeline"})},
              secondsText(spent / 1e9),
            ),
            element(
              "span",
              {class: "quiet-text"},
              `, ${percentText(spent / total)} of all launches, each timed by itself`,
            ),
          );
      }),
    );
  }
  if (data.head.has.accuracy) {
    jobs.push(
      data.accuracy().then((accuracy) => {
        const column = columnsOf(
          app,
          accuracy,
          accuracy.accumulated,
          context.state,
          context.here,
        )[0];
        const row = accuracy.accumulated.find((item) => item.pass === context.state.pass);
        const value = column === undefined || !row ? null : row.values[column];
        if (value !== null && value !== undefined)
          add(
            "error",
            "sqnr_db",
            element(
              "button",
              {type: "button", class: "link", onclick: () => store.set({tab: "tensors"})},
              errorText(value),
            ),
            element(
              "span",
              {class: "quiet-text"},
              ` of ${accuracy.tensors[column]} after this pass`,
            ),
          );
      }),
    );
  }
  Promise.allSettled(jobs).then(() => {
    if (!host.childElementCount)
      host.replaceWith(
        element("p", {class: "quiet-text"}, "Nothing of it is left to run by itself."),
      );
  });
}
