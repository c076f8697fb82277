// Addresses of decisions that the page has something of its own for: results/decisions.py has all.
// What any other address is about a knob says itself: {group, of, title}.
//
// settings = {target, decisions: {address: value}}

export const SCHEDULE = "schedule-loops";
export const STEPS_CHOICE = "steps";
export const ORDER = "order";
export const PLANNER = "plan-memory/planner";
export const BUDGET = "plan-memory/budget_bytes";
export const PINS = "plan-memory/pins";

// [[buffer, byte]] and names of passes.
export const pinsOf = ({decisions}) => decisions[PINS] ?? [];
export const orderOf = ({decisions}) => decisions[ORDER] ?? [];
export const isOff = ({decisions}, address) => decisions[address] === false;

// Another value at an address; undefined takes it back.
export function decide({decisions}, address, value) {
  if (value === undefined) delete decisions[address];
  else decisions[address] = value;
}

// Nothing pinned is no decision.
export const pinned = (pins) => (pins.length ? pins : undefined);
