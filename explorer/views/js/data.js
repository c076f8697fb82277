// The trace on this side: chunks are asked for once, decoded and kept; and the links between an
// operation, the nodes that it comes from, its kernel, buffers, lines and errors.

import {BlockTree} from "./graph/blocks.js";
import {decode} from "./ground/numbers.js";
import {layerNames, withLayers} from "./measures/layer_names.js";
import {resultBuffers} from "./memory/result_buffers.js";

const PLAIN_FAMILIES = ["movement", "quantization", "transfer"];

export class TraceData {
  constructor(host, head, revision) {
    this.host = host;
    this.head = head;
    this.revision = revision;
    this.chunks = new Map(); // key -> promise
    this.waiting = new Map(); // key -> {resolve, reject, parts}
    this.decoded = new Map();
    this.records = [];
    this.latest = new Map(); // identity -> the last record with it
    this.blocks = null; // BlockTree, where there are blocks
    this.kernels = [];
    this.kernelOf = new Map(); // identity of a launched operation -> index of its kernel
    this.kernelIndex = new Map(); // name of a kernel -> its index
    this.launchSources = new Map(); // identity -> names of source nodes
    /** @type {Set<string> | null} */
    this.known = null; // source nodes of which something came
  }

  // What the first picture needs: the tables that link the panes, operations and blocks. Of a large
  // program that is what one pass needs, if `seen` says which, {pass, selection}, and what is
  // selected is in it; `whole` gets the rest.
  /** @param {{pass: number, selection: string | null} | null} seen */
  async load(seen = null) {
    if (!seen || !this.head.excerpts || this.host.chunk) {
      await this.loadIndex();
      return this.whole();
    }
    const {pass, selection} = seen;
    // The pass's own changes are needed as soon as these are here: asked for now, they come along.
    this.chunk(`pass/${pass}`).catch(() => {}); // who shows them says what is wrong
    const [raw] = await Promise.all([this.chunk(`start/${pass}`), this.loadIndex()]);
    this.take(raw.records, raw.sources, raw.blocks);
    raw.snapshots.forEach((snapshot, place) =>
      this.decoded.set(`graph/${snapshot}`, graphOf(raw.graphs[place], this.records)),
    );
    const isThere =
      selection === null ||
      this.latest.has(selection) ||
      this.blocks?.indexOf(selection) !== undefined;
    return isThere ? undefined : this.whole();
  }

  // The operations of all passes, once: more records than there were, and blocks that know them.
  whole() {
    this.completing ??= this.loadWhole().catch((failure) => {
      this.completing = null; // who asks again may have more luck
      throw failure;
    });
    return this.completing;
  }

  async loadWhole() {
    const {count, flat} = this.head.blocks;
    const {pages, sources} = await this.chunk("graphs");
    const [blocks, ...nodes] = await Promise.all([
      count || !flat ? this.chunk("blocks") : null,
      ...Array.from({length: pages}, (_, index) => this.chunk(`nodes/${index}`)),
    ]);
    for (const key of [...this.decoded.keys()])
      if (key.startsWith("graph/")) this.decoded.delete(key);
    this.take(
      nodes.flatMap((page) => page.records),
      sources,
      blocks,
    );
    this.isWhole = true;
  }

  // blocks: of the tree, null where there are none
  take(records, sources, blocks) {
    this.records = records.map((record) => ({
      id: record[0],
      operation: record[1],
      label: record[2],
      family: record[3],
      shape: record[4],
      sources: record[5].map((index) => sources[index]),
      device: record[6],
      attributes: record[7],
      scope: record[8],
      block: record[9],
      problem: record[10] ?? "",
    }));
    this.latest = new Map(this.records.map((record) => [record.id, record]));
    this.devices = new Set(this.records.map((record) => record.device).filter(Boolean));
    this.known = null;
    this.searched = null;
    const {count, flat} = this.head.blocks;
    this.blocks = blocks && (count || !flat) ? new BlockTree(blocks, this.latest) : null;
  }

