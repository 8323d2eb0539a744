// Pictures to keep: what a view draws with a pen becomes SVG, with words as words.

const SVG = "http://www.w3.org/2000/svg";
function svg(tag, attributes = {}, text) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes))
    node.setAttribute(name, typeof value === "number" ? +value.toFixed(2) : value);
  if (text !== undefined) node.textContent = text;
  return node;
}

const STYLES = {
  fillStyle: "#000",
  strokeStyle: "#000",
  lineWidth: 1,
  globalAlpha: 1,
  font: "10px sans-serif",
  textAlign: "left",
  textBaseline: "alphabetic",
  lineCap: "butt",
  imageSmoothingEnabled: true
};

// As much of a canvas' pen as the views use.
class Drawing {
  fillStyle = STYLES.fillStyle;
  strokeStyle = STYLES.strokeStyle;
  lineWidth = STYLES.lineWidth;
  globalAlpha = STYLES.globalAlpha;
  font = STYLES.font;
  textAlign = STYLES.textAlign;
  textBaseline = STYLES.textBaseline;
  lineCap = STYLES.lineCap;
  imageSmoothingEnabled = STYLES.imageSmoothingEnabled;
  /** @type {[SVGElement, [string, any][]][]} */
  kept = [];
  d = "";
  clips = 0;
  probe = make("canvas").getContext("2d");

  constructor(width, height) {
    this.root = svg("svg", { xmlns: SVG, width, height, viewBox: `0 0 ${width} ${height}` });
    this.now = this.root;
  }

  put(tag, attributes, text) {
    return this.now.appendChild(
      svg(
        tag,
        { ...(this.globalAlpha < 1 ? { opacity: this.globalAlpha } : {}), ...attributes },
        text
      )
    );
  }
  group(attributes) {
    this.now = this.now.appendChild(svg("g", attributes));
  }
  setTransform() {}
  save() {
    this.kept.push([this.now, Object.keys(STYLES).map(name => [name, this[name]])]);
    this.group();
  }
  restore() {
    const [now, styles] = this.kept.pop();
    Object.assign(this, { now }, Object.fromEntries(styles));
  }
  translate(x, y) {
    this.group({ transform: `translate(${x} ${y})` });
  }
  rotate(angle) {
    this.group({ transform: `rotate(${(angle * 180) / Math.PI})` });
  }
  beginPath() {
    this.d = "";
  }
  moveTo(...at) {
    this.d += "M" + this.round(at);
  }
  lineTo(...at) {
    this.d += "L" + this.round(at);
  }
  quadraticCurveTo(...at) {
    this.d += "Q" + this.round(at);
  }
  round(numbers) {
    return numbers.map(v => +v.toFixed(2)).join(" ");
  }
  rect(x, y, w, h) {
    this.d += `M${this.round([x, y])}h${w}v${h}h${-w}z`;
  }
  arc(x, y, r) {
    this.moveTo(x - r, y);
    this.d += `a${r} ${r} 0 1 1 ${2 * r} 0a${r} ${r} 0 1 1 ${-2 * r} 0`;
  }
  ellipse(x, y, rx, ry, _, from) {
    // the upper half from π, the lower from 0
    const side = from ? -1 : 1;
    this.moveTo(x + side * rx, y);
    this.d += `A${this.round([rx, ry])} 0 0 1 ${this.round([x - side * rx, y])}`;
  }
  clip() {
    const id = `clip${this.clips++}`;
    this.put("clipPath", { id }).append(svg("path", { d: this.d }));
    this.group({ "clip-path": `url(#${id})` });
  }
  stroke() {
    this.put("path", {
      d: this.d,
      fill: "none",
      stroke: this.strokeStyle,
      "stroke-width": this.lineWidth,
      "stroke-linecap": this.lineCap
    });
  }
  fill() {
    this.put("path", { d: this.d, fill: this.fillStyle });
  }
  fillRect(x, y, width, height) {
    this.put("rect", { x, y, width, height, fill: this.fillStyle });
  }
  strokeRect(x, y, width, height) {
    this.put("rect", {
      x,
      y,
      width,
      height,
      fill: "none",
      stroke: this.strokeStyle,
      "stroke-width": this.lineWidth
    });
  }
  measureText(text) {
    this.probe.font = this.font;
    return this.probe.measureText(text);
  }
  fillText(text, x, y) {
    const [, bold, size, family] = this.font.match(/^(600 )?([\d.]+)px (.*)$/);
    const down = { middle: 0.35, top: 0.8, bottom: -0.2 }[this.textBaseline] ?? 0;
    this.put(
      "text",
      {
        x,
        y: y + down * +size,
        fill: this.fillStyle,
        "font-size": +size,
        "font-family": family,
        ...(bold ? { "font-weight": 600 } : {}),
        "text-anchor": { center: "middle", right: "end" }[this.textAlign] ?? "start"
      },
      text
    );
  }
  drawImage(image, x, y, width, height) {
    const copy = make("canvas", { width: image.width, height: image.height });
    copy.getContext("2d").drawImage(image, 0, 0);
    this.put("image", {
      x,
      y,
      width,
      height,
      href: copy.toDataURL(),
      preserveAspectRatio: "none",
      style: this.imageSmoothingEnabled ? "" : "image-rendering:pixelated"
    });
  }
}

// Views made of words are taken as they are, with their style.
function leafDrawing() {
  const leaf = $("leaf"),
    width = leaf.scrollWidth,
    height = leaf.scrollHeight,
    copy = leaf.cloneNode(true),
    root = svg("svg", { xmlns: SVG, width, height });
  const drawn = leaf.querySelectorAll("canvas");
  copy.querySelectorAll("canvas").forEach((one, i) =>
    one.replaceWith(
      make("img", {
        src: drawn[i].toDataURL(),
        style: drawn[i].style.cssText,
        class: drawn[i].className
      })
    )
  );
  const inside = svg("foreignObject", { width, height }),
    body = make(
      "div",
      {},
      make(
        "style",
        {},
        document.querySelector("style").textContent.replaceAll(":root", ".whole-page")
      ),
      copy
    );
  body.className = "whole-page";
  body.dataset.theme = rootElement.dataset.theme;
  inside.append(body);
  root.append(inside);
  return root;
}

async function drawing() {
  if (!$("leaf").hidden) return leafDrawing();
  let root;
  await whole(() => (root = board.pen.root), "svg");
  return root;
}
const asText = root =>
  "data:image/svg+xml," + encodeURIComponent(new XMLSerializer().serializeToString(root));
const download = (href, ending) =>
  make("a", { download: `${file.head.title || "attention"}.${ending}`, href }).click();

async function savePng() {
  if ($("leaf").hidden) return whole(() => download($("canvas").toDataURL(), "png"));
  const root = leafDrawing(),
    image = new Image(),
    canvas = make("canvas", {
      width: root.getAttribute("width") * 2,
      height: root.getAttribute("height") * 2
    }),
    pen = canvas.getContext("2d");
  image.src = asText(root);
  await image.decode();
  pen.fillStyle = ink().back;
  pen.fillRect(0, 0, canvas.width, canvas.height);
  pen.drawImage(image, 0, 0, canvas.width, canvas.height);
  download(canvas.toDataURL(), "png");
}
