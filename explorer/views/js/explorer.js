// The explorer: panes wired to one state. `render({model, el})` draws it into an element; the
// model is anywidget's, Panel's, or the plain object of an offline page (host.js).

import {carriedInto, passCarriedInto, selectedIn} from "./branches/carried.js";
import {TraceData} from "./data.js";
import {dockPane} from "./frame/dock.js";
import {button, element, emptyState, replace} from "./ground/dom.js";
import {createDraft} from "./branches/fork.js";
import {findEverywhere} from "./frame/find_everywhere.js";
import {graphPane} from "./graph/graph.js";
import {adaptHost} from "./ground/host.js";
import {createHover} from "./ground/hover.js";
import {createLooks, noteSizes, sizesOf} from "./ground/looks.js";
import {createPlaces} from "./ground/places.js";
import {inspectorPane} from "./frame/inspector.js";
import {handleKey, helpContent} from "./frame/keys.js";
import {countText} from "./ground/numbers.js";
import {problemsBanner} from "./measures/operators.js";
import {createFiles} from "./frame/saving.js";
import {passesPane} from "./frame/passes.js";
import {clip} from "./ground/scene.js";
import {createSession} from "./branches/session.js";
import {isKnown, linkNotice, linkProblems} from "./ground/shared_link.js";
import {createStore, placeFromLink, stateFromLink, stateToLink} from "./ground/state.js";
import {LOOK, STYLE} from "./theme.js";
import {topBar} from "./frame/topbar.js";
import {workspace} from "./frame/workspace.js";

let instances = 0;

