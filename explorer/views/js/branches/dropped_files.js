// The files that were dropped on the page, and those in folders that were. Nothing is drawn here.

import {NUMBERS_FILE} from "../graph/overlay_files.js";

export const MAX_DROPPED = 500; // files; of more one too many is found, and all are refused

// [{path, file}], with one more than `MAX_DROPPED` where there are too many.
export async function filesOf(transfer) {
  // All entries are taken now: after a pause the browser has forgotten them.
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.() ?? null);
  if (!entries.some((entry) => entry?.isDirectory))
    return [...transfer.files].map((file) => ({path: file.name, file}));
  const found = [];
  for (const entry of entries.filter(Boolean)) await addFiles(entry, found);
  return found;
}

// Those that are opened: tables of numbers are drawn on the graph. Too many stay too many, so that
// all of them are refused.
export const openedOf = (files) =>
  files.length > MAX_DROPPED ? files : files.filter(({file}) => !NUMBERS_FILE.test(file.name));

async function addFiles(entry, found) {
  if (found.length > MAX_DROPPED) return;
  if (entry.isFile) {
    const file = await new Promise((resolve, reject) => entry.file(resolve, reject));
    found.push({path: entry.fullPath, file});
    return;
  }
  const reader = entry.createReader();
  while (found.length <= MAX_DROPPED) {
    const part = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (!part.length) return;
    for (const inner of part) await addFiles(inner, found);
  }
}
