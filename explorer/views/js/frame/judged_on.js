// On what the numbers of the head were measured: "judged on eval.npz, 64 examples". In the served
// app a button that takes other data; files that are dropped on the page do the same.

import {button, element} from "../ground/dom.js";
import {TAKES, judgedOn} from "../ground/judged_words.js";
import {FIXED} from "../ground/lever_words.js";
import {clip} from "../ground/scene.js";

export function judgedOnChip({data: {head}, session}) {
  const attached = session?.data() ?? [];
  const shown = judgedOn(head.summary.data, attached, session?.isPending("accuracy") ?? false);
  if (!shown) return null;
  const words = clip(shown.text, 120);
  const canChange = session && !session.isTrace();
  const isNoise = Boolean(head.summary.data?.isNoise) && !attached.length;
  return element(
    "span",
    {class: `judged-on${isNoise ? " is-noise" : ""}`, "data-fixed": FIXED.data},
    canChange
      ? button(words, `${shown.title}. Choose data: ${TAKES}`, session.chooseData, {
          class: "quiet judged-words",
        })
      : element("span", {class: "judged-words", title: shown.title}, words),
    canChange && attached.length
      ? button("×", "without these data: inputs are drawn", session.dropData, {
          class: "icon",
          "aria-label": "take the data back",
        })
      : null,
  );
}
