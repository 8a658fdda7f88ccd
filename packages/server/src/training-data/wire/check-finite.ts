import { INFINITE, placeOfInfinity } from '../../seams/json/infinite-numbers.ts';
import { isDeeperThan, MAX_JSON_DEPTH, TOO_DEEP } from '../../seams/json/json-depth.ts';
import { type Place, TrajectoryFormatError } from './trajectory-format-error.ts';

/**
 * Refuses values that would be lost: templates render tools and calls, and metadata are stored as text, so
 * infinite numbers would become null.
 * @throws {TrajectoryFormatError} for a value nested too deep, or an infinite number
 */
export function checkFinite(value: unknown, place: Place): void {
  if (isDeeperThan(value, MAX_JSON_DEPTH))
    throw new TrajectoryFormatError({ loc: [...place], msg: TOO_DEEP, type: 'recursion_limit' });
  const infinite = placeOfInfinity(value);
  if (infinite !== null)
    throw new TrajectoryFormatError({ loc: [...place, ...infinite], msg: INFINITE, type: 'finite_number' });
}
