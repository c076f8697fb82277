// Two model files that are compared: which branches they are, and what the totals say of them.

import {decibelsText, decode, errorText} from "./numbers.js";

/**
 * Whether branches are of models that differ: another file, or an edited one.
 *
 * @param {{model: string, settings?: any}[]} branches
 */
export function areTwoFiles(branches) {
  const [first, other] = branches;
  if (!first || !other) return false;
  const edits = (branch) => JSON.stringify(branch.settings?.edits ?? []);
  return first.model !== other.model || edits(first) !== edits(other);
}

/**
 * Of a model that was just sent: the branch of another open one that has inputs and outputs of the
 * same sizes, of one that was sent, too, where several were; null where there is none, or where the
 * model was paired before.
 *
 * @param {{key: string, model: string, elements: number[]}[]} branches
 * @param {string} current key of the branch that is looked at
 * @param {Set<string>} sent keys of the models that were sent to this page
 * @param {Set<string>} paired keys of models, which is added to
 */
export function newPair(branches, current, sent, paired) {
  const shown = branches.find(({key}) => key === current);
  if (!shown?.elements.length || !sent.has(shown.model) || paired.has(shown.model)) return null;
  const others = branches.filter(
    ({model, elements}) => model !== shown.model && String(elements) === String(shown.elements),
  );
  const other = (sent.size > 1 ? others.filter(({model}) => sent.has(model)) : others).at(-1);
  if (!other) return null;
  paired.add(shown.model).add(other.model);
  return other;
}

/** The key of the chunk with the comparison of two branches' models, on the data they have now. */
export const twoFilesKey = (session, keys) =>
  `files/${keys.slice(0, 2).join(".")}/${session.data().join("/")}`;

/**
 * Rows of the totals: outputs of one file against those of the other one, as
 * [name, [[text, change, title], ...]]. `found`: null until it is known.
 */
export function rowsOfTwoFiles(found, count) {
  const name = "outputs against each other";
  if (!found) return [[name, Array.from({length: count}, () => ["…", ""])]];
  if (!found.outputs.length) return [[name, Array.from({length: count}, () => ["–", ""])]];
  const worst = found.outputs.toSorted((a, b) => decode(a[1]) - decode(b[1]))[0];
  const largest = Math.max(...found.outputs.map(([, , error]) => decode(error)));
  const cells = (text) =>
    Array.from({length: count}, (_, side) =>
      side === found.reference
        ? ["the reference", ""]
        : side < 2
          ? [text, "", worst[0]]
          : ["–", ""],
    );
  return [
    ["SQNR against the other file", cells(decibelsText(decode(worst[1])))],
    ["largest relative error against it", cells(errorText(largest))],
  ];
}
