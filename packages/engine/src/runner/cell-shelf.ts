import assert from 'node:assert/strict';

/** Memory whose cells are moved; `LlamaContext` implements it. */
export interface CellMemory {
  /** Makes `to` also hold positions [start, end) of `from`. */
  copySequence(from: number, to: number, end: number, start?: number): void;
  /** Removes positions [fromPosition, end), by default all from there on. */
  removeSequence(sequence: number, fromPosition: number, end?: number): void;
  saveSequence(sequence: number): Uint8Array;
  restoreSequence(sequence: number, state: Uint8Array): void;
}

export interface CellShelfOptions {
  /** An empty sequence of the memory reserved for moves. */
  readonly spareSequence: number;
  readonly shelfTokens: number;
  /** Rows after which unused cells are moved out. */
  readonly idleRows: number;
}

/**
 * Moves cells out of a memory in which every row scans every cell, and restores them to the bit when needed.
 *
 * A resident cell costs each row of llama.cpp a little; moving it out and back costs as much as some tens of
 * rows. It is moved when it has cost about that much, so the total is never much more than twice the optimum.
 *
 * A sequence is a list of pieces, position ranges held by the same sequences; a shared piece exists once. So
 * cells are counted as in the engine's ledger, and shelved cells always have room to return.
 */
export class CellShelf {
  readonly #memory: CellMemory;
  readonly #options: CellShelfOptions;
  /** Pieces by sequence, in order of positions. */
  readonly #sequences = new Map<number, Piece[]>();
  readonly #pieces = new Set<Piece>();
  #numRows = 0;
  #numCells = 0;
  #numShelved = 0;

  constructor(memory: CellMemory, options: CellShelfOptions) {
    this.#memory = memory;
    this.#options = options;
  }

  /** Cells that sequences hold, in memory or on the shelf. */
  get numCells(): number {
    return this.#numCells;
  }
  get numShelved(): number {
    return this.#numShelved;
  }
  /** Cells in memory, which every row scans. */
  get numResident(): number {
    return this.#numCells - this.#numShelved;
  }

