// What stays in the graph from one drawing to the next moves to its new place where one sees it.

const MILLISECONDS = 160;
const LEAST = 2; // pixels on the screen
const MAX_MOVED = 400; // nodes; of more nobody follows one

// elements: Map(id -> element) with items at their new places; placesBefore: Map(id -> [x, y]) on
// the screen; late: layers that are seen again when the nodes have nearly arrived.
export function moveNodes(elements, items, placesBefore, view, half, late) {
  if (!elements.size || elements.size > MAX_MOVED) return;
  if (window.matchMedia("(prefers-reduced-motion: reduce)").matches) return;
  const timing = {duration: MILLISECONDS, easing: "ease-out"};
  let moved = false;
  for (const [id, element] of elements) {
    const before = placesBefore.get(id),
      item = items.get(id);
    if (!before || item.isGhost) continue;
    const x = (before[0] - view.x) / view.k,
      y = (before[1] - view.y) / view.k;
    if (Math.hypot(x - item.x, y - item.y) * view.k < LEAST) continue;
    const at = (left, top) => ({transform: `translate(${left - half[0]}px, ${top - half[1]}px)`});
    element.animate([at(x, y), at(item.x, item.y)], timing);
    moved = true;
  }
  if (!moved) return;
  // To fade them in takes the browser a quarter of the processor time of an interaction.
  for (const layer of late) layer.animate({visibility: ["hidden", "hidden"]}, MILLISECONDS / 2);
}
