/** Marks that nobody sees and that turn the direction of what stands around them: embeddings, overrides, isolates and single marks (UAX 9). */
const TURNING = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/**
 * A name as a page shows it. Marks that turn text around are written as their numbers: with them a name can look like another one, and rearrange the words of
 * the page beside it. Whatever a name is sent as stays what it is.
 */
export function shownName(name: string): string {
  return name.replaceAll(TURNING, (mark) => `\\u${mark.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

/** The same where it is a text; any other piece of a page shows its own names. */
export function shownIfText<Piece>(piece: Piece): Piece | string {
  return typeof piece === 'string' ? shownName(piece) : piece;
}