  /**
   * Moves out cells that were idle for long, and restores those that the batch needs.
   *
   * @param sequences of the batch
   */
  prepare(sequences: ReadonlySet<number>): void {
    const { idleRows, shelfTokens } = this.#options;
    const used = new Set<Piece>();
    for (const sequence of sequences) for (const piece of this.#piecesOf(sequence)) used.add(piece);
    for (const piece of this.#pieces) {
      const isIdle = this.#numRows - piece.rowsAtUse >= idleRows && !used.has(piece) && piece.state === null;
      if (isIdle && this.#numShelved + lengthOf(piece) <= shelfTokens) this.#moveOut(piece);
    }
    for (const piece of used) this.#bringBack(piece);
  }

  /** Each row adds a cell to its sequence. @param sequences as in {@link prepare} */
  append(rows: Iterable<number>, sequences: ReadonlySet<number>): void {
    for (const sequence of rows) {
      const pieces = this.#piecesOf(sequence);
      const last = pieces.at(-1);
      if (last !== undefined && last.holders.size === 1) last.end++;
      else this.#add(sequence, { start: last?.end ?? 0, end: (last?.end ?? 0) + 1 });
      this.#numCells++;
      this.#numRows++;
    }
    for (const sequence of sequences) for (const piece of this.#piecesOf(sequence)) piece.rowsAtUse = this.#numRows;
  }

  /** Makes the empty sequence `to` share the first positions of `from`. */
  share(from: number, to: number, length: number): void {
    assert.equal(this.#piecesOf(to).length, 0, 'shared cells go to an empty sequence');
    if (length === 0 || from === to) return;
    this.#splitAt(from, length);
    for (const piece of this.#piecesOf(from)) {
      if (piece.end > length) break;
      this.#bringBack(piece);
      piece.rowsAtUse = this.#numRows;
      piece.holders.add(to);
      this.#piecesOf(to).push(piece);
    }
    assert.equal(this.#piecesOf(to).at(-1)?.end, length, `positions that sequence ${from} holds`);
    this.#memory.copySequence(from, to, length);
  }

  /** Removes the positions from `fromPosition` on from a sequence. */
  forget(sequence: number, fromPosition: number): void {
    const pieces = this.#piecesOf(sequence);
    if (fromPosition > 0) this.#splitAt(sequence, fromPosition);
    const kept = pieces.findIndex(({ start }) => start >= fromPosition);
    for (const piece of kept < 0 ? [] : pieces.splice(kept)) {
      piece.holders.delete(sequence);
      if (piece.holders.size === 0) this.#drop(piece);
    }
    if (pieces.length === 0) this.#sequences.delete(sequence);
    // Also removes cells of a failed batch, which were never recorded here.
    this.#memory.removeSequence(sequence, fromPosition);
  }

  /** Recounts. @throws AssertionError on the first disagreement */
  checkIntegrity(): void {
    let [cells, shelved] = [0, 0];
    for (const piece of this.#pieces) {
      cells += lengthOf(piece);
      if (piece.state !== null) shelved += lengthOf(piece);
      for (const holder of piece.holders) assert(this.#piecesOf(holder).includes(piece), 'holders know their pieces');
    }
    for (const [sequence, pieces] of this.#sequences) {
      let end = 0;
      for (const piece of pieces) {
        assert(this.#pieces.has(piece) && piece.holders.has(sequence), 'pieces know their holders');
        assert(piece.start === end && piece.end > piece.start, 'positions without a gap');
        end = piece.end;
      }
    }
    assert.deepEqual([this.#numCells, this.#numShelved], [cells, shelved], 'cells, and those on the shelf');
  }

  #moveOut(piece: Piece): void {
    const { start, end, holders } = piece;
    const { spareSequence } = this.#options;
    const [holder] = holders;
    this.#memory.copySequence(holder!, spareSequence, end, start);
    piece.state = this.#memory.saveSequence(spareSequence);
    for (const sequence of [spareSequence, ...holders]) this.#memory.removeSequence(sequence, start, end);
    this.#numShelved += lengthOf(piece);
  }

  #bringBack(piece: Piece): void {
    if (piece.state === null) return;
    const { start, end, holders } = piece;
    const { spareSequence } = this.#options;
    this.#memory.restoreSequence(spareSequence, piece.state);
    for (const holder of holders) this.#memory.copySequence(spareSequence, holder, end, start);
    this.#memory.removeSequence(spareSequence, 0);
    this.#dropState(piece);
  }

  /** Splits the piece of a sequence that crosses a position. */
  #splitAt(sequence: number, position: number): void {
    const piece = this.#piecesOf(sequence).find(({ start, end }) => start < position && position < end);
    if (piece === undefined) return;
    this.#bringBack(piece); // a saved state cannot be split
    const tail: Piece = { ...piece, start: position, holders: new Set(piece.holders) };
    piece.end = position;
    this.#pieces.add(tail);
    for (const holder of tail.holders) {
      const pieces = this.#piecesOf(holder);
      pieces.splice(pieces.indexOf(piece) + 1, 0, tail);
    }
  }

  #add(sequence: number, range: { start: number; end: number }): void {
    const piece: Piece = { ...range, holders: new Set([sequence]), state: null, rowsAtUse: this.#numRows };
    this.#pieces.add(piece);
    this.#piecesOf(sequence).push(piece);
  }

  #drop(piece: Piece): void {
    if (piece.state !== null) this.#dropState(piece);
    this.#numCells -= lengthOf(piece);
    this.#pieces.delete(piece);
  }

  #dropState(piece: Piece): void {
    (piece.state!.buffer as ArrayBuffer).transfer(0);
    piece.state = null;
    this.#numShelved -= lengthOf(piece);
  }

  #piecesOf(sequence: number): Piece[] {
    let pieces = this.#sequences.get(sequence);
    if (pieces === undefined) this.#sequences.set(sequence, (pieces = []));
    return pieces;
  }
}

/** Positions [start, end) of every holder: in memory, or saved. */
interface Piece {
  start: number;
  end: number;
  readonly holders: Set<number>;
  /** null while in memory. */
  state: Uint8Array | null;
  /** Rows computed up to and including its last use. */
  rowsAtUse: number;
}

function lengthOf({ start, end }: Piece): number {
  return end - start;
}
