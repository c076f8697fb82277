// The times of a stopwatch in the page.

import {element} from "./dom.js";
import {stopwatch} from "./stopwatch.js";

// A text with the times of a piece of work, which goes on by itself while it is in the page.
export function elapsedText() {
  // Readers of screens are not interrupted by a timer.
  const node = element("span", {class: "quiet-text elapsed", role: "timer"});
  const watch = stopwatch();
  let timer = null;
  const stop = () => {
    clearInterval(timer);
    timer = null;
  };
  const draw = () => {
    const words = watch.words();
    if (node.textContent !== words) node.textContent = words;
  };
  return {
    node,
    show(key, done, total) {
      watch.at(key, done, total);
      draw();
      timer ??= setInterval(() => (node.isConnected ? draw() : stop()), 1000);
    },
    end() {
      watch.end();
      stop();
      draw();
    },
  };
}
