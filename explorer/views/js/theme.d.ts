// The module that views/module.py makes of the style sheets and of theme.py.

export interface Look {
  name: string;
  title: string;
  glyph: string;
}

export const STYLE: string;
export const LOOK: {
  families: Look[];
  verdicts: Look[];
  differences: Look[];
  tiers: Look[];
  stalls: Look[];
  unsupported: Look;
  scale: string[];
};
