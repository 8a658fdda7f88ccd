/** Size of the decoded data. Larger data belong into an upload, which is not held in memory as a whole. */
const MAX_DATA_URL_BYTES = 4_000_000;

const BASE64 = /^[A-Za-z0-9+/]*={0,2}$/;

/**
 * Bytes of a `data:` URL (RFC 2397); its media type is ignored.
 * @returns the fault, as a sentence, if it cannot be read
 */
export function readDataUrl(url: string): Buffer | string {
  const comma = url.indexOf(',');
  if (comma < 0) return 'A data URL should have a comma before its data';
  // Percent-encoding turns a byte into three characters at most.
  const encoded = url.slice(comma + 1);
  if (encoded.length > 3 * MAX_DATA_URL_BYTES) return tooLong();
  let text: string;
  try {
    text = decodeURIComponent(encoded);
  } catch {
    return 'A data URL should have valid percent-encoded UTF-8';
  }
  const isBase64 = /;\s*base64$/i.test(url.slice(0, comma));
  const compact = isBase64 ? text.replaceAll(/\s+/g, '') : '';
  if (isBase64 && (!BASE64.test(compact) || compact.length % 4 === 1)) return 'A data URL should have valid base64';
  const bytes = isBase64 ? Buffer.from(compact, 'base64') : Buffer.from(text, 'utf8');
  return bytes.length > MAX_DATA_URL_BYTES ? tooLong() : bytes;
}

function tooLong(): string {
  return `A data URL should have at most ${MAX_DATA_URL_BYTES} bytes; upload larger files as an artifact`;
}
