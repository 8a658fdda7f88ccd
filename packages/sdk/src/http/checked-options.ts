/** @throws {TypeError} for what is no number of milliseconds; infinity is one */
export function checkedTimeoutMs(timeoutMs: number): number {
  if (typeof timeoutMs === 'number' && timeoutMs >= 0) return timeoutMs;
  throw new TypeError(`\`timeoutMs\` must be a number of at least 0, got ${String(timeoutMs)}`);
}

/** @throws {TypeError} for what no header can hold, which is not repeated */
export function checkedApiKey(apiKey: string): string {
  if (/^[\x21-\x7e]+$/.test(apiKey)) return apiKey;
  throw new TypeError('`apiKey` must be printable ASCII without spaces');
}

/**
 * @param hasOwnFetch it may know what a URL without a host belongs to; the global one knows that in a page
 * @throws {TypeError} for what is no URL that can be fetched
 */
export function checkedBaseUrl(baseUrl: string, hasOwnFetch: boolean): string {
  if (isHttpUrl(baseUrl)) return baseUrl;
  const isInPage = 'location' in globalThis;
  if (baseUrl.startsWith('/') && (isInPage || hasOwnFetch)) return baseUrl;
  throw new TypeError(
    `\`baseUrl\` must be an http or https URL such as http://127.0.0.1:8420/v1, got ${JSON.stringify(withoutPassword(baseUrl))}`,
  );
}

/** A query would take in the paths behind it, and nobody sends a name and a password. */
function isHttpUrl(text: string): boolean {
  try {
    const { protocol, username, password } = new URL(text);
    return /^https?:$/.test(protocol) && username === '' && password === '' && !/[?#]/.test(text);
  } catch {
    return false; // no URL at all
  }
}

/**
 * A path whose parts are what they were given as: an empty id would name the list that it belongs to, and one of dots what is above that.
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

/** A password in a URL is in no message. */
function withoutPassword(url: string): string {
  return url.replace(/:[^/:@]*@/, ':…@');
}
