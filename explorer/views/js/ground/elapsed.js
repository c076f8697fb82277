// How long a piece of work has taken and how long it may still take, as the command line says it:
// "0:12, 0:40 left".

import {element} from "./dom.js";

const TIMED_SECONDS = 2; // what takes less says nothing

// `1:02:03`, or `2:03` below an hour.
export function clockText(seconds) {
  const whole = Math.round(seconds);
  const two = (number) => String(number).padStart(2, "0");
  const [hours, minutes] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60];
  return hours ? `${hours}:${two(minutes)}:${two(whole % 60)}` : `${minutes}:${two(whole % 60)}`;
}

// The times of one piece of work after another. `at(key, done, total)` notes how far the work of a
// name is, and `words()` are its times now; a smaller `done` begins the next of several rounds.
export function stopwatch(seconds = () => performance.now() / 1000) {
  let [name, begin, noted, done, total] = [null, 0, 0, 0, 0];
  return {
    at(key, nowDone, nowTotal) {
      const now = seconds();
      if (key !== name || nowDone < done) begin = now;
      if (key !== name || nowDone !== done) noted = now;
      [name, done, total] = [key, nowDone, nowTotal];
    },
    words() {
      const now = seconds();
      if (name === null || now - begin < TIMED_SECONDS) return "";
      const spent = clockText(now - begin);
      // No rest where nothing is done yet, or where the total is only the next one.
      if (done <= 0 || done >= total - 1) return spent;
      const left = ((noted - begin) / done) * (total - done) - (now - noted);
      // A step that takes longer than those before it: nobody knows the rest.
      return left < 1 ? spent : `${spent}, ${clockText(left)} left`;
    },
    end() {
      name = null;
    },
  };
}

// A text with these times, which goes on by itself while it is in the page.
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