function render({model, el}) {
  const host = adaptHost(model);
  const root = element("div", {class: `explorer mode-${host.mode}`, tabindex: -1});
  const style = document.createElement("style");
  style.textContent = STYLE;
  const stage = element("div", {class: "stage"});
  const banner = element("div", {class: "banner-host"});
  const announcer = element("div", {class: "announcer", role: "status", "aria-live": "polite"});
  root.append(style, banner, stage, announcer);
  el.append(root);

  const looks = createLooks(host);
  const files = createFiles(host);
  const theme = followTheme(root, looks, () => app?.repaint());
  let app = null;
  let session = null;
  let revision = -1;
  let branch = null;
  let loading = null; // data of what is shown next
  let shownModel = ""; // key of the model that `app` shows
  const left = new Map(); // key of a model -> {state, pass, camera, model} as it was left
  let notice = ""; // what of a link could not be restored
  let returning = null; // {branch, link} that Back or Forward went to, until it is shown
  const places =
    host.mode === "notebook"
      ? null
      : createPlaces({
          isGuarded: host.mode === "app",
          onreturn: goBackTo,
          onleave: () => app?.say("One more step back leaves the explorer; what is open stays."),
        });

  function goBackTo(place) {
    returning = null;
    if (!session || place.branch === session.branch() || place.branch === "") {
      app?.goTo(place.link);
      return;
    }
    if (!session.branches().some(({key}) => key === place.branch)) {
      app?.say("That branch is not there any more: undo brings it back.");
      return;
    }
    returning = place;
    session.show(place.branch);
  }

  function start() {
    const head = host.get("head");
    drawBanner();
    if (!head?.passes) {
      app?.stop();
      [app, loading, branch] = [null, null, null];
      revision = host.get("revision") ?? -1;
      replace(stage, waiting());
      return;
    }
    revision = host.get("revision") ?? 0;
    const isSame = app?.ready && !loading && branch === host.get("branch") && branch !== undefined;
    branch = host.get("branch");
    if (isSame) {
      app.learn(head, revision);
      return;
    }
    const model = session?.model() ?? "";
    const data = new TraceData(host, head, revision);
    loading = data;
    if (!app) replace(stage, waiting());
    // What is shown stays until all is there, and what is done in it until then counts.
    data.load().then(
      () => {
        if (loading !== data) return;
        loading = null;
        app?.stop();
        if (app)
          left.set(shownModel, {
            state: {...app.store.get(), rewrite: null},
            passes: app.data.head.passes.slice(0, app.store.get().pass + 1).map(({name}) => name),
            camera: app.graph.camera(),
            searchSettings: app.searchSettings,
            model: shownModel,
            carried: selectedIn(app.data, app.store.get().selection),
            isRefused: Boolean(app.refusal),
          });
        const kept = left.get(model) ?? left.get(shownModel) ?? null;
        shownModel = model;
        const place = returning?.branch === branch ? returning : null;
        returning = null;
        const isReturn = Boolean(place) || !app;
        app = createApp({
          host,
          data,
          root,
          session,
          theme,
          files,
          looks,
          places,
          announcer,
          kept,
          model,
          onnotice,
        });
        replace(stage, app.node);
        app.begin(isReturn);
        if (place) app.goTo(place.link);
        drawBanner();
      },
      (failure) => {
        if (loading === data)
          replace(
            stage,
            emptyState(
              "The trace could not be loaded",
              failure.message,
              button("try again", "load it again", () => start()),
            ),
          );
      },
    );
  }

  function waiting() {
    const opened = session?.opening() ?? "";
    if (loading)
      return element(
        "div",
        {class: "waiting"},
        emptyState(`Drawing ${clip(opened, 60)}`, "The graph of one pass comes first."),
      );
    if (session?.status() === "working")
      return element(
        "div",
        {class: "waiting"},
        emptyState(
          `Opening ${clip(opened, 60)}`,
          "Every pass is recorded; the explorer opens when all have run.",
        ),
      );
    if (session?.isKnown())
      return element(
        "div",
        {class: "waiting"},
        emptyState(
          "Nothing is open",
          "Open a model or a saved trace above, or drop a file on this page.",
        ),
      );
    if (host.mode === "app")
      return element(
        "div",
        {class: "waiting"},
        emptyState("Connecting", "The compiler's side answers in a moment."),
      );
    return emptyState("No trace", "There is nothing to explore yet.");
  }

  // The same element stays where it is: a click on it must not be lost while results arrive.
  function drawBanner() {
    const node =
      session?.banner() ??
      (notice ? linkNotice(notice, () => onnotice("")) : (app?.refusal ?? null));
    if (banner.firstChild !== node) replace(banner, node);
    banner.hidden = !banner.childElementCount;
  }

  function onnotice(text) {
    notice = text;
    drawBanner();
  }

  let restoresLooks = true; // once, with the first word of the other side
  session = createSession(
    host,
    () => {
      if (restoresLooks) {
        restoresLooks = false;
        looks.restore(session.looks());
        theme.restore();
      }
      drawBanner();
      app?.sessionChanged();
      // The first compilation failed or was cancelled: there is no stage to keep.
      if (!app) replace(stage, waiting());
    },
    root,
  );
  if (session) root.insertBefore(session.strip, banner);
  host.receive((message) => {
    files.receive(message);
    app?.data.receive(message);
    loading?.receive(message);
  });
  host.on("revision", () => {
    if (host.get("revision") !== revision) start();
  });
  const keyTarget = host.mode === "notebook" ? root : document;
  const onkey = (event) => {
    if (app?.ready) handleKey(app, event);
    if (host.mode === "notebook") keepFromNotebook(event);
  };
  keyTarget.addEventListener("keydown", onkey);
  start();
  host.ready();
  return () => {
    keyTarget.removeEventListener("keydown", onkey);
    places?.stop();
    theme.stop();
    root.remove();
  };
}

const withoutUnset = (state) =>
  Object.fromEntries(Object.entries(state).filter(([, value]) => value !== undefined));

