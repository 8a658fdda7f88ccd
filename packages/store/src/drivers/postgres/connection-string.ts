/** The driver takes these as the strictest, and warns in six lines that it will not for ever. */
const AS_VERIFY_FULL: ReadonlySet<string | null> = new Set(['prefer', 'require', 'verify-ca']);

/**
 * The address of a database as the driver is given it. Whoever asks for TLS gets all of it: a certificate that is checked, and is that of the host; with
 * `sslmode=no-verify` one that is not looked at.
 */
export function connectionString(url: string): string {
  if (!URL.canParse(url)) return url;
  const address = new URL(url);
  const { searchParams } = address;
  if (searchParams.has('uselibpqcompat') || !AS_VERIFY_FULL.has(searchParams.get('sslmode'))) return url;
  searchParams.set('sslmode', 'verify-full');
  return address.href;
}
