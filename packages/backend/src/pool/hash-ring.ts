import { createHash } from 'node:crypto';

/** More even out what each member gets of the circle: with 64 the largest share is about a fifth above the mean. */
const POINTS_A_MEMBER = 64;
/** A member may have so many times the mean load; then the next one on the circle is asked. */
const LOAD_FACTOR = 1.25;

export interface RingMember {
  /** Its places on the circle follow from it: the same ones whoever else is there. */
  readonly name: string;
  /** Choices in flight. */
  readonly numChoices: number;
}

/**
 * Consistent hashing with bounded loads: equal keys meet the same member, members that come and go move the keys of their own part alone, and none gets more than a
 * little above the mean (Mirrokni, Thorup and Zadimoghaddam, 2018).
 */
export class HashRing<Member extends RingMember> {
  /** In order. */
  readonly #points: readonly { readonly at: number; readonly member: Member }[];

  constructor(members: readonly Member[]) {
    this.#points = members
      .flatMap((member) =>
        Array.from({ length: POINTS_A_MEMBER }, (_, index) => ({ at: hashOf(`${member.name} ${index}`), member })),
      )
      .toSorted((a, b) => a.at - b.at);
  }

  /**
   * The member for a key.
   * @param isOpen takes requests now
   * @param numMore choices that come
   * @returns null when none is open
   */
  pick(key: string, isOpen: (member: Member) => boolean, numMore: number): Member | null {
    const inOrder = this.#from(hashOf(key)).filter(isOpen);
    const [first] = inOrder;
    if (first === undefined) return null;
    const total = inOrder.reduce((sum, { numChoices }) => sum + numChoices, 0) + numMore;
    const limit = Math.ceil((LOAD_FACTOR * total) / inOrder.length);
    const hasRoom = inOrder.find(({ numChoices }) => numChoices + numMore <= limit);
    // A request with many choices is above the mean wherever it goes: then where least is.
    return hasRoom ?? inOrder.reduce((least, member) => (member.numChoices < least.numChoices ? member : least), first);
  }

  /** Each member once, by its first place at or behind a hash. */
  #from(hash: number): Member[] {
    const start = this.#points.findIndex(({ at }) => at >= hash);
    const points = start <= 0 ? this.#points : [...this.#points.slice(start), ...this.#points.slice(0, start)];
    return [...new Set(points.map(({ member }) => member))];
  }
}

function hashOf(text: string): number {
  return createHash('sha256').update(text).digest().readUInt32BE(0);
}
