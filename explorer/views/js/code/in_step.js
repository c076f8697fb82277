// Levels of code side by side scroll in step: where the one that a person moves shows a line, the
// others show what that line became or came from, at the same height.

import {densest} from "./hottest.js";

const LINE_PIXELS = 18;
const LOOK_AHEAD = 24;

// panes: panes of code on the screen (code.js), by `panes()`; `isOn()`: whether they follow
export function inStep(host, panes, isOn) {
  const isLeading = leading([host]);
  host.addEventListener(
    "scroll",
    (event) => {
      if (!isLeading(event.target) || !isOn()) return;
      const moved = panes().find((pane) => pane.node === event.target);
      if (!moved) return;
      for (const pane of panes()) if (pane !== moved) align(moved, pane);
    },
    {passive: true, capture: true},
  );
}

// Whether a pane of code in one of the hosts is the one that a person moves: the others are moved
// by us, and lead nothing.
export function leading(hosts) {
  let leader = null;
  const lead = (event) => {
    leader = event.target.closest?.(".code") ?? leader;
  };
  for (const host of hosts)
    for (const name of ["wheel", "pointerdown", "touchstart", "keydown"])
      host.addEventListener(name, lead, {passive: true, capture: true});
  return (node) => node === leader;
}

// Scrolls `follower` to what belongs to the line a third down `pane`. `renamed(owner)`: how what
// owns a line is called in the other one.
export function align(pane, follower, renamed = (owner) => [owner]) {
  const top = pane.top();
  const middle = Math.floor(top + pane.node.clientHeight / LINE_PIXELS / 3);
  const there = placesOf(follower);
  const here = placesOf(pane);
  for (let step = 0; step < LOOK_AHEAD; step += 1) {
    const index = middle + step;
    // Lines of source come last and say most.
    const owners = [...(pane.entries[index]?.owners ?? [])].reverse();
    const [owner, tag] =
      owners
        .flatMap((name) => renamed(name).map((other) => [name, other]))
        .find(([, other]) => there.has(other)) ?? [];
    if (tag === undefined) continue;
    const own = here.get(owner);
    const share = own.length > 1 ? own.indexOf(index) / (own.length - 1) : 0;
    const places = tag.startsWith("@") ? densest(there.get(tag)) : there.get(tag);
    const target = places[Math.round(share * (places.length - 1))];
    follower.showAt(target, (index - top) * LINE_PIXELS);
    return;
  }
}

// Tag -> lines that have it.
function placesOf(pane) {
  pane.places ??= pane.entries.reduce((places, {owners}, index) => {
    for (const owner of owners) {
      if (!places.has(owner)) places.set(owner, []);
      places.get(owner).push(index);
    }
    return places;
  }, new Map());
  return pane.places;
}
