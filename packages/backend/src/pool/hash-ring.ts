import { createHash } from 'node:crypto';

/** Points per member. More make the shares more even: with 64 the largest is about a fifth above the mean. */
const POINTS_PER_MEMBER = 64;
/** Maximum load of a member relative to the mean; above it the next member on the ring is used. */
const LOAD_FACTOR = 1.25;

export interface RingMember {
  /** Determines its points on the ring, independent of other members. */
  readonly name: string;
  /** Choices in flight. */
  readonly numChoices: number;
}

/**
 * Consistent hashing with bounded loads: equal keys go to the same member, a member that is added or removed
 * moves only the keys of its own part, and none gets more than slightly above the mean (Mirrokni, Thorup and
 * Zadimoghaddam, 2018).
 */
export class HashRing<Member extends RingMember> {
  /** Points in order. */
  readonly #points: readonly { readonly at: number; readonly member: Member }[];

  constructor(members: readonly Member[]) {
    this.#points = members
      .flatMap((member) =>
        Array.from({ length: POINTS_PER_MEMBER }, (_, index) => ({ at: hashOf(`${member.name} ${index}`), member })),
      )
      .toSorted((a, b) => a.at - b.at);
  }

  /**
   * Picks the member for a key.
   * @param isOpen true if the member accepts requests now
   * @param numMore choices to add
   * @returns null if none is open
   */
  pick(key: string, isOpen: (member: Member) => boolean, numMore: number): Member | null {
    const inOrder = this.#from(hashOf(key)).filter(isOpen);
    const [first] = inOrder;
    if (first === undefined) return null;
    const total = inOrder.reduce((sum, { numChoices }) => sum + numChoices, 0) + numMore;
    const limit = Math.ceil((LOAD_FACTOR * total) / inOrder.length);
    const free = inOrder.find(({ numChoices }) => numChoices + numMore <= limit);
    // A request with many choices exceeds the mean on any member, so it goes to the least loaded.
    return free ?? inOrder.reduce((least, member) => (member.numChoices < least.numChoices ? member : least), first);
  }

  /** Each member once, by its first point at or after a hash. */
  #from(hash: number): Member[] {
    const start = this.#points.findIndex(({ at }) => at >= hash);
    const points = start <= 0 ? this.#points : [...this.#points.slice(start), ...this.#points.slice(0, start)];
    return [...new Set(points.map(({ member }) => member))];
  }
}

function hashOf(text: string): number {
  return createHash('sha256').update(text).digest().readUInt32BE(0);
}
