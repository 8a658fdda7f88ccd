const FORM = /^([1-9]\d{0,5})([mhd])$/;
const UNIT_MS: Readonly<Record<string, number>> = { m: 60_000, h: 3_600_000, d: 86_400_000 };
const LONGEST_MS = 3650 * 86_400_000;

/** Parses a retention time: `1d`, `12h`, `30m`. @returns ms; null for `off`; undefined for anything else */
export function readLifetime(text: string): number | null | undefined {
  if (text === 'off') return null;
  const [, count, unit] = FORM.exec(text) ?? [];
  if (count === undefined || unit === undefined) return undefined;
  const lifetimeMs = Number(count) * (UNIT_MS[unit] ?? 0);
  return lifetimeMs <= LONGEST_MS ? lifetimeMs : undefined;
}
