import type { DemoTask } from '../task.ts';
import { calculator } from './calculator.ts';
import { concise } from './concise.ts';
import { extraction } from './extraction.ts';
import { ticTacToe } from './tic-tac-toe.ts';
import { toolUse } from './tool-use.ts';
import { yesNoMaybe } from './yes-no-maybe.ts';

export const TASKS: readonly DemoTask[] = [concise, yesNoMaybe, extraction, toolUse, calculator, ticTacToe];
