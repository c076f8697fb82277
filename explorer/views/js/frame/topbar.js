// The bar on top: which model and target, the verdict, the totals, search, sharing, theme.

import {VERDICT_WORDS} from "../branches/compare_tables.js";
import {button, element, replace} from "../ground/dom.js";
import {
  bytesText,
  countText,
  decibelsText,
  decode,
  errorText,
  judgedText,
  exactText,
  secondsText,
} from "../ground/numbers.js";
import {clip} from "../ground/scene.js";
import {moving} from "../desk/moves.js";
import {judgedOnChip} from "./judged_on.js";
import {openSaving, openSharing} from "./saving.js";
import {searchBox} from "./search.js";
import {presetChoice} from "./workspace.js";

// {node, learn()}: the verdict and the totals are drawn anew when more is known.
export function topBar(app) {
  const {head} = app.data;
  const isApp = Boolean(app.session);
  const totals = element("span", {class: "totals"});
  const isCompiled = head.passes.some((pass) => pass.level !== "source");
  const learn = () => {
    replace(totals, isCompiled ? [verdictButton(app), judgedOnChip(app), factsRow(app)] : null);
  };
  learn();
  const node = element(
    "header",
    {class: "topbar"},
    isApp
      ? app.session.controls()
      : [
          element("strong", {class: "model-name", title: head.model.name}, head.model.name),
          element("span", {class: "target", title: head.device}, head.target || "not compiled"),
        ],
    head.label && !isApp
      ? element("span", {class: "chip", title: head.label}, clip(head.label, 40))
      : null,
    isApp && isCompiled && !app.session.isTrace()
      ? button("fork +", "change a decision and compile again (f)", () => app.openFork(), {
          class: "quiet fork-button",
        })
      : null,
    totals,
    isApp ? app.background : null,
    presetChoice(app),
    searchBox(app),
    app.host.mode === "notebook"
      ? null
      : [
          button("save", "save a page, picture, table, source or report", () => openSaving(app), {
            class: "quiet save-button",
          }),
          button("share", "give what you see to others", () => openSharing(app), {class: "quiet"}),
        ],
    button("◐", "light or dark", () => app.toggleTheme(), {
      class: "icon",
      "aria-label": "switch between light and dark",
    }),
    button("?", "keys and help (?)", () => app.showHelp(), {class: "icon", "aria-label": "help"}),
  );
  return {node, learn};
}

function verdictButton(app) {
  const {
    store,
    data: {head},
  } = app;
  const {summary} = head;
  const verdict = app.look.verdict(summary.verdict);
  const isToCome = summary.verdict === "not-run" && Boolean(app.session?.isPending("accuracy"));
  return element(
    "button",
    {
      type: "button",
      class: `verdict ${summary.verdict}`,
      title:
        summary.worst === null
          ? verdict.title
          : `${verdict.title}: worst tensor ${summary.worstTensor}, ${judgedText(summary)}` +
            (summary.isExact
              ? `; ${summary.oracle}, from which it differs by ` +
                `${errorText(decode(summary.fromOracle))}, is about that far off itself`
              : ` with ${summary.oracle} as the oracle`),
      onclick: () => {
        store.set({dock: head.has.accuracy ? "accuracy" : store.get().dock});
        if (summary.worstOperation) app.select(summary.worstOperation, "topbar");
      },
    },
    element("span", {class: `dot ${summary.verdict}`}, verdict.glyph),
    element(
      "span",
      {class: "verdict-words"},
      isToCome ? "comparing …" : VERDICT_WORDS[summary.verdict],
    ),
  );
}

function factsRow(app) {
  const {summary} = app.data.head;
  const fact = (name, value, title) =>
    element("span", {class: "fact", title}, element("span", {class: "fact-name"}, name), value);
  const isQuantized = summary.bitExact !== null && summary.bitExact !== undefined;
  const exact = `integers are ${summary.bitExact ? "" : "NOT "}those of the quantized program`;
  const distance = summary.againstFloat
    ? fact(
        "against source",
        moving(app, "sqnr_db", decibelsText(decode(summary.againstFloat[1]))),
        `signal to noise of ${summary.againstFloat[0]} against the source model` +
          (isQuantized ? `; ${exact}, bit by bit` : ""),
      )
    : null;
  // The most wanted first: the last ones go where there is no room.
  return element(
    "span",
    {class: "facts-row"},
    summary.task
      ? fact(
          "top-1",
          moving(
            app,
            "sqnr_db",
            `${exactText(summary.task[0])} of ${exactText(summary.task[2])} right`,
          ),
          `answers that are what the labels say; of the source model ${summary.task[1]} of ` +
            `${summary.task[2]}`,
        )
      : null,
    isQuantized ? distance : null,
    summary.milliseconds === null
      ? null
      : fact(
          "latency",
          moving(app, "seconds", secondsText(decode(summary.milliseconds) / 1e3)),
          `median of one inference, ${countText(summary.threads, "thread")}` +
            (summary.launched
              ? `; its launches add up to ${secondsText(summary.launched / 1e3)}, each timed by ` +
                "itself: tables and insights have these times"
              : ""),
        ),
    summary.peak === null
      ? null
      : fact(
          "peak",
          moving(app, "peak_bytes", bytesText(summary.peak)),
          `${exactText(summary.peak)} bytes${summary.optimal ? ", proven optimal" : ""}`,
        ),
    summary.counted
      ? fact(
          "cycles",
          moving(app, "cycles", exactText(summary.counted[0])),
          "of the machine, counted by its simulator",
        )
      : null,
    isQuantized ? null : distance,
    summary.weights
      ? fact(
          "weights",
          moving(app, "weights_bytes", bytesText(summary.weights)),
          `${exactText(summary.weights)} bytes`,
        )
      : null,
    summary.worst === null
      ? null
      : fact("worst layer", moving(app, "sqnr_db", judgedText(summary)), summary.worstTensor),
    fact(
      "compiled in",
      moving(app, "compile_seconds", secondsText(decode(summary.seconds))),
      "sum of all passes",
    ),
  );
}
