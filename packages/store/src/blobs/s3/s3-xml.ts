/**
 * Reads the few elements needed from S3 responses. The server writes them without attributes or nested equal
 * names, so cutting them out by name is enough.
 */

export function childrenOf(xml: string, name: string): string[] {
  return Array.from(xml.matchAll(new RegExp(`<${name}>([\\s\\S]*?)</${name}>`, 'g')), ([, content]) => content!);
}

/** Text of the first element of that name, or null. */
export function textOf(xml: string, name: string): string | null {
  const [content] = childrenOf(xml, name);
  return content === undefined ? null : unescape(content);
}

const NAMED: Readonly<Record<string, string>> = { lt: '<', gt: '>', amp: '&', quot: '"', apos: "'" };

function unescape(text: string): string {
  return text.replaceAll(
    /&(?:#x([0-9a-f]+)|#(\d+)|(\w+));/gi,
    (whole, hex?: string, decimal?: string, name?: string) => {
      if (name !== undefined) return NAMED[name] ?? whole;
      return String.fromCodePoint(hex === undefined ? Number(decimal) : Number.parseInt(hex, 16));
    },
  );
}
