// A person's own numbers, from a CSV or JSON file that is read in the page and goes nowhere else.
//
//   name,power,temperature          {"conv1": 3.5, "relu2": 0.1}
//   conv1,3.5,61                    {"power": {"conv1": 3.5}, "temperature": {...}}
//   relu2,0.1,58                    [{"name": "conv1", "power": 3.5}, ...]

export const NUMBERS_FILE = /\.(csv|tsv|json|txt)$/i;
const MAX_CHARACTERS = 20_000_000;
const MAX_COMPARED = 20_000; // names that an unknown one is compared with

// Whether a text is the file of a sweep of machines, or was one before it was damaged.
export const isSweep = (text) =>
  /^\s*\{/.test(text) && /"points"\s*:\s*\[/.test(text) && /"base"/.test(text);

// [{title, values: Map(name -> number)}]; throws an Error whose message says what is wrong where.
export function readNumbers(text, filename) {
  if (text.length > MAX_CHARACTERS)
    throw new Error(
      `${filename} has ${text.length} characters; at most ${MAX_CHARACTERS} are read`,
    );
  const columns = /^\s*[[{]/.test(text) ? ofJson(text, filename) : ofCsv(text, filename);
  const filled = columns.filter(({values}) => values.size);
  if (!filled.length)
    throw new Error(
      `${filename} holds no numbers: a CSV file has a name and a number in each line, a JSON ` +
        'file an object such as {"conv1": 3.5}',
    );
  return filled;
}

function ofJson(text, filename) {
  let content;
  try {
    content = JSON.parse(text);
  } catch (failure) {
    throw new Error(`${filename} is no JSON: ${failure.message}`, {cause: failure});
  }
  if (Array.isArray(content)) return ofRecords(content, filename);
  const entries = Object.entries(content);
  if (entries.every(([, value]) => typeof value === "number"))
    return [{title: stem(filename), values: new Map(entries)}];
  return entries.map(([title, column]) => {
    if (column === null || typeof column !== "object")
      throw new Error(`${filename}: “${title}” is neither a number nor an object of numbers`);
    return {title, values: numbersOf(Object.entries(column), filename)};
  });
}

function ofRecords(records, filename) {
  const columns = new Map();
  records.forEach((record, index) => {
    if (typeof record?.name !== "string")
      throw new Error(`${filename}: record ${index + 1} has no "name"`);
    for (const [title, value] of Object.entries(record)) {
      if (title === "name" || typeof value !== "number") continue;
      if (!columns.has(title)) columns.set(title, new Map());
      columns.get(title).set(record.name, value);
    }
  });
  return [...columns].map(([title, values]) => ({title, values}));
}

function numbersOf(entries, filename) {
  for (const [name, value] of entries)
    if (typeof value !== "number")
      throw new Error(`${filename}: the value of “${name}” is no number`);
  return new Map(entries);
}

function ofCsv(text, filename) {
  const lines = text.split(/\r?\n/).filter((line) => line.trim() && !line.startsWith("#"));
  if (!lines.length) return [];
  const separator = [";", "\t", ","].find((mark) => lines[0].includes(mark)) ?? ",";
  const rows = lines.map((line) => cellsOf(line, separator));
  const isNumber = (cell) => cell !== undefined && cell !== "" && Number.isFinite(Number(cell));
  const hasTitles = !rows[0].slice(1).some(isNumber);
  const width = Math.max(...rows.map((row) => row.length));
  const columns = Array.from({length: Math.max(0, width - 1)}, (_, index) => ({
    title:
      (hasTitles && rows[0][index + 1]) || (width > 2 ? `column ${index + 2}` : stem(filename)),
    values: new Map(),
  }));
  rows.slice(hasTitles ? 1 : 0).forEach((row) => {
    row.slice(1).forEach((cell, index) => {
      if (isNumber(cell)) columns[index].values.set(row[0], Number(cell));
    });
  });
  return columns;
}

// Cells of a line; in double quotes a cell may hold the separator, and quotes twice (RFC 4180).
function cellsOf(line, separator) {
  const cells = [];
  let cell = "",
    isQuoted = false;
  for (let at = 0; at < line.length; at += 1) {
    const mark = line[at];
    if (mark === '"' && isQuoted && line[at + 1] === '"') {
      cell += '"';
      at += 1;
    } else if (mark === '"') isQuoted = !isQuoted;
    else if (mark === separator && !isQuoted) {
      cells.push(cell.trim());
      cell = "";
    } else cell += mark;
  }
  return [...cells, cell.trim()];
}

const stem = (filename) => filename.replace(/\.[^.]*$/, "");

// Names that neither an operation of any pass nor a source node has, with the nearest that is:
// [{name, near}]; near is "" where none is similar.
export function unknownNames(data, names) {
  const isKnown = (name) =>
    data.latest.has(name) || data.knownSources().has(name) || data.kernelOf.has(name);
  const unknown = names.filter((name) => !isKnown(name));
  const known = [...data.knownSources(), ...data.latest.keys()].slice(0, MAX_COMPARED);
  return unknown.map((name, index) => ({
    name,
    near: index < MAX_SUGGESTED ? nearest(name, known) : "",
  }));
}
const MAX_SUGGESTED = 8;

function nearest(name, known) {
  let best = "",
    least = Math.max(2, Math.floor(name.length * 0.4)) + 1;
  for (const other of known) {
    if (Math.abs(other.length - name.length) >= least) continue;
    // Of two as near as each other, the one that is written alike.
    const distance =
      editDistance(name.toLowerCase(), other.toLowerCase(), least) +
      0.01 * editDistance(name, other, least);
    if (distance < least) [best, least] = [other, distance];
  }
  return best;
}

// Insertions, deletions and replacements between two words (Levenshtein, 1966); `most` if no less.
function editDistance(a, b, most) {
  let row = Array.from({length: b.length + 1}, (_, index) => index);
  for (let i = 1; i <= a.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= b.length; j += 1)
      next.push(
        Math.min(next[j - 1] + 1, row[j] + 1, row[j - 1] + (a[i - 1] === b[j - 1] ? 0 : 1)),
      );
    if (Math.min(...next) >= most) return most;
    row = next;
  }
  return row[b.length];
}
