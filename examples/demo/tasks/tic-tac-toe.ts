import type { ChatBody } from '@trainyard/sdk';
import type { Rollout } from '@trainyard/sdk/rollouts';

import type { DemoTask } from '../task.ts';
import { Board, type Outcome } from '../tic-tac-toe/board.ts';
import { randomOpponent } from '../tic-tac-toe/random-opponent.ts';

type Messages = ChatBody['messages'];

/** Openings: squares of the first O of the opponent, who starts. The model has X. */
const OPENINGS = [1, 2, 3, 4, 5, 6, 7, 9];
const MAX_TOKENS = 4;

/** A legal move gets a reward, because without one there is no game to win; the outcome of a game gets most. */
const LEGAL_MOVE_REWARD = 0.08;
const OUTCOME_REWARD: Record<Outcome, number> = { won: 1, drawn: 0.7, lost: 0.4 };

const RULES = 'Tic-tac-toe. You are X. Squares are numbered 1 to 9. Answer with the number of a free square.';

function turn(board: Board, isFirst: boolean) {
  const free = `Free squares: ${board.freeSquares().join(' ')}\nYour move:`;
  return { role: 'user' as const, content: `${isFirst ? `${RULES}\n\n` : ''}${board.text()}\n${free}` };
}

/** First number in the reply, null if there is none. */
function moveOf(reply: string): number | null {
  const [digits] = /\d+/.exec(reply) ?? [];
  return digits === undefined ? null : Number(digits);
}

/** A game of several turns: the opponent's moves are context, only the model's own are trained. */
async function play({ client, model }: Rollout, promptIndex: number, seed: number): Promise<number> {
  const board = new Board();
  // All games of a group have the same opponent, so that rewards only differ by the model's moves.
  const opponent = randomOpponent(promptIndex);
  board.place('O', OPENINGS[promptIndex]!);
  const messages: Messages[number][] = [turn(board, true)];
  const request = { model, messages, max_tokens: MAX_TOKENS, temperature: 1, seed };
  let reward = 0;
  for (;;) {
    const answer = await client.chat.completions.create(request);
    const reply = answer.choices[0]!.message.content ?? '';
    const square = moveOf(reply);
    if (square === null || !board.isFree(square)) return reward;
    board.place('X', square);
    reward += LEGAL_MOVE_REWARD;
    if (board.outcome() === null) board.place('O', opponent(board.freeSquares()));
    const outcome = board.outcome();
    if (outcome !== null) return OUTCOME_REWARD[outcome];
    messages.push({ role: 'assistant', content: reply }, turn(board, false));
  }
}

/** Several turns against a random opponent: the model first learns legal moves, then winning ones. */
export const ticTacToe: DemoTask = {
  name: 'tic-tac-toe',
  summary: 'make legal moves, and win, against an opponent with random moves',
  numPrompts: OPENINGS.length,
  settings: {},
  play,
  sample: async (client, model, promptIndex) => {
    const board = new Board();
    board.place('O', OPENINGS[promptIndex]!);
    const messages = [turn(board, true)];
    const answer = await client.chat.completions.create({ model, messages, max_tokens: MAX_TOKENS, temperature: 0 });
    return { prompt: messages[0]!.content, reply: answer.choices[0]!.message.content ?? '' };
  },
};
