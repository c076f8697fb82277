// The complete IR behind a pass as text that a person edits; the passes that follow run on it. In
// the app the compiler's side parses and verifies it, in a notebook the kernel: nothing in it is
// executed. What is wrong is said at its line, and what was written stays until it is compiled.

import {irText, sendIr} from "./ir_sending.js";
import {button, element, replace} from "../ground/dom.js";
import {countText} from "../ground/numbers.js";
import {clip} from "../ground/scene.js";

const LINE_PIXELS = 18; // of css/ir_editor.css
const drafts = new WeakMap(); // of every explorer's root: Map of "branch/pass" -> text

// Whether there is a compiler behind this page, and a program to take the place of.
export function canEditIr(app, pass) {
  const isCompiled = app.data.head.passes[pass]?.level !== "source";
  if (app.session) return isCompiled && !app.session.isTrace();
  return isCompiled && Boolean(app.data.head.branches);
}

export function openIrEditor(app, pass) {
  const name = app.data.head.passes[pass].name;
  const kept = keptDrafts(app.root);
  const place = `${app.session?.branch() ?? app.data.head.branches.place}/${name}`;
  let original = "";
  const said = element("p", {class: "editor-said", role: "status"}, "printing it …");
  const numbers = element("pre", {class: "editor-numbers", "aria-hidden": "true"});
  const strip = element("div", {class: "editor-strip", hidden: true});
  const area = element("textarea", {
    "aria-label": "IR",
    class: "editor-text",
    spellcheck: "false",
    wrap: "off",
    disabled: true,
    oninput: () => {
      kept.set(place, area.value);
      mark(0);
      number();
    },
    onscroll: () => follow(),
    onkeydown: (event) => {
      if (event.key !== "Escape") event.stopPropagation(); // letters are letters
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) compile.click();
    },
  });
  let wrong = 0; // the line that is marked, from 1

  const number = () => {
    const count = area.value.split("\n").length;
    if (Number(numbers.dataset.count) === count) return;
    numbers.dataset.count = String(count);
    numbers.textContent = Array.from({length: count}, (_, index) => index + 1).join("\n");
  };
  const follow = () => {
    numbers.style.transform = `translateY(${-area.scrollTop}px)`;
    strip.style.transform = `translateY(${(wrong - 1) * LINE_PIXELS - area.scrollTop}px)`;
  };
  // Marks a line, and brings it into sight; 0 takes the mark away.
  const mark = (line) => {
    wrong = line;
    strip.hidden = !line;
    if (line) area.scrollTop = Math.max(0, (line - 1) * LINE_PIXELS - area.clientHeight / 3);
    follow();
  };
  const complain = (words, line) => {
    replace(
      said,
      element("span", {class: "ink-wrong"}, line ? `line ${line}: ` : "", clip(words, 600)),
    );
    mark(line);
  };

  const compile = button(
    "compile from here",
    "the passes that follow run on this text (Ctrl and Enter)",
    async () => {
      compile.disabled = true;
      mark(0);
      replace(said, element("span", {class: "spin", "aria-hidden": "true"}), " compiling");
      try {
        const {error, line} = await sendIr(app, name, area.value);
        if (error) complain(error, line);
        else {
          kept.delete(place);
          app.closeDialog();
        }
      } catch (failure) {
        complain(failure.message, 0);
      }
      compile.disabled = false;
    },
    {class: "primary", disabled: true},
  );
  const back = button("as it was", "take all changes back", () => {
    kept.delete(place);
    area.value = original;
    mark(0);
    number();
    replace(said, "");
  });
  app.openDialog(
    `IR after ${name}`,
    (close) => [
      element(
        "div",
        {class: "subject-name"},
        element("h2", {}, "IR after ", element("span", {class: "mono"}, name)),
        element("span", {class: "quiet-text"}, "complete; nothing in it is executed"),
        element("span", {class: "grow"}),
        button("×", "close; what is written stays (Esc)", close, {class: "icon"}),
      ),
      element("div", {class: "editor-body"}, numbers, strip, area),
      said,
      element(
        "div",
        {class: "editor-foot"},
        ruleWords(app, name),
        element("span", {class: "grow"}),
        back,
        compile,
      ),
    ],
    "ir-editor",
  );
  irText(app, name).then(
    (text) => {
      original = text;
      area.value = kept.get(place) ?? text;
      number();
      [area.disabled, compile.disabled] = [false, false];
      const lines = countText(text.trimEnd().split("\n").length, "line");
      replace(said, kept.has(place) ? `${lines}; with what was written before` : lines);
      area.focus();
      area.setSelectionRange(0, 0);
      area.scrollTop = 0;
    },
    (failure) => complain(failure.message, 0),
  );
}

// A rule is a program: only who has the process may have one run.
function ruleWords(app, name) {
  if (!app.session) return null;
  const cell = `c.insert(rule, after="${name}")`;
  return element(
    "p",
    {class: "quiet-text rule-words"},
    "A rule is Python, which this app runs for no page. In a notebook or a script: ",
    element("code", {}, cell),
    " ",
    button("copy", "copy this line", () => app.copy(cell), {class: "quiet"}),
  );
}

function keptDrafts(root) {
  if (!drafts.has(root)) drafts.set(root, new Map());
  return drafts.get(root);
}
