// Figures as people read them.
const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];

export function bytes(count) {
  if (count === null || count === undefined || count < 0) return '–';
  let size = count, unit = 0;
  while (size >= 1024 && unit < UNITS.length - 1) { size /= 1024; unit += 1; }
  return `${unit === 0 ? size : size.toFixed(1)} ${UNITS[unit]}`;
}

export const count = (value) => Math.round(value).toLocaleString('en-US');

export function duration(ms) {
  if (ms === null || ms === undefined || ms < 0) return '–';
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

export function time(ms) {
  if (ms === null || ms === undefined || ms < 0) return '–';
  const text = new Date(ms).toLocaleString('sv-SE');
  return `${text}.${String(ms % 1000).padStart(3, '0')}`;
}
