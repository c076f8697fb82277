// What a pass did, told once where it did it many times: "24 × layer: 6 fuse-bias". A change is
// looked at in one of the blocks that share it, open as far as something changed, all else closed.

import {element, replace} from "../ground/dom.js";
import {countText, exactText} from "../ground/numbers.js";
import {clip} from "../ground/scene.js";

const PROGRAM = 0;
const FEWEST = 8; // rewrites that are told apart in the drawing itself
const MAX_SHOWN = 24;
const NAME_CHARACTERS = 40;
const MAX_OPENED = 60; // operations and blocks: with more, those farther inside stay closed

// Groups of blocks side by side, of one name but for its number, in which the same rules were
// applied equally often: [{blocks, label, rules: Map(rule -> times in each), sites: of the first
// block}], the most repeated first.
function sameChanges({before, after, details}, tree) {
  const found = new Map(); // block -> {rules, sites}
  const stems = new Map(); // "parent stem" -> how many blocks
  const key = (block) => nameOf(tree, block);
  tree.labels.forEach((_, block) => {
    if (block !== PROGRAM) stems.set(key(block), (stems.get(key(block)) ?? 0) + 1);
  });
  for (const event of details.events) {
    if (!event.applied) continue;
    const record = [event.site, ...event.matched, ...event.produced]
      .map((id) => before.nodes.get(id) ?? after.nodes.get(id))
      .find(Boolean);
    if (!record) continue;
    const chain = tree.chain(record.block).slice(1);
    // The outermost block that is one of several, or else the outermost.
    const block = chain.find((one) => stems.get(key(one)) > 1) ?? chain[0] ?? PROGRAM;
    if (!found.has(block)) found.set(block, {rules: new Map(), sites: []});
    const {rules, sites} = found.get(block);
    rules.set(event.rule, (rules.get(event.rule) ?? 0) + 1);
    sites.push({record, rule: event.rule});
  }
  const groups = new Map();
  for (const [block, {rules, sites}] of found) {
    const told = [...rules].sort(([a], [b]) => (a < b ? -1 : 1));
    const kind = `${block === PROGRAM ? "" : key(block)}\n${told.join("\n")}`;
    if (!groups.has(kind)) groups.set(kind, {blocks: [], rules: new Map(told), sites});
    groups.get(kind).blocks.push(block);
  }
  return [...groups.values()]
    .map((group) => ({...group, label: labelOf(group.blocks, tree)}))
    .sort((a, b) => b.blocks.length - a.blocks.length || a.blocks[0] - b.blocks[0]);
}

// A name without its number.
const stemOf = (tree, block) => tree.labels[block].replace(/[\s._/-]*[\d.]*\d$/, "");

// The same for blocks side by side that have one name but for their numbers.
const nameOf = (tree, block) => `${tree.parents[block]} ${stemOf(tree, block)}`;

function labelOf(blocks, tree) {
  const [first] = blocks;
  if (first === PROGRAM) return "around the blocks";
  const stem = stemOf(tree, first) || tree.labels[first];
  return blocks.length > 1
    ? `${blocks.length} × ${clip(stem, NAME_CHARACTERS)}`
    : clip(tree.labels[first], NAME_CHARACTERS);
}

// The blocks to be open so that changes at these operations are seen, as far as they can be read.
function opened({before, after}, tree, sites) {
  const inside = new Map(tree.labels.map((_, block) => [block, 0])); // what stands in each
  const ids = new Set([...before.nodes.keys(), ...after.nodes.keys()]);
  for (const id of ids) {
    const {block} = before.nodes.get(id) ?? after.nodes.get(id);
    inside.set(block, inside.get(block) + 1);
  }
  tree.labels.forEach((_, block) => {
    if (block !== PROGRAM) inside.set(tree.parents[block], inside.get(tree.parents[block]) + 1);
  });
  const rules = new Map(); // block -> names of what was done in it, in order
  for (const {record, rule} of sites)
    for (const block of tree.chain(record.block).slice(1))
      rules.set(block, [...(rules.get(block) ?? []), rule]);
  const depth = (block) => tree.chain(block).length;
  const open = new Set(),
    seen = new Set();
  let count = 0;
  for (const [block, done] of [...rules].sort(([a], [b]) => depth(a) - depth(b) || a - b)) {
    const parent = tree.parents[block];
    const kind = `${nameOf(tree, block)}\n${done.sort().join("\n")}`;
    // One of those that are alike.
    if (seen.has(kind) || (parent !== PROGRAM && !open.has(parent))) continue;
    seen.add(kind);
    count += inside.get(block);
    if (open.size > 1 && count > MAX_OPENED) break;
    open.add(block);
  }
  return open;
}

// {node, show(pictures, isWanted)}; look(open, operation) opens those blocks and shows it.
export function createSameChanges(data, look) {
  const node = element("details", {class: "same-changes", hidden: true});

  function row(pictures, {rules, label, sites}, isBlock) {
    const rulesText = [...rules].map(([rule, times]) => `${exactText(times)} ${clip(rule, 60)}`);
    return element(
      "li",
      {},
      element(
        "button",
        {
          type: "button",
          class: "link",
          title: isBlock ? "look at the first of them, open where it was changed" : "look there",
          onclick: () => {
            node.open = false;
            look(opened(pictures, data.blocks, sites), sites[0].record.id);
          },
        },
        label,
      ),
      element("span", {class: "quiet-text"}, rulesText.join(", ")),
    );
  }

  // pictures: {before, after, details} of the pass
  function show(pictures, isWanted) {
    const applied = pictures.details.events.filter((event) => event.applied).length;
    node.hidden = !isWanted || !data.blocks || applied < FEWEST;
    if (node.hidden) return;
    const groups = sameChanges(pictures, data.blocks);
    const hidden = groups.slice(MAX_SHOWN);
    replace(
      node,
      element(
        "summary",
        {title: "where the same rules were applied equally often, it is told once"},
        `${countText(applied, "rewrite")}, ${countText(groups.length, "kind")}`,
      ),
      element(
        "ul",
        {},
        groups
          .slice(0, MAX_SHOWN)
          .map((group) => row(pictures, group, group.blocks[0] !== PROGRAM)),
        hidden.length
          ? element(
              "li",
              {class: "quiet-text"},
              `${hidden.length} more kinds, in ` +
                countText(
                  hidden.reduce((sum, {blocks}) => sum + blocks.length, 0),
                  "block",
                ),
            )
          : null,
      ),
    );
  }

  return {node, show};
}
