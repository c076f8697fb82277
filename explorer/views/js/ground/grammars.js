// How text of each language is coloured: one pattern per language, with a group for every kind of
// token. They look at one line at a time and know no more of a language than that needs.

const C_WORDS = words(
  "auto break case const continue default do else enum extern for goto if inline register " +
    "restrict return sizeof static struct switch typedef union unsigned volatile while " +
    "__attribute__ __kernel __global __local __private __constant kernel global",
);
const C_TYPES = words(
  "void char short int long float double half signed size_t ulong uint uchar bool",
);
const PYTHON_WORDS = words(
  "and as assert async await break class continue def del elif else except finally for from if " +
    "import in is lambda not or pass raise return try while with yield",
);
const PYTHON_TYPES = words("None True False self int str float bool tuple list dict set");

const C = grammar({
  comment: /\/\/.*|\/\*.*?\*\//,
  string: /"(?:[^"\\]|\\.)*"/,
  word: `^\\s*#\\s*\\w+|\\b(?:${C_WORDS})\\b`,
  type: `\\b(?:${C_TYPES}|(?:float|half|int|double|v|u?int)\\d+(?:_t)?)\\b`,
  name: /\b[A-Za-z_]\w*(?=\()/,
  number: /\b(?:0x[\da-fA-F]+|\d+(?:\.\d*)?(?:e[+-]?\d+)?)[fuUlL]*\b/,
});
const ASSEMBLY = grammar({
  comment: /[#;].*$|\/\/.*/,
  string: /"[^"]*"/,
  name: /^[\w.$]+:|\.L\w+/,
  type: /%[a-z]\w*|\b[xyzw]\d+\b|\b[xyz]mm\d+\b/,
  word: /^\s+\.?\w+/,
  number: /\$?-?\b(?:0x[\da-f]+|\d+)\b/,
});

export const GRAMMARS = {
  mlir: grammar({
    comment: /\/\/.*/,
    string: /"(?:[^"\\]|\\.)*"/,
    name: /[%@^][\w.$#-]+/,
    type: /\b(?:tensor|memref|vector|index|none|b?f\d+|u?i\d+|si\d+)\b/,
    word: /\b[a-z_]\w*\.[\w.]+/,
    number: /\b\d+(?:\.\d+)?(?:e[+-]?\d+)?\b/,
  }),
  c: C,
  opencl: C,
  assembly: ASSEMBLY,
  ptx: ASSEMBLY,
  python: grammar({
    comment: /#.*/,
    string: /(?:[rfb]{0,2})(?:""".*?(?:"""|$)|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')/,
    // match and case are names but where they begin a statement.
    word: `\\b(?:${PYTHON_WORDS})\\b|^\\s*(?:match|case)\\b(?=.*:$)`,
    type: `\\b(?:${PYTHON_TYPES})\\b`,
    name: /\b[A-Za-z_]\w*(?=\()/,
    number: /\b\d+(?:\.\d+)?(?:e[+-]?\d+)?\b/,
  }),
  // Lines of a string that began before them, and the one on which it ends.
  docstring: grammar({string: /.+/}),
  "docstring-end": grammar({string: /^.*?"""/}),
  node: grammar({
    comment: / {4}# .*/,
    string: /"(?:[^"\\]|\\.)*"/,
    word: /(?<= = )[A-Za-z][\w.]*(?=\()/,
    number: /(?<=[ [(,])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?=[,\])}])/,
  }),
};

// The kinds of tokens, the first that fits first: {kind: pattern} -> one pattern with named groups.
function grammar(kinds) {
  const groups = Object.entries(kinds).map(([kind, pattern]) => {
    const source = pattern instanceof RegExp ? pattern.source : pattern;
    return `(?<${kind}>${source})`;
  });
  return new RegExp(groups.join("|"), "g");
}

function words(text) {
  return text.replaceAll(" ", "|");
}
