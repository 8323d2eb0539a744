// How numbers are written: the twin of `views/numbers.py`, tested against it.

function decimal(v, digits = 2) {
  if (Number.isNaN(v)) return "NaN";
  const text = Number.isFinite(v) ? Math.abs(v).toFixed(digits) : "∞";
  return v < 0 && /[^0.]/.test(text) ? `−${text}` : text;
}

// In a small cell: no zero before the point; nothing below 0.005.
const inCell = (v) => (Math.abs(v) < 0.005 ? "" : decimal(v).replace(/^(−?)0\./, "$1."));

const percent = (v) => `${decimal(v * 100, Math.abs(v) >= 0.1 || v === 0 ? 0 : 1)} %`;
