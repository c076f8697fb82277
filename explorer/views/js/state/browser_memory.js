// What a browser remembers for us: of this tab until it is closed, and of this browser for good. A
// page from a file, or a browser that forbids it, remembers nothing, and nothing breaks.

const PREFIX = "explorer-";

function storageOf(scope) {
  try {
    return scope === "tab" ? window.sessionStorage : window.localStorage;
  } catch {
    return null; // reading the property is what a browser may forbid
  }
}

// scope: "tab" or "browser". A text, or null.
export function recall(scope, name) {
  try {
    return storageOf(scope)?.getItem(PREFIX + name) ?? null;
  } catch {
    return null;
  }
}

export function remember(scope, name, text) {
  try {
    storageOf(scope)?.setItem(PREFIX + name, text);
  } catch {
    // full, or forbidden: the page works without it
  }
}
