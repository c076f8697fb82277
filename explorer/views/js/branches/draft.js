// What the next fork will be: decisions that were changed, and not compiled yet.

import {BUDGET, PINS, STEPS_CHOICE, decide} from "../ground/addresses.js";
import {editsOf} from "../ground/model_edits.js";
import {bytesText, exactText} from "../ground/numbers.js";

// {get(), reset(), isAtOnce}: what the next fork will be, on top of the branch that is looked at.
// It is the session's, for a change may be made in panes that the next branch replaces.
export function createDraft(session) {
  const begin = () => {
    session.drafted = {branch: session.branch(), settings: structuredClone(session.settings())};
  };
  return {
    get isAtOnce() {
      return session.forksAtOnce ?? true;
    },
    set isAtOnce(value) {
      session.forksAtOnce = value;
    },
    get() {
      if (session.drafted?.branch !== session.branch()) begin();
      return session.drafted.settings;
    },
    reset: begin,
  };
}

// A fork in which one rewrite is declined.
export function leaveOut(app, address) {
  const settings = app.session.settings();
  app.session.fork({...settings, decisions: {...settings.decisions, [address]: false}});
}

// What differs between two settings, in words, with what takes it back.
export function changesOf(settings, base) {
  /** @type {[string, () => void][]} */
  const changes = [];
  if (settings.target !== base.target)
    changes.push([
      `target ${settings.target}`,
      () => {
        settings.target = base.target;
      },
    ]);
  const addresses = new Set([...Object.keys(settings.decisions), ...Object.keys(base.decisions)]);
  for (const address of addresses) {
    const value = settings.decisions[address],
      before = base.decisions[address];
    if (JSON.stringify(value) === JSON.stringify(before)) continue;
    changes.push([words(address, value), () => decide(settings, address, before)]);
  }
  if (settings.quantize !== base.quantize)
    changes.push([
      settings.quantize ? `quantized by ${settings.quantize}` : "not quantized",
      () => {
        settings.quantize = base.quantize;
      },
    ]);
  if (JSON.stringify(editsOf(settings)) !== JSON.stringify(editsOf(base)))
    changes.push([
      editsOf(settings).at(-1) ?? "the model as it is",
      () => {
        settings.edits = base.edits;
      },
    ]);
  return changes;
}

function words(address, value) {
  if (value === undefined) return `${address} as by default`;
  if (value === false) return `without ${address}`;
  if (address.endsWith(`/${STEPS_CHOICE}`)) return `${address} as they are listed`;
  if (address === BUDGET) return `arena of at most ${bytesText(value)}`;
  if (address === PINS) return value.map(([id, at]) => `${id} at ${exactText(at)}`).join(", ");
  return `${address} = ${Array.isArray(value) ? value.join(", ") : value}`;
}
