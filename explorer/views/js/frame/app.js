// What is looked at: the state of one compilation's page, its panes, and the link that leads there.

import {addMessages} from "./messages.js";
import {addNavigation} from "./navigation.js";
import {createDraft} from "../branches/draft.js";
import {clip} from "../ground/scene.js";
import {createHover} from "../ground/hover.js";
import {createLook} from "../ground/meanings.js";
import {createStore, placeFromLink, stateFromLink, stateToLink} from "../state/state.js";
import {dockPane} from "./dock.js";
import {element, replace} from "../ground/dom.js";
import {elapsedText} from "../ground/elapsed.js";
import {FIXED} from "../ground/lever_words.js";
import {findEverywhere} from "./find_everywhere.js";
import {addressOf, firstPlace} from "./first_place.js";
import {graphPane} from "../graph/graph.js";
import {helpContent} from "./keys.js";
import {openLevers, openReason} from "../desk/levers.js";
import {about, pressNumbers} from "../desk/pressed_numbers.js";
import {inspectorPane} from "./inspector.js";
import {hasTab, isKnown, linkProblems} from "../state/shared_link.js";
import {noteSizes, sizesOf} from "../state/appearance.js";
import {passesPane} from "./passes.js";
import {problemsBanner} from "./problems.js";
import {topBar} from "./topbar.js";
import {workspace} from "./workspace.js";

const TOUCHED = ["pass", "selection", "tab", "dock", "overlay", "blocks", "open"];
let instances = 0;

// kept: {state, passes, camera, searchSettings, model, carried, isRefused} of the compilation that
// was looked at before this one
export function createApp({
  host,
  data,
  root,
  session,
  theme,
  files,
  looks,
  places,
  announcer,
  dialogs,
  kept,
  model,
  isRead = false,
  onnotice,
}) {
  const usesLink = places !== null && !isRead;
  const fromLink =
    usesLink && !kept ? stateFromLink(addressOf(session), data.head, Boolean(session)) : {};
  const isBranch = kept?.model === model;
  const store = createStore(firstPlace({data, kept, isBranch, fromLink}));
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
    isRead,
    ...dialogs,
  };
  let begun = store.get();
  // Whether a person did anything in a model as it was read.
  app.isTouched = () =>
    !app.graph.camera().isFitted || TOUCHED.some((name) => store.get()[name] !== begun[name]);
  // What of the state is there for want of anything else.
  app.unset = () => (isRead && store.get().dock === begun.dock ? {dock: undefined} : {});
  app.draft = session ? createDraft(session) : null;
  app.background = element("span", {class: "background", role: "status", ...about(FIXED.progress)});
  app.backgroundTimes = elapsedText();

  addMessages(app, announcer, root);
  addNavigation(
    app,
    data.head.passes.some((pass) => pass.level !== "source"),
  );
  app.toggleTheme = () => {
    theme.toggle();
    app.repaint();
  };
  app.showHelp = () => {
    if (!app.closeDialog()) app.openDialog("help", (close) => helpContent(app, close));
  };
  app.repaint = () => {
    app.graph?.redraw();
    app.dock?.repaint();
  };

  app.openLevers = (quantity, of) => openLevers(app, quantity, of);
  app.openReason = (reason, number) => openReason(app, reason, number);
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
    const {words, key, done, total} = session.background();
    if (words) app.backgroundTimes.show(key, done, total);
    else app.backgroundTimes.end();
    replace(
      app.background,
      words
        ? [element("span", {class: "spin", "aria-hidden": "true"}), words, app.backgroundTimes.node]
        : null,
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
    const attached = [...session.data(), session.isPending("accuracy")].join("\n");
    if (app.ready && attached !== app.seenData) app.bar.learn();
    if (app.ready) app.dock.sessionChanged();
    if (app.ready) judgeTab();
    app.seenData = attached;
    if (!app.ready || seen === app.seenSession) return;
    app.seenSession = seen;
    const isShown = !isRead && session.model() === model; // the next one may not be drawn yet
    const pair = isShown ? session.takePair() : null;
    if (pair) {
      session.compareView = "";
      session.compareWith([pair.key]);
      store.set({dock: "compare"});
    }
    if (["compare", "accuracy", "branches", "tries"].includes(store.get().dock)) app.dock.update();
  };
  const branch = host.get("branch") || null;
  app.node = element("div", {class: "frame", "data-model": model, "data-branch": branch});
  pressNumbers(app, app.node);
  // The first picture is there, of one pass: the operations of the others come behind it.
  const complete = () =>
    data.whole().then(
      () => {
        if (app.stopped) return;
        app.graph.update();
        app.inspector.update(true);
        app.dock.update();
      },
      () => {}, // who needs them asks again, and is told
    );
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
    app.passes.showCurrent();
    const {selection} = store.get();
    if (isBranch) app.graph.lookAt(kept.camera);
    app.graph.update().then(() => {
      begun = {...store.get(), selection, pass: begun.pass};
      if (selection !== null) app.graph.reveal(selection);
      if (!data.isWhole) complete();
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
      if (!isRead) places?.arrive(here(), session.branch(), isReturn);
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
  // A tab that a link names may come later; when all is known, it is there or never comes.
  const judgeTab = () => {
    const {dock} = store.get();
    const head = host.get("branch") === branch ? host.get("head") : data.head;
    if (!usesLink || session.isMeasuring() || hasTab(head, dock, true)) return;
    onnotice(`It names the tab “${clip(dock, 40)}”, which this compilation lacks.`);
    store.set({dock: "memory"});
  };
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
