// What a person saves from the page: a text becomes a file in the browser's folder of downloads.

import {element} from "./dom.js";

export function saveText(name, text, type) {
  const address = URL.createObjectURL(new Blob([text], {type}));
  const link = element("a", {href: address, download: name.replace(/[^\w.-]+/g, "_")});
  document.body.append(link); // some browsers follow links of the document only
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
