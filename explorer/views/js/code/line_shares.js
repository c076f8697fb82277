// Which lines of a kernel take its time: counted by the other side while the program runs
// (runtime/assembly/sampling.py), asked for by a press, drawn beside the lines.

import {button, element, replace} from "../ground/dom.js";
import {countText, percentText} from "../ground/numbers.js";

const asked = new WeakMap(); // of every compilation's data: the samples, once asked for
const MIN_SHARE = 0.001;
const HOT = 0.5; // of the line that takes most

// level: "source" or "assembly". null where nothing runs: in a saved page, of a saved trace.
export function sharesButton(app, pane, kernel, level) {
  if (!app.session || app.session.isTrace() || kernel.source.language !== "c") return null;
  const words = element("p", {class: "cap line-shares", role: "status", hidden: true});
  return button(
    "times",
    "how much of the time each line takes: the program runs for a while, and perf looks at it",
    async () => {
      words.hidden = false;
      if (!words.isConnected) pane.node.before(words);
      replace(words, "The program runs, and perf looks at it …");
      try {
        const found = await samplesOf(app);
        const counts = found.kernels[kernel.name]?.[level] ?? [];
        replace(words, summary(found, counts));
        if (counts.length) show(pane, counts);
      } catch (failure) {
        replace(words, element("span", {class: "ink-wrong"}, failure.message));
      }
    },
    {class: "quiet"},
  );
}

function samplesOf(app) {
  if (!asked.has(app.data)) {
    const found = app.files.ask({what: "samples"}).then(({base64}) => JSON.parse(atob(base64)));
    found.catch(() => asked.delete(app.data)); // it may be allowed by the next press
    asked.set(app.data, found);
  }
  return asked.get(app.data);
}

function show(pane, counts) {
  const total = sumOf(counts);
  const most = Math.max(...counts.map(([, count]) => count));
  const costs = counts
    .filter(([, count]) => count / total >= MIN_SHARE)
    .map(([line, count]) => [
      line,
      {
        text: percentText(count / total),
        share: count / most,
        isHot: count >= HOT * most,
        title: `${countText(count, "sample")} of ${total} in this kernel`,
      },
    ]);
  pane.annotate(new Map(costs));
  const [hottest] = counts.find(([, count]) => count === most);
  pane.showAt(hottest, pane.node.clientHeight / 3);
  pane.node.scrollLeft = 0; // where the shares stand
}

function summary({event, count}, counts) {
  const own = sumOf(counts);
  const what = event.startsWith("cycles") ? "cycles" : "time";
  if (!own)
    return `None of ${countText(count, "sample")} fell into this text: it takes too little time.`;
  return (
    `${countText(own, "sample")} of ${what} in this kernel, ${percentText(own / count)} of the ` +
    "program's; one thread. What waits is seen at the instruction behind it."
  );
}

const sumOf = (counts) => counts.reduce((sum, [, count]) => sum + count, 0);
