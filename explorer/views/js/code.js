// Panes of text: line numbers, light syntax colours, marks, and hovering that other panes follow.
// Three thousand lines stay smooth: blocks of lines are rendered when they are in sight
// (content-visibility), and colours are put on when a line is first seen.

const LINE_PIXELS = 18;
const LINES_PER_BLOCK = 50;

const C_WORDS = "auto|break|case|const|continue|default|do|else|enum|extern|for|goto|if|inline|register|restrict|return|sizeof|static|struct|switch|typedef|union|unsigned|volatile|while|__attribute__|__kernel|__global|__local|__private|__constant|kernel|global";
const C_TYPES = "void|char|short|int|long|float|double|half|signed|size_t|ulong|uint|uchar|bool|(?:float|half|int|double|v|u?int)\\d+(?:_t)?";
const GRAMMARS = {
  mlir: /(?<comment>\/\/.*)|(?<string>"(?:[^"\\]|\\.)*")|(?<name>[%@^][\w.$#-]+)|(?<type>\b(?:tensor|memref|vector|index|none|b?f\d+|u?i\d+|si\d+)\b)|(?<word>\b[a-z_]\w*\.[\w.]+)|(?<number>\b\d+(?:\.\d+)?(?:e[+-]?\d+)?\b)/g,
  c: new RegExp(`(?<comment>//.*|/\\*.*?\\*/)|(?<string>"(?:[^"\\\\]|\\\\.)*")|(?<word>^\\s*#\\s*\\w+|\\b(?:${C_WORDS})\\b)|(?<type>\\b(?:${C_TYPES})\\b)|(?<name>\\b[A-Za-z_]\\w*(?=\\())|(?<number>\\b(?:0x[\\da-fA-F]+|\\d+(?:\\.\\d*)?(?:e[+-]?\\d+)?)[fuUlL]*\\b)`, "g"),
  assembly: /(?<comment>[#;].*$|\/\/.*)|(?<string>"[^"]*")|(?<name>^[\w.$]+:|\.L\w+)|(?<type>%[a-z]\w*|\b[xyzw]\d+\b|\b[xyz]mm\d+\b)|(?<word>^\s+\.?\w+)|(?<number>\$?-?\b(?:0x[\da-f]+|\d+)\b)/g,
};
GRAMMARS.opencl = GRAMMARS.c;
GRAMMARS.ptx = GRAMMARS.assembly;

// entries: [{line, owners, kind}], kind: "" or added, removed, changed, fold (a note, no line)
function entriesOf(text) {
  return text.lines.map((line, index) => ({line, owners: text.owners[index], kind: ""}));
}

// {node, mark(isMarked), hover(isHovered), reveal()}
function codePane({entries, language, label, hueOf, onhover, onpick}) {
  const longest = entries.reduce((most, entry) => Math.max(most, entry.line.length), 0);
  const digits = String(entries.length).length;
  const inner = element("div", {class: "code-lines"});
  inner.style.width = `max(100%, calc(${longest + digits + 5}ch + 24px))`;
  const rows = entries.map((entry, index) => {
    const hue = hueOf && entry.owners.length ? hueOf(entry.owners) : null;
    const row = element("div", {
      class: `line ${entry.kind}`, "data-index": index, "data-number": entry.number ?? index + 1,
      "data-hue": hue, title: entry.title,
    }, entry.line || " ");
    return row;
  });
  for (let start = 0; start < rows.length; start += LINES_PER_BLOCK) {
    const block = element("div", {class: "code-block"}, rows.slice(start, start + LINES_PER_BLOCK));
    block.style.containIntrinsicHeight = `${block.childElementCount * LINE_PIXELS}px`;
    inner.append(block);
  }
  const node = element("div", {class: "code", tabindex: 0, role: "region", "aria-label": label}, inner);
  node.style.setProperty("--digits", `${digits + 1}ch`);

  const painted = new Set();
  const paint = () => {
    const first = Math.max(0, Math.floor(node.scrollTop / LINE_PIXELS) - 30);
    const last = Math.min(rows.length, first + Math.ceil((node.clientHeight || 600) / LINE_PIXELS) + 60);
    for (let index = first; index < last; index += 1) {
      if (painted.has(index)) continue;
      painted.add(index);
      if (entries[index].kind !== "fold") replace(rows[index], coloured(entries[index].line || " ", language));
    }
  };
  node.addEventListener("scroll", () => requestAnimationFrame(paint), {passive: true});
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
    if (entry?.owners.length && (!picked || picked.isCollapsed)) onpick?.(entry.owners);
  });
  let marked = [];
  let hovered = [];
  return {
    node,
    mark(isMarked) {
      for (const index of marked) rows[index].classList.remove("marked");
      marked = entries.flatMap((entry, index) => (isMarked(entry.owners) ? [index] : []));
      for (const index of marked) rows[index].classList.add("marked");
      return marked.length;
    },
    hover(isHovered) {
      for (const index of hovered) rows[index].classList.remove("hovered");
      hovered = entries.flatMap((entry, index) => (isHovered(entry.owners) ? [index] : []));
      for (const index of hovered) rows[index].classList.add("hovered");
    },
    // Scrolls to the first marked line, or else to the first change.
    reveal() {
      requestAnimationFrame(() => {
        const standing = marked.find((index) => entries[index].kind !== "removed");
        const target = marked.length ? standing ?? marked[0] : entries.findIndex((entry) => entry.kind && entry.kind !== "fold");
        if (target < 0) return;
        const top = target * LINE_PIXELS;
        const sees = top >= node.scrollTop && top < node.scrollTop + node.clientHeight - LINE_PIXELS;
        if (!sees) node.scrollTop = Math.max(0, top - node.clientHeight / 3);
        paint();
      });
    },
  };
}

