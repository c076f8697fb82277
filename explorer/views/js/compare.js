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
  const comparison = await data.chunk(chosen ? `compare/${chosen.key}/${chosen.stages}` : "comparison");
  const {summaries: [left, right], labels} = comparison;
  const rows = [
    totalRow("operations", comparison.operations, exactText),
    totalRow("kernels", comparison.kernelCounts, exactText),
    totalRow("peak memory", [left.peak, right.peak], bytesText),
    totalRow("latency", [left.milliseconds, right.milliseconds].map((value) => (value === null ? null : decode(value) / 1e3)), secondsText),
    totalRow("worst tensor", [left.worst, right.worst].map((value) => (value === null ? null : decode(value))), errorText),
    ["verdict", app.look.verdict(left.verdict).glyph + " " + VERDICT_WORDS[left.verdict], app.look.verdict(right.verdict).glyph + " " + VERDICT_WORDS[right.verdict], ""],
    ["target", ...comparison.targets, ""],
  ];
  const totals = element("table", {"aria-label": "totals"}, element("thead", {}, element("tr", {}, ["", "A", "B", "change"].map((text) => element("th", {scope: "col"}, text)))),
    element("tbody", {}, rows.map(([name, a, b, change]) => element("tr", {class: a === b ? "" : "differs"}, element("th", {scope: "row"}, name), element("td", {class: "mono"}, a), element("td", {class: "mono"}, b), element("td", {class: "quiet-text"}, change)))));
  // "14 → 17", or one number where both are the same.
  const both = (a, b, text) => {
    const [left, right] = [a, b].map((value) => (value === null || value === undefined ? "–" : text(decode(value))));
    return left === right ? left : `${left} → ${right}`;
  };
  const column = (title, key, text) => ({
    title, number: true, hint: `${title}, A → B`, value: (row) => decode(row[1]?.[key] ?? row[2]?.[key] ?? -1),
    text: (row) => both(row[1]?.[key], row[2]?.[key], text),
  });
  const passes = sortableTable([
    {title: "pass", value: (row) => row[0], text: (row) => clip(row[0], 32), exact: (row) => row[0]},
    column("operations", "after", exactText), column("rewrites", "rewrites", exactText), column("worst tensor", "worst", errorText),
  ], comparison.passes, {label: "passes of both", isMarked: (row) => row[1]?.after !== row[2]?.after || row[1]?.rewrites !== row[2]?.rewrites});
  const time = (figures) => figures?.nanoseconds ?? NaN;
  const nanoseconds = (value) => secondsText(value / 1e9);
  const kernels = sortableTable([
    {title: "kernel", value: (row) => row[0], text: (row) => clip(row[0], 28), exact: (row) => `${row[0]}, ${row[1]}`},
    {title: "time", number: true, hint: "time, A → B", value: (row) => Math.max(time(row[2]) || 0, time(row[3]) || 0), text: (row) => both(row[2]?.nanoseconds, row[3]?.nanoseconds, nanoseconds)},
    {title: "change", number: true, value: (row) => time(row[3]) / time(row[2]), text: (row) => (!row[2] ? "only in B" : !row[3] ? "only in A" : time(row[2]) && time(row[3]) ? ratioText(time(row[2]), time(row[3])) : "–")},
    {title: "choices that differ", value: (row) => choicesText(row), text: (row) => clip(choicesText(row), 48), exact: (row) => choicesText(row)},
  ], comparison.kernels, {label: "kernels of both", isMarked: (row) => Boolean(choicesText(row)) || !row[2] || !row[3], onrow: (row) => {
    const kernel = data.kernels[data.kernelIndex.get(row[0])];
    if (kernel) app.select(kernel.operations[0], "dock");
  }});
  const first = comparison.first;
  const value = (text) => (text === "" ? "not decided" : text);
  const decisions = first ? [element("h3", {}, "first decision that differs"),
    element("p", {class: "mono first-difference"}, clip(first[0], 160)), element("p", {}, element("span", {class: "was plain-was"}, `A ${value(first[1])}`), "  →  ", element("span", {class: "now"}, `B ${value(first[2])}`)),
    comparison.differing > 1 ? element("details", {}, element("summary", {}, `${countText(comparison.differing, "decision")} differ`),
      element("ul", {class: "plain mono"}, comparison.decisions.map(([address, a, b]) => element("li", {}, clip(`${address}: ${value(a)} → ${value(b)}`, 160)))),
      comparison.differing > comparison.decisions.length ? element("p", {class: "cap"}, `${comparison.differing - comparison.decisions.length} more are not listed`) : null) : null]
    : [element("p", {class: "quiet-text"}, "Every decision is the same.")];
  return {node: element("div", {class: "compare scroll"}, element("div", {class: "compare-head"},
    element("p", {}, element("strong", {}, "A "), clip(labels[0], 120), element("br"), element("strong", {}, "B "), clip(labels[1], 120)), totals, decisions), passes, kernels), aside: picker};
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
