// What a person saves from the page: it becomes a file in the browser's folder of downloads.

import {element} from "./dom.js";

export function saveText(name, text, type) {
  saveBlob(name, new Blob([text], {type}));
}

// base64: the content of a file that the other side made
export function saveBytes(name, base64, type) {
  const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  saveBlob(name, new Blob([bytes], {type}));
}

export function saveBlob(name, blob) {
  const address = URL.createObjectURL(blob);
  const link = element("a", {href: address, download: name.replace(/[^\w.-]+/g, "_")});
  document.body.append(link); // some browsers follow links of the document only
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
