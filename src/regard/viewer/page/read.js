// Reading a .seen file (docs/seen.md): a header, then blobs where the header says.
// The file is base64 in the page; only what is shown is ever decoded.

/** @typedef {[start: number, length: number]} Place */
/**
 * An attention: one matrix of weights a head.
 * @typedef {Object} SeenMap
 * @property {string} name
 * @property {string} [layer]
 * @property {string} kind
 * @property {string} what
 * @property {number} rows the side of its rows
 * @property {number} columns
 * @property {[heads: number, rows: number, columns: number]} shape
 * @property {"u8" | "i8" | "f16" | "few" | "top"} code
 * @property {Place[]} blobs
 * @property {Place} [scale]
 * @property {"f2" | "f4"} [scales]
 * @property {Place} [mass]
 * @property {number} [k]
 * @property {number[]} [entries]
 * @property {number} [steps]
 * @property {number[]} [fine]
 * @property {[k: number, left: number]} [off]
 * @property {[e: number, ...more: number[]]} [every]
 * @property {number[]} max
 * @property {Record<string, number[]>} [measures]
 * @property {string[]} [heads]
 * @property {Record<string, number>} [scope]
 * @property {[rows: number, columns: number]} [pool]
 * @property {[map: number, head: number, alike: number][]} [twin]
 * @property {[rows: number, columns: number, start: number, length: number]} [thumbs]
 * @property {any} [extra]
 * @property {any} [links]
 */
/**
 * What stands along the rows or the columns of maps.
 * @typedef {Object} Side
 * @property {string[]} pieces
 * @property {string} [kind]
 * @property {number[][]} [groups] the places that make each word
 * @property {string[]} [texts]
 * @property {number[]} [special]
 * @property {[rows: number, columns: number]} [grid]
 * @property {Place} [image]
 * @property {number} [seconds]
 * @property {Place} [audio]
 * @property {[from: number, to: number][]} [edges]
 * @property {number[]} [sections]
 * @property {string[]} [classes] of nodes
 */
/**
 * One input with its output, or one hypothesis of it.
 * @typedef {Object} Run
 * @property {number[]} maps
 * @property {string} input
 * @property {string} output
 * @property {string} model
 * @property {string} folder
 * @property {string} label
 * @property {number} [score]
 * @property {number} [number]
 * @property {number} [of]
 * @property {string} [target]
 * @property {string} [title]
 * @property {any[]} [panels]
 * @property {number} [step]
 * @property {string} [view]
 */
/** @typedef {{size: number, slice(from: number, to: number): Uint8Array<ArrayBuffer>}} Source */

/** @returns {Uint8Array<ArrayBuffer>} */
function fromBase64(text) {
  /** @type {any} */
  const own = Uint8Array; // browsers of 2025 and later have it
  if (own.fromBase64) return own.fromBase64(text);
  const raw = atob(text),
    bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return bytes;
}

/** @returns {Source} */
function textSource(text) {
  const end = text.endsWith("==") ? 2 : text.endsWith("=") ? 1 : 0;
  return {
    size: (text.length / 4) * 3 - end,
    slice(from, to) {
      const first = floor(from / 3),
        last = ceil(to / 3);
      return fromBase64(text.slice(first * 4, last * 4)).subarray(from - first * 3, to - first * 3);
    }
  };
}

async function inflate(bytes) {
  const { readable, writable } = new DecompressionStream("deflate"),
    writer = writable.getWriter();
  const whole = new Response(readable).arrayBuffer(); // before it is written, else it would wait
  Promise.all([writer.write(bytes), writer.close()]).catch(() => {}); // the reader says what is wrong
  return new Uint8Array(await whole);
}

function half(bits) {
  const sign = bits & 0x8000 ? -1 : 1,
    power = (bits >> 10) & 31,
    rest = bits & 1023;
  if (!power) return sign * rest * 2 ** -24;
  return power === 31 ? NaN : sign * (1 + rest / 1024) * 2 ** (power - 15);
}

