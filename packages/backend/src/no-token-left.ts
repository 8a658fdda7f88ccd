import { type FieldText, naming } from '@trainyard/protocol/fields';
import { refusal } from './check-field.ts';
import { EngineError } from './errors.ts';

/** Masks of a request that remove tokens before sampling. */
export interface TokenMasks {
  readonly allowed: boolean;
  readonly banned: boolean;
  /** End tokens, before `minTokens`. */
  readonly ends: boolean;
  readonly constraint: boolean;
}

/**
 * Failure of a reply whose masks allow no first or further token.
 * @param masks at least one of them removes tokens
 * @param numTokens tokens of the reply; without any, the request is refused
 */
export function noTokenLeft(masks: TokenMasks, numTokens: number): EngineError {
  const fields = [
    masks.allowed && 'allowedTokenIds',
    masks.banned && 'badWords',
    masks.ends && 'minTokens',
    masks.constraint && 'constraint',
  ].filter((name) => typeof name === 'string');
  const [param] = fields;
  if (param === undefined) throw new Error('without a mask every token is left');
  if (numTokens === 0) return refusal(param, saying(fields, 'start with'));
  const text = saying(fields, `continue with after its first ${numTokens}`);
  return new EngineError('engine.no_token_left', text, { param });
}

function saying([first, ...others]: readonly string[], how: string): FieldText {
  const joined = others.flatMap((field, at) => [at === 0 ? ' together with ' : ' and ', { field }]);
  return [...naming`${{ field: first! }} must leave a token that a reply can ${how}, got none`, ...joined];
}
