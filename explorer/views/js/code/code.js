// Panes of text: line numbers, light syntax colours, marks, and hovering that other panes follow.
// Long texts stay smooth: blocks of lines are made when they come into sight, and colours are put
// on when a line is first seen. Texts that are not very long are made as a whole, so that the
// browser's own search finds everything in them.

import {button, element, replace} from "../ground/dom.js";
import {GRAMMARS} from "../ground/grammars.js";
import {MINUS} from "../ground/numbers.js";

const LINE_PIXELS = 18;
const CHARACTER_PIXELS = 7.2; // of the font of explorer.css
const LINES_PER_BLOCK = 25;
const MAX_WHOLE_LINES = 1500;
const FOLLOW_MILLISECONDS = 80;
const BLOCKS_AROUND = 1; // made above and below what is in sight
const BLOCKS_KEPT = 2; // around these: what stays in the document is moved with the pane

// entries: [{line, owners, kind, language}], kind: "" or added, removed, changed, fold (a note, no
// line); language, number and look (a class) where they are others than the text's;
// hueOf(owners): the number of a statement's colour; lookOf(owners): a class for the line
export function entriesOf(text) {
  return text.lines.map((line, index) => ({line, owners: text.owners[index], kind: ""}));
}

/**
 * {node, label, entries, mark(isMarked), hover(isHovered), follow(), reveal(), place(),
 *  restore(place), top(), showAt(index, pixels), find(query), showHit(number), nearestHit(),
 *  hitOn(line), query(), annotate(costs), markWords(rangesOf)}; `start`: the line at which it
 *  opens where nothing is marked
 *
 * @param {{
 *   entries: any[],
 *   language: string,
 *   label: string,
 *   start?: number,
 *   firstNumber?: number,
 *   hueOf?: (owners: string[]) => number | null,
 *   lookOf?: (owners: string[]) => string,
 *   onhover?: (owners: string[]) => void,
 *   onpick?: (owners: string[], entry: any) => void,
 * }} options
 */