/**
 * Heads, rows and columns of what is kept; of an overview its cells.
 * @type {(map: SeenMap) => number[]}
 */
const cellsOf = ({ shape: [heads, rows, columns], pool }) => {
  const [f, g] = pool ?? [1, 1];
  return [heads, ceil(rows / f), ceil(columns / g)];
};

const EDGES = [1 / 32, 1 / 16, 1 / 8, 3 / 16, 1 / 4, 3 / 8, 1 / 2, 3 / 4, 1, 3 / 2, 2, 3, 4, 6, 10];

class SeenFile {
  static async open(source) {
    if (typeof DecompressionStream === "undefined")
      throw new Error("This browser is too old to unpack the weights; any of 2023 or later can.");
    const start = source.slice(0, 16),
      view = new DataView(start.buffer, start.byteOffset);
    if (String.fromCharCode(...start.slice(1, 5)) !== "SEEN" || start[6] !== 1)
      throw new Error("The data in this page is not a .seen file of version 1.");
    const packed = view.getUint32(8, true);
    const head = await inflate(source.slice(20, 20 + packed));
    return new SeenFile(source, 20 + packed, JSON.parse(new TextDecoder().decode(head)));
  }

  /**
   * @param {Source} source
   * @param {number} base where the blobs begin
   * @param {{sides: Side[], maps: SeenMap[], runs: Run[], title: string, [key: string]: any}} head
   */
  constructor(source, base, head) {
    this.source = source;
    this.base = base;
    this.head = head;
    this.sides = head.sides;
    this.maps = head.maps;
    this.runs = head.runs;
    /** @type {Map<string, any>} promises of what was unpacked */
    this.cache = new Map();
    this.held = 0;
    /** @type {Record<string, any>} */
    this.kept = {};
  }

  /** @type {(place: Place) => Uint8Array<ArrayBuffer>} */
  bytes([at, length]) {
    return this.source.slice(this.base + at, this.base + at + length);
  }

  /**
   * Promises are kept: each blob is unpacked once.
   * @param {string} key
   * @param {number} size
   * @param {() => any} make
   * @returns {any}
   */
  once(key, size, make) {
    if (!this.cache.has(key)) {
      if (this.held > 4e7) {
        this.cache.clear();
        this.held = 0;
      }
      this.held += size;
      this.cache.set(key, make());
    }
    return this.cache.get(key);
  }

  /** @returns {Promise<Float32Array | null>} */
  scale(m) {
    const map = this.maps[m];
    if (!map.scale) return Promise.resolve(null);
    return this.once(`s${m}`, 0, async () => {
      const { buffer } = await inflate(this.bytes(map.scale));
      return map.scales === "f4"
        ? new Float32Array(buffer)
        : Float32Array.from(new Uint16Array(buffer), half);
    });
  }

  /** @returns {Promise<Uint8Array | null>} */
  mass(m) {
    const map = this.maps[m];
    if (!map.mass) return Promise.resolve(null);
    return this.once(`m${m}`, 0, () => inflate(this.bytes(map.mass)));
  }

  // A head as a small picture of bytes: kept in the file for large heads, else made of its weights.
  thumb(m, h) {
    const { thumbs } = this.maps[m],
      [, R, C] = cellsOf(this.maps[m]);
    return this.once(`t${m}.${h}`, 0, async () => {
      if (thumbs) {
        const [rows, columns, ...place] = thumbs,
          all = await this.once(`t${m}`, 0, () => inflate(this.bytes(place)));
        return { rows, columns, data: all.subarray(h * rows * columns, (h + 1) * rows * columns) };
      }
      const w = await this.unpack(m, h),
        rows = min(R, 48),
        columns = min(C, 48),
        most = new Float32Array(rows * columns);
      for (let r = 0, i = 0; r < R; r++)
        for (let c = 0; c < C; c++, i++) {
          const k = floor((r * rows) / R) * columns + floor((c * columns) / C);
          if (abs(w[i]) > most[k]) most[k] = abs(w[i]);
        }
      const top = most.reduce((a, b) => max(a, b), 1e-9);
      return { rows, columns, data: Uint8Array.from(most, v => round((v / top) * 255)) };
    });
  }

