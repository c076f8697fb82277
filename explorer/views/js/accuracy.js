// The heat map of errors: a row per pass, a column per tensor in program order, cividis. The worst
// tensors stand beside it by name, so that nothing is said by colour alone; a click shows the
// tensor's errors over all passes and its worst element. What was wrong first stands on top.

const METRICS = {
  relative: {label: "relative", title: "largest difference over the largest expected value", low: "≤1e-9", high: "1", at: (value) => errorPosition(value), text: errorText, worse: (value) => value},
  sqnr: {label: "SQNR", title: "signal to quantization noise ratio", low: "≥140 dB", high: "0 dB", at: (value) => (value === Infinity ? 0 : Number.isFinite(value) ? Math.min(1, Math.max(0, 1 - value / 140)) : 1), text: decibelsText, worse: (value) => -value},
  cosine: {label: "cosine", title: "distance of the cosine from 1", low: "≤1e-9", high: "1", at: (value) => errorPosition(value), text: errorText, worse: (value) => value},
};
const HEAT_ROW = 16;
const WORST_SHOWN = 12;

async function accuracyView(app) {
  const {data, store} = app;
  if (!data.head.has.accuracy) return {node: notCompared(app)};
  const accuracy = await data.accuracy();
  const {mode, metric} = store.get();
  const measure = METRICS[metric];
  const rows = accuracy[mode];
  const modes = tabRow(["accumulated", "isolated"].map((id) => ({id, label: id, title: MODE_TITLES[id]})), mode, (next) => store.set({mode: next}), "mode of comparison");
  const metrics = tabRow(Object.entries(METRICS).map(([id, {label, title}]) => ({id, label, title})), metric, (next) => store.set({metric: next}), "metric");
  for (const tabs of [modes, metrics]) tabs.classList.add("segmented");
  const aside = element("span", {class: "aside-row"}, element("span", {class: "quiet-text heat-scale aside-note", title: `compared with ${accuracy.oracle}`},
    `${measure.low} `, element("span", {class: "scale", "aria-hidden": "true"}), ` ${measure.high}`, element("span", {class: "scale-note"}, ` · tolerance ${errorText(accuracy.tolerance)} · oracle ${accuracy.oracle}`)), metrics, modes);
  if (!rows.length) return {node: emptyState("Not measured in this mode", "Choose the other mode on the right."), aside};
  const values = metric === "relative" ? rows.map((row) => row.values) : await data.metric(metric, mode);
  const names = rows.map((row) => data.head.passes[row.pass]?.name ?? row.name);
  const last = values[values.length - 1];
  const rank = (value) => (Number.isNaN(value) ? Infinity : measure.worse(value));
  const worst = last.map((value, column) => [value, column]).filter(([value]) => value !== null)
    .sort((a, b) => rank(b[0]) - rank(a[0])).slice(0, WORST_SHOWN);
  const count = accuracy.tensors.length;

  const labels = element("ol", {class: "heat-labels"}, rows.map((row, index) => element("li", {}, button(names[index], "go to this pass", () => { if (row.pass >= 0) app.goToPass(row.pass); }, {"data-pass": row.pass}))));
  const plot = canvasPlot(`${measure.label} errors of ${count} tensors after ${rows.length} passes; the worst are listed beside it`, "heat-plot");
  const spacer = element("div", {class: "heat-spacer"});
  const frame = element("div", {class: "heat-frame", tabindex: 0, "aria-label": "heat map of errors"}, plot.node, spacer);
  const tip = tipElement();
  const side = element("aside", {class: "heat-side scroll"});
  const fault = element("div", {class: "fault-host"});
  const host = element("div", {class: "accuracy"}, element("div", {class: "heat-main"}, fault, element("div", {class: "scroll heat-scroll"}, element("div", {class: "heat-grid"}, labels, frame))), side, tip);
  let cell = 16;
  let detail = null; // {row, column}: what the side shows instead of the worst tensors
  let columns = [];

  function pick(row, column) {
    const {pass} = rows[row];
    detail = {row, column};
    if (pass >= 0) app.goToPass(pass);
    const operation = accuracy.maker(column, row);
    if (operation) app.select(operation, "dock");
    drawSide();
  }

  // ---- the map

  function paint() {
    const width = frame.clientWidth;
    if (!width) return;
    cell = Math.max(4, Math.min(72, Math.floor(width / count)));
    spacer.style.width = `${cell * count}px`;
    spacer.style.height = `${HEAT_ROW * rows.length}px`;
    plot.node.style.width = `${Math.min(width, cell * count)}px`;
    plot.node.style.height = `${HEAT_ROW * rows.length}px`;
    paintVisible();
  }

  // Only the columns in sight are painted: a canvas has a largest width.
  function paintVisible() {
    const context = plot.begin();
    if (!context) return;
    const left = frame.scrollLeft;
    const from = Math.floor(left / cell), to = Math.min(count, Math.ceil((left + plot.size()[0]) / cell));
    context.font = "9px system-ui, sans-serif";
    context.textAlign = "center";
    values.forEach((row, index) => {
      for (let column = from; column < to; column += 1) {
        const value = row[column];
        if (value === null) continue;
        const at = measure.at(value);
        context.fillStyle = app.look.scale(at);
        context.fillRect(column * cell - left, index * HEAT_ROW, cell - 1, HEAT_ROW - 1);
        if (cell >= 36) {
          context.fillStyle = at > 0.5 ? "#101010" : "#ffffff";
          context.fillText(measure.text(value), column * cell - left + cell / 2, index * HEAT_ROW + HEAT_ROW / 2);
        }
      }
    });
    mark();
  }

  function mark() {
    const {pass} = store.get();
    const left = frame.scrollLeft, right = left + plot.size()[0];
    const row = rows.findIndex((item) => item.pass === pass);
    const boxes = columns.filter((column) => (column + 1) * cell > left && column * cell < right)
      .map((column) => placed(element("div", {class: "column-mark"}), column * cell - left, 0, cell, HEAT_ROW * rows.length));
    if (row >= 0) boxes.push(placed(element("div", {class: "row-mark"}), 0, row * HEAT_ROW, plot.size()[0], HEAT_ROW));
    if (detail) boxes.push(placed(element("div", {class: "cell-mark"}), detail.column * cell - left, detail.row * HEAT_ROW, cell, HEAT_ROW));
    replace(plot.overlay, boxes);
    for (const label of labels.querySelectorAll("button")) label.toggleAttribute("aria-current", Number(label.dataset.pass) === pass);
  }

  async function refresh() {
    const state = store.get();
    const graph = await data.graphOfPass(state.pass);
    if (store.get() !== state) return;
    columns = columnsOf(app, accuracy, rows, state, data.followInGraph(state.selection, graph).slice(0, 1));
    if (detail && !columns.includes(detail.column)) detail = null;
    const first = columns[0];
    if (first !== undefined && (first * cell < frame.scrollLeft || (first + 1) * cell > frame.scrollLeft + frame.clientWidth)) frame.scrollLeft = first * cell - frame.clientWidth / 2;
    mark();
    drawSide();
  }

  // ---- beside it

  function drawSide() {
    if (detail) {
      drawDetail(detail);
      return;
    }
    replace(side, element("h3", {}, `worst tensors at the end, ${measure.label}`), element("ol", {class: "plain"}, worst.map(([value, column]) => element("li", {},
      element("button", {type: "button", class: `worst${columns.includes(column) ? " marked" : ""}`, title: accuracy.tensors[column], onclick: () => pick(rows.length - 1, column)},
        element("span", {class: "worst-name"}, accuracy.tensors[column]), element("span", {class: "mono"}, measure.text(value)))))));
  }

  async function drawDetail({row, column}) {
    const errors = await data.tensorErrors(column, mode);
    if (detail?.row !== row || detail?.column !== column) return;
    const here = errors.find((item) => item.pass === rows[row].pass) ?? errors[errors.length - 1];
    replace(side, element("div", {class: "subject-name"}, button("‹", "back to the worst tensors", () => { detail = null; mark(); drawSide(); }, {class: "icon"}), element("strong", {class: "mono detail-name", title: accuracy.tensors[column]}, accuracy.tensors[column])),
      here ? [element("p", {class: "quiet-text detail-pass"}, `after ${names[row]}, ${mode}`), worstElement(here),
        errorCurve(app, errors, accuracy.tolerance, rows[row].pass),
        element("div", {class: "actions"}, button("all passes and metrics", "the tab of tensors (6)", () => store.set({tab: "tensors"})))]
        : element("p", {class: "quiet-text"}, "not measured after this pass"));
  }

  // ---- what was wrong first

  function drawFault() {
    const found = accuracy.fault;
    if (!found) {
      replace(fault, null);
      return;
    }
    const bisection = app.session?.bisection();
    const go = () => {
      if (found.pass >= 0) app.goToPass(found.pass);
      app.select(found.operation, "dock");
    };
    replace(fault, element("div", {class: "fault", role: "note"}, element("span", {class: "dot wrong"}, "✗"),
      element("span", {}, "first wrong after ", button(found.name, "go there", go, {class: "link"}), `: ${clip(found.tensor, 60)} is off by ${errorText(decode(found.relative))} (${found.mode})`),
      element("span", {class: "grow"}),
      app.session && !bisection ? button("bisect", "run this pass again with fewer and fewer rewrites, until the guilty one is found", () => app.session.bisect(), {class: "quiet", disabled: app.session.isBisecting()}) : null,
      bisection ? faultWords(app, bisection) : null));
  }

  const at = (event) => {
    const box = plot.canvas.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left + frame.scrollLeft) / cell), row = Math.floor((event.clientY - box.top) / HEAT_ROW);
    const inside = row >= 0 && row < rows.length && column >= 0 && column < count;
    return inside && values[row][column] !== null ? {row, column} : null;
  };
  plot.node.addEventListener("pointermove", (event) => {
    const place = at(event);
    tip.hidden = !place;
    app.hover.set(place ? [accuracy.maker(place.column, place.row)] : [], []);
    if (!place) return;
    replace(tip, element("strong", {}, clip(accuracy.tensors[place.column], 90)), element("div", {}, `after ${names[place.row]}: `,
      element("span", {class: "mono"}, measure.text(values[place.row][place.column]))));
    moveTip(tip, host, event);
  });
  plot.node.addEventListener("pointerleave", () => { tip.hidden = true; app.hover.set([], []); });
  plot.node.addEventListener("click", (event) => {
    const place = at(event);
    if (place) pick(place.row, place.column);
  });
  frame.addEventListener("scroll", () => requestAnimationFrame(paintVisible), {passive: true});
  drawFault();
  drawSide();
  return {node: host, aside, refresh, resized: paint};
}

