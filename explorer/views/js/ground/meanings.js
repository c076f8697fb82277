import {LOOK} from "../theme.js";

// Names, glyphs and meanings of families, verdicts and differences; the scale of errors.
export function createLook() {
  const table = (list) => new Map(list.map((look) => [look.name, look]));
  const families = table(LOOK.families),
    verdicts = table(LOOK.verdicts),
    differences = table(LOOK.differences);
  const {scale} = LOOK;
  return {
    family: (name) => families.get(name) || families.get(""),
    verdict: (name) => verdicts.get(name) || verdicts.get("not-run"),
    difference: (name) => differences.get(name),
    scale: (position) => scale[Math.min(scale.length - 1, Math.floor(position * scale.length))],
  };
}