  async loadIndex() {
    const index = await this.chunk("index");
    this.kernels = index.kernels;
    this.sources = index.sources;
    this.rules = new Map(
      index.rules.map(([name, explanation, source]) => [name, {explanation, source}]),
    );
    this.kernelOf = new Map();
    this.kernelIndex = new Map(this.kernels.map((kernel, position) => [kernel.name, position]));
    this.launchSources = new Map();
    this.layerNames = null;
    this.kernels.forEach((kernel, position) => {
      for (const operation of kernel.operations) this.kernelOf.set(operation, position);
    });
    for (const [operation, kernel, sources] of index.launches) {
      if (this.kernelIndex.has(kernel)) this.kernelOf.set(operation, this.kernelIndex.get(kernel));
      this.launchSources.set(
        operation,
        sources.map((source) => this.sources[source]),
      );
    }
  }

  // More is known of the same compilation: kernels, errors or times have arrived. What was asked
  // for under the old revision gets no answer any more and is asked for again.
  async refresh(head, revision) {
    this.head = head;
    this.revision = revision;
    for (const table of [this.chunks, this.decoded]) {
      for (const key of [...table.keys()])
        if (!isSettled(key) && !this.waiting.has(key)) table.delete(key);
    }
    for (const [key, waiting] of this.waiting) {
      waiting.parts = [];
      this.host.send({kind: "need", keys: [key], revision});
    }
    await this.loadIndex();
  }

  chunk(key) {
    if (!this.chunks.has(key)) {
      const promise = this.host.chunk
        ? Promise.resolve(this.host.chunk(key))
        : new Promise((resolve, reject) => {
            this.waiting.set(key, {resolve, reject, parts: []});
            this.host.send({kind: "need", keys: [key], revision: this.revision});
          });
      this.chunks.set(key, promise);
    }
    return this.chunks.get(key);
  }

  // A message of the host: a part of a chunk, or why there is none.
  receive(message) {
    if (message.revision !== this.revision) return;
    const waiting = this.waiting.get(message.key);
    if (!waiting) return;
    if (message.kind === "missing") {
      this.waiting.delete(message.key);
      this.chunks.delete(message.key);
      waiting.reject(new Error(message.reason));
    } else if (message.kind === "chunk") {
      waiting.parts[message.part] = message.text;
      if (waiting.parts.filter((part) => part !== undefined).length < message.parts) return;
      this.waiting.delete(message.key);
      waiting.resolve(JSON.parse(waiting.parts.join("")));
    }
  }

  async once(key, decodeChunk) {
    if (this.decoded.has(key)) return this.decoded.get(key);
    const {revision} = this;
    const value = await decodeChunk();
    // What was asked for before more was known may be out of date by now.
    if (revision === this.revision || isSettled(key)) this.decoded.set(key, value);
    return value;
  }

  graphOfPass(pass) {
    return this.graph(this.head.passes[pass].snapshot);
  }

  // {nodes: Map(identity -> record), edges, operands: Map(identity -> edges), uses}
  graph(snapshot) {
    return this.once(`graph/${snapshot}`, async () => {
      await this.whole();
      return graphOf(await this.chunk(`graph/${snapshot}`), this.records);
    });
  }

  text(snapshot) {
    return this.once(`text/${snapshot}`, async () => {
      const raw = await this.chunk(`text/${snapshot}`);
      const pages = new Map();
      await Promise.all(
        raw.pages.map(async (name, page) => pages.set(page, await this.chunk(`lines/${name}`))),
      );
      return expandRuns(raw, pages);
    });
  }

  // {macs, peaks}: one number for each pass
  measures() {
    return this.chunk("measures");
  }

  // [[pass, event, made], ...] of the rewrites that made or changed an operation or one that it was
  // made of; `made` is that one, "" where it is the operation.
  async makersOf(operation) {
    const makers = await this.chunk("makers");
    return Object.hasOwn(makers, operation) ? makers[operation] : [];
  }

  // All events of all passes, in their order: what a list of them shows.
  rewrites() {
    return this.once("rewrites", async () => {
      const raw = await this.chunk("rewrites");
      return raw.rows.map(([pass, event, rule, applied, site, reason, made]) => ({
        pass,
        index: event,
        rule: raw.rules[rule],
        applied,
        site,
        reason: raw.reasons[reason],
        made,
      }));
    });
  }

