/** Where a server is: an origin, and a path where a router has it below one. */
export interface ServerAddress {
  /** Without an end in `/` or `/v1`. */
  readonly base: string;
  /** For messages: without a path, and without what a URL may have of a key. */
  readonly name: string;
}

/** @returns null for what is no `http` or `https` URL, or has a user, a query or a fragment */
export function readServerAddress(url: string): ServerAddress | null {
  if (!URL.canParse(url)) return null;
  const { protocol, host, pathname, username, password, search, hash } = new URL(url);
  if (protocol !== 'http:' && protocol !== 'https:') return null;
  if (username !== '' || password !== '' || search !== '' || hash !== '') return null;
  const path = pathname.replace(/\/+$/, '').replace(/\/v1$/, '');
  return { base: `${protocol}//${host}${path}`, name: `${protocol}//${host}` };
}