export function codePane({
  entries,
  language,
  label,
  start = -1,
  firstNumber = 1,
  hueOf,
  lookOf,
  onhover,
  onpick,
}) {
  const longest = entries.reduce((most, entry) => Math.max(most, entry.line.length), 0);
  const digits = entries.reduce(
    (most, {number}) => Math.max(most, String(number ?? "").length),
    String(entries.length + firstNumber - 1).length,
  );
  const inner = element("div", {class: "code-lines"});
  inner.style.width = `max(100%, calc(${longest + digits + 5}ch + 24px))`;
  const blocks = [];
  for (let start = 0; start < entries.length; start += LINES_PER_BLOCK) {
    const block = element("div", {class: "code-block"});
    const count = Math.min(LINES_PER_BLOCK, entries.length - start);
    block.style.height = `${count * LINE_PIXELS}px`;
    blocks.push({node: block, start, end: start + count, rows: null});
    inner.append(block);
  }
  const node = element(
    "div",
    {class: "code", tabindex: 0, role: "region", "aria-label": label},
    inner,
  );
  node.style.setProperty("--digits", `${digits + 1}ch`);
  let marked = new Set();
  let markedWhole = false;
  let hovered = new Set();
  let following = 0;

  const makeRow = (index) => {
    const entry = entries[index];
    const hue = hueOf && entry.owners.length ? hueOf(entry.owners) : null;
    const look = entry.look ?? (lookOf ? lookOf(entry.owners) : "");
    const states = `${marked.has(index) ? " marked" : ""}${hovered.has(index) ? " hovered" : ""}`;
    return element(
      "div",
      {
        class: `line ${entry.kind} ${look}${states}`,
        "data-index": index,
        "data-number": entry.number ?? index + firstNumber,
        "data-hue": hue,
        title: entry.title,
      },
      entry.line || " ",
    );
  };
  const makeBlock = (block) => {
    if (block.rows) return;
    block.rows = [];
    for (let index = block.start; index < block.end; index += 1) block.rows.push(makeRow(index));
    block.node.append(...block.rows);
  };
  const rowAt = (index) =>
    blocks[Math.floor(index / LINES_PER_BLOCK)]?.rows?.[index % LINES_PER_BLOCK];
  const isWhole = entries.length <= MAX_WHOLE_LINES;
  if (isWhole) blocks.forEach(makeBlock);

  /** @type {{query: string, hits: any[], byLine: Map<number, number[]>, current: number}} */
  const found = {query: "", hits: [], byLine: new Map(), current: -1};
  const hitsOn = (index) =>
    (found.byLine.get(index) ?? []).map((hit) => ({
      start: found.hits[hit].start,
      end: found.hits[hit].start + found.query.length,
      isCurrent: hit === found.current,
    }));

  let wordsOf = null; // of an entry: ranges [begin, end) of its characters that differ
  const marksOn = (index) =>
    found.byLine.has(index)
      ? hitsOn(index)
      : (wordsOf?.(entries[index]) ?? []).map(([start, end]) => ({start, end, isWord: true}));

  let costs = null; // of lines: Map of {text, title, share, isHot}
  const costOf = (index) => {
    if (!costs) return null;
    const cost = costs.get(index);
    const node = element(
      "span",
      {class: `cost${cost?.isHot ? " hot" : ""}`, title: cost?.title},
      cost?.text ?? "",
    );
    if (cost) node.style.setProperty("--share", `${Math.round(100 * cost.share)}%`);
    return node;
  };
  const painted = new Set();
  const colour = (index) => {
    painted.add(index);
    const {line, kind, language: own} = entries[index];
    if (kind === "fold") return;
    replace(rowAt(index), costOf(index), coloured(line || " ", own ?? language, marksOn(index)));
  };
  const paint = () => {
    const first = Math.max(0, Math.floor(node.scrollTop / LINE_PIXELS) - 30);
    const last = Math.min(
      entries.length,
      first + Math.ceil((node.clientHeight || 600) / LINE_PIXELS) + 60,
    );
    if (!isWhole) {
      const from = Math.floor(first / LINES_PER_BLOCK) - BLOCKS_AROUND,
        to = Math.floor(last / LINES_PER_BLOCK) + BLOCKS_AROUND;
      blocks.forEach((block, index) => {
        if (index >= from && index <= to) makeBlock(block);
        else if (block.rows && (index < from - BLOCKS_KEPT || index > to + BLOCKS_KEPT)) {
          block.node.replaceChildren();
          block.rows = null;
          for (let line = block.start; line < block.end; line += 1) painted.delete(line);
        }
      });
    }
    for (let index = first; index < last; index += 1) if (!painted.has(index)) colour(index);
  };
  // Numbers stay in sight where a text is scrolled sideways. Each that does is a layer of its own
  // for the browser, which takes as much time as all else of a selection.
  const scrolled = () => {
    node.classList.toggle("aside", node.scrollLeft > 0);
    requestAnimationFrame(paint);
  };
  node.addEventListener("scroll", scrolled, {passive: true});
  // A pane has its height only once it stands on the screen.
  if (typeof ResizeObserver === "function") new ResizeObserver(paint).observe(node);
  requestAnimationFrame(paint);

  const entryAt = (event) => {
    const row = event.target.closest?.(".line");
    return row ? entries[Number(row.dataset.index)] : null;
  };
  node.addEventListener("mouseover", (event) => onhover?.(entryAt(event)?.owners || []));
  node.addEventListener("mouseleave", () => onhover?.([]));
  node.addEventListener("click", (event) => {
    const entry = entryAt(event);
    const picked = window.getSelection?.();
    if (entry?.owners.length && (!picked || picked.isCollapsed)) onpick?.(entry.owners, entry);
  });
  // Lines whose owners are wanted get a class, and those that had it lose it.
  const setLines = (before, wanted, className) => {
    const now = new Set();
    if (wanted)
      for (let index = 0; index < entries.length; index += 1)
        if (wanted(entries[index].owners, entries[index])) now.add(index);
    for (const index of before) if (!now.has(index)) rowAt(index)?.classList.remove(className);
    for (const index of now) rowAt(index)?.classList.add(className);
    return now;
  };
  // Deep loops stand far to the right: the indentation that all lines in sight have may go out of
  // sight, and no line loses its beginning.
  const leftOf = (first, count) => {
    const indents = entries
      .slice(Math.max(0, first), first + count)
      .filter(({line}) => line?.trim())
      .map(({line}) => line.length - line.trimStart().length);
    const least = Math.min(...indents, Infinity) * CHARACTER_PIXELS;
    return Number.isFinite(least) && least > node.clientWidth / 3 ? least : 0;
  };
  const showAt = (index, pixels) => {
    node.scrollTop = Math.max(0, index * LINE_PIXELS - pixels);
    paint();
  };
  return {
    node,
    label,
    entries,
    showAt,
    // Where on the screen its lines stand, so that another frame around it moves none of them.
    place: () => ({
      scrolled: node.scrollTop,
      left: node.scrollLeft,
      top: node.getBoundingClientRect().top,
    }),
    restore({scrolled, left, top}) {
      node.scrollTop = scrolled + node.getBoundingClientRect().top - top;
      node.scrollLeft = left;
      paint();
    },
    top: () => node.scrollTop / LINE_PIXELS,
    // What single lines cost, in a column before the text.
    annotate(more) {
      costs = more;
      for (const index of painted) if (rowAt(index)) colour(index);
      paint();
    },
    // What differs inside single lines; where something is found in a line, that is marked.
    markWords(rangesOf) {
      wordsOf = rangesOf;
      for (const index of painted) if (entries[index].kind && rowAt(index)) colour(index);
    },
    query: () => found.query,
    // How often a text stands here, whatever its capitals; all places are marked, with "" none.
    find(query) {
      if (query === found.query) return found.hits.length;
      found.query = query;
      const before = [...found.byLine.keys()];
      [found.hits, found.byLine, found.current] = [[], new Map(), -1];
      const wanted = query.toLowerCase();
      entries.forEach(({line, kind}, index) => {
        if (!wanted || kind === "fold") return;
        const lower = line.toLowerCase();
        for (let at = lower.indexOf(wanted); at >= 0; at = lower.indexOf(wanted, at + 1)) {
          found.byLine.set(index, [...(found.byLine.get(index) ?? []), found.hits.length]);
          found.hits.push({index, start: at});
          at += wanted.length - 1;
        }
      });
      for (const index of [...before, ...found.byLine.keys()])
        if (painted.has(index)) colour(index);
      return found.hits.length;
    },
    // The first hit that can be seen or comes below.
    nearestHit() {
      const first = Math.floor(node.scrollTop / LINE_PIXELS);
      return Math.max(
        0,
        found.hits.findIndex(({index}) => index >= first),
      );
    },
    // The first hit on a line, after `find`.
    hitOn: (line) => found.byLine.get(line)?.[0] ?? -1,
    showHit(number) {
      const before = found.hits[found.current];
      found.current = number;
      const {index, start: column} = found.hits[number];
      const top = index * LINE_PIXELS;
      if (top < node.scrollTop || top > node.scrollTop + node.clientHeight - 2 * LINE_PIXELS)
        node.scrollTop = Math.max(0, top - node.clientHeight / 3);
      const left = column * CHARACTER_PIXELS;
      if (left < node.scrollLeft || left > node.scrollLeft + node.clientWidth - 160)
        node.scrollLeft = Math.max(0, left - node.clientWidth / 3);
      paint();
      for (const hit of [before, found.hits[number]])
        if (hit && rowAt(hit.index)) colour(hit.index);
      return number;
    },
    // isWhole: the text is meant, and not some of its lines, so that it opens where it would.
    mark(isMarked, isWhole = false) {
      marked = setLines(marked, isMarked, "marked");
      markedWhole = isWhole;
      node.classList.toggle("whole", isWhole);
      return marked.size;
    },
    // isHovered: null when nothing is.
    hover(isHovered) {
      clearTimeout(following);
      hovered = setLines(hovered, isHovered, "hovered");
    },
    // Scrolls to what is hovered elsewhere, when none of it is in sight; at rest, not in passing.
    follow() {
      if (!hovered.size) return;
      following = setTimeout(() => {
        const first = node.scrollTop / LINE_PIXELS,
          last = first + node.clientHeight / LINE_PIXELS - 1;
        if ([...hovered].some((index) => index >= first && index <= last)) return;
        node.scrollTop = Math.max(0, Math.min(...hovered) * LINE_PIXELS - node.clientHeight / 3);
        paint();
      }, FOLLOW_MILLISECONDS);
    },
    // Scrolls to the first marked line, or else to the first change.
    reveal() {
      requestAnimationFrame(() => {
        const standing = [...marked].find((index) => entries[index].kind !== "removed");
        const change = entries.findIndex((entry) => entry.kind && entry.kind !== "fold");
        const known = marked.size && !markedWhole ? (standing ?? [...marked][0]) : -1;
        const target = known >= 0 ? known : change >= 0 ? change : start;
        if (target < 0) return;
        const top = target * LINE_PIXELS;
        const sees =
          top >= node.scrollTop && top < node.scrollTop + node.clientHeight - LINE_PIXELS;
        if (!sees || target === start) node.scrollTop = Math.max(0, top - node.clientHeight / 3);
        if (target === start)
          node.scrollLeft = leftOf(
            Math.floor(node.scrollTop / LINE_PIXELS),
            Math.ceil(node.clientHeight / LINE_PIXELS) + 1,
          );
        paint();
      });
    },
  };
}