function coloured(line, language) {
  const grammar = GRAMMARS[language];
  if (!grammar || line.length > 2000) return line;
  const parts = [];
  let end = 0;
  for (const match of line.matchAll(grammar)) {
    if (match.index > end) parts.push(line.slice(end, match.index));
    const kind = Object.keys(match.groups).find((name) => match.groups[name] !== undefined);
    parts.push(element("span", {class: `code-${kind}`}, match[0]));
    end = match.index + match[0].length;
  }
  if (end < line.length) parts.push(line.slice(end));
  return parts;
}

// Shortest edit script of two texts whose lines have keys (Myers, "An O(ND) difference algorithm",
// 1986), as entries with kind "", added or removed. Beyond `limit` edits the middle is replaced
// as a whole: a pass that rewrites everything has no readable difference anyway.
function differenceEntries(before, after, limit = 600) {
  const a = before.keys, b = after.keys;
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head += 1;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head
    && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail += 1;
  const entries = [];
  const same = (index) => entries.push({line: after.lines[index], owners: after.owners[index], kind: "", number: index + 1});
  const added = (index) => entries.push({line: after.lines[index], owners: after.owners[index], kind: "added", number: index + 1});
  const removed = (index) => entries.push({line: before.lines[index], owners: before.owners[index], kind: "removed", number: MINUS});
  for (let index = 0; index < head; index += 1) same(index);
  const script = editScript(a.slice(head, a.length - tail), b.slice(head, b.length - tail), limit);
  for (const [kind, index] of script) {
    if (kind === "removed") removed(head + index);
    else if (kind === "added") added(head + index);
    else same(head + index);
  }
  for (let index = b.length - tail; index < b.length; index += 1) same(index);
  return entries;
}

function editScript(a, b, limit) {
  const whole = () => [...a.map((_, index) => ["removed", index]), ...b.map((_, index) => ["added", index])];
  if (!a.length || !b.length) return whole();
  const most = Math.min(a.length + b.length, limit);
  const reach = new Map([[1, 0]]);
  const history = [];
  for (let edits = 0; edits <= most; edits += 1) {
    history.push(new Map(reach));
    for (let diagonal = -edits; diagonal <= edits; diagonal += 2) {
      const down = diagonal === -edits
        || (diagonal !== edits && (reach.get(diagonal - 1) ?? -1) < (reach.get(diagonal + 1) ?? -1));
      let x = down ? reach.get(diagonal + 1) ?? 0 : (reach.get(diagonal - 1) ?? 0) + 1;
      let y = x - diagonal;
      while (x < a.length && y < b.length && a[x] === b[y]) {
        x += 1;
        y += 1;
      }
      reach.set(diagonal, x);
      if (x >= a.length && y >= b.length) return walkBack(history, a, b);
    }
  }
  return whole();
}

function walkBack(history, a, b) {
  const script = [];
  let x = a.length, y = b.length;
  for (let edits = history.length - 1; edits >= 0; edits -= 1) {
    const reach = history[edits];
    const diagonal = x - y;
    const down = diagonal === -edits
      || (diagonal !== edits && (reach.get(diagonal - 1) ?? -1) < (reach.get(diagonal + 1) ?? -1));
    const previous = down ? diagonal + 1 : diagonal - 1;
    const fromX = reach.get(previous) ?? 0;
    const fromY = fromX - previous;
    while (x > Math.max(fromX, 0) && y > Math.max(fromY, 0)) {
      x -= 1;
      y -= 1;
      script.push(["same", y]);
    }
    if (edits > 0) script.push(down ? ["added", fromY] : ["removed", fromX]);
    x = fromX;
    y = fromY;
  }
  return script.reverse();
}
