// Colours and the board that all canvas views draw on.

const STOPS = {
  light: ["#ffffff", "#bdd5ef", "#7eacde", "#4381c7", "#1a57a1", "#0a2f61"],
  dark: ["#14181f", "#16345c", "#1f5596", "#3f82c9", "#84b3e4", "#dcebfb"]
};
// Below zero in differences: one other hue, told apart from blue by every kind of eye.
const LESS = {
  light: ["#ffffff", "#fbd3a8", "#f4a35c", "#dd7420", "#a84c08", "#6b2c02"],
  dark: ["#14181f", "#4a2a10", "#83450f", "#c26a1c", "#eba25c", "#fde3c6"]
};
// Okabe and Ito's colours, for heads; they come again after eight.
const HEADS = [
  "#0072b2",
  "#e69f00",
  "#009e73",
  "#cc79a7",
  "#56b4e9",
  "#d55e00",
  "#8a7a00",
  "#6a51a3"
];
const onHead = h =>
  inkOver([1, 3, 5].map(i => parseInt(HEADS[h % HEADS.length].slice(i, i + 2), 16)));
const headColour = h => (h === "mean" ? ink().text : HEADS[h % HEADS.length]);

const dark = () =>
  (state.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) ===
  "dark";
const printing = { now: false };
const themeNow = () => (dark() && !printing.now ? "dark" : "light");
const ink = () =>
  themeNow() === "dark"
    ? { text: "#e8eaed", soft: "#9aa4b0", line: "#2b323c", back: "#14181f", mark: "#ff9a5c" }
    : { text: "#1a1a1a", soft: "#6b7280", line: "#e3e6ea", back: "#ffffff", mark: "#c2410c" };

const tables = {};
function table(stops) {
  return (tables[stops.join()] ??= (() => {
    const made = new Uint8ClampedArray(256 * 3);
    const rgb = s => [1, 3, 5].map(i => parseInt(s.slice(i, i + 2), 16));
    for (let i = 0; i < 256; i++) {
      const place = (i / 255) * (stops.length - 1),
        low = min(floor(place), stops.length - 2);
      const a = rgb(stops[low]),
        b = rgb(stops[low + 1]);
      for (let k = 0; k < 3; k++) made[i * 3 + k] = a[k] + (b[k] - a[k]) * (place - low);
    }
    return made;
  })());
}

const level = (v, top) => min(255, round((abs(v) / (top || 1)) * 255));
function shadeParts(v, top) {
  const t = table((v < 0 ? LESS : STOPS)[themeNow()]),
    i = level(v, top) * 3;
  return [t[i], t[i + 1], t[i + 2]];
}
const shade = (v, top) => `rgb(${shadeParts(v, top)})`;
// White or black, whichever stands out more: 4.5 : 1 at least on any ground.
function inkOver(parts) {
  const [r, g, b] = parts.map(c => ((c / 255 + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000" : "#fff";
}
const inkOn = (v, top) => inkOver(shadeParts(v, top));

// Weights as a picture of one pixel a cell. `flip`: columns from right to left.
function pixels(w, R, C, top, flip = false) {
  const made = new OffscreenCanvas(max(C, 1), max(R, 1));
  const pen = made.getContext("2d"),
    image = pen.createImageData(made.width, made.height);
  const up = table(STOPS[themeNow()]),
    down = table(LESS[themeNow()]);
  for (let r = 0, i = 0; r < R; r++)
    for (let c = 0; c < C; c++, i++) {
      const t = w[i] < 0 ? down : up,
        l = level(w[i], top) * 3,
        o = (r * C + (flip ? C - 1 - c : c)) * 4;
      image.data[o] = t[l];
      image.data[o + 1] = t[l + 1];
      image.data[o + 2] = t[l + 2];
      image.data[o + 3] = 255;
    }
  pen.putImageData(image, 0, 0);
  return made;
}

const FONT =
  '"Noto Sans", "Segoe UI", system-ui, -apple-system, "Helvetica Neue", "Noto Sans CJK SC", "PingFang SC", "Microsoft YaHei", "Noto Sans Arabic", "DejaVu Sans", sans-serif';
const font = (size, bold = false) => `${bold ? "600 " : ""}${size}px ${FONT}`;

// The canvas is as large as what can be seen; `spacer` makes the stage scroll as if it were larger.
const board = {
  pen: null,
  wide: 0,
  high: 0,
  start(width, height) {
    const stage = $("stage"),
      canvas = $("canvas"),
      ratio = printing.now ? 2 : devicePixelRatio || 1;
    canvas.hidden = false;
    $("leaf").hidden = true;
    $("spacer").hidden = false;
    const whole = printing.now || saving.now;
    this.wide = whole ? min(width, 8000) : stage.clientWidth;
    this.high = whole ? min(height, 8000) : stage.clientHeight;
    $("spacer").style.width = `${whole ? 0 : width}px`;
    $("spacer").style.height = `${whole ? 0 : max(height - this.high, 0)}px`;
    if (canvas.width !== round(this.wide * ratio) || canvas.height !== round(this.high * ratio)) {
      canvas.width = round(this.wide * ratio);
      canvas.height = round(this.high * ratio);
      canvas.style.width = `${this.wide}px`;
      canvas.style.height = `${this.high}px`;
    }
    const pen = (this.pen =
      saving.now === "svg" ? new Drawing(this.wide, this.high) : canvas.getContext("2d"));
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.fillStyle = ink().back;
    pen.fillRect(0, 0, this.wide, this.high);
    return {
      pen,
      x: whole ? 0 : stage.scrollLeft,
      y: whole ? 0 : stage.scrollTop,
      wide: this.wide,
      high: this.high
    };
  },
  // Views made of words and not of drawing.
  page(...inside) {
    $("canvas").hidden = true;
    $("spacer").hidden = true;
    $("leaf").hidden = false;
    $("leaf").replaceChildren(...inside);
  }
};
const saving = { now: "" };

// How the next words are written.
function pencil(pen, align, base, size, colour, bold) {
  pen.textAlign = align;
  pen.textBaseline = base;
  pen.font = font(size, bold);
  pen.fillStyle = colour;
}

function fit(pen, text, room) {
  if (pen.measureText(text).width <= room) return text;
  let low = 0,
    high = text.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (pen.measureText(text.slice(0, middle) + "…").width <= room) low = middle;
    else high = middle - 1;
  }
  return text.slice(0, low) + "…";
}

// Widths of the same words are asked for again and again: they are kept, per pixel of the font.
const widths = new WeakMap();
function longest(pen, labels) {
  const size = parseFloat(pen.font.match(/[\d.]+px/)[0]);
  if (!widths.has(labels))
    widths.set(labels, labels.reduce((most, l) => max(most, pen.measureText(l).width), 0) / size);
  return widths.get(labels) * size;
}

function scaleBar(pen, x, y, width, top, signed) {
  for (let i = 0; i < width; i++) {
    pen.fillStyle = shade(signed ? (i / width) * 2 * top - top : (i / width) * top, top);
    pen.fillRect(x + i, y, 1.5, 8);
  }
  pen.strokeStyle = ink().line;
  pen.strokeRect(x - 0.5, y - 0.5, width + 1, 9);
  pencil(pen, "left", "top", 10, ink().soft);
  pen.fillText(signed ? `−${+top.toPrecision(2)}` : "0", x, y + 11);
  pen.textAlign = "right";
  pen.fillText(`${+top.toPrecision(2)}`, x + width, y + 11);
}
