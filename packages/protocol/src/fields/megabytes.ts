/**
 * Formats a size in megabytes of a million bytes: `40.8 MB`.
 *
 * @param digits after the point; default 1
 */
export function formatMegabytes(bytes: number, digits = 1): string {
  return `${(bytes / 1e6).toFixed(digits)} MB`;
}
