import type { ValidationItem } from '@trainyard/protocol';

export type Place = readonly (string | number)[];

/** A trajectory that cannot be trained as sent; `item` names the group, the trajectory and the entry. */
export class TrajectoryFormatError extends Error {
  override readonly name = 'TrajectoryFormatError';
  readonly code = 'trajectory.invalid';
  readonly item: ValidationItem;
  constructor(item: ValidationItem) {
    super(`${item.loc.join('.')}: ${item.msg}`);
    this.item = item;
  }
}
