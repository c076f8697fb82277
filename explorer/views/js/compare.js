// Two compilations side by side: totals, the first decision in which they differ, passes, kernels.
// In the app the other side is one of the branches; a page of two traces holds its one comparison.

async function compareView(app) {
  const {data, session} = app;
  const others = session ? session.branches().filter((branch) => branch.key !== session.branch()) : [];
  if (session && !others.length) {
    return {node: emptyState("Nothing to compare with", "Change a decision and compile again: the result becomes a branch beside this one.", button("fork +", "change a decision", () => app.openFork(), {class: "primary"}))};
  }
  const against = session ? session.against() : null;
  const chosen = session ? (others.find((branch) => branch.key === against) ?? others[0]) : null;
  const picker = chosen ? element("label", {class: "aside-row"}, element("span", {class: "quiet-text"}, "compared with"),
    element("select", {"aria-label": "the other branch", onchange: (event) => session.compareWith(event.target.value)},
      others.map((branch) => element("option", {value: branch.key, selected: branch.key === chosen.key}, clip(branch.label, 60))))) : null;
  const comparison = await data.chunk(chosen ? `compare/${chosen.key}` : "comparison");
  const {summaries: [left, right], labels} = comparison;
  const measured = (value, text) => (value === null ? "–" : text(decode(value)));
  const rows = [
    totalRow("operations", comparison.operations, exactText),
    totalRow("kernels", comparison.kernelCounts, exactText),
    totalRow("peak memory", [left.peak, right.peak], bytesText),
    totalRow("latency", [left.milliseconds, right.milliseconds].map((value) => (value === null ? null : decode(value) / 1e3)), secondsText),
    totalRow("worst tensor", [left.worst, right.worst].map((value) => (value === null ? null : decode(value))), errorText),
    ["verdict", app.look.verdict(left.verdict).glyph + " " + VERDICT_WORDS[left.verdict], app.look.verdict(right.verdict).glyph + " " + VERDICT_WORDS[right.verdict], ""],
    ["target", ...comparison.targets, ""],
  ];
  const totals = element("table", {"aria-label": "totals"}, element("thead", {}, element("tr", {}, ["", ...labels.map((label) => clip(label, 40)), "change"].map((text) => element("th", {scope: "col"}, text)))),
    element("tbody", {}, rows.map(([name, a, b, change]) => element("tr", {class: a === b ? "" : "differs"}, element("th", {scope: "row"}, name), element("td", {class: "mono"}, a), element("td", {class: "mono"}, b), element("td", {class: "quiet-text"}, change)))));
  const passes = sortableTable([
    {title: "pass", value: (row) => row[0], text: (row) => row[0]},
    ...["after", "rewrites"].flatMap((key) => [0, 1].map((side) => ({title: `${key === "after" ? "operations" : key} ${side ? "B" : "A"}`, number: true, value: (row) => row[side + 1]?.[key] ?? -1, text: (row) => (row[side + 1] ? exactText(row[side + 1][key]) : "–"), hint: labels[side]}))),
    ...[0, 1].map((side) => ({title: `worst ${side ? "B" : "A"}`, number: true, value: (row) => (row[side + 1]?.worst == null ? -1 : decode(row[side + 1].worst)), text: (row) => measured(row[side + 1]?.worst ?? null, errorText), hint: labels[side]})),
  ], comparison.passes, {label: "passes of both", isMarked: (row) => row[1]?.after !== row[2]?.after || row[1]?.rewrites !== row[2]?.rewrites});
  const time = (figures) => figures?.nanoseconds ?? NaN;
  const kernels = sortableTable([
    {title: "kernel", value: (row) => row[0], text: (row) => clip(row[0], 28), exact: (row) => `${row[0]}, ${row[1]}`},
    ...[0, 1].map((side) => ({title: `time ${side ? "B" : "A"}`, number: true, value: (row) => time(row[side + 2]), text: (row) => (row[side + 2] ? (Number.isNaN(time(row[side + 2])) ? "–" : secondsText(time(row[side + 2]) / 1e9)) : "not there"), hint: labels[side]})),
    {title: "change", number: true, value: (row) => time(row[3]) / time(row[2]), text: (row) => (time(row[2]) && time(row[3]) ? ratioText(time(row[2]), time(row[3])) : "–")},
    {title: "choices that differ", value: (row) => choicesText(row), text: (row) => clip(choicesText(row), 60), exact: (row) => choicesText(row)},
  ], comparison.kernels, {label: "kernels of both", isMarked: (row) => Boolean(choicesText(row)) || !row[2] || !row[3], onrow: (row) => {
    const kernel = data.kernels[data.kernelIndex.get(row[0])];
    if (kernel) app.select(kernel.operations[0], "dock");
  }});
  const first = comparison.first;
  const value = (text) => (text === "" ? "not decided" : text);
  const decisions = first ? [element("h3", {}, "first decision that differs"),
    element("p", {class: "mono first-difference"}, first[0]), element("p", {}, element("span", {class: "was plain-was"}, `A ${value(first[1])}`), "  →  ", element("span", {class: "now"}, `B ${value(first[2])}`)),
    comparison.differing > 1 ? element("details", {}, element("summary", {}, `${countText(comparison.differing, "decision")} differ`),
      element("ul", {class: "plain mono"}, comparison.decisions.map(([address, a, b]) => element("li", {}, `${address}: ${value(a)} → ${value(b)}`))),
      comparison.differing > comparison.decisions.length ? element("p", {class: "cap"}, `${comparison.differing - comparison.decisions.length} more are not listed`) : null) : null]
    : [element("p", {class: "quiet-text"}, "Every decision is the same.")];
  return {node: element("div", {class: "compare scroll"}, element("div", {class: "compare-head"},
    element("p", {}, element("strong", {}, "A "), labels[0], element("br"), element("strong", {}, "B "), labels[1]), totals, decisions), passes, kernels), aside: picker};
}

const VERDICT_WORDS = {equal: "equal to source", "within-tolerance": "within tolerance", wrong: "differs from source", "not-run": "not compared"};

function totalRow(name, [a, b], text) {
  const shown = (value) => (value === null ? "–" : text(value));
  return [name, shown(a), shown(b), a === null || b === null || !a ? "" : ratioText(a, b)];
}

function choicesText([, , left, right]) {
  if (!left || !right) return "";
  const ours = new Set(left.choices), theirs = new Set(right.choices);
  const changed = [...ours].filter((choice) => !theirs.has(choice)), now = [...theirs].filter((choice) => !ours.has(choice));
  return changed.length + now.length ? `${changed.join(", ") || "–"} → ${now.join(", ") || "–"}` : "";
}