// kept: {state, passes: names up to that which is shown, camera, searchSettings, model, carried,
// isRefused} of the compilation that was looked at before this one
function createApp({
  host,
  data,
  root,
  session,
  theme,
  files,
  looks,
  places,
  announcer,
  kept,
  model,
  onnotice,
}) {
  const usesLink = places !== null;
  const {passes} = data.head;
  // A page without an address of its own begins where its workspace was left.
  const address = window.location.hash.length > 1 ? window.location.hash : (session?.place() ?? "");
  const fromLink = usesLink && !kept ? stateFromLink(address, data.head, Boolean(session)) : {};
  // The first visit opens where there is most to see: the pass that fused most, the first of
  // equals.
  const weight = (pass) => 1000 * pass.fused + pass.removed;
  const start = passes.findIndex((pass) => pass.level !== "source");
  const eventful = passes.reduce(
    (best, pass, index) =>
      index > start && weight(pass) > (best > start ? weight(passes[best]) : 0) ? index : best,
    Math.max(0, start),
  );
  // A branch is looked at where the one before was, or at the last pass before that it has, too.
  const again = kept ? passCarriedInto(passes, kept.passes) : -1;
  const isBranch = kept?.model === model;
  const initially = data.head.blocks.initially ?? [];
  // Of a wrong program the first thing to see is what is wrong.
  const {fault} = data.head.summary;
  const first = fault?.pass ?? eventful;
  const atFault = fault ? {dock: "accuracy", selection: fault.operation} : {};
  const fresh = {open: initially, initially, ...(start < 0 ? {dock: "model"} : atFault)};
  // Another model starts at its own first place; how a person likes to look at things stays.
  const isOther = kept && !isBranch;
  const liked = isOther && kept.isRefused ? {...kept.state, dock: undefined} : kept?.state;
  const initial = kept
    ? {
        ...withoutUnset(liked),
        ...(isBranch
          ? {initially, selection: carriedInto(data, kept.carried)}
          : {selection: null, step: null, blocks: null, ...fresh}),
        pass: again >= 0 && isBranch ? again : first,
      }
    : {pass: first, ...fresh, ...placeOf(data.head), ...fromLink};
  const store = createStore(initial);
  store.set({panes: {...store.get().panes, sizes: sizesOf(looks)}});
  store.subscribe((state, changed) => {
    if (changed.has("panes") && !app.stopped) noteSizes(looks, state.panes.sizes);
  });
  instances += 1;
  const app = {
    host,
    data,
    root,
    session,
    store,
    hover: createHover(),
    look: createLook(),
    files,
    looks,
    searchSettings: kept?.searchSettings,
    id: instances,
    ready: false,
  };
  app.draft = session ? createDraft(session) : null;
  app.background = element("span", {class: "background", role: "status"});

  app.announce = (text) => {
    announcer.textContent = text;
  };
  // What everybody shall see for a moment.
  let saying = 0;
  app.say = (text) => {
    app.announce(text);
    announcer.classList.add("shown");
    clearTimeout(saying);
    saying = setTimeout(() => announcer.classList.remove("shown"), 1600);
  };
  app.toggleTheme = () => {
    theme.toggle();
    app.repaint();
  };
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
  app.select = (operation, from) => {
    store.set({selection: operation, rewrite: null});
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
    if (operation === undefined || start < 0) return null; // nothing, or nothing was compiled
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
  app.copy = async (text, said = "Copied.") => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      // Pages from a file have no clipboard API: a selected text field does the same.
      const field = element("textarea", {class: "copy-field", "aria-hidden": "true"}, text);
      root.append(field);
      field.select();
      document.execCommand("copy");
      field.remove();
    }
    app.say(said);
  };
  let dialog = null; // {node, before}
  app.hasDialog = () => dialog !== null;
  app.closeDialog = () => {
    if (!dialog) return false;
    dialog.node.remove();
    const {before} = dialog;
    dialog = null;
    (before?.isConnected ? before : root).focus({preventScroll: true});
    return true;
  };
  // content(close) -> what stands in it. What had the focus before gets it back.
  app.openDialog = (label, content, className = "") => {
    const before = dialog?.before ?? root.querySelector(":focus");
    dialog?.node.remove();
    const close = () => app.closeDialog();
    const box = element(
      "div",
      {
        class: `dialog ${className}`,
        role: "dialog",
        "aria-modal": "true",
        "aria-label": label,
        tabindex: -1,
        onkeydown: keepFocus,
      },
      content(close),
    );
    dialog = {
      before,
      node: element(
        "div",
        {
          class: "veil",
          onclick: (event) => {
            if (event.target === event.currentTarget) close();
          },
        },
        box,
      ),
    };
    root.append(dialog.node);
    box.focus();
  };
  app.showHelp = () => {
    if (!app.closeDialog()) app.openDialog("help", (close) => helpContent(app, close));
  };
  app.repaint = () => {
    app.graph?.redraw();
    app.dock?.repaint();
  };

  app.openFork = () => {
    store.set({tab: "fork"});
    app.root
      .querySelector('.inspector .knob, .inspector [data-tab="fork"]')
      ?.focus({preventScroll: true});
  };
  // More is known of this compilation: panes draw what is new, and nothing else moves.
  app.learn = async (head, revision) => {
    const before = data.head;
    await data.refresh(head, revision);
    if (!app.ready) return;
    app.bar.learn();
    app.graph.learn();
    app.passes.draw();
    app.inspector.update(true);
    app.dock.learn(before.has, head.has);
  };
  app.sessionChanged = () => {
    app.markRefusedStep?.();
    const text = session.background();
    replace(
      app.background,
      text ? [element("span", {class: "spin", "aria-hidden": "true"}), text] : null,
    );
    const seen = JSON.stringify([
      session.branches(),
      session.against(),
      session.turns(),
      session.bisection(),
      session.isBisecting(),
      session.points(),
      session.at(),
    ]);
    if (!app.ready || seen === app.seenSession) return;
    app.seenSession = seen;
    if (["compare", "accuracy", "branches"].includes(store.get().dock)) app.dock.update();
  };
  const branch = host.get("branch") || null;
  app.node = element("div", {class: "frame", "data-model": model, "data-branch": branch});
  app.begin = (isReturn) => {
    app.passes = passesPane(app);
    app.graph = graphPane(app);
    app.inspector = inspectorPane(app);
    app.dock = dockPane(app);
    app.everywhere = findEverywhere(app);
    app.workspace = workspace(
      app,
      {
        passes: app.passes.node,
        graph: app.graph.node,
        inspector: app.inspector.node,
        dock: app.dock.node,
      },
      app.everywhere.node,
    );
    app.bar = topBar(app);
    replace(app.node, app.bar.node, app.workspace.node);
    app.passes.draw();
    const {selection} = store.get();
    if (isBranch) app.graph.lookAt(kept.camera);
    app.graph.update().then(() => {
      if (selection !== null) app.graph.reveal(selection);
    });
    app.inspector.update();
    app.dock.update();
    app.refusal = problemsBanner(app);
    app.ready = true;
    if (usesLink) {
      store.subscribe((_, changed) => {
        if (!app.stopped) notePlace(changed);
      });
      window.addEventListener("hashchange", followLink);
    }
    if (usesLink && !kept) noteLink();
    // Another model or branch is another link, before anything in it is touched.
    if (session) {
      places?.arrive(here(), session.branch(), isReturn);
      app.sessionChanged();
    }
  };
  // A link says which pane stands where; how large it is follows the person.
  const sized = (patch) =>
    patch.panes ? {...patch, panes: {...patch.panes, sizes: store.get().panes.sizes}} : patch;
  const here = () => stateToLink(store.get(), session?.link());
  app.here = here;
  const notePlace = (changed) => {
    const link = here();
    places.move(link, app.isReturning ? new Set() : changed, session?.branch() ?? "");
    session?.notePlace(link);
  };
  // A place that Back or Forward went to: all of it, not only what its link says.
  app.goTo = (link) => {
    app.isReturning = true;
    store.set(sized(placeFromLink(link, data.head, Boolean(session), store.get().initially)));
    app.isReturning = false;
    const {selection} = store.get();
    if (selection !== null) app.graph.reveal(selection);
  };
  const noteLink = () =>
    linkProblems(window.location.hash, data, Boolean(session)).then((problems) => {
      if (app.stopped || !problems.length) return;
      if (store.get().selection !== null && !isKnown(data, store.get().selection))
        store.set({selection: null});
      onnotice(`It names ${problems.join("; ")}.`);
    });
  const followLink = () => {
    if (places?.isOurs()) return;
    store.set(sized(stateFromLink(window.location.hash, data.head, Boolean(session))));
    session?.follow(window.location.hash);
    noteLink();
  };
  app.stop = () => {
    app.stopped = true;
    window.removeEventListener("hashchange", followLink);
  };
  return app;
}

