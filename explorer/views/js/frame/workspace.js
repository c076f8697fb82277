// The four panes on the screen: where each stands, how large it is, which one fills the screen.
// Panes stay in the page when they move, so that nothing in them is scrolled or closed.

import {button, element} from "../ground/dom.js";
import {PANES_OF_FRAME, PLACES, PRESETS, moved, placesOf} from "../state/arrangement.js";
import {icon} from "../ground/icons.js";
import {splitter} from "./splitter.js";

const TITLES = {passes: "passes", graph: "graph", inspector: "inspector", dock: "dock"};
const SIDES = {
  left: {direction: 1, isHorizontal: false},
  right: {direction: -1, isHorizontal: false},
  bottom: {direction: -1, isHorizontal: true},
};
const HOMES = {passes: "left", graph: "left", inspector: "right", dock: "bottom"};
const MAX_SHARE_OF_FRAME = {width: 0.6, height: 0.7};

/** Panes as a preset has them; its tabs are opened. */
export function choosePreset(app, preset) {
  const {panes} = app.store.get();
  app.store.set({
    panes: {...panes, preset, places: null, large: "", levels: null},
    ...PRESETS[preset].tabs,
  });
  app.announce(`arrangement ${preset}: ${PRESETS[preset].title}`);
}

// As large as the screen, or as it was; without a name the one that was pointed at last.
export function enlarge(app, name = app.workspace.pointedAt()) {
  const {panes} = app.store.get();
  app.store.set({panes: {...panes, large: panes.large === name ? "" : name}});
}

// The arrangements, for the bar on top.
export function presetChoice(app) {
  const {store} = app;
  const select = element(
    "select",
    {
      class: "preset-select",
      "aria-label": "arrangement of the panes",
      title: "what is large: graph (G), source (S), memory (M), accuracy (A), time (T)",
      onchange: () => choosePreset(app, select.value),
    },
    Object.entries(PRESETS).map(([name, {title}]) =>
      element("option", {value: name, title, selected: store.get().panes.preset === name}, name),
    ),
  );
  store.subscribe(({panes}, changed) => {
    if (changed.has("panes")) select.value = panes.preset;
  });
  return select;
}

