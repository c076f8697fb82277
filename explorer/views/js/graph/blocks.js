// Blocks of a large program: which operations stand in which, and which blocks repeat which.

const PROGRAM = 0;
const MAX_OPENED_TOGETHER = 48; // more repetitions are opened one by one: each is drawn

export class BlockTree {
  constructor(raw, latest) {
    this.labels = raw.labels;
    this.parents = raw.parents;
    this.regions = new Set(raw.regions ?? []); // operations with regions, and their regions
    this.holds = raw.holds; // what a block is a row of: "4 × residual block", "" for others
    this.titles = raw.labels.map((label, block) =>
      [label, raw.holds[block]].filter(Boolean).join(": "),
    );
    this.alike = raw.alike; // the first block that is built alike: one kind of blocks
    this.operations = raw.labels.map(() => []); // directly inside
    for (const record of latest.values()) this.operations[record.block].push(record.id);
    this.chains = raw.labels.map(() => null);
    this.members = new Map();
  }

  // 4 for "#4", undefined for an operation.
  indexOf(unit) {
    return typeof unit === "string" &&
      /^#\d+$/.test(unit) &&
      Number(unit.slice(1)) < this.labels.length
      ? Number(unit.slice(1))
      : undefined;
  }

  // The blocks from the program down to `block`.
  chain(block) {
    this.chains[block] ??=
      block === PROGRAM ? [PROGRAM] : [...this.chain(this.parents[block]), block];
    return this.chains[block];
  }

  // All operations inside of "#4", at any depth, in any snapshot; null when it is no block.
  membersOf(unit) {
    const block = this.indexOf(unit);
    if (block === undefined) return null;
    if (!this.members.has(block)) {
      const inside = new Set();
      this.labels.forEach((_, other) => {
        if (this.chain(other).includes(block))
          for (const id of this.operations[other]) inside.add(id);
      });
      this.members.set(block, inside);
    }
    return this.members.get(block);
  }

  // For every block what stands for its operations: null when they are seen one by one.
  unitsOf(open) {
    return this.labels.map((_, block) => {
      const closed = this.chain(block).find((outer) => outer !== PROGRAM && !open.has(outer));
      return closed === undefined ? null : `#${closed}`;
    });
  }

  // A block and those that repeat it: built alike, in the same block or in blocks that repeat it.
  repetitions(block) {
    if (block === PROGRAM || this.regions.has(block)) return [block];
    const around = new Set(this.repetitions(this.parents[block]));
    const found = this.labels
      .map((_, other) => other)
      .filter(
        (other) => this.alike[other] === this.alike[block] && around.has(this.parents[other]),
      );
    return found.length <= MAX_OPENED_TOGETHER ? found : [block];
  }

  // The open blocks after one is opened or closed: with it all that repeat it, unless it is alone.
  toggled(open, block, alone = false) {
    const next = new Set(open);
    for (const one of alone ? [block] : this.repetitions(block)) {
      if (open.has(block)) next.delete(one);
      else next.add(one);
    }
    return next;
  }

  // The blocks that must be open for an operation, or the node of a block, to be seen.
  around(unit, latest) {
    const block = this.indexOf(unit);
    const inner = block === undefined ? latest.get(unit)?.block : this.parents[block];
    return inner === undefined ? [] : this.chain(inner).slice(1);
  }
}
