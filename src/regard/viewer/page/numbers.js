// How numbers are written: the twin of `views/numbers.py`, tested against it.

function decimal(v, digits = 2) {
  if (v !== v) return "NaN";
  const text = abs(v) < 1 / 0 ? abs(v).toFixed(digits) : "∞";
  return v < 0 && +text !== 0 ? "−" + text : text;
}

// In a small cell: no zero before the point; nothing below 0.005.
const inCell = v => (abs(v) < 0.005 ? "" : decimal(v).replace(/\b0\./, "."));

const percent = v => decimal(v * 100, +(v && abs(v) < 0.1)) + " %";
