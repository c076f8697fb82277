// How many cycles a loop takes, instruction by instruction, as a static analyser on the other side
// says it (runtime/assembly/analysis.py): asked for by a press, drawn beside the lines.

import {button, element, replace} from "../ground/dom.js";
import {innermostLoops} from "./hottest.js";

// question: the key of what is asked about, "asked/analysis/3", and what follows the lines
export function cyclesButton(app, pane, text, start, {question, rest = ""}) {
  const loop = loopAt(text.lines, start);
  if (!loop || app.host.mode === "page") return null;
  const key = `${question}/${loop[0]}/${loop[1]}${rest}`;
  const words = element("p", {class: "cap loop-cycles", role: "status", hidden: true});
  async function show(goesThere) {
    words.hidden = false;
    if (!words.isConnected) pane.node.before(words);
    replace(words, "llvm-mca looks at the loop …");
    try {
      const found = await app.data.chunk(key);
      if (found.error) {
        replace(words, failureWords(found));
        return;
      }
      pane.annotate(costsOf(found));
      if (goesThere) pane.showAt(loop[0], 40);
      replace(words, summary(found, loop));
    } catch (failure) {
      replace(words, failure.message);
    }
  }
  // A text that is drawn anew, for more is known, keeps the answer that was asked for.
  app.askedLoops ??= new Set();
  // The pane is in the document when the microtask runs.
  if (app.askedLoops.has(key)) queueMicrotask(() => show(false));
  return button(
    "cycles",
    "what limits the hottest loop, and how long each instruction keeps the processor busy",
    () => {
      app.askedLoops.add(key);
      show(true);
    },
    {class: "quiet"},
  );
}

// Why something could not be done, the way out, and what the compiler wrote.
export function failureWords({error, hint, log}) {
  return [
    element("span", {class: "ink-wrong"}, error),
    hint ? `. Try: ${hint}` : "",
    log
      ? element(
          "details",
          {class: "compiler-log"},
          element("summary", {}, "what it wrote"),
          element("pre", {class: "mono"}, log),
        )
      : null,
  ];
}

function loopAt(lines, start) {
  if (start < 0) return null;
  return innermostLoops(lines).find(([first, last]) => first <= start && start <= last) ?? null;
}

// {index: {text, title, share, isHot}} of the lines of the loop
function costsOf(found) {
  const most = Math.max(...found.lines.map((cost) => cost?.[0] ?? 0), 1e-9);
  return new Map(
    found.lines.flatMap((cost, index) => {
      if (!cost) return [];
      const [cycles, latency, throughput, port, isHot] = cost;
      return [
        [
          found.first + index,
          {
            text: cycles.toFixed(2),
            share: cycles / most,
            isHot,
            title:
              `${cycles.toFixed(2)} cycles of ${port || "no port"} in an iteration; result after ` +
              `${latency}, one every ${throughput.toFixed(2)} cycles`,
          },
        ],
      ];
    }),
  );
}

function summary(found, [first, last]) {
  const other =
    found.wantedFamily && found.wantedFamily !== found.family
      ? `, for this llvm-mca does not know ${found.wantedFamily}`
      : "";
  return (
    `lines ${first + 1} to ${last + 1}: ${found.cycles} cycles an iteration, ` +
    `${found.instructionsPerCycle} instructions a cycle; ${found.bound} if nothing waited. ` +
    `Limited by ${found.bottleneck}. llvm-mca's model of ${found.family}${other}; ` +
    "without caches."
  );
}
