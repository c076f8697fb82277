// The same kernel as another compiler, or for another processor, would make it: chosen here, made
// on the other side when it is asked for, and only looked at.

import {codeBar} from "./code.js";
import {instructionHelp} from "./instruction_help.js";
import {hottestInstruction} from "./hottest.js";
import {hottestButton, statementHues, statementPane, taggedEntries} from "./levels.js";
import {cyclesButton, failureWords} from "./loop_cycles.js";
import {element, emptyState} from "../ground/dom.js";
import {countText} from "../ground/numbers.js";

const PATIENCE_MILLISECONDS = 150; // until it is said that a compiler is at work

const afterwards = (milliseconds) =>
  new Promise((resolve) => setTimeout(() => resolve(null), milliseconds));

// `state.build` is "gcc.AVX2.-O2"; what of it is nothing that is offered is the first that is.
function buildOf(state, tools) {
  const [compiler, set, level] = state.build.split(".");
  const there = tools.compilers.find(([, isThere]) => isThere)?.[0] ?? "gcc";
  const own = tools.machine === "x86_64" ? "AVX2" : "NEON";
  return {
    compiler: tools.compilers.some(([name]) => name === compiler) ? compiler : there,
    set: tools.sets.includes(set) ? set : own,
    level: tools.levels.includes(level) ? level : tools.levels[0],
  };
}

export async function elsewhereView(app, context, kernel) {
  const {data, store} = app;
  let tools;
  try {
    tools = await data.chunk("asked/tools");
  } catch (failure) {
    return {
      node: emptyState(
        "No compiler to ask",
        app.host.mode === "page"
          ? "A page in a file shows what was compiled. In the explorer as an app, or in a " +
              "notebook, other compilers and processors can be tried here."
          : failure.message,
      ),
    };
  }
  const build = buildOf(context.state, tools);
  const choose = (part) => (event) => {
    const next = {...build, [part]: event.target.value};
    store.set({build: [next.compiler, next.set, next.level].join(".")});
  };
  const select = (part, label, options) =>
    element(
      "select",
      {"aria-label": label, onchange: choose(part), class: "build-select"},
      options.map(([value, words]) =>
        element("option", {value, selected: build[part] === value}, words),
      ),
    );
  const bar = element(
    "div",
    {class: "build-bar"},
    select(
      "compiler",
      "compiler",
      tools.compilers.map(([name, isThere]) => [name, isThere ? name : `${name} (not installed)`]),
    ),
    select(
      "set",
      "instruction set",
      tools.sets.map((name) => [name, name]),
    ),
    select(
      "level",
      "optimization",
      tools.levels.map((name) => [name, name]),
    ),
  );
  const rest = `${build.compiler}/${build.set}/${build.level}`;
  const asked = data.chunk(`asked/build/${context.kernel}/${rest}`);
  const made = await Promise.race([asked, afterwards(PATIENCE_MILLISECONDS)]);
  if (!made) {
    const again = () => app.inspector.update(true);
    asked.then(again, again);
    return {
      node: element(
        "div",
        {class: "code-host"},
        bar,
        element(
          "p",
          {class: "cap padded", role: "status"},
          element("span", {class: "spin", "aria-hidden": "true"}),
          ` ${build.compiler} compiles this kernel for ${build.set} …`,
        ),
      ),
    };
  }
  if (made.error)
    return {
      node: element(
        "div",
        {class: "code-host"},
        bar,
        element("div", {class: "build-failure padded", role: "alert"}, failureWords(made)),
      ),
    };
  const text = {language: made.language, lines: made.lines, owners: made.owners};
  const start = hottestInstruction(text, made.assemblyLines, kernel.source);
  const pane = statementPane(
    app,
    context,
    statementHues(kernel),
    taggedEntries(text, made.assemblyLines),
    {language: text.language, label: "assembly of another build", start},
  );
  const node = element(
    "div",
    {class: "code-host"},
    bar,
    codeBar(
      app,
      `${countText(made.lines.length, "line")} by ${made.compiler}`,
      text,
      hottestButton(pane, start),
      cyclesButton(app, pane, text, start, {
        question: `asked/analysis/${context.kernel}`,
        rest: `/${rest}`,
      }),
    ),
    element("p", {class: "cap build-command mono", title: made.command}, made.command),
    pane.node,
  );
  instructionHelp(pane, made.instructions, made.instructions.lines);
  return {pane, key: `other/${kernel.name}/${rest}`, node};
}
