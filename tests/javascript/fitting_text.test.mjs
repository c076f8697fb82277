// Labels on a canvas end within their bar, whatever their letters are.

import assert from "node:assert/strict";
import {suite, test} from "node:test";

import {fittingText} from "../../build/js/ground/plot.js";

// Capitals and the ellipsis take 12 pixels, other letters 5.
const context = {
  measureText: (text) => ({
    width: [...text].reduce((sum, letter) => sum + (/[A-Z…]/.test(letter) ? 12 : 5), 0),
  }),
};
const widthOf = (text) => context.measureText(text).width;

suite("text in a bar", () => {
  test("what is as wide as the bar stays whole", () => {
    assert.equal(fittingText(context, "conv", 20), "conv");
    assert.equal(fittingText(context, "", 0), "");
  });

  test("what is wider ends within the bar, with an ellipsis", () => {
    for (const text of ["depthwise 3x3", "CONV_2D_0", "WWWWWWWWiiiiiiii", "iiiiiiiiWWWWWWWW"])
      for (let width = 12; width < widthOf(text); width += 1) {
        const shown = fittingText(context, text, width);
        assert.ok(widthOf(shown) <= width, `${shown} in ${width}`);
        assert.ok(shown.endsWith("…") && text.startsWith(shown.slice(0, -1)), shown);
      }
  });

  test("a bar narrower than the ellipsis has the ellipsis", () => {
    assert.equal(fittingText(context, "conv", 0), "…");
  });
});
