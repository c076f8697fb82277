// Buttons that quantize a model which its target refuses because nothing in it is quantized.

import {button} from "../ground/dom.js";
import {TAKES} from "../ground/judged_words.js";

// A method of calibration each where data are attached; else one that asks for data.
export function quantizeButtons({data, calibrations, chooseData}, quantize) {
  if (!data().length)
    return [
      button(
        "choose data to quantize it …",
        `calibration takes examples of the task: ${TAKES}`,
        chooseData,
        {class: "primary"},
      ),
    ];
  return calibrations().map((method) =>
    button(
      `quantize by ${method}`,
      "a branch with thresholds from the attached data",
      () => quantize(method),
      {class: "primary"},
    ),
  );
}
