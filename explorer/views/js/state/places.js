// The browser's Back and Forward, through what was looked at: another model, branch, pass,
// operation or tab is a place of its own; smaller moves change the address of the present place.
//
// At the beginning of the app stands one more entry, where Back says that the next one leaves.
//
// The browser notes an entry with the positions of all that scrolls, for which it lays the page
// out. So entries are written after the frame that shows the place, when that is done anyway.

const OF_PLACES = ["pass", "selection", "rewrite", "tab", "dock"];
const SCRUBBING_MILLISECONDS = 900; // moves of one kind within that time are one walk
const HIDDEN_MILLISECONDS = 100; // after which an entry of a page that draws no frames is written

// isGuarded: whether leaving is said first. onreturn({branch, link}): the person went to a place;
// onleave(): the next step back leaves
export function createPlaces({isGuarded, onreturn, onleave}) {
  let lastKind = "",
    lastTime = 0,
    hasBegun = false;
  /** @type {{isNew: boolean, state: object, link: string} | null} */
  let waiting = null; // the entry that is written next
  const stateOf = (branch) => ({explorer: {branch}});
  const onpop = (event) => {
    const place = event.state?.explorer;
    if (!place) return; // an address that somebody typed: `hashchange` tells of it
    waiting = null; // of a place that was left at once
    lastKind = "";
    if (place.isGuard) onleave();
    else onreturn({branch: place.branch, link: window.location.hash});
  };
  const ontyped = () => {
    if (!window.history.state?.explorer) waiting = null;
  };
  window.addEventListener("popstate", onpop);
  window.addEventListener("hashchange", ontyped);
  window.addEventListener("pagehide", write);

  function write() {
    if (!waiting) return;
    const {isNew, state, link} = waiting;
    waiting = null;
    if (isNew) window.history.pushState(state, "", link);
    else window.history.replaceState(state, "", link);
  }

  // A new entry comes after the one that waits; another address takes the place of its address.
  function note(isNew, branch, link) {
    if (isNew) write();
    const isFirst = !waiting;
    waiting = {isNew: isNew || Boolean(waiting?.isNew), state: stateOf(branch), link};
    if (!isFirst) return;
    const later = setTimeout(write, HIDDEN_MILLISECONDS);
    requestAnimationFrame(() => {
      clearTimeout(later);
      setTimeout(write);
    });
  }

  function begin() {
    hasBegun = true;
    if (!isGuarded || window.history.state?.explorer) return;
    window.history.replaceState({explorer: {isGuard: true}}, "");
    window.history.pushState(stateOf(""), "");
  }

  return {
    // Whether an address came with a place of ours, and was not typed.
    isOurs: () => Boolean(window.history.state?.explorer),
    // A change within a branch: names of what is another one.
    move(link, changed, branch) {
      if (!hasBegun) begin();
      const kind = OF_PLACES.filter((name) => changed.has(name)).join();
      const now = performance.now();
      const isWalk = kind === lastKind && now - lastTime < SCRUBBING_MILLISECONDS;
      if (kind) [lastKind, lastTime] = [kind, now];
      note(Boolean(kind) && !isWalk, branch, link);
    },
    // Another model or branch is looked at. isReturn: because of Back or Forward, or at first.
    arrive(link, branch, isReturn) {
      if (!hasBegun) begin();
      lastKind = "";
      note(!isReturn, branch, link);
    },
    stop() {
      write();
      window.removeEventListener("popstate", onpop);
      window.removeEventListener("hashchange", ontyped);
      window.removeEventListener("pagehide", write);
    },
  };
}
