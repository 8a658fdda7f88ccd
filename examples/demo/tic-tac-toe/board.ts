type Player = 'X' | 'O';
/** End of a game for X, the model. */
export type Outcome = 'won' | 'drawn' | 'lost';

const LINES = [
  [1, 2, 3],
  [4, 5, 6],
  [7, 8, 9],
  [1, 4, 7],
  [2, 5, 8],
  [3, 6, 9],
  [1, 5, 9],
  [3, 5, 7],
];

/** Nine squares, numbered 1 to 9 from the top left. */
export class Board {
  readonly #squares: (Player | null)[] = Array.from({ length: 9 }, () => null);

  isFree(square: number): boolean {
    return this.#squares[square - 1] === null;
  }

  /** In ascending order. */
  freeSquares(): number[] {
    return this.#squares.flatMap((player, index) => (player === null ? [index + 1] : []));
  }

  /** @throws {RangeError} if the square is taken or does not exist */
  place(player: Player, square: number): void {
    if (!this.isFree(square)) throw new RangeError(`square ${square} is not free`);
    this.#squares[square - 1] = player;
  }

  /** Null during the game. */
  outcome(): Outcome | null {
    for (const player of ['X', 'O'] as const) {
      const isLine = LINES.some((line) => line.every((square) => this.#squares[square - 1] === player));
      if (isLine) return player === 'X' ? 'won' : 'lost';
    }
    return this.freeSquares().length === 0 ? 'drawn' : null;
  }

  /** Three lines; a free square shows its number. */
  text(): string {
    const cells = this.#squares.map((player, index) => player ?? String(index + 1));
    return [0, 3, 6].map((start) => cells.slice(start, start + 3).join(' ')).join('\n');
  }
}