  /**
   * One head's weights, or the mean of all: rows × columns.
   * @param {number} m
   * @param {number | "mean"} h
   * @returns {Promise<Float32Array>}
   */
  weights(m, h) {
    const [, R, C] = cellsOf(this.maps[m]),
      size = R * C;
    return this.once(`${m}.${h}`, size, () => (h === "mean" ? this.mean(m) : this.unpack(m, h)));
  }

  async mean(m) {
    const [heads, rows, columns] = cellsOf(this.maps[m]);
    if (heads === 1) return this.weights(m, 0);
    const sum = new Float32Array(rows * columns);
    for (const one of await Promise.all([...Array(heads).keys()].map(h => this.unpack(m, h))))
      for (let i = 0; i < sum.length; i++) sum[i] += one[i] / heads;
    return sum;
  }

  /** @returns {Promise<Float32Array>} */
  async unpack(m, h) {
    const map = this.maps[m],
      [, rows, columns] = cellsOf(map);
    const [raw, scales] = await Promise.all([inflate(this.bytes(map.blobs[h])), this.scale(m)]);
    const found = new Float32Array(rows * columns);
    if (map.code === "f16") {
      const bits = new Uint16Array(raw.buffer);
      for (let i = 0; i < found.length; i++) found[i] = half(bits[i]);
      return found;
    }
    if (map.code === "top") return this.scatter(raw, found, map, h, scales);
    if (map.code === "few") return this.few(raw, found, map, h, scales);
    const steps = map.code === "i8" ? new Int8Array(raw.buffer) : raw,
      levels = map.code === "i8" ? 100 : 200;
    for (let r = 0, i = 0; r < rows; r++) {
      const s = scales[h * rows + r] / levels;
      for (let c = 0; c < columns; c++, i++) found[i] = steps[i] * s;
    }
    return found;
  }

  scatter(raw, found, map, h, scales) {
    const [, rows, columns] = cellsOf(map),
      n = map.entries[h];
    const wide = columns <= 256 ? 1 : columns <= 65536 ? 2 : 3;
    const counts = new Uint32Array(raw.slice(0, 4 * rows).buffer),
      at = 4 * rows;
    for (let r = 0, i = 0; r < rows; r++) {
      const s = scales[h * rows + r] / 200;
      for (let k = 0, c = 0; k < counts[r]; k++, i++) {
        for (let p = 0; p < wide; p++) c += raw[at + p * n + i] << (8 * p);
        found[r * columns + c] = raw[at + wide * n + i] * s;
      }
    }
    return found;
  }

  // Which of 16 contexts a step is in follows from the rows above it (docs/seen.md).
  few(raw, found, map, h, scales) {
    const [, rows, columns] = cellsOf(map),
      n = map.steps,
      mean = new Float64Array(columns).fill(n / columns),
      at = [0],
      ends = [0, 0];
    new Uint32Array(raw.slice(0, 64).buffer).forEach((count, k) => (at[k + 1] = at[k] + count));
    for (let r = 0, i = 0, large = raw.length - map.entries[h]; r < rows; r++) {
      const s = scales[h * rows + r];
      for (let p = 0; p < 8; p++) ends[p >> 2] += raw[64 + rows + p * rows + r] << (8 * (p & 3));
      for (let c = 0; c < columns; c++, i++) {
        let k = 0;
        while (s && mean[c] / s >= EDGES[k]) k++;
        const place = at[k]++,
          half = (raw[64 + 9 * rows + (place >> 1)] >> (place & 1 ? 0 : 4)) & 15;
        mean[c] += (half * s - mean[c]) / 4;
        found[i] =
          s *
          (half > 14
            ? raw[large++] / map.fine[h]
            : half
              ? half / n
              : c >= ends[0] && c < ends[1]
                ? raw[64 + r] / (510 * n)
                : 0);
      }
    }
    return found;
  }
}