  // The lines and the drawing of one event; null where a saved page does not hold it.
  async frame(pass, event) {
    const perPage = 8; // FRAMES_PER_PAGE of payload/replay.py
    const key = `film/${pass}/${Math.floor(event / perPage)}`;
    if (this.host.chunk && !this.host.holds(key)) return null;
    return (await this.chunk(key)).frames[event % perPage];
  }

  passDetails(pass) {
    return this.once(`pass/${pass}`, async () => {
      const raw = await this.chunk(`pass/${pass}`);
      const events = raw.events.map((event, index) => ({
        index,
        address: event[0],
        rule: event[1],
        applied: event[2],
        site: event[3],
        matched: event[4],
        produced: event[5],
        reason: event[6],
        microseconds: decode(event[7]),
        removed: event[8],
        added: event[9],
        changed: event[10],
      }));
      return {diff: raw.diff, events};
    });
  }

  kernel(index) {
    return this.once(`kernel/${index}`, async () => {
      const raw = await this.chunk(`kernel/${index}`);
      const pages = new Map([[0, raw.page]]);
      return {
        ...raw,
        steps: raw.steps.map((step) => ({...step, text: expandRuns(step.text, pages)})),
        source: expandRuns(raw.source, pages),
        assembly: raw.assembly && expandRuns(raw.assembly, pages),
      };
    });
  }

  memory() {
    return this.once("memory", async () => {
      const raw = await this.chunk("memory");
      const buffers = raw.buffers.map(
        ([id, values, size, first, last, offset, alignment, parts = [], state = ""]) => ({
          id,
          values,
          size,
          first,
          last,
          offset,
          alignment,
          parts: parts.map(([value, inside, bytes, from, to, isView]) => ({
            value,
            offset: inside,
            size: bytes,
            first: from,
            last: to,
            isView,
          })),
          state,
        }),
      );
      const bufferOf = resultBuffers(buffers);
      const memories = (raw.memories ?? []).map(([name, first, size]) => ({name, first, size}));
      return {...raw, buffers, bufferOf, memories};
    });
  }

  accuracy() {
    return this.once("accuracy", async () => {
      const raw = await this.chunk("accuracy");
      const rows = (mode) =>
        raw[mode].map((row) => ({
          ...row,
          values: row.values.map((value) => (value === null ? null : decode(value))),
        }));
      // The operation that makes a tensor in a row: the last one noted up to it.
      const maker = (column, row, mode = "accumulated") => {
        // Rows of the float comparison are the last ones: they begin where numbers are quantized.
        if (mode === "float") row += raw.accumulated.length - raw.float.length;
        const noted = raw.makers[column].filter(([from]) => from <= row);
        return (noted[noted.length - 1] ?? raw.makers[column][0] ?? [0, ""])[1];
      };
      return {
        ...raw,
        maker,
        tolerance: decode(raw.tolerance),
        accumulated: rows("accumulated"),
        isolated: rows("isolated"),
        float: rows("float"),
      };
    });
  }

  // Rows of another metric than the relative error, in the heat map's columns.
  metric(name, mode) {
    return this.once(`accuracy/${name}/${mode}`, async () => {
      const raw = await this.chunk(`accuracy/${name}`);
      return raw[mode].map((row) => row.map((value) => (value === null ? null : decode(value))));
    });
  }

  // Errors of one tensor after every pass, with all metrics.
  async tensorErrors(column, mode) {
    const perPage = 50; // TENSORS_PER_PAGE of payload_measures.py
    const page = await this.chunk(`tensors/${Math.floor(column / perPage)}`);
    return page[mode][column - page.first].flatMap((row) => {
      const errors = {
        operation: row[1],
        relative: decode(row[2]),
        absolute: decode(row[3]),
        cosine: decode(row[4]),
        sqnr: decode(row[5]),
        index: row[6],
        value: decode(row[7]),
        expected: decode(row[8]),
        asExact: row[10] === null ? null : {ours: decode(row[10]), reachable: decode(row[11])},
      };
      return row[0].map((pass) => ({pass, ...errors}));
    });
  }

