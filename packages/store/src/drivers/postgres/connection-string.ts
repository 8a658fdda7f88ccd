/** Modes that the driver treats as the strictest, with a warning of six lines that this will change. */
const AS_VERIFY_FULL: ReadonlySet<string | null> = new Set(['prefer', 'require', 'verify-ca']);

/**
 * Converts a database address for the driver. A request for TLS gives all of it: the certificate is verified
 * and must match the host; `sslmode=no-verify` skips both.
 */
export function connectionString(url: string): string {
  if (!URL.canParse(url)) return url;
  const address = new URL(url);
  const { searchParams } = address;
  if (searchParams.has('uselibpqcompat') || !AS_VERIFY_FULL.has(searchParams.get('sslmode'))) return url;
  searchParams.set('sslmode', 'verify-full');
  return address.href;
}
