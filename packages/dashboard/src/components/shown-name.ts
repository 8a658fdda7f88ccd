/**
 * Invisible marks that change the text direction around them: embeddings, overrides, isolates and single marks
 * (UAX 9).
 */
const TURNING = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/**
 * A name as a page shows it. Direction marks are written as their code points: they could make a name look
 * like another one or rearrange the words around it. Requests still send the original name.
 */
export function shownName(name: string): string {
  return name.replaceAll(TURNING, (mark) => `\\u${mark.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

/** Applies `shownName` to texts; other elements handle their own names. */
export function shownIfText<Piece>(piece: Piece): Piece | string {
  return typeof piece === 'string' ? shownName(piece) : piece;
}
