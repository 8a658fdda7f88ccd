/** @throws {TypeError} if it is no number of milliseconds; infinity is allowed */
export function checkedTimeoutMs(timeoutMs: number): number {
  if (typeof timeoutMs === 'number' && timeoutMs >= 0) return timeoutMs;
  throw new TypeError(`\`timeoutMs\` must be a number of at least 0, got ${String(timeoutMs)}`);
}

/** @throws {TypeError} for a key that no header can hold, without repeating it */
export function checkedApiKey(apiKey: string): string {
  if (/^[\x21-\x7e]+$/.test(apiKey)) return apiKey;
  throw new TypeError('`apiKey` must be printable ASCII without spaces');
}

/**
 * @param hasOwnFetch a custom fetch may resolve a URL without a host; the global one does so in a page
 * @throws {TypeError} for a URL that cannot be fetched
 */
export function checkedBaseUrl(baseUrl: string, hasOwnFetch: boolean): string {
  if (isHttpUrl(baseUrl)) return baseUrl;
  const isInPage = 'location' in globalThis;
  if (baseUrl.startsWith('/') && (isInPage || hasOwnFetch)) return baseUrl;
  throw new TypeError(
    `\`baseUrl\` must be an http or https URL such as http://127.0.0.1:8420/v1, got ${JSON.stringify(withoutPassword(baseUrl))}`,
  );
}

/** Refuses a query, which would include the paths appended to it, and credentials, which are not sent. */
function isHttpUrl(text: string): boolean {
  try {
    const { protocol, username, password } = new URL(text);
    return /^https?:$/.test(protocol) && username === '' && password === '' && !/[?#]/.test(text);
  } catch {
    return false; // not a URL
  }
}

/**
 * Checks the parts of a path: an empty id would name the list that contains it, and dots its parent.
 *
 * @throws {TypeError} for such an id
 */
export function checkedPath(path: string): string {
  if (path === '/') return path;
  const parts = path.slice(1).split('/');
  const bad = parts.findIndex((part) => part === '' || part === '.' || part === '..');
  if (bad === -1) return path;
  const before = parts.slice(0, bad).join('/');
  throw new TypeError(`an id must not be empty, "." or "..", got ${JSON.stringify(parts[bad])} after /${before}`);
}

/** Removes the password of a URL for messages. */
function withoutPassword(url: string): string {
  return url.replace(/:[^/:@]*@/, ':…@');
}
