// A bar between two panes that moves with the pointer and with arrow keys.

import {element} from "../ground/dom.js";

const LEAST = {width: 176, height: 144}; // pixels: under its tabs a pane has room for some lines

/**
 * `current()`: the size in pixels of what it makes larger; `resize(pixels)` sets another one, or
 * with null the default again; `direction`: 1 where a move right or down makes it larger, else -1.
 *
 * @param {{
 *   label: string,
 *   isHorizontal: boolean,
 *   direction: number,
 *   most: () => number,
 *   current: () => number,
 *   resize: (pixels: number | null) => void,
 * }} options
 */
export function splitter({label, isHorizontal, direction, most, current, resize}) {
  const least = isHorizontal ? LEAST.height : LEAST.width;
  const to = (pixels) => resize(Math.round(Math.max(least, Math.min(most(), pixels))));
  // As small as it goes, and back to where it was.
  let grownTo = null;
  const toggle = () => {
    const size = current();
    const isSmall = size <= least + 1;
    if (isSmall && grownTo === null) resize(null);
    else to(isSmall ? grownTo : least);
    grownTo = isSmall ? null : size;
  };
  const place = (event) => (isHorizontal ? event.clientY : event.clientX);
  const bar = element("div", {
    class: `splitter ${isHorizontal ? "horizontal" : "vertical"}`,
    role: "separator",
    tabindex: 0,
    "aria-label": label,
    "aria-orientation": isHorizontal ? "horizontal" : "vertical",
    title: "drag, or arrow keys; double click or Enter makes it small and large again",
    ondblclick: toggle,
    onpointerdown: (event) => {
      event.preventDefault();
      const start = place(event),
        size = current();
      bar.setPointerCapture(event.pointerId);
      bar.onpointermove = (moved) => to(size + direction * (place(moved) - start));
      bar.onpointerup = () => {
        bar.onpointermove = null;
      };
    },
    onkeydown: (event) => {
      if (event.key === "Enter") toggle();
      const step = {ArrowRight: 16, ArrowDown: 16, ArrowLeft: -16, ArrowUp: -16}[event.key];
      if (!step) return;
      event.preventDefault();
      event.stopPropagation();
      to(current() + direction * step);
    },
  });
  return bar;
}
