// Requests to the job's own server. The browser sends the session's cookie by itself.
export class Refused extends Error {
  constructor(status, message) { super(message); this.status = status; }
}

async function request(path, options, read = JSON.parse) {
  // `read` makes the answer of its text.
  const response = await fetch(path, { credentials: 'same-origin', cache: 'no-store', ...options });
  const text = await response.text();
  if (!response.ok) throw new Refused(response.status, JSON.parse(text).errors?.[0] ?? `status ${response.status}`);
  return read(text);
}

export const get = (path, read) => request(path, {}, read);

export const getOrNull = (path) => get(path).catch((error) => {
  if (error instanceof Refused && error.status === 404) return null;
  throw error;
});

export const send = (method, path, body, read) => request(path, {
  method, headers: { 'content-type': 'application/json' }, body: typeof body === 'string' ? body : JSON.stringify(body ?? {}),
}, read);

export async function finished(path, show = () => {}) {
  // The result of an operation, asked for until there is one.
  for (;;) {
    const found = await get(path);
    if (found.status.id === 'COMPLETED') {
      const failure = found.operation['failure-cause'] ?? found.operation.failureCause;
      if (failure) throw new Refused(0, failure['stack-trace']);
      return found.operation;
    }
    show(found.progress ?? 0);
    await new Promise((resolve) => setTimeout(resolve, 300));
  }
}