function notCompared(app) {
  if (app.session?.isPending("accuracy")) return emptyState("Being compared", "The program after every pass is run and compared with the source model, tensor by tensor. What is here already stays usable.");
  return emptyState("Not compared with the source model", "Every snapshot can be executed and compared, tensor by tensor. In a notebook, c.accuracy(inputs) does it; explorer serve does it by itself.");
}

// As many digits as a float32 holds.
function shortNumber(value) {
  return Number.isFinite(value) ? String(Number(value.toPrecision(9))) : notFinite(value);
}

// Where a tensor is off most, what stands there and what should.
function worstElement(error) {
  return element("dl", {class: "facts"},
    element("dt", {}, "worst element"), element("dd", {class: "mono"}, error.index.length ? `[${error.index.join(", ")}]` : "–"),
    element("dt", {}, "value"), element("dd", {class: "mono was plain-was", title: String(error.value)}, shortNumber(error.value)),
    element("dt", {}, "expected"), element("dd", {class: "mono now", title: String(error.expected)}, shortNumber(error.expected)),
    element("dt", {}, "relative"), element("dd", {class: "mono", title: String(error.relative)}, errorText(error.relative)),
    element("dt", {}, "absolute"), element("dd", {class: "mono", title: String(error.absolute)}, errorText(error.absolute)),
    element("dt", {}, "SQNR"), element("dd", {class: "mono"}, decibelsText(error.sqnr)),
    element("dt", {}, "cosine"), element("dd", {class: "mono", title: String(error.cosine)}, error.cosine === 1 ? "1" : `1 ${MINUS} ${errorText(1 - error.cosine)}`));
}

// The rewrite that a bisection blamed, with the way to leave it out.
function faultWords(app, found) {
  return element("span", {class: "aside-row"}, element("span", {}, "guilty: ", element("strong", {}, found.rule || found.pass),
    " at ", element("button", {type: "button", class: "link mono", onclick: () => app.select(found.operation, "dock")}, found.operation)),
  found.address ? button("fork without it", found.address, () => leaveOut(app, found.address), {class: "quiet"}) : null);
}
