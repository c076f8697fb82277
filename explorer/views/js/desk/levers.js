// "What moves this": the decisions that move a number, each with its legal values, the predicted
// change, where the prediction comes from, and "try", which makes a branch.

import {button, element} from "../ground/dom.js";
import {
  QUANTITIES,
  amountOf,
  changeOf,
  grouped,
  triedSettings,
  valueText,
} from "../ground/lever_words.js";
import {decode} from "../ground/numbers.js";
import {clip} from "../ground/scene.js";
import {tailOf} from "../measures/column_names.js";
import {steady} from "../ground/stable_dom.js";

const GROUP_WORDS = {
  memory: "The arena as a whole",
  schedule: "Schedules of kernels",
  threads: "Threads",
  package: "Options of a package",
  layout: "Layouts",
  bands: "Bands of rows",
  recompute: "Computing again",
  pass: "Passes",
  target: "Target",
  machine: "The machine",
  precision: "Bits of tensors",
  range: "Ranges of tensors",
  calibration: "Calibration",
};
const SHOWN_OPTIONS = 3;

// Opens the dialog; `of`: the kernel, value or tensor that the number is about.
export function openLevers(app, quantity, of = "") {
  const subject = tailOf(app.data.layerName(of), 60);
  app.openDialog(
    `what moves ${QUANTITIES[quantity]}`,
    (close) => {
      const body = element(
        "div",
        {class: "levers-body"},
        element("p", {class: "quiet-text", role: "status"}, "predicting …"),
      );
      const ask = (what) => app.data.chunk(`levers/${quantity}${what}${of && `?${of}`}`);
      const known = new Map();
      const show = (levers) =>
        keep(element("div", {}, content({app, levers, of, close, known, predict})));
      const keep = steady(body);
      let last;
      // Levers with predictions of their values, which are asked for one by one.
      const predict = async (lever, words) => {
        known.set(lever.address, {...lever, onDemand: "", unpredicted: words});
        show(last);
        const one = await ask(`/one/${lever.address.replace(/[%?]/g, encodeURIComponent)}`).catch(
          (failure) => ({
            ...lever,
            onDemand: "",
            unpredicted: failure.message,
          }),
        );
        known.set(lever.address, {...one, onDemand: ""});
        if (body.isConnected) show(last);
      };
      const predictAll = async () => {
        show((last = await ask("")));
        const shown = grouped(last.levers, of).flatMap(([, own]) => own);
        const modelled = shown.filter((lever) => lever.onDemand === "model");
        for (const lever of modelled)
          if (body.isConnected) await predict(lever, "it is being predicted");
        if (modelled.length) return;
        // What is known at once, then what is predicted by compiling.
        for (const more of quantity === "peak_bytes" ? ["/budgets", "/trials"] : ["/trials"])
          if (body.isConnected) show((last = await ask(more)));
      };
      predictAll().catch((failure) =>
        body.append(element("p", {class: "quiet-text", role: "alert"}, failure.message)),
      );
      return [
        element(
          "div",
          {class: "subject-name"},
          element("h2", {}, `What moves ${QUANTITIES[quantity]}${of ? ` of ${subject}` : ""}`),
          element("span", {class: "grow"}),
          button("×", "close (Esc)", close, {class: "icon"}),
        ),
        body,
      ];
    },
    "levers",
  );
}

// Why no decision moves the number that was pressed.
export function openReason(app, reason, number) {
  app.openDialog(
    "why no decision moves this",
    (close) => [
      element(
        "div",
        {class: "subject-name"},
        element("h2", {}, `No decision moves ${clip(number, 40)}`),
        element("span", {class: "grow"}),
        button("×", "close (Esc)", close, {class: "icon"}),
      ),
      element("p", {}, reason),
    ],
    "levers",
  );
}