// hits: [{start, end, isCurrent, isWord}] in order
function coloured(line, language, hits) {
  const grammar = GRAMMARS[language];
  const tokens = []; // [start, end, kind]
  let end = 0;
  if (grammar && line.length <= 2000)
    for (const match of line.matchAll(grammar)) {
      if (match.index > end) tokens.push([end, match.index, ""]);
      const kind = Object.keys(match.groups).find((name) => match.groups[name] !== undefined);
      end = match.index + match[0].length;
      tokens.push([match.index, end, kind]);
    }
  if (end < line.length) tokens.push([end, line.length, ""]);
  return tokens.flatMap(([from, to, kind]) => {
    const parts = withHits(line, from, to, hits);
    return kind ? element("span", {class: `code-${kind}`}, parts) : parts;
  });
}

// A token with what of it is found, or differs, as marks.
function withHits(line, from, to, hits) {
  const parts = [];
  let at = from;
  for (const {start, end, isCurrent, isWord} of hits) {
    const [first, last] = [Math.max(at, start), Math.min(to, end)];
    if (first >= last) continue;
    if (first > at) parts.push(line.slice(at, first));
    parts.push(
      element(
        "mark",
        {class: isWord ? "word" : isCurrent ? "current" : ""},
        line.slice(first, last),
      ),
    );
    at = last;
  }
  if (at < to) parts.push(line.slice(at, to));
  return parts;
}