// To a notebook a single letter is a command: x cuts the cell with the explorer in it. Those with
// Ctrl, Alt or Meta (save, run) stay the notebook's.
function keepFromNotebook(event) {
  if (!event.ctrlKey && !event.metaKey && !event.altKey) event.stopPropagation();
}

// Where a cell asks the explorer to open: names of a pass, an operation, tabs.
function placeOf({at: asked, passes}) {
  const at = asked ?? {pass: "", operation: "", dock: "", tab: ""};
  const pass = passes.findIndex(({name}) => name === at.pass);
  return {
    ...(pass >= 0 ? {pass} : {}),
    ...(at.operation ? {selection: at.operation} : {}),
    ...(at.dock ? {dock: at.dock} : {}),
    ...(at.tab ? {tab: at.tab} : {}),
  };
}

// The Tab key goes round within a dialog.
function keepFocus(event) {
  if (event.key !== "Tab") return;
  const stops = [
    ...event.currentTarget.querySelectorAll('button, [tabindex="0"], a, input, select'),
  ];
  const index = stops.indexOf(event.target);
  if (!stops.length || (index >= 0 && index + (event.shiftKey ? -1 : 1) in stops)) return;
  event.preventDefault();
  stops[event.shiftKey ? stops.length - 1 : 0].focus();
}

