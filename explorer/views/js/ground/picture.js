// A drawing of the page as a file: SVG with its styles inside, or PNG made of that.

// What of a computed style a drawing needs; everything else is the same in any reader of SVG.
const STYLES = [
  "fill",
  "fill-opacity",
  "stroke",
  "stroke-width",
  "stroke-dasharray",
  "stroke-opacity",
  "stroke-linejoin",
  "opacity",
  "display",
  "visibility",
  "font-family",
  "font-size",
  "font-weight",
  "font-style",
  "text-anchor",
  "dominant-baseline",
  "text-decoration",
  "paint-order",
];
const OF_INTERFACE = "[data-open], .block-title .sign"; // what opens and closes blocks
const SHARPNESS = 2; // pixels of a PNG for one of the screen

// The text of an SVG file: the drawing as it is shown, on its background, without
// buttons. It has a style of many elements once.
export function svgOf(drawing) {
  const box = drawing.getBoundingClientRect();
  const copy = drawing.cloneNode(true);
  const originals = [drawing, ...drawing.querySelectorAll("*")];
  const copies = [copy, ...copy.querySelectorAll("*")];
  const classes = new Map(); // declarations -> the class that has them
  originals.forEach((original, index) => {
    const style = window.getComputedStyle(original);
    const made = copies[index];
    if (style.display === "none") made.setAttribute("display", "none");
    const declared = STYLES.map((name) => `${name}: ${style.getPropertyValue(name)}`).join("; ");
    if (!classes.has(declared)) classes.set(declared, `s${classes.size}`);
    made.setAttribute("class", classes.get(declared));
    for (const name of STYLES) made.style.removeProperty(name);
    if (!made.getAttribute("style")) made.removeAttribute("style");
    made.removeAttribute("tabindex");
  });
  for (const made of copy.querySelectorAll(OF_INTERFACE)) made.remove();
  const rules = document.createElementNS("http://www.w3.org/2000/svg", "style");
  rules.textContent = [...classes].map(([declared, name]) => `.${name} { ${declared} }`).join("\n");
  copy.prepend(rules);
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("width", String(Math.round(box.width)));
  copy.setAttribute("height", String(Math.round(box.height)));
  copy.setAttribute("viewBox", drawing.getAttribute("viewBox") ?? `0 0 ${box.width} ${box.height}`);
  copy.style.background = groundOf(drawing);
  return new XMLSerializer().serializeToString(copy);
}

// The same as a PNG, as a Blob.
export async function pngOf(drawing) {
  const box = drawing.getBoundingClientRect();
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svgOf(drawing))}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = Math.round(box.width * SHARPNESS);
  canvas.height = Math.round(box.height * SHARPNESS);
  const context = canvas.getContext("2d");
  if (!context) throw new Error("this browser draws no pictures");
  context.fillStyle = groundOf(drawing);
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve, reject) =>
    canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("the picture is too large")))),
  );
}

// The first colour behind it that is not transparent.
function groundOf(node) {
  for (let at = node; at; at = at.parentElement) {
    const colour = window.getComputedStyle(at).backgroundColor;
    if (colour && colour !== "transparent" && !/, 0\)$/.test(colour)) return colour;
  }
  return "white";
}
