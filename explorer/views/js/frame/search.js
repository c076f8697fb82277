// Search over everything that has a name: operations by name, kind, shape, attribute and source
// node, blocks, kernels, passes. Several words must all be found: `conv 64x56`.

import {tailOf} from "../measures/column_names.js";
import {button, element, replace} from "../ground/dom.js";
import {countText, exactText} from "../ground/numbers.js";
import {clip} from "../ground/scene.js";

const MAX_HITS = 14;

export function searchBox(app) {
  const results = element("div", {class: "hits", hidden: true});
  const list = element("ul", {
    role: "listbox",
    id: `hits-${app.id}`,
    "aria-label": "search results",
  });
  const note = element("p", {class: "cap"});
  results.append(list, note);
  let hits = [];
  let active = 0;
  const input = element("input", {
    type: "search",
    class: "search",
    placeholder: "search  /",
    "aria-label": "search operations, kinds, shapes, source nodes, blocks, kernels, passes",
    role: "combobox",
    "aria-expanded": "false",
    "aria-controls": `hits-${app.id}`,
    autocomplete: "off",
    spellcheck: "false",
  });
  const more = button(
    "find everywhere: IR, loops, code, rules, tensors (Ctrl Shift F)",
    "list every place of this text",
    () => {},
    {
      class: "link find-more",
      onmousedown: (event) => {
        event.preventDefault();
        const text = input.value.trim();
        input.value = "";
        close();
        app.everywhere.open(text);
      },
    },
  );
  results.append(more);
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
  const draw = (total) => {
    results.hidden = !input.value.trim();
    input.setAttribute("aria-expanded", String(!results.hidden));
    replace(
      list,
      hits.length
        ? hits.map((hit, index) =>
            element(
              "li",
              {
                role: "option",
                "aria-selected": String(index === active),
                class: "hit",
                onmousedown: (event) => {
                  event.preventDefault();
                  take(hit);
                },
              },
              element("span", {class: "hit-kind"}, hit.kind),
              element("span", {class: "mono"}, clip(hit.name, 40)),
              element(
                "span",
                {class: "quiet-text hit-note", title: clip(hit.note, 400)},
                clip(hit.note, 120),
              ),
            ),
          )
        : element(
            "li",
            {class: "hit none"},
            "nothing found: try a part of a name, a kind or a shape, such as conv 64x56",
          ),
    );
    note.textContent =
      total > hits.length
        ? `${hits.length} of ${exactText(total)} shown: type more to narrow them down`
        : "";
    note.hidden = !note.textContent;
  };
  const look = () => {
    const found = findHits(app, input.value);
    hits = found.slice(0, MAX_HITS).map((hit) => ({...hit, note: hit.note()}));
    active = Math.max(0, Math.min(active, hits.length - 1));
    draw(found.length);
  };
  input.addEventListener("input", () => {
    active = 0;
    look();
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
      active =
        (active + (event.key === "ArrowDown" ? 1 : -1) + hits.length) % Math.max(hits.length, 1);
      look();
    }
  });
  input.addEventListener("blur", close);
  return element("div", {class: "search-host"}, input, results);
}

// All hits, the best first, each with a function that says more of it: the beginning of a name, a
// part of it, then what is said about it.
function findHits(app, query) {
  const {data, store} = app;
  const words = query.trim().toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return [];
  const found = [];
  const add = (hit, texts, bonus = 0) => {
    let points = bonus;
    for (const word of words) {
      const at = texts.findIndex((text) => text.includes(word));
      if (at < 0) return;
      points += at > 0 ? 1 : texts[0].startsWith(word) ? 3 : 2;
    }
    found.push([points, hit]);
  };
  // What stands in this pass comes before what stood or will stand in others.
  const here = app.graph.operations();
  for (const item of searchTexts(data)) {
    const {record, texts} = item;
    const isHere = !here || here.has(record.id);
    const source = record.sources.find((name) =>
      words.some((word) => name.toLowerCase().includes(word)),
    );
    add(
      {
        kind: "operation",
        name: record.id,
        note: () =>
          [
            isHere ? "" : "in another pass:",
            record.label,
            source ? tailOf(source, 40) : "",
            record.shape,
          ]
            .filter(Boolean)
            .join("  "),
        go: () => app.select(record.id, "search"),
      },
      texts,
      isHere ? 1.5 : 0.5,
    );
  }
  data.blocks?.labels.forEach((label, block) => {
    if (block)
      add(
        {
          kind: "block",
          name: label,
          note: () => countText(data.blocks.membersOf(`#${block}`).size, "operation"),
          go: () => app.select(`#${block}`, "search"),
        },
        [label.toLowerCase()],
      );
  });
  for (const kernel of data.kernels) {
    add(
      {
        kind: "kernel",
        name: kernel.name,
        note: () => kernel.kind,
        go: () => {
          app.select(kernel.operations[0], "search");
          store.set({tab: "c"});
        },
      },
      [kernel.name.toLowerCase(), kernel.kind.toLowerCase()],
    );
  }
  for (const [index, pass] of data.head.passes.entries())
    add(
      {kind: "pass", name: pass.name, note: () => pass.description, go: () => app.goToPass(index)},
      [pass.name.toLowerCase(), pass.level],
    );
  return found
    .sort((a, b) => b[0] - a[0] || a[1].name.length - b[1].name.length)
    .map(([, hit]) => hit);
}

// What is searched of every operation, in lower case, made once.
function searchTexts(data) {
  data.searched ??= [...data.latest.values()].map((record) => ({
    record,
    texts: [
      record.id,
      record.operation,
      record.label,
      record.family,
      record.shape,
      record.sources.join(" "),
      record.attributes.map(([name, value]) => `${name}=${value}`).join(" "),
    ].map((text) => text.toLowerCase()),
  }));
  return data.searched;
}
