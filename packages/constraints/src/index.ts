export { Constraints, type ConstraintsOptions, type ConstraintsStats } from './constraints.ts';
export { ConstraintError, type ConstraintErrorCode } from './constraint-error.ts';
export type { ConstraintSpec, WhitespaceOption } from './constraint-spec.ts';
export { CAPPED_WHITESPACE } from './json-whitespace.ts';
export { CONSTRAINT_LIMITS, type ConstraintLimit } from './limits.ts';
export type { TokenMatcher } from './token-matcher.ts';
export type { ConstraintVocabulary } from './vocabulary.ts';
