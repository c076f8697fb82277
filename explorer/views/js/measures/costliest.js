// The quantized layer that costs the outputs most, as a bisection named it. It is no fault: where
// somebody begins who wants more decibels.

import {button, element} from "../ground/dom.js";
import {decode} from "../ground/numbers.js";
import {fork} from "./quantization_fork.js";

const NAME_CHARACTERS = 44;

// show(costliest) leads to the layer; said is where what happens to the fork is told. Null of a
// program that is not quantized.
export function costliestLine(app, costliest, show) {
  if (!costliest) return null;
  const {tensor, isCertain, runs, modeAddress} = costliest;
  const [alone, all, without] = [costliest.alone, costliest.all, costliest.without].map(
    (value) => `${decode(value).toFixed(1)} dB`,
  );
  const said = element("span", {class: "costliest-said", role: "status"});
  const name = tensor.length > NAME_CHARACTERS ? `…${tensor.slice(1 - NAME_CHARACTERS)}` : tensor;
  return element(
    "p",
    {class: "quiet-text costliest", title: `found by bisection: ${runs} programs were run`},
    "costs most: ",
    button(name, tensor, () => show(costliest), {class: "link mono"}),
    `, ${alone} with this layer alone quantized, ${all} with all, ${without} with all but this one`,
    isCertain ? "" : "; others cost about as much",
    " ",
    button("keep it float", modeAddress, () => fork(app, {[modeAddress]: "F32"}, said), {
      class: "quiet",
    }),
    " ",
    said,
  );
}
