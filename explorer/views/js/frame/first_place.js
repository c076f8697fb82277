// Where a page begins: with another model, another branch of the same, or a first visit.

import {carriedInto, passCarriedInto} from "../branches/propagated.js";
import {placeFromLink, stateFromLink} from "../state/state.js";

const withoutUnset = (state) =>
  Object.fromEntries(Object.entries(state).filter(([, value]) => value !== undefined));

// The first state of the page. kept: {state, passes, carried, isRefused} of what was looked at
// before, a branch of the same model where `isBranch`; fromLink: what the address says.
export function firstPlace({data, kept, isBranch, fromLink}) {
  const {passes} = data.head;
  const start = passes.findIndex((pass) => pass.level !== "source");
  const initially = data.head.blocks.initially ?? [];
  // Of a wrong program the first thing to see is what is wrong.
  const {fault} = data.head.summary;
  const atFault = fault ? {dock: "accuracy", selection: fault.operation} : {};
  const fresh = {open: initially, initially, ...(start < 0 ? {dock: "model"} : atFault)};
  // Another model starts at its own first place; how a person likes to look at things stays.
  const isOther = kept && !isBranch;
  const liked = isOther && kept.isRefused ? {...kept.state, dock: undefined} : kept?.state;
  return kept
    ? {
        ...withoutUnset(liked),
        ...(isBranch
          ? {initially, selection: carriedInto(data, kept.carried)}
          : {selection: null, step: null, blocks: null, ...fresh}),
        pass: firstPass(data.head, isBranch ? kept : null),
      }
    : {pass: firstPass(data.head, null), ...fresh, ...placeOf(data.head), ...fromLink};
}

// branch: of the same model, that was looked at before, or null
function firstPass(head, branch) {
  // A branch is looked at where the one before was, or at the last pass before that it has, too.
  const again = branch ? passCarriedInto(head.passes, branch.passes) : -1;
  return again >= 0 ? again : (head.summary.fault?.pass ?? head.first);
}

// {pass, selection}: what the first picture shows, before there is data. address: what the page's
// address says; link: of a place to return to, or null.
export function firstSeen({head, kept, isBranch, address, link}) {
  /** @type {any} */
  const place =
    link !== null
      ? placeFromLink(link, head, true, [])
      : kept
        ? {selection: isBranch ? kept.carried.selection : null}
        : {
            selection: head.summary.fault?.operation,
            ...placeOf(head),
            ...stateFromLink(address, head, true),
          };
  return {
    pass: place.pass ?? firstPass(head, isBranch ? kept : null),
    selection: place.selection ?? null,
  };
}

// What the address of the page says, or else where its workspace was left.
export const addressOf = (session) =>
  window.location.hash.length > 1 ? window.location.hash : (session?.place() ?? "");

// Where a cell asks the explorer to open: names of a pass, an operation, tabs.
function placeOf({at: asked, passes}) {
  const at = asked ?? {pass: "", operation: "", dock: "", tab: ""};
  const pass = passes.findIndex(({name}) => name === at.pass);
  return {
    ...(pass >= 0 ? {pass} : {}),
    ...(at.operation ? {selection: at.operation} : {}),
    ...(at.dock ? {dock: at.dock} : {}),
    ...(at.tab ? {tab: at.tab} : {}),
  };
}
