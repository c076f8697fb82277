// Numbers that say what moves them: a press on one opens its levers. In pages without a compiler
// they are plain text.

import {element} from "../ground/dom.js";
import {QUANTITIES} from "../ground/lever_words.js";

export const canMove = (app) => Boolean(app.session) && !app.session.isTrace();

// Whether what moves a number is a sentence: why no decision does.
export const isReason = (moves) => moves !== "" && !Object.hasOwn(QUANTITIES, moves);

// The number as a button; `of`: the kernel, value or tensor that it is about.
export function moving(app, quantity, text, of = "") {
  if (!canMove(app) || text === "–" || text === "") return text;
  return element(
    "button",
    {
      type: "button",
      class: "moves",
      "data-moves": quantity,
      title: `what moves this: ${QUANTITIES[quantity]}${of ? ` of ${of}` : ""}`,
      onclick: (event) => {
        event.stopPropagation();
        app.openLevers(quantity, of);
      },
    },
    text,
  );
}
