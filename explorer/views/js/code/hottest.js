// Where a kernel spends its time, by its text: the deepest loop of its most expensive statement.
//
//     for (long i = 0; i < 8; i++) {            8 times
//         acc[i] = 0;                           8 operations of "init"
//         for (long k = 0; k < 64; k++) {       512 times
//             acc[i] += x[k] * w[k];            1,024 operations of "main": the hottest line
//
// A count of operations, as a static cost model begins: each line as often as the loops around it
// turn. Loops whose bounds are not numbers, such as those over tasks, count once, for all in them.

const C_LOOP = /\bfor \((?:.*?)(\w+) = (-?\d+); \1 <=? (-?\d+); \1(\+\+| \+= (\d+))/;
const MLIR_LOOP = /\bfor %\w+ = (-?\d+) to (-?\d+)(?: step (\d+))?/;
// What one of them costs beside an addition: divisions and transcendental functions are long.
const DEAR = /\b(?:exp|tanh|log|pow|erf|sqrt|div\w*|math\.\w+)/;
// x86 (jne), AArch64 (b.ne, cbnz), RISC-V (bne, bgtu): the last operand is where it goes.
const JUMP =
  /^\s+(?:j[a-z]+|b(?:\.?[a-z]{2})?|cbn?z|tbn?z|bn?ez|b[lg][te]u?|bne|beq)\b.*?([\w.$]+)$/;
const FAR_LINES = 12;
const DEAR_OPERATIONS = 8;
const MLIR_ARITHMETIC =
  /\b(?:arith\.(?:add|sub|mul|div|max|min|cmp)\w*|math\.\w+|vector\.(?:fma|contract))\b/;
const C_ARITHMETIC = /[-+*/]=|(?<=[\w)\]] )[-+*/](?= [\w(])|\b(?:maximum|minimum|dot|fma)_?\w*\(/g;

// The index of the line, -1 where there is no loop and no arithmetic.
export function hottestLine(text) {
  const lines = costsOfLines(text);
  const ownersOf = (index) => (text.owners[index] ?? []).join("\n");
  const byStatement = new Map();
  for (const [index, {cost}] of lines.entries())
    byStatement.set(ownersOf(index), (byStatement.get(ownersOf(index)) ?? 0) + cost);
  let dearest = "",
    most = 0;
  for (const [key, cost] of byStatement) if (cost > most) [dearest, most] = [key, cost];
  if (!most) return -1;
  let best = -1;
  for (const [index, {turns, cost}] of lines.entries()) {
    if (!cost || ownersOf(index) !== dearest) continue;
    if (best < 0 || turns > lines[best].turns) best = index;
  }
  return best;
}

// The first instruction of the innermost loop that holds most of what the hottest line of the
// source and those in the same loop became; where that was unrolled whole, the place of most of it.
// assemblyLines: of every line of assembly the lines of source that it comes from
export function hottestInstruction(assembly, assemblyLines, source) {
  const line = hottestLine(source);
  if (line < 0) return -1;
  const costs = costsOfLines(source);
  let [from, to] = [line, line];
  while (from > 0 && costs[from - 1].turns === costs[line].turns) from -= 1;
  while (to + 1 < costs.length && costs[to + 1].turns === costs[line].turns) to += 1;
  const hot = assembly.lines.flatMap((_, index) =>
    (assemblyLines[index] ?? []).some((own) => own >= from && own <= to) ? [index] : [],
  );
  let best = -1,
    most = 0;
  for (const [first, last] of innermostLoops(assembly.lines)) {
    const count = hot.filter((index) => index >= first && index <= last).length;
    if (count > most) [best, most] = [first, count];
  }
  return 3 * most >= hot.length ? best : (densest(hot)[0] ?? -1);
}

/** The longest run of lines near each other: some instructions are moved far away. */
export function densest(lines) {
  let best = [],
    run = [];
  for (const line of lines) {
    if (run.length && line - run[run.length - 1] > FAR_LINES) run = [];
    run.push(line);
    if (run.length > best.length) best = [...run];
  }
  return best;
}

// [[first line, line of the jump back]] of loops that hold no other one.
export function innermostLoops(lines) {
  const labels = new Map();
  const loops = [];
  lines.forEach((line, index) => {
    const label = /^([\w.$]+):/.exec(line);
    if (label) labels.set(label[1], index);
    const jump = JUMP.exec(line);
    if (jump && labels.has(jump[1])) loops.push([labels.get(jump[1]), index]);
  });
  return loops.filter(
    ([first, last]) =>
      !loops.some(([from, to]) => from >= first && to <= last && (from !== first || to !== last)),
  );
}

// Of every line how often it runs, and what it costs in all.
function costsOfLines({lines, language}) {
  const isMlir = language === "mlir";
  const around = []; // turns of the loops around a line
  let turns = 1;
  let opened = 1; // turns of a loop whose brace comes yet
  let depth = 0; // of brackets around an address that goes on over several lines
  return lines.map((line) => {
    const loop = isMlir ? mlirTurns(line) : cTurns(line);
    if (loop !== null) opened = loop;
    let counted = line;
    if (!isMlir) [counted, depth] = withoutAddresses(line, depth);
    const here = {turns, cost: loop === null ? turns * operations(counted, isMlir) : 0};
    for (const character of line) {
      if (character === "{") {
        around.push(turns);
        turns *= opened;
        opened = 1;
      } else if (character === "}") turns = around.pop() ?? 1;
    }
    return here;
  });
}

function cTurns(line) {
  const found = C_LOOP.exec(line);
  if (!found) return /\bfor \(/.test(line) ? 1 : null;
  return Math.max(1, Math.ceil((Number(found[3]) - Number(found[2])) / Number(found[5] ?? 1)));
}

function mlirTurns(line) {
  const found = MLIR_LOOP.exec(line);
  if (!found) return /\bfor %/.test(line) ? 1 : null;
  return Math.max(1, Math.ceil((Number(found[2]) - Number(found[1])) / Number(found[3] ?? 1)));
}

function operations(line, isMlir) {
  const isNone = !isMlir && /^\s*(?:\/\/|const (?:long|int) )/.test(line);
  const count = isMlir
    ? Number(MLIR_ARITHMETIC.test(line))
    : isNone
      ? 0
      : (line.match(C_ARITHMETIC)?.length ?? 0);
  const lanes = isMlir ? Number(/vector<(\d+)x/.exec(line)?.[1] ?? 1) : 1;
  return (count + (!isNone && DEAR.test(line) ? DEAR_OPERATIONS : 0)) * lanes;
}

// Sums within brackets, and within what loads, are addresses: they cost next to nothing.
function withoutAddresses(line, depth) {
  let left = "";
  for (let at = 0; at < line.length; at += 1) {
    const character = line[at];
    const opens = character === "[" || (character === "(" && /\b(?:load|store)_\w+$/.test(left));
    if (depth) {
      if (character === "(" || character === "[") depth += 1;
      else if (character === ")" || character === "]") depth -= 1;
    } else if (opens) depth = 1;
    else left += character;
  }
  return [left, depth];
}
