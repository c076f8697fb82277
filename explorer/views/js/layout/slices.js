// Long work in slices, so that the page answers in between and what nobody waits for any more ends.

const SLICE_MILLISECONDS = 14;

// Runs a generator to its end and returns its value; null once `isWanted` says no.
export async function runSliced(steps, isWanted) {
  let end = performance.now() + SLICE_MILLISECONDS;
  for (;;) {
    const {done, value} = steps.next();
    if (done) return value;
    if (performance.now() < end) continue;
    await new Promise((resolve) => setTimeout(resolve));
    if (!isWanted()) return null;
    end = performance.now() + SLICE_MILLISECONDS;
  }
}

// The same at once: for what takes less than a slice.
export function runWhole(steps) {
  for (;;) {
    const {done, value} = steps.next();
    if (done) return value;
  }
}