// `known`: levers by address that were predicted since; `predict(lever, words)` asks for one.
function content(context) {
  const {app, levers, of, known} = context;
  const {quantity, value, valueSource, fixed, total} = levers;
  const groups = grouped(levers.levers, of);
  const listed = groups.reduce((sum, [, own]) => sum + own.length, 0);
  return [
    element(
      "p",
      {},
      value === null ? "" : element("strong", {}, amountOf(quantity, decode(value))),
      element(
        "span",
        {class: "quiet-text"},
        `${value === null ? "" : " now, "}${valueSource}. “try” makes a branch; what was ` +
          "predicted is next to what is measured in the tab “tries”.",
      ),
    ),
    groups.map(([group, own]) =>
      element(
        "section",
        {class: "lever-group"},
        element("h3", {}, GROUP_WORDS[group] ?? app.data.layersIn(group, of ? [of] : [])),
        own.map((lever) => leverRow(context, known.get(lever.address) ?? lever)),
      ),
    ),
    total > listed
      ? element("p", {class: "cap"}, `${total - listed} more: explorer levers MODEL`)
      : null,
    fixed.length
      ? element(
          "section",
          {class: "lever-group"},
          element("h3", {}, "What no decision moves"),
          fixed.map(([what, why]) =>
            element("p", {}, `${what}: `, element("span", {class: "quiet-text"}, why)),
          ),
        )
      : null,
  ];
}

function leverRow(context, lever) {
  const {app, predict} = context;
  const rows = lever.options.map((option) => optionRow(context, lever, option));
  const more = rows.slice(SHOWN_OPTIONS);
  const named = (text) => app.data.layersIn(text, lever.layers);
  return element(
    "div",
    {class: "lever", "data-address": lever.address},
    element(
      "div",
      {class: "lever-head"},
      element("strong", {}, lever.title),
      lever.of
        ? element(
            "span",
            {class: "mono", title: lever.of},
            tailOf(app.data.layerName(lever.of), 48),
          )
        : null,
      element("span", {class: "quiet-text"}, `now ${clip(valueText(lever.value), 40)}`),
      element("span", {class: "grow"}),
      element("span", {class: "mono quiet-text lever-address"}, clip(lever.address, 70)),
    ),
    lever.why ? element("p", {class: "quiet-text"}, clip(named(lever.why), 240)) : null,
    rows.length ? element("ul", {class: "plain"}, rows.slice(0, SHOWN_OPTIONS)) : null,
    more.length
      ? element(
          "details",
          {"data-key": lever.address},
          element("summary", {}, `${more.length} more values`),
          element("ul", {class: "plain"}, more),
          lever.total > rows.length
            ? element("p", {class: "cap"}, `${lever.total - rows.length} more in the tab “fork”`)
            : null,
        )
      : null,
    lever.source
      ? element("p", {class: "quiet-text"}, `predicted by ${clip(named(lever.source), 200)}`)
      : null,
    lever.unpredicted
      ? element(
          "p",
          {class: "quiet-text"},
          `not predicted: ${clip(lever.unpredicted, 200)} `,
          lever.onDemand === "trial"
            ? button(
                "predict",
                "compiles the model once for each of the first three values",
                () => predict(lever, "the passes run with each value"),
                {class: "quiet"},
              )
            : null,
        )
      : null,
    lever.commands.map((command) =>
      element(
        "div",
        {class: "lever-command"},
        element("code", {}, command),
        button("copy", "copy the command", () => app.copy(command, "command"), {class: "quiet"}),
      ),
    ),
  );
}

function optionRow({app, levers, close}, lever, option) {
  const {text, isBetter} = changeOf(levers, option);
  const tone = isBetter === null ? "quiet-text" : isBetter ? "better" : "worse";
  return element(
    "li",
    {class: "lever-option"},
    element("span", {class: "mono lever-value"}, clip(valueText(option.value), 60)),
    element("span", {class: `lever-change ${tone}`}, text),
    option.decisions.length
      ? button(
          "try",
          `a branch with ${option.decisions.map(([a, v]) => `${a} = ${valueText(v)}`).join(", ")}`,
          () => {
            app.session.tryLever(levers.quantity, lever, option);
            app.session.fork(triedSettings(app.session.settings(), option.decisions));
            close();
          },
          {class: "quiet try"},
        )
      : null,
  );
}
