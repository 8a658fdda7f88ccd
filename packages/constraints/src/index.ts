export { Constraints, type ConstraintsOptions, type ConstraintsStats } from './constraints.ts';
export { ConstraintError, type ConstraintErrorCode } from './contract/constraint-error.ts';
export type { ConstraintSpec, WhitespaceOption } from './contract/constraint-spec.ts';
export { CAPPED_WHITESPACE } from './languages/json-whitespace.ts';
export { CONSTRAINT_LIMITS, type ConstraintLimit } from './contract/limits.ts';
export type { TokenMatcher } from './contract/token-matcher.ts';
export type { ConstraintVocabulary } from './contract/vocabulary.ts';