  profile() {
    return this.once("profile", async () => {
      const raw = await this.chunk("profile");
      return {
        ...raw,
        milliseconds: decode(raw.milliseconds),
        peakGflops: decode(raw.peakGflops),
        peakGbytes: decode(raw.peakGbytes),
        caches: (raw.caches || []).map(([name, bytes, gbytes]) => ({
          name,
          bytes,
          gbytes: decode(gbytes),
        })),
        events: raw.events.map(
          ([name, operation, kernel, lane, start, end, flops, bytes, cycles]) => ({
            name,
            operation,
            kernel,
            lane,
            start,
            end,
            flops,
            bytes,
            cycles: cycles ?? 0,
          }),
        ),
      };
    });
  }

  sourceNodes() {
    return this.once("source", async () => {
      const raw = await this.chunk("source");
      return new Map(raw.map(([name, operator, text]) => [name, {operator, text}]));
    });
  }

  // Lines of the author's program, files by their first use; [] where the format keeps none.
  // nodes: those that a line made itself; all: with those of the lines that it calls
  sourceLines() {
    return this.once("source lines", async () => {
      const names = [...(await this.sourceNodes()).keys()];
      return (await this.chunk("source_lines")).map(([file, number, text, nodes, called]) => {
        const all = [...nodes, ...called].sort((a, b) => a - b);
        return {
          file,
          number,
          place: `${file}:${number}`,
          text,
          nodes: nodes.map((index) => names[index]),
          all: all.map((index) => names[index]),
        };
      });
    });
  }

  // The line at a place ("nets/net.py:12"), null where there is none.
  async lineAt(place) {
    if (!place) return null;
    return (await this.sourceLines()).find((line) => line.place === place) ?? null;
  }

  // The Python text of a rule; without lines where the trace doesn't hold it.
  async ruleText(name) {
    const texts = await this.chunk("rules");
    const lines = Object.hasOwn(texts, name) ? texts[name] : [];
    return {language: "python", lines, owners: lines.map(() => [])};
  }

  // What steps of schedules do and take; null where nobody can be asked.
  scheduleSteps() {
    return this.once("asked/steps", () => this.chunk("asked/steps").catch(() => null));
  }

  // What the instructions of all kernels mean and cost; null where there is no assembly.
  instructions() {
    if (!this.kernels.some(({assembly}) => assembly)) return null;
    return this.once("instructions", () => this.chunk("instructions").catch(() => null));
  }

  // {program, kernels, aims}: coverage by level, of the program and of every kernel
  links() {
    return this.once("links", async () => {
      const raw = await this.chunk("links");
      const table = (rows) =>
        new Map(
          rows.map(([level, unit, linkable, linked, missing]) => [
            level,
            {unit, linkable, linked, missing},
          ]),
        );
      return {
        program: table(raw.program),
        aims: raw.aims,
        kernels: new Map(Object.entries(raw.kernels).map(([name, rows]) => [name, table(rows)])),
      };
    });
  }

  // Name of a source node -> operations of a graph that come from it.
  operationsBySource(graph) {
    if (!graph.bySource) {
      graph.bySource = new Map();
      for (const [id, record] of graph.nodes) {
        for (const source of record.sources) {
          if (!graph.bySource.has(source)) graph.bySource.set(source, []);
          graph.bySource.get(source).push(id);
        }
      }
    }
    return graph.bySource;
  }

  // Source nodes of which some operation came in some pass.
  knownSources() {
    this.known ??= new Set(this.records.flatMap((record) => record.sources));
    return this.known;
  }

  // Launched operations that come from a source node.
  launchesOf(source) {
    return [...this.kernelOf.keys()].filter((id) => this.sourcesOfLaunch(id).includes(source));
  }

  sourcesOfLaunch(operation) {
    return this.launchSources.get(operation) ?? this.sourcesOf(operation);
  }

  // The name of a layer; the compiler's as long as it is not known what runs.
  layerName(operation) {
    this.layerNames ??= layerNames(
      this.launchSources,
      (id) => this.isCopy(id),
      (id) => this.sourcesOf(id),
      this.plainNodes(),
    );
    return this.layerNames(operation);
  }

