// What is about the whole program: memory over time, errors, time line, kernels, comparison.
// A click here selects; what is selected elsewhere is marked here.

function dockPane(app) {
  const {data, store} = app;
  const tabs = [
    {id: "memory", label: "memory", title: "where every buffer lies, and when (m)"},
    {id: "accuracy", label: "accuracy", title: "errors of every tensor after every pass (a)"},
    {id: "timeline", label: "timeline", title: "when every kernel runs (t)"},
    {id: "kernels", label: "kernels", title: "all kernels with their costs", note: String(data.head.kernels.length)},
  ];
  if (data.head.has.compare) tabs.push({id: "compare", label: "compare", title: "this compilation and another one"});
  const row = tabRow(tabs, store.get().dock, (dock) => store.set({dock}), "about the whole program");
  const aside = element("span", {class: "dock-aside"});
  const body = element("div", {class: "dock-body", role: "tabpanel"});
  const node = element("section", {class: "pane dock", "aria-label": "whole program"},
    element("div", {class: "tab-bar"}, row, element("span", {class: "grow"}), aside), body);
  const makers = {memory: memoryView, accuracy: accuracyView, timeline: timelineView, kernels: kernelsView, compare: compareView};
  let current = null; // {node, aside, refresh(), resized()}
  let turn = 0;

  async function update() {
    const mine = turn += 1;
    const {dock} = store.get();
    const known = tabs.some((tab) => tab.id === dock) ? dock : "memory";
    markTab(row, known);
    try {
      const made = await makers[known](app);
      if (mine !== turn) return;
      current = made;
      replace(aside, made.aside || null);
      replace(body, made.node);
      current.refresh?.();
      current.resized?.();
    } catch (failure) {
      if (mine === turn) replace(body, emptyState("This could not be loaded", failure.message, button("try again", "load it again", () => update())));
    }
  }

  store.subscribe((state, changed) => {
    if (changed.has("dock") || (changed.has("mode") && state.dock === "accuracy")) update();
    else if (changed.has("selection") || changed.has("pass")) current?.refresh?.();
  });
  app.hover.subscribe(() => current?.hovered?.());
  if (typeof ResizeObserver === "function") new ResizeObserver(() => current?.resized?.()).observe(body);
  return {node, update, repaint: () => current?.resized?.()};
}

// Identities in the program that runs which belong to the selection.
function selectedLaunches(app) {
  const {selection} = app.store.get();
  return new Set(selection === null ? [] : [selection, ...app.data.followToLaunches(selection)]);
}

async function timelineView(app) {
  const {data} = app;
  if (!data.head.has.profile) {
    return {node: emptyState("Not measured", "The program was not run with timed events. In a notebook, c.profile(inputs) does it.")};
  }
  const profile = await data.profile();
  const lanes = [...new Set(profile.events.map((event) => event.lane))];
  const end = Math.max(1, ...profile.events.map((event) => event.end));
  const labels = 88;
  const host = element("div", {class: "timeline scroll"});
  const bars = [];
  const axis = element("div", {class: "time-axis"}, niceTicks(end, 6).map((tick) => {
    const mark = element("span", {}, tick === 0 ? "0" : secondsText(tick / 1e9));
    mark.style.left = `calc(${labels}px + (100% - ${labels + 24}px) * ${tick / end})`;
    return mark;
  }));
  host.append(axis);
  for (const lane of lanes) {
    const track = element("div", {class: "track"});
    for (const event of profile.events.filter((item) => item.lane === lane)) {
      const record = data.latest.get(event.operation);
      const bar = element("button", {
        type: "button", class: `bar family-${safeName(record?.family || "transfer")}`, tabindex: -1,
        title: `${event.name}${event.kernel && event.kernel !== event.name ? ` (${event.kernel})` : ""}\n${secondsText((event.end - event.start) / 1e9)} from ${secondsText(event.start / 1e9)}${event.flops ? `\n${(event.flops / (event.end - event.start)).toFixed(1)} GFLOP/s` : ""}`,
        onclick: () => { if (event.operation) app.select(event.operation, "dock"); },
        onmouseenter: () => app.hover.set(event.operation ? [event.operation] : [], []),
        onmouseleave: () => app.hover.set([], []),
      }, event.name);
      bar.style.left = `${(100 * event.start) / end}%`;
      bar.style.width = `${(100 * (event.end - event.start)) / end}%`;
      bars.push([bar, event]);
      track.append(bar);
    }
    host.append(element("div", {class: "lane"}, element("span", {class: "lane-name", title: lane}, lane), track));
  }
  const peak = profile.peakGflops;
  const flops = profile.events.reduce((sum, event) => sum + event.flops, 0);
  const facts = [`${secondsText(profile.milliseconds / 1e3)} per inference`, countText(profile.threads, "thread"),
    `median of ${profile.repeats}`, flops ? `${(flops / (profile.milliseconds * 1e6)).toFixed(1)} GFLOP/s${peak ? ` of ${peak.toFixed(0)}` : ""}` : ""].filter(Boolean);
  return {
    node: host, aside: element("span", {class: "quiet-text", title: profile.device}, facts.join(" · ")),
    refresh() {
      const marked = selectedLaunches(app);
      for (const [bar, event] of bars) bar.classList.toggle("marked", marked.has(event.operation));
      host.querySelector(".bar.marked")?.scrollIntoView({block: "nearest", inline: "nearest"});
    },
  };
}

