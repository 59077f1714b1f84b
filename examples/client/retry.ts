// Send requests with fetch, and wait when the server says so.

const attempts = 5;
const base = 250; // ms of the first pause; each later one is twice as long
const most = 20_000; // ms of any pause that the server did not ask for
const patience = 60_000; // the longest Retry-After that is worth waiting for, ms

// Ten requests pay for one retry: a server in trouble needs less load, not more.
let spent = 0; // tenths of retries

function budget(tenths: number): boolean {
  if (spent + tenths > 100) return false;
  spent = Math.max(0, spent + tenths);
  return true;
}

/** Like fetch, for a body that can be sent again: a string or bytes, not a stream. */
export async function send(url: string | URL, init: RequestInit = {}): Promise<Response> {
  budget(-1);
  for (let attempt = 0; ; attempt++) {
    let response: Response | undefined;
    let failure: unknown;
    try {
      response = await fetch(url, init);
    } catch (error) {
      if (init.signal?.aborted) throw error;
      failure = error;
    }
    const told = response && retryAfter(response.headers);
    if (attempt === attempts - 1 || !again(init, response?.status, told)) {
      if (response) return response;
      throw failure;
    }
    await response?.body?.cancel();
    // Never earlier than told; and then by chance, so that clients who were
    // refused together do not come back together.
    await pause((told ?? 0) + Math.random() * Math.min(most, base * 2 ** attempt), init.signal);
  }
}

/** Whether to send the request once more, after a status, or undefined for no answer. */
function again(init: RequestInit, status: number | undefined, told: number | undefined): boolean {
  if (told !== undefined && told > patience) return false;
  if (status === 429) return told !== undefined; // without a Retry-After waiting does not help
  if (status === undefined || status === 502 || status === 503 || status === 504) {
    return repeatable(init) && budget(10);
  }
  return false;
}

/** Whether it does no harm if the server sees the request twice. */
function repeatable(init: RequestInit): boolean {
  const method = (init.method ?? "GET").toUpperCase();
  return (
    ["GET", "HEAD", "OPTIONS", "PUT", "DELETE"].includes(method) ||
    new Headers(init.headers).has("Idempotency-Key")
  );
}

/** What the server asked for, seconds or a date, in ms; undefined for nothing. */
function retryAfter(headers: Headers): number | undefined {
  const field = headers.get("Retry-After") ?? "";
  if (/^\d+$/.test(field)) return Number(field) * 1000;
  const at = Date.parse(field);
  return Number.isNaN(at) ? undefined : Math.max(0, at - Date.now());
}

function pause(ms: number, signal?: AbortSignal | null): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, ms);
    signal?.addEventListener("abort", stop, { once: true });
    if (signal?.aborted) stop();
  });
}
