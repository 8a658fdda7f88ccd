import type { GgufValue } from '@trainyard/native';

/**
 * Number of a setting of a model file, which some files repeat for each layer.
 *
 * @returns null for no value, other ones, and layers with different numbers
 */
export function numberSetting(stated: GgufValue | undefined): number | null {
  const value = Array.isArray(stated) && new Set(stated).size === 1 ? stated[0] : stated;
  return typeof value === 'number' || typeof value === 'bigint' ? Number(value) : null;
}
