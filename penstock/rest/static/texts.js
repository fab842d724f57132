// Figures and texts as people read them.
const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
const NONE = '–';
const isMissing = (value) => value === null || value === undefined || value < 0;

export function bytes(count) {
  if (isMissing(count)) return NONE;
  let size = count, unit = 0;
  while (size >= 1024 && unit < UNITS.length - 1) { size /= 1024; unit += 1; }
  return `${unit === 0 ? size : size.toFixed(size < 10 ? 1 : 0)} ${UNITS[unit]}`;
}

export const count = (value) => (isMissing(value) ? NONE : Math.round(value).toLocaleString('en-US'));

export function short(value) {
  // A large count in at most five characters.
  if (isMissing(value)) return NONE;
  for (const [size, letter] of [[1e9, 'B'], [1e6, 'M'], [1e3, 'k']]) {
    if (value >= size) return `${(value / size).toFixed(value / size < 10 ? 1 : 0)}${letter}`;
  }
  return String(value < 10 && value % 1 ? value.toFixed(1) : Math.round(value));
}

export const percent = (share) => (isMissing(share) ? NONE : share > 0 && share < 0.005 ? '< 1 %' : `${Math.round(100 * share)} %`);

export function duration(ms) {
  if (isMissing(ms)) return NONE;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  return span(ms);
}

export function span(ms) {
  // A duration in whole seconds, for what is counted up on the page.
  if (isMissing(ms)) return NONE;
  const seconds = Math.floor(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${seconds % 60} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

export function compact(ms) {
  // The same with one letter for each unit, where there is little room.
  return span(ms).replace(/ (min|s|h|d)/g, (_, unit) => unit[0]);
}

export function time(ms) {
  if (isMissing(ms)) return NONE;
  return `${new Date(ms).toLocaleString('sv-SE')}.${String(ms % 1000).padStart(3, '0')}`;
}

export function when(ms) {
  // A time without the date, if that is today's.
  const text = time(ms);
  return text.startsWith(new Date().toLocaleDateString('sv-SE')) ? text.slice(11) : text;
}

// A text from any source, with control characters and changes of the text direction escaped, as on the terminal.
export const visible = (text) => text.replace(/[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, (found) => {
  const code = found.charCodeAt(0).toString(16);
  return code.length > 2 ? `\\u${code.padStart(4, '0')}` : `\\x${code.padStart(2, '0')}`;
});

export const clock = (ms) => new Date(ms).toLocaleTimeString('sv-SE');

export const chain = (name) => name.replaceAll(' -> ', ' → ');

export const plural = (number, word) => `${count(number)} ${word}${number === 1 ? '' : 's'}`;

export const acknowledged = (part, whole) => (whole ? `${part}/${whole} (${Math.floor((100 * part) / whole)}%)` : NONE);