  // A text that names operations, with the names of their layers.
  layersIn(text, operations) {
    return withLayers(text, operations, (name) => this.layerName(name));
  }

  // Whether a node of the file was imported as nothing but movement and conversions.
  plainNodes() {
    const computing = new Set(
      this.records
        .filter(({family, sources}) => sources.length === 1 && !PLAIN_FAMILIES.includes(family))
        .map(({sources: [node]}) => node),
    );
    return (node) => !computing.has(node);
  }

  sourcesOf(operation) {
    return this.latest.get(operation)?.sources || this.launchSources.get(operation) || [];
  }

  // Operations among `candidates` (identity -> names of source nodes) that are `operation` or come
  // from the same source nodes; the one that is meant first. Passes replace operations, so this
  // is how a selection is followed from level to level.
  follow(operation, candidates) {
    if (operation === null) return [];
    const members = this.blocks?.membersOf(operation);
    if (members)
      return candidates.filter(([id]) => id === operation || members.has(id)).map(([id]) => id);
    // What it comes from here, if it is here; else all that it ever came from.
    const own = candidates.find(([id]) => id === operation);
    const wanted = new Set(own ? own[1] : this.sourcesOf(operation));
    const found = [];
    for (const [id, sources] of candidates) {
      const shared = sources.filter((source) => wanted.has(source)).length;
      if (id === operation) found.push([id, Infinity]);
      else if (shared)
        found.push([
          id,
          shared / Math.max(sources.length, wanted.size) - (this.isCopy(id) ? 1 : 0),
        ]);
    }
    return found.sort((a, b) => b[1] - a[1]).map(([id]) => id);
  }

  // A copy into another layout has the sources of what it is made for, and that is what is meant.
  isCopy(id) {
    const kernel = this.kernels[this.kernelOf.get(id)];
    return kernel
      ? /^(copy|transpose)\b/.test(kernel.kind)
      : this.latest.get(id)?.family === "movement";
  }

  followInGraph(operation, graph) {
    return this.follow(
      operation,
      [...graph.nodes].map(([id, record]) => [id, record.sources]),
    );
  }

  // The launched operations that a selection became, the best match first.
  followToLaunches(operation) {
    const launched = [...this.kernelOf.keys()];
    if (this.kernelOf.has(operation)) return [operation];
    return this.follow(
      operation,
      launched.map((id) => [id, this.launchSources.get(id) || this.sourcesOf(id)]),
    );
  }

  // What the kernels of this target are written in, as a tab says it.
  sourceLanguage() {
    return this.head.language;
  }
}

function graphOf(raw, records) {
  const order = raw.nodes.map((index) => records[index]);
  const edges = raw.edges.map(([source, target, type, value]) => ({
    source: order[source].id,
    target: order[target].id,
    type: raw.types[type],
    value: value || order[source].id,
  }));
  const operands = new Map(),
    uses = new Map();
  for (const edge of edges) {
    if (!operands.has(edge.target)) operands.set(edge.target, []);
    operands.get(edge.target).push(edge);
    if (!uses.has(edge.source)) uses.set(edge.source, []);
    uses.get(edge.source).push(edge);
  }
  return {nodes: new Map(order.map((record) => [record.id, record])), edges, operands, uses};
}

// Chunks that more knowledge of the same compilation does not change.
const SETTLED = new RegExp(
  "^(nodes|graphs?|start|text|lines|pass|measures|film|rewrites|makers|blocks|" +
    "source|operators|memory)(/|$)",
);
const ASKED = /^asked\/(tools|steps|build)(\/|$)/; // what compilers say does not change either

function isSettled(key) {
  return SETTLED.test(key) || ASKED.test(key);
}

function expandRuns(raw, pages) {
  const lines = [],
    owners = [],
    keys = [];
  for (const [page, start, count] of raw.runs) {
    const table = pages.get(page);
    for (let index = start; index < start + count; index += 1) {
      lines.push(table.lines[index]);
      owners.push(table.owners[index]);
      keys.push(table.lines[index]); // a diff compares what stands there, and not who owns it
    }
  }
  return {language: raw.language, lines, owners, keys};
}
