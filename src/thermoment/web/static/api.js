// Questions to the server: one of each kind under way, the last one asked is the one that is answered.

const underWay = new Map();

/** The answer to a question; null where a later question of the same kind has taken its place. */
export async function ask(kind, body) {
  underWay.get(kind)?.abort();
  const mine = new AbortController();
  underWay.set(kind, mine);
  try {
    const response = await fetch(`/api/${kind}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
      signal: mine.signal,
    });
    const found = await response.json();
    if (response.status === 503) {
      await new Promise((wake) => setTimeout(wake, 1000));
      return mine.signal.aborted ? null : ask(kind, body);
    }
    if (!response.ok) throw new Error(found.error);
    return found;
  } catch (error) {
    if (error.name === "AbortError") return null;
    throw error instanceof TypeError ? new Error("The server does not answer. Is thermoment still running?") : error;
  } finally {
    if (underWay.get(kind) === mine) underWay.delete(kind);
  }
}

/** What a path gives. */
export async function get(kind) {
  const response = await fetch(`/api/${kind}`);
  const found = await response.json();
  if (!response.ok) throw new Error(found.error);
  return found;
}
