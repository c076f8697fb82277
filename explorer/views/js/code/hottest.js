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
const DEAR_OPERATIONS = 8;
const MLIR_ARITHMETIC =
  /\b(?:arith\.(?:add|sub|mul|div|max|min|cmp)\w*|math\.\w+|vector\.(?:fma|contract))\b/;
const C_ARITHMETIC = /[-+*/]=|(?<=[\w)\]] )[-+*/](?= [\w(])|\b(?:maximum|minimum|dot|fma)_?\w*\(/g;

// The index of the line, -1 where there is no loop and no arithmetic.
export function hottestLine(text) {
  const lines = costsOfLines(text);
  const byStatement = new Map();
  for (const [index, {cost}] of lines.entries()) {
    const key = (text.owners[index] ?? []).join("\n");
    byStatement.set(key, (byStatement.get(key) ?? 0) + cost);
  }
  let dearest = "",
    most = 0;
  for (const [key, cost] of byStatement) if (cost > most) [dearest, most] = [key, cost];
  if (!most) return -1;
  let best = -1;
  for (const [index, {turns, cost}] of lines.entries()) {
    if (!cost || (text.owners[index] ?? []).join("\n") !== dearest) continue;
    if (best < 0 || turns > lines[best].turns) best = index;
  }
  return best;
}

// The first instruction of the innermost loop that holds most of a source line's instructions.
// assemblyLines: of every line the lines of source that it comes from
export function hottestInstruction(assembly, assemblyLines, sourceLine) {
  const isHot = assembly.lines.map((_, index) =>
    (assemblyLines[index] ?? []).some((line) => Math.abs(line - sourceLine) <= 2),
  );
  const loops = innermostLoops(assembly.lines);
  let best = -1,
    most = 0;
  for (const [first, last] of loops) {
    let count = 0;
    for (let index = first; index <= last; index += 1) if (isHot[index]) count += 1;
    if (count > most) [best, most] = [first, count];
  }
  return best >= 0 ? best : isHot.indexOf(true);
}

// [[first line, line of the jump back]] of loops that hold no other one.
function innermostLoops(lines) {
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
  return lines.map((line) => {
    const loop = isMlir ? mlirTurns(line) : cTurns(line);
    if (loop !== null) opened = loop;
    const here = {turns, cost: loop === null ? turns * operations(line, isMlir) : 0};
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
  const count = isMlir
    ? Number(MLIR_ARITHMETIC.test(line))
    : /^\s*(?:\/\/|const (?:long|int) )/.test(line)
      ? 0
      : (indexless(line).match(C_ARITHMETIC)?.length ?? 0);
  if (!count && !DEAR.test(line)) return 0;
  const lanes = isMlir ? /vector<(\d+)x/.exec(line) : /_?float(\d+)|\bv(\d+)/.exec(line);
  const width = lanes ? Number(lanes[1] ?? lanes[2]) : 1;
  return (count + (DEAR.test(line) ? DEAR_OPERATIONS : 0)) * width;
}

// Sums within brackets are addresses, and cost next to nothing.
function indexless(line) {
  return line.replace(/\[[^\]]*\]/g, "[]").replace(/\b(?:load|store)_\w+\(.*\)/g, "()");
}
