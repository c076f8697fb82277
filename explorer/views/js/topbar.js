// The bar on top: which model and target, the verdict, the totals, search, sharing, theme.

function topBar(app) {
  const {data, store} = app;
  const {head} = data;
  const {summary} = head;
  const verdict = app.look.verdict(summary.verdict);
  const words = {equal: "equal to source", "within-tolerance": "within tolerance", wrong: "differs from source", "not-run": "not compared"}[summary.verdict];
  const worst = summary.worst === null ? null : decode(summary.worst);
  const fact = (name, value, title) => element("span", {class: "fact", title}, element("span", {class: "fact-name"}, name), value);
  const themeButton = button("◐", "light or dark", () => app.toggleTheme(), {class: "icon", "aria-label": "switch between light and dark"});
  return element("header", {class: "topbar"},
    app.session ? app.session.controls() : [element("strong", {class: "model-name", title: head.model.name}, head.model.name), element("span", {class: "target", title: head.device}, head.target)],
    head.label ? element("span", {class: "chip"}, head.label) : null,
    element("button", {
      type: "button", class: `verdict ${summary.verdict}`,
      title: summary.worst === null ? verdict.title : `${verdict.title}: worst tensor ${summary.worstTensor}, ${summary.oracle} as the oracle, tolerance ${errorText(decode(summary.tolerance))}`,
      onclick: () => {
        store.set({dock: head.has.accuracy ? "accuracy" : store.get().dock});
        if (summary.worstOperation) app.select(summary.worstOperation, "topbar");
      },
    }, element("span", {class: `dot ${summary.verdict}`}, verdict.glyph), element("span", {}, words), worst === null ? null : element("span", {class: "quiet-text worst-layer"}, `worst layer ${errorText(worst)}`)),
    element("span", {class: "facts-row"},
      summary.peak === null ? null : fact("peak", bytesText(summary.peak), `${exactText(summary.peak)} bytes${summary.optimal ? ", proven optimal" : ""}`),
      summary.milliseconds === null ? null : fact("latency", secondsText(decode(summary.milliseconds) / 1e3), `median of one inference, ${countText(summary.threads, "thread")}`),
      fact("compiled in", secondsText(decode(summary.seconds)), "sum of all passes")),
    element("span", {class: "grow"}),
    searchBox(app),
    app.host.mode === "notebook" ? null : button("share", "copy a link to what you see", () => app.copy(window.location.href, "The link is copied."), {class: "quiet"}),
    themeButton, button("?", "keys and help (?)", () => app.showHelp(), {class: "icon", "aria-label": "help"}));
}

const MOST_HITS = 12;

function searchBox(app) {
  const {data, store} = app;
  const results = element("ul", {class: "hits", role: "listbox", id: `hits-${app.id}`, "aria-label": "search results", hidden: true});
  let hits = [];
  let active = 0;
  const input = element("input", {
    type: "search", class: "search", placeholder: "search  /", "aria-label": "search operations, source nodes, kernels, passes", role: "combobox",
    "aria-expanded": "false", "aria-controls": `hits-${app.id}`, autocomplete: "off", spellcheck: "false",
  });
  const close = () => {
    results.hidden = true;
    input.setAttribute("aria-expanded", "false");
  };
  const take = (hit) => {
    close();
    input.value = "";
    input.blur();
    hit.go();
  };
  const draw = () => {
    results.hidden = !input.value.trim();
    input.setAttribute("aria-expanded", String(!results.hidden));
    replace(results, hits.length ? hits.map((hit, index) => element("li", {
      role: "option", "aria-selected": String(index === active), class: "hit",
      onmousedown: (event) => { event.preventDefault(); take(hit); },
    }, element("span", {class: "hit-kind"}, hit.kind), element("span", {class: "mono"}, clip(hit.name, 40)), element("span", {class: "quiet-text"}, clip(hit.note, 44))))
      : element("li", {class: "hit none"}, "nothing found: try a part of a name, such as conv"));
  };
  input.addEventListener("input", () => {
    hits = find(input.value.trim().toLowerCase());
    active = 0;
    draw();
  });
  input.addEventListener("keydown", (event) => {
    event.stopPropagation();
    if (event.key === "Escape") {
      input.value = "";
      close();
      input.blur();
    } else if (event.key === "Enter" && hits[active]) take(hits[active]);
    else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      active = (active + (event.key === "ArrowDown" ? 1 : -1) + hits.length) % Math.max(hits.length, 1);
      draw();
    }
  });
  input.addEventListener("blur", close);

  function find(query) {
    if (!query) return [];
    const found = [];
    const score = (name) => {
      const at = name.toLowerCase().indexOf(query);
      return at < 0 ? 0 : at === 0 ? 3 : 2;
    };
    const add = (points, hit) => { if (points) found.push([points, hit]); };
    for (const record of data.latest.values()) {
      const own = Math.max(score(record.id), record.label.toLowerCase().includes(query) || record.operation.toLowerCase().includes(query) ? 1 : 0);
      const source = record.sources.find((name) => name.toLowerCase().includes(query));
      add(own ? own + 0.5 : source ? 1.2 : 0, {kind: "operation", name: record.id, note: source || record.label, go: () => app.select(record.id, "search")});
    }
    data.head.kernels.forEach((kernel) => add(score(kernel.name), {kind: "kernel", name: kernel.name, note: kernel.kind, go: () => { app.select(kernel.operations[0], "search"); store.set({tab: "c"}); }}));
    data.head.passes.forEach((pass, index) => add(score(pass.name), {kind: "pass", name: pass.name, note: pass.description, go: () => app.goToPass(index)}));
    return found.sort((a, b) => b[0] - a[0] || a[1].name.length - b[1].name.length).slice(0, MOST_HITS).map(([, hit]) => hit);
  }
  return element("div", {class: "search-host"}, input, results);
}
