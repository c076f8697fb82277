// What the numbers of a page were measured on, in words.

import {countText} from "./numbers.js";

export const TAKES =
  "arrays by the names of inputs (.npz, with \u201clabels\u201d if they are known), labels apart " +
  "(.txt, .npy), or images";

// The words of the chip, from summary.data and the names of the attached files.
// isPending: whether it is still being measured.
export function judgedOn(data, attached, isPending = true) {
  const names = attached.join(" and ");
  const isNew = attached.length > 0 && (!data || data.isDrawn);
  if (isNew && !isPending)
    return {text: `not judged: ${names}`, title: `nothing was measured on ${names}`};
  if (isNew) return {text: `measuring on ${names} …`, title: `${names}: not measured yet`};
  if (!data) return null;
  const notes = [
    data.isDrawn
      ? data.isNoise
        ? "no data: inputs are random numbers, of which quantized networks say little"
        : "no data: inputs are random numbers in the ranges that are known"
      : "",
    data.leftOut ? `${countText(data.leftOut, "example")} left out` : "",
    ...data.notes,
  ].filter(Boolean);
  return {text: `judged on ${data.words}`, title: [data.words, ...notes].join("; ")};
}
