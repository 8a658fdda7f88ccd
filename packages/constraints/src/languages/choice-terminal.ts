import { ConstraintError } from '../contract/constraint-error.ts';
import { larkString } from './lark-text.ts';
import { byteLength, checkLimit } from '../contract/limits.ts';

/**
 * Texts as one terminal of Lark: many alternatives of a rule would not fit into a row of the parser.
 *
 * @returns `terminal`: null if the only choice is the empty text
 */
export function choiceTerminal(choices: readonly string[]): { terminal: string | null; hasEmpty: boolean } {
  if (choices.length === 0) throw new ConstraintError('constraint.invalid', '`choice` must not be empty');
  checkLimit('choices', choices.length);
  checkLimit(
    'choiceBytes',
    choices.reduce((sum, choice) => sum + byteLength(choice), 0),
  );
  if (!choices.every((choice) => choice.isWellFormed())) {
    throw new ConstraintError('constraint.invalid', '`choice` has half a surrogate pair');
  }
  const texts = [...new Set(choices)].filter((choice) => choice !== '');
  return { terminal: texts.length === 0 ? null : texts.map(larkString).join(' | '), hasEmpty: choices.includes('') };
}