// panes: {passes, graph, inspector, dock}: their elements; found: what lists what was found
export function workspace(app, panes, found) {
  const {store} = app;
  const node = element("main", {class: "panes"});
  let pointedAt = "graph";
  const bars = Object.fromEntries(Object.keys(SIDES).map((place) => [place, bar(place)]));
  for (const name of PANES_OF_FRAME) {
    panes[name].dataset.pane = name;
    const note = () => {
      pointedAt = name;
    };
    panes[name].addEventListener("pointerenter", note);
    panes[name].addEventListener("focusin", note);
    // Rows of tabs need their whole width, and may be two.
    const head = panes[name].querySelector(".pane-head") ?? panes[name];
    head.append(tools(name));
  }
  node.append(
    panes.passes,
    bars.left,
    panes.graph,
    bars.right,
    panes.inspector,
    bars.bottom,
    panes.dock,
    found,
  );
  found.style.gridArea = "found";

  function bar(place) {
    const paneOf = () => panes[placesOf(store.get().panes)[place]];
    const {direction, isHorizontal} = SIDES[place];
    return splitter({
      label: "size of a pane",
      isHorizontal,
      direction,
      most: () =>
        isHorizontal
          ? node.clientHeight * MAX_SHARE_OF_FRAME.height
          : node.clientWidth * MAX_SHARE_OF_FRAME.width,
      current: () => paneOf().getBoundingClientRect()[isHorizontal ? "height" : "width"],
      resize: (pixels) => {
        const {panes: now} = store.get();
        const sizes = {...now.sizes[now.preset], [place]: pixels};
        if (pixels === null) delete sizes[place];
        store.set({panes: {...now, sizes: {...now.sizes, [now.preset]: sizes}}});
      },
    });
  }

  // Where it stands, and whether it fills the screen.
  function tools(name) {
    const large = button(icon("enlarge"), "", () => enlarge(app, name), {class: "icon enlarge"});
    const place = element(
      "select",
      {
        class: "place-select icon",
        "aria-label": `place of the ${TITLES[name]}`,
        title: "dock this pane elsewhere, or hide it",
        onchange: () => {
          const {panes: now} = store.get();
          store.set({panes: moved(now, name, place.value === "hidden" ? "" : place.value)});
        },
      },
      [...PLACES, "hidden"].map((value) => element("option", {value}, value)),
    );
    return element(
      "span",
      {class: "pane-tools"},
      element("span", {class: "place-host", title: place.title}, icon("place"), place),
      large,
    );
  }

  function draw() {
    const {panes: now} = store.get();
    const places = now.large ? {centre: now.large} : {...placesOf(now)};
    // The list of what was found stands where the lowest pane is, as long as it is open.
    if (!found.hidden) delete places.bottom;
    node.dataset.preset = now.preset;
    node.classList.toggle("enlarged", Boolean(now.large));
    for (const name of PANES_OF_FRAME) {
      const place = PLACES.find((other) => places[other] === name);
      const pane = panes[name];
      pane.hidden = !place;
      pane.style.gridArea = place ?? "";
      pane.dataset.place = place ?? "hidden";
      const large = pane.querySelector(".enlarge");
      const words = now.large
        ? "back to the other panes (z, Esc)"
        : `let the ${TITLES[name]} fill the screen (z)`;
      large.title = words;
      large.setAttribute("aria-label", words);
      large.setAttribute("aria-pressed", String(Boolean(now.large)));
      pane.querySelector(".place-select").value =
        PLACES.find((other) => placesOf(now)[other] === name) ?? "hidden";
    }
    for (const [place, splitting] of Object.entries(bars)) {
      splitting.hidden = !places[place];
      splitting.style.gridArea = `${place}-bar`;
      const [what, name] = [SIDES[place].isHorizontal ? "height" : "width", places[place]];
      if (name) splitting.setAttribute("aria-label", `${what} of the ${TITLES[name]}`);
      const size = now.sizes[now.preset]?.[place];
      if (size) node.style.setProperty(`--${place}`, `${size}px`);
      else node.style.removeProperty(`--${place}`);
    }
    node.style.gridTemplate = template(places, !found.hidden);
  }

  // A pane that is asked for is seen.
  function show(name) {
    let {panes: now} = store.get();
    if (now.large && now.large !== name) now = {...now, large: ""};
    const isPlaced = PLACES.some((place) => placesOf(now)[place] === name);
    if (!isPlaced) now = moved(now, name, HOMES[name]);
    store.set({panes: now});
  }

  store.subscribe((_, changed) => {
    if (changed.has("panes")) draw();
    else if (changed.has("dock")) show("dock");
    else if (changed.has("tab")) show("inspector");
  });
  draw();
  return {
    node,
    draw,
    show,
    pointedAt: () => pointedAt,
    // The pane that fills the screen goes back to its place; false where none does.
    shrink() {
      const {panes: now} = store.get();
      if (!now.large) return false;
      store.set({panes: {...now, large: ""}});
      return true;
    },
  };
}

// Rows and columns for the places that are taken, as `grid-template` has them.
function template(places, hasFound) {
  const columns = [["centre", "minmax(0, 1fr)"]];
  if (places.left) columns.unshift(["left", "var(--left)"], ["left-bar", "4px"]);
  if (places.right) columns.push(["right-bar", "4px"], ["right", "var(--right)"]);
  const row = (names, height) => `"${names.join(" ")}" ${height}`;
  const rows = [
    row(
      columns.map(([name]) => name),
      "minmax(0, 1fr)",
    ),
  ];
  if (places.bottom)
    for (const [name, height] of [
      ["bottom-bar", "4px"],
      ["bottom", "var(--bottom)"],
    ])
      rows.push(
        row(
          columns.map(() => name),
          height,
        ),
      );
  if (hasFound)
    rows.push(
      row(
        columns.map(() => "found"),
        "var(--found)",
      ),
    );
  return `${rows.join(" ")} / ${columns.map(([, width]) => width).join(" ")}`;
}
