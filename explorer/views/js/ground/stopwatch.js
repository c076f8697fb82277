// How long a piece of work has taken and how long it may still take, as the command line says it:
// "0:12, 0:40 left".

import {clockText} from "./clock.js";

const TIMED_SECONDS = 2; // what takes less says nothing

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
