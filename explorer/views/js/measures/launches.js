// Launches of the program that runs: what is selected of it, and what it costs.

import {emptyState} from "../ground/dom.js";

// Identities in the program that runs which belong to the selection.
function selectedLaunches(app) {
  const {selection} = app.store.get();
  return new Set(selection === null ? [] : [selection, ...app.data.followToLaunches(selection)]);
}

export function notMeasured(app) {
  if (app.session?.isPending("profile"))
    return emptyState(
      "Being measured",
      "The program is run with timed events as soon as its errors are known. What is here " +
        "already stays usable.",
    );
  return emptyState(
    "Not measured",
    "The program was not run with timed events. In a notebook, c.profile(inputs) does it; " +
      "explorer serve does it by itself.",
  );
}

// The launches of the selection, found once: following it through a large model takes its time.
export function launchesOf(app) {
  const {selection} = app.store.get();
  const {launched} = app;
  if (launched?.selection !== selection || launched.revision !== app.data.revision)
    app.launched = {selection, revision: app.data.revision, launches: selectedLaunches(app)};
  return app.launched.launches;
}