// What is different between two texts whose lines have keys, as entries with kind "", added or
// removed: patience diff (B. Cohen). Lines that stand once in each text, as most of an IR do,
// anchor the rest; between two anchors equal lines at both ends are kept. Linear but for sorting.
export function differenceEntries(before, after) {
  const entries = [];
  const same = (index) =>
    entries.push({
      line: after.lines[index],
      owners: after.owners[index],
      kind: "",
      number: index + 1,
    });
  const added = (index) =>
    entries.push({
      line: after.lines[index],
      owners: after.owners[index],
      kind: "added",
      number: index + 1,
    });
  const removed = (index) =>
    entries.push({
      line: before.lines[index],
      owners: before.owners[index],
      kind: "removed",
      number: MINUS,
    });
  const a = before.keys,
    b = after.keys;
  let fromA = 0,
    fromB = 0;
  for (const [toA, toB] of [...anchorsOf(a, b), [a.length, b.length]]) {
    while (fromA < toA && fromB < toB && a[fromA] === b[fromB]) {
      same(fromB);
      fromA += 1;
      fromB += 1;
    }
    let tail = 0;
    while (fromA < toA - tail && fromB < toB - tail && a[toA - 1 - tail] === b[toB - 1 - tail])
      tail += 1;
    for (let index = fromA; index < toA - tail; index += 1) removed(index);
    for (let index = fromB; index < toB - tail; index += 1) added(index);
    for (let index = toB - tail; index < toB; index += 1) same(index);
    if (toB < b.length) same(toB);
    fromA = toA + 1;
    fromB = toB + 1;
  }
  return entries;
}

// Pairs [index in a, index in b] of lines that are unique in both, the most that ascend in both.
function anchorsOf(a, b) {
  const once = (keys) => {
    const places = new Map();
    for (const [index, key] of keys.entries()) places.set(key, places.has(key) ? -1 : index);
    return places;
  };
  const inA = once(a),
    inB = once(b);
  const pairs = [];
  for (const [key, index] of inB)
    if (index >= 0 && (inA.get(key) ?? -1) >= 0) pairs.push([inA.get(key), index]);
  pairs.sort((left, right) => left[1] - right[1]);
  // Longest ascending subsequence by patience sorting: the top of every pile, and who lies below.
  const tops = [],
    below = [];
  pairs.forEach(([place], index) => {
    let low = 0,
      high = tops.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (pairs[tops[middle]][0] < place) low = middle + 1;
      else high = middle;
    }
    below[index] = low ? tops[low - 1] : -1;
    tops[low] = index;
  });
  const chain = [];
  for (let index = tops.length ? tops[tops.length - 1] : -1; index >= 0; index = below[index])
    chain.push(pairs[index]);
  return chain.reverse();
}

export function codeBar(app, title, text, ...more) {
  return element(
    "div",
    {class: "code-bar"},
    element("span", {class: "quiet-text"}, title),
    more,
    element("span", {class: "grow"}),
    button("copy", "copy the whole text", () => app.copy(text.lines.join("\n")), {class: "quiet"}),
  );
}
