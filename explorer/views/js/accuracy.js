// The heat map of errors: a row per pass, a column per tensor in program order, cividis on a
// logarithmic scale. The worst tensors stand beside it by name, so that nothing is said by colour
// alone.

async function accuracyView(app) {
  const {data, store} = app;
  if (!data.head.has.accuracy) {
    return {node: emptyState("Not compared with the source model", "Every snapshot can be executed and compared, tensor by tensor. In a notebook, c.accuracy(inputs) does it.")};
  }
  const accuracy = await data.accuracy();
  const {mode} = store.get();
  const rows = accuracy[mode];
  const modes = tabRow(["accumulated", "isolated"].map((id) => ({id, label: id, title: MODE_TITLES[id]})), mode, (next) => store.set({mode: next}), "mode of comparison");
  modes.classList.add("segmented");
  if (!rows.length) {
    return {node: emptyState("Not measured in this mode", "Choose the other mode on the right."), aside: modes};
  }
  const last = rows[rows.length - 1];
  const worst = last.values.map((value, column) => [value, column]).filter(([value]) => value !== null)
    .sort((a, b) => (Number.isNaN(b[0]) ? Infinity : b[0]) - (Number.isNaN(a[0]) ? Infinity : a[0])).slice(0, 12);
  const labels = element("ol", {class: "heat-labels"}, rows.map((row) => element("li", {}, button(data.head.passes[row.pass]?.name ?? "–", "go to this pass", () => { if (row.pass >= 0) app.goToPass(row.pass); }, {"data-pass": row.pass}))));
  const canvas = element("canvas", {class: "heat", role: "img", "aria-label": `relative errors of ${accuracy.tensors.length} tensors after ${rows.length} passes; the worst are listed beside it`});
  const overlay = element("div", {class: "heat-marks"});
  const frame = element("div", {class: "heat-frame"}, canvas, overlay);
  const tip = element("div", {class: "tip", role: "tooltip", hidden: true});
  const note = element("span", {class: "quiet-text heat-scale"}, "≤1e-9 ", element("span", {class: "scale", "aria-hidden": "true"}), ` 1 · tolerance ${errorText(accuracy.tolerance)} · oracle ${accuracy.oracle}`);
  const side = element("aside", {class: "heat-side scroll"}, element("h3", {}, "worst tensors at the end"), element("ol", {class: "plain"}, worst.map(([value, column]) => element("li", {},
    element("button", {type: "button", class: "worst", title: accuracy.tensors[column], onclick: () => pick(rows.length - 1, column)},
      element("span", {class: "worst-name"}, accuracy.tensors[column]), element("span", {class: "mono"}, errorText(value)))))));
  const scroll = element("div", {class: "scroll heat-scroll"}, element("div", {class: "heat-grid"}, labels, frame));
  const host = element("div", {class: "accuracy"}, scroll, side, tip);
  const rowHeight = 16;
  let cell = 16;

  function pick(rowIndex, column) {
    const {pass} = rows[rowIndex];
    if (pass >= 0) app.goToPass(pass);
    const operation = accuracy.maker(column, rowIndex);
    if (operation) app.select(operation, "dock");
  }

  function paint() {
    const width = frame.clientWidth;
    if (!width) return;
    cell = Math.max(4, Math.min(72, Math.floor(width / accuracy.tensors.length)));
    const ratio = window.devicePixelRatio || 1;
    const shown = cell * accuracy.tensors.length;
    canvas.style.width = `${shown}px`;
    canvas.style.height = `${rowHeight * rows.length}px`;
    canvas.width = shown * ratio;
    canvas.height = rowHeight * rows.length * ratio;
    overlay.style.width = `${shown}px`;
    const context = canvas.getContext("2d");
    if (!context) return;
    context.scale(ratio, ratio);
    context.font = "9px system-ui, sans-serif";
    context.textBaseline = "middle";
    context.textAlign = "center";
    rows.forEach((row, rowIndex) => row.values.forEach((value, column) => {
      if (value === null) return;
      const at = errorPosition(value);
      context.fillStyle = app.look.scale(at);
      context.fillRect(column * cell, rowIndex * rowHeight, cell - 1, rowHeight - 1);
      if (cell >= 36) {
        context.fillStyle = at > 0.5 ? "#101010" : "#ffffff";
        context.fillText(errorText(value), column * cell + cell / 2, rowIndex * rowHeight + rowHeight / 2);
      }
    }));
    refresh();
  }

  async function refresh() {
    const state = store.get();
    const {pass} = state;
    const graph = await data.graphOfPass(pass);
    if (store.get() !== state) return;
    const columns = columnsOf(app, accuracy, rows, state, data.followInGraph(state.selection, graph).slice(0, 1));
    const rowIndex = rows.findIndex((row) => row.pass === pass);
    const mark = (kind, left, top, width, height) => {
      const box = element("div", {class: kind});
      Object.assign(box.style, {left: `${left}px`, top: `${top}px`, width: `${width}px`, height: `${height}px`});
      return box;
    };
    replace(overlay, rowIndex >= 0 ? mark("row-mark", 0, rowIndex * rowHeight, cell * accuracy.tensors.length, rowHeight) : null,
      columns.map((column) => mark("column-mark", column * cell, 0, cell, rowHeight * rows.length)));
    for (const label of labels.querySelectorAll("button")) label.toggleAttribute("aria-current", Number(label.dataset.pass) === pass);
    for (const [index, item] of [...side.querySelectorAll(".worst")].entries()) item.classList.toggle("marked", columns.includes(worst[index][1]));
  }

  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left) / cell), row = Math.floor((event.clientY - box.top) / rowHeight);
    const inside = row >= 0 && row < rows.length && column >= 0 && column < accuracy.tensors.length;
    return inside && rows[row].values[column] !== null ? {row, column} : null;
  };
  frame.addEventListener("mousemove", (event) => {
    const place = at(event);
    tip.hidden = !place;
    app.hover.set(place ? [accuracy.maker(place.column, place.row)] : [], []);
    if (!place) return;
    replace(tip, element("strong", {}, accuracy.tensors[place.column]), element("div", {}, `after ${data.head.passes[rows[place.row].pass]?.name ?? "–"}: `,
      element("span", {class: "mono"}, errorText(rows[place.row].values[place.column]))));
    const box = host.getBoundingClientRect();
    tip.style.left = `${Math.max(4, Math.min(event.clientX - box.left + 14, box.width - tip.offsetWidth - 8))}px`;
    tip.style.top = `${Math.max(4, Math.min(event.clientY - box.top + 16, box.height - tip.offsetHeight - 4))}px`;
  });
  frame.addEventListener("mouseleave", () => { tip.hidden = true; app.hover.set([], []); });
  frame.addEventListener("click", (event) => {
    const place = at(event);
    if (place) pick(place.row, place.column);
  });
  return {node: host, aside: element("span", {class: "aside-row"}, note, modes), refresh, resized: paint};
}
