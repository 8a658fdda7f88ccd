/** Address of a server: an origin, and a path if a router serves it under one. */
export interface ServerAddress {
  /** Without a trailing `/` or `/v1`. */
  readonly base: string;
  /** Name for messages: without a path and without any key in the URL. */
  readonly name: string;
}

/** @returns null if it is no `http` or `https` URL, or has a user, a query or a fragment */
export function readServerAddress(url: string): ServerAddress | null {
  if (!URL.canParse(url)) return null;
  const { protocol, host, pathname, username, password, search, hash } = new URL(url);
  if (protocol !== 'http:' && protocol !== 'https:') return null;
  if (username !== '' || password !== '' || search !== '' || hash !== '') return null;
  const path = pathname.replace(/\/+$/, '').replace(/\/v1$/, '');
  return { base: `${protocol}//${host}${path}`, name: `${protocol}//${host}` };
}