function niceTicks(end, count) {
  const raw = end / count;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= raw);
  return Array.from({length: Math.floor(end / step) + 1}, (_, index) => index * step);
}

async function kernelsView(app) {
  const {data, store} = app;
  if (!data.head.kernels.length) {
    return {node: emptyState("No kernels", "The compilation stopped before kernels were made. Choose a target that generates code.")};
  }
  const profile = data.head.has.profile ? await data.profile() : null;
  const spent = new Map();
  let total = 0;
  for (const event of profile?.events || []) {
    const time = event.end - event.start;
    total += time;
    const entry = spent.get(event.kernel) || {time: 0, flops: 0, count: 0};
    spent.set(event.kernel, {time: entry.time + time, flops: entry.flops + event.flops, count: entry.count + 1});
  }
  const rows = data.head.kernels.map((kernel) => ({...kernel, ...(spent.get(kernel.name) || {time: NaN, count: 0, flops: NaN}), work: kernel.flops}));
  const host = element("div", {class: "scroll"});
  const peak = profile?.peakGflops || 0;
  const columns = [
    {title: "kernel", value: (row) => row.name, text: (row) => row.name},
    {title: "kind", value: (row) => row.kind, text: (row) => row.kind},
    {title: "used by", value: (row) => row.operations.join(), text: (row) => clip(row.operations.join(", "), 40), exact: (row) => row.operations.join(", ")},
    {title: "time", number: true, value: (row) => row.time, text: (row) => (Number.isNaN(row.time) ? "–" : secondsText(row.time / 1e9)), exact: (row) => `${row.time} ns`},
    {title: "share", number: true, value: (row) => row.time, text: (row) => (Number.isNaN(row.time) ? "–" : percentText(row.time / total))},
    {title: "GFLOP/s", number: true, value: (row) => row.flops / row.time, text: (row) => (Number.isFinite(row.flops / row.time) ? (row.flops / row.time).toFixed(1) : "–"), exact: (row) => (peak ? `${percentText(row.flops / row.time / peak)} of the measured peak` : ""), hint: peak ? `the device reaches ${peak} GFLOP/s` : "operations per second"},
    {title: "FLOPs", number: true, value: (row) => row.work, text: (row) => amountText(row.work), exact: (row) => exactText(row.work)},
    {title: "bytes", number: true, value: (row) => row.bytes, text: (row) => bytesText(row.bytes), exact: (row) => exactText(row.bytes), hint: "sizes of all arguments: the least traffic"},
    {title: "FLOP/byte", number: true, value: (row) => row.work / row.bytes, text: (row) => (row.bytes ? (row.work / row.bytes).toFixed(1) : "–"), hint: "arithmetic intensity: low means bound by memory"},
    {title: "steps", number: true, value: (row) => row.steps, text: (row) => row.steps, hint: "schedule steps"},
    {title: "lines", number: true, value: (row) => row.lines, text: (row) => row.lines, hint: "lines of source"},
  ];
  let marked = new Set();
  const table = sortableTable(columns, rows, {
    label: "kernels", sortBy: profile ? 3 : null, isMarked: (row) => row.operations.some((name) => marked.has(name)),
    onrow: (row) => { app.select(row.operations[0], "dock"); if (["operation", "tensors"].includes(store.get().tab)) store.set({tab: "c"}); },
  });
  host.append(table);
  return {
    node: host, refresh() {
      marked = selectedLaunches(app);
      for (const line of table.querySelectorAll("tbody tr")) {
        const kernel = data.head.kernels[data.kernelIndex.get(line.firstChild.textContent)];
        line.classList.toggle("marked", kernel.operations.some((name) => marked.has(name)));
      }
    },
  };
}

async function compareView(app) {
  const {labels, passes, summaries, kernels} = app.data.head.compare;
  const number = (value) => (value === null ? "–" : exactText(value));
  const table = sortableTable([
    {title: "pass", value: (row) => row[0], text: (row) => row[0]},
    {title: `operations, ${labels[0]}`, number: true, value: (row) => row[1] ?? -1, text: (row) => number(row[1])},
    {title: `operations, ${labels[1]}`, number: true, value: (row) => row[2] ?? -1, text: (row) => number(row[2])},
    {title: `rewrites, ${labels[0]}`, number: true, value: (row) => row[3] ?? -1, text: (row) => number(row[3])},
    {title: `rewrites, ${labels[1]}`, number: true, value: (row) => row[4] ?? -1, text: (row) => number(row[4])},
  ], passes, {label: "comparison of passes", isMarked: (row) => row[1] !== row[2]});
  const fact = (name, texts) => [element("dt", {}, name), element("dd", {}, `${texts[0]} | ${texts[1]}`)];
  const both = (text) => summaries.map(text);
  return {node: element("div", {class: "scroll columns"}, table, element("dl", {class: "facts"},
    fact("labels", labels), fact("kernels", kernels.map(exactText)),
    fact("peak memory", both((summary) => (summary.peak === null ? "–" : bytesText(summary.peak)))),
    fact("latency", both((summary) => (summary.milliseconds === null ? "–" : secondsText(decode(summary.milliseconds) / 1e3)))),
    fact("worst layer", both((summary) => (summary.worst === null ? "–" : errorText(decode(summary.worst)))))))};
}
