// The browser's Back and Forward, through what was looked at: another model, branch, pass,
// operation or tab is a place of its own; smaller moves change the address of the present place.
//
// At the beginning of the app stands one more entry, where Back says that the next one leaves.

const OF_PLACES = ["pass", "selection", "rewrite", "tab", "dock"];
const SCRUBBING_MILLISECONDS = 900; // moves of one kind within that time are one walk

// isGuarded: whether leaving is said first. onreturn({branch, link}): the person went to a place;
// onleave(): the next step back leaves
export function createPlaces({isGuarded, onreturn, onleave}) {
  let lastKind = "",
    lastTime = 0,
    hasBegun = false;
  const stateOf = (branch) => ({explorer: {branch}});
  const onpop = (event) => {
    const place = event.state?.explorer;
    if (!place) return; // an address that somebody typed: `hashchange` tells of it
    lastKind = "";
    if (place.isGuard) onleave();
    else onreturn({branch: place.branch, link: window.location.hash});
  };
  window.addEventListener("popstate", onpop);

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
      if (!kind || isWalk) window.history.replaceState(stateOf(branch), "", link);
      else window.history.pushState(stateOf(branch), "", link);
    },
    // Another model or branch is looked at. isReturn: because of Back or Forward, or at first.
    arrive(link, branch, isReturn) {
      if (!hasBegun) begin();
      lastKind = "";
      if (isReturn) window.history.replaceState(stateOf(branch), "", link);
      else window.history.pushState(stateOf(branch), "", link);
    },
    stop: () => window.removeEventListener("popstate", onpop),
  };
}
