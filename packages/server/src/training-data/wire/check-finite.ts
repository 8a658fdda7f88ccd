import { INFINITE, placeOfInfinity } from '../../seams/json/infinite-numbers.ts';
import { isDeeperThan, MAX_JSON_DEPTH, TOO_DEEP } from '../../seams/json/json-depth.ts';
import { type Place, TrajectoryFormatError } from './trajectory-format-error.ts';

/**
 * Templates write tools and calls, and metadata are kept as text: what is infinite here would be null there.
 *
 * @throws {TrajectoryFormatError} where it nests too deep, or has a number that is infinite
 */
export function checkFinite(value: unknown, place: Place): void {
  if (isDeeperThan(value, MAX_JSON_DEPTH))
    throw new TrajectoryFormatError({ loc: [...place], msg: TOO_DEEP, type: 'recursion_limit' });
  const infinite = placeOfInfinity(value);
  if (infinite !== null)
    throw new TrajectoryFormatError({ loc: [...place, ...infinite], msg: INFINITE, type: 'finite_number' });
}
