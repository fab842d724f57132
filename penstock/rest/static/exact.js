// JSON with every number as it was written: JavaScript rounds whole numbers of more than 53 bits.
const TOKEN = /"((?:[^"\\]|\\.)*)"|-?\d[\d.eE+-]*/g;

export function parse(json) {
  // The value, in which numbers are texts that begin with n, and texts and names begin with s.
  return JSON.parse(json.replace(TOKEN, (token, text) => (text === undefined ? `"n${token}"` : `"s${text}"`)));
}

export function show(value, indent = '') {
  // What `parse` has returned, as indented JSON.
  if (typeof value === 'string') return value[0] === 'n' ? value.slice(1) : JSON.stringify(value.slice(1));
  if (value === null || typeof value !== 'object') return String(value);
  const isList = Array.isArray(value), deeper = `${indent}  `, [first, last] = isList ? '[]' : '{}';
  const items = isList ? value.map((item) => show(item, deeper)) : Object.entries(value).map(([name, item]) => `${JSON.stringify(name.slice(1))}: ${show(item, deeper)}`);
  return items.length ? `${first}\n${deeper}${items.join(`,\n${deeper}`)}\n${indent}${last}` : first + last;
}

export function keyJson(text, types) {
  // What was typed as a key, as JSON: a text as it is, anything else as JSON if it is.
  if (types?.length === 1 && types[0] === 'STRING') return JSON.stringify(text);
  try {
    JSON.parse(text);
    return text;
  } catch {
    return JSON.stringify(text);
  }
}

// A namespace as in a URL, such as [0, 5000], as in a body.
export const namespaceJson = (text) => (text.trim().startsWith('[') ? `{"$tuple":${text}}` : keyJson(text));