// Light or dark: what the person chose here, else the host (JupyterLab), else the system.
function followTheme(root, looks, onchange) {
  const named = (name) => (["light", "dark"].includes(name) ? name : null);
  let chosen = named(looks.get("theme"));
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const apply = () => {
    const lab = document.body.getAttribute("data-jp-theme-light");
    const isDark = lab === null ? system.matches : lab === "false";
    root.dataset.theme = chosen ?? (isDark ? "dark" : "light");
    onchange();
    // JupyterLab hides everything while it changes its theme: what is painted by hand has no size.
    requestAnimationFrame(onchange);
  };
  const observer = new MutationObserver(apply);
  observer.observe(document.body, {attributes: true, attributeFilter: ["data-jp-theme-light"]});
  system.addEventListener("change", apply);
  root.dataset.theme = "light";
  queueMicrotask(apply);
  return {
    toggle() {
      chosen = root.dataset.theme === "dark" ? "light" : "dark";
      looks.set("theme", chosen);
      apply();
    },
    restore() {
      chosen = named(looks.get("theme"));
      apply();
    },
    stop() {
      observer.disconnect();
      system.removeEventListener("change", apply);
    },
  };
}

// Names, glyphs and meanings of families, verdicts and differences; the scale of errors.
function createLook() {
  const table = (list) => new Map(list.map((look) => [look.name, look]));
  const families = table(LOOK.families),
    verdicts = table(LOOK.verdicts),
    differences = table(LOOK.differences);
  const {scale} = LOOK;
  return {
    family: (name) => families.get(name) || families.get(""),
    verdict: (name) => verdicts.get(name) || verdicts.get("not-run"),
    difference: (name) => differences.get(name),
    scale: (position) => scale[Math.min(scale.length - 1, Math.floor(position * scale.length))],
  };
}

export default {render};
