// Two branches in the place of the main panes: the base on the left, the fork on the right, graph
// above and code below. What is selected, looked at or scrolled to in one is found in the other by
// identity, or by the nodes of the model that it comes from.

import {codeInStep, equalLevels} from "./linked_code.js";
import {TraceData} from "../data.js";
import {carriedInto, selectedIn} from "./propagated.js";
import {button, element, emptyState, replace} from "../ground/dom.js";
import {graphPane} from "../graph/graph.js";
import {createHover} from "../ground/hover.js";
import {inspectorPane} from "../frame/inspector.js";
import {clip} from "../ground/scene.js";
import {LETTERS} from "../ground/sides.js";
import {createStore} from "../state/state.js";

const SHARED = ["tab", "beside", "panes", "view", "blocks", "step", "mode", "metric"];

// branches: [base, fork], two of session.branches()
export function openTwins(app, branches) {
  const body = element("div", {class: "twins-body"});
  const title = element("strong", {class: "twins-pass"});
  const same = element("span", {class: "quiet-text twins-same", role: "status"});
  let sides = [];
  const step = (by) => {
    const own = sides.find(({branch}) => branch.key === app.session.branch()) ?? sides[1];
    const {passes} = own.data.head;
    const next = Math.max(0, Math.min(passes.length - 1, own.store.get().pass + by));
    own.store.set({pass: next, rewrite: null});
  };
  app.openDialog(
    "two branches side by side",
    (close) => [
      element(
        "div",
        {
          class: "twins-head",
        },
        button("‹", "pass before (k)", () => step(-1), {class: "icon"}),
        title,
        same,
        button("›", "next pass (j)", () => step(1), {class: "icon"}),
        element("span", {class: "grow"}),
        button("×", "close (Esc)", close, {class: "icon"}),
      ),
      body,
    ],
    "twins",
  );
  body.closest(".dialog")?.addEventListener("keydown", (event) => {
    const by = {j: 1, k: -1}[event.key];
    const {tagName} = event.composedPath()[0];
    if (!by || event.ctrlKey || event.metaKey || ["INPUT", "TEXTAREA"].includes(tagName)) return;
    event.stopPropagation();
    step(by);
  });
  replace(body, emptyState("Being loaded", "Both branches are on their way."));
  return Promise.all(branches.map((branch) => loadSide(app, branch))).then(
    (loaded) => {
      sides = loaded;
      const name = () => {
        const names = sides.map(({data, store}) => data.head.passes[store.get().pass].name);
        title.textContent =
          names[0] === names[1] ? `after ${names[0]}` : `after ${names.join(" and ")}`;
      };
      keepInStep(app, sides, name);
      for (const {own} of sides)
        own.codeDrawn = () => {
          same.textContent = equalWords(equalLevels(sides[0], sides[1]));
        };
      replace(
        body,
        sides.map((side, index) => columnOf(side, LETTERS[index])),
      );
      for (const side of sides) side.begin();
      name();
    },
    (failure) => replace(body, emptyState("This could not be loaded", failure.message)),
  );
}

// Of the texts that stand beside each other.
function equalWords({equal, other}) {
  return [
    equal.length ? `no difference: ${equal.join(", ")}` : "",
    other.length ? `not the same: ${other.join(", ")}` : "",
  ]
    .filter(Boolean)
    .join(" · ");
}

// A branch with panes of its own, which see it as if it were what the page shows.
async function loadSide(app, branch) {
  const isCurrent = branch.key === app.session.branch();
  const data = isCurrent ? app.data : await dataOf(app, branch.key);
  const shown = app.store.get();
  const pass = isCurrent ? shown.pass : passIn(data, app.data, shown.pass);
  const selection = isCurrent
    ? shown.selection
    : carriedInto(data, selectedIn(app.data, shown.selection));
  const store = createStore({...shown, pass, selection, rewrite: null, open: [], initially: []});
  const own = Object.assign(Object.create(app), {data, store, hover: createHover(), session: null});
  own.goToPass = (next) => store.set({pass: next, rewrite: null});
  own.select = (operation, from) => {
    store.set({selection: operation, rewrite: null});
    if (operation !== null && from !== "graph") own.graph.reveal(operation);
  };
  own.graph = graphPane(own);
  own.inspector = inspectorPane(own);
  const side = {branch, data, store, own};
  side.begin = () => {
    own.inspector.update();
    own.graph.update().then(() => {
      if (store.get().selection !== null) own.graph.reveal(store.get().selection);
    });
  };
  return side;
}

// Another branch's trace, in chunks of the same host.
async function dataOf(app, key) {
  const chunk = (name) => app.data.chunk(`of/${key}/${name}`);
  const data = new TraceData({...app.host, chunk}, await chunk("head"), app.data.revision);
  await data.load();
  return data;
}

// The pass of that name; where there is none, the last one before it that both have.
function passIn(data, other, pass) {
  const names = data.head.passes.map(({name}) => name);
  for (let index = pass; index >= 0; index -= 1) {
    const place = names.indexOf(other.head.passes[index].name);
    if (place >= 0) return place;
  }
  return 0;
}

function columnOf({branch, own}, letter) {
  return element(
    "section",
    {class: "twin", "aria-label": branch.fullLabel},
    element(
      "h3",
      {class: "twin-name", title: clip(branch.fullLabel, 400)},
      element("strong", {}, letter),
      ` ${clip(branch.fullLabel, 90)}`,
    ),
    own.graph.node,
    own.inspector.node,
  );
}

// The identity of an operation of one side on the other.
function counterpartOf(sides) {
  return (side, operation) => {
    const other = sides[1 - sides.indexOf(side)];
    return carriedInto(other.data, selectedIn(side.data, operation));
  };
}

// What changes in one side changes in the other, and nothing comes back.
function keepInStep(app, sides, onchange) {
  let isFollowing = false;
  const following = (work) => {
    if (isFollowing) return;
    isFollowing = true;
    try {
      work();
    } finally {
      isFollowing = false;
    }
  };
  sides.forEach((side, index) => {
    const other = sides[1 - index];
    const counterpart = (operation) => counterpartOf(sides)(side, operation);
    side.store.subscribe((state, changed) => {
      following(() => {
        const patch = Object.fromEntries(
          SHARED.filter((name) => changed.has(name)).map((name) => [name, state[name]]),
        );
        if (changed.has("pass"))
          Object.assign(patch, {pass: passIn(other.data, side.data, state.pass), rewrite: null});
        if (changed.has("selection")) patch.selection = counterpart(state.selection);
        other.store.set(patch);
        if (changed.has("selection") && patch.selection !== null)
          other.own.graph.reveal(patch.selection);
        // The page shows what was found when the twins are closed.
        const current = sides.find(({branch}) => branch.key === app.session.branch());
        if (current) {
          const {selection, pass} = current.store.get();
          app.store.set({selection, pass, rewrite: null});
        }
      });
      onchange();
    });
    side.own.graphMoved = () =>
      following(() => {
        const middle = side.own.graph.middle();
        if (middle !== null) other.own.graph.bring(counterpart(middle), side.own.graph.camera().k);
      });
  });
  codeInStep(sides, counterpartOf(sides));
}
