// The explorer: panes wired to one state. `render({model, el})` draws it into an element; the
// model is anywidget's, Panel's, or the plain object of an offline page (host.js).

import {selectedIn} from "./branches/propagated.js";
import {TraceData} from "./data.js";
import {button, element, emptyState, replace} from "./ground/dom.js";
import {addressOf, firstSeen} from "./frame/first_place.js";
import {createApp} from "./frame/app.js";
import {adaptHost} from "./state/host.js";
import {createLooks} from "./state/appearance.js";
import {createPlaces} from "./state/places.js";
import {handleKey} from "./frame/keys.js";
import {createDialogs} from "./frame/dialog.js";
import {createFiles} from "./frame/saving.js";
import {clip} from "./ground/scene.js";
import {createSession} from "./branches/session.js";
import {LINK_TITLE, noticeBanner} from "./state/shared_link.js";
import {STYLE} from "./theme.js";
import {followTheme} from "./state/theme_choice.js";

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
  const dialogs = createDialogs(root);
  const theme = followTheme(root, looks, () => app?.repaint());
  let app = null;
  let session = null;
  let revision = -1;
  let branch = null;
  let loading = null; // data of what is shown next
  let shownModel = ""; // key of the model that `app` shows
  const left = new Map(); // key of a model -> {state, pass, camera, model} as it was left
  let last = null; // how the last compiled model was left
  let notice = ""; // what of a link could not be restored
  let returning = null; // {branch, link} that Back or Forward went to, until it is shown
  const press = followPress(root);
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
      dialogs.closeDialog();
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
    data.load(whatIsSeenFirst(head, model)).then(
      () =>
        press.afterwards(() => {
          if (loading !== data) return;
          loading = null;
          app?.stop();
          const kept = keptFor(model);
          // What is open is about the compilation that is left, unless its passes ran meanwhile.
          if (!app?.isRead || model !== shownModel) dialogs.closeDialog();
          shownModel = model;
          const isRead = isOnlyRead(branch);
          const place = returning?.branch === branch ? returning : null;
          if (!isRead) returning = null;
          const isFirst = !app || app.isFirst;
          const isReturn = Boolean(place) || isFirst;
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
            dialogs,
            kept,
            model,
            isRead,
            onnotice,
          });
          app.isFirst = isRead && isFirst;
          replace(stage, app.node);
          app.begin(isReturn);
          if (place) app.goTo(place.link);
          drawBanner();
        }),
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

  // What another app begins with: its model as it was left, else what was looked at before. Of a
  // model as it was read that is nothing but what a person did in it.
  function keptFor(model) {
    if (app && !app.isRead) {
      last = asItIsLeft();
      left.set(shownModel, last);
    }
    return app?.isRead && model === shownModel && app.isTouched()
      ? asItIsLeft()
      : (left.get(model) ?? last);
  }

  // What is looked at, for whoever comes back to it.
  const asItIsLeft = () => ({
    state: {...app.store.get(), rewrite: null, ...app.unset()},
    passes: app.data.head.passes.slice(0, app.store.get().pass + 1).map(({name}) => name),
    camera: app.graph.camera(),
    searchSettings: app.searchSettings,
    model: shownModel,
    carried: selectedIn(app.data, app.store.get().selection),
    isRefused: Boolean(app.refusal),
  });

  function whatIsSeenFirst(head, model) {
    const kept = keptFor(model);
    return firstSeen({
      head,
      kept,
      isBranch: kept?.model === model,
      address: places && !isOnlyRead(branch) ? addressOf(session) : "",
      link: returning && returning.branch === branch ? returning.link : null,
    });
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
      (notice ? noticeBanner(notice, () => onnotice(""), LINK_TITLE) : (app?.refusal ?? null));
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
    press.stop();
    theme.stop();
    root.remove();
  };
}

// A press counts where it began: panes are not replaced between it and its release, which would
// lose the click. `afterwards(act)` acts now, or after the release.
function followPress(root) {
  let isDown = false;
  /** @type {(() => void)[]} */
  let waiting = [];
  const down = () => {
    isDown = true;
  };
  const up = () => {
    isDown = false;
    const acts = waiting;
    waiting = [];
    setTimeout(() => acts.forEach((act) => act())); // the click comes first
  };
  const ends = ["pointerup", "pointercancel", "dragend", "blur"];
  root.addEventListener("pointerdown", down, true);
  for (const end of ends) window.addEventListener(end, up, true);
  return {
    afterwards: (act) => (isDown ? waiting.push(act) : act()),
    stop: () => ends.forEach((end) => window.removeEventListener(end, up, true)),
  };
}

// Whether a branch is a model as it was read, which is seen while its passes run.
const isOnlyRead = (branch) => Boolean(branch?.startsWith("read/"));

// To a notebook a single letter is a command: x cuts the cell with the explorer in it. Those with
// Ctrl, Alt or Meta (save, run) stay the notebook's.
function keepFromNotebook(event) {
  if (!event.ctrlKey && !event.metaKey && !event.altKey) event.stopPropagation();
}

export default {render};
