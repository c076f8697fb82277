// Words for everybody for a moment, and for screen readers; the clipboard.

import {element} from "../ground/dom.js";

// Gives the app `announce`, `say` and `copy`.
export function addMessages(app, announcer, root) {
  app.announce = (text) => {
    announcer.textContent = text;
  };
  // What everybody shall see for a moment.
  let saying = 0;
  app.say = (text) => {
    app.announce(text);
    announcer.classList.add("shown");
    clearTimeout(saying);
    saying = setTimeout(() => announcer.classList.remove("shown"), 1600);
  };
  app.copy = async (text, said = "Copied.") => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      // Pages from a file have no clipboard API: a selected text field does the same.
      const field = element("textarea", {class: "copy-field", "aria-hidden": "true"}, text);
      root.append(field);
      field.select();
      document.execCommand("copy");
      field.remove();
    }
    app.say(said);
  };
}
