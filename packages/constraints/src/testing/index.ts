/** Test support for the packages above: `@trainyard/constraints/testing`. */
export { tokenMatcherSuite } from './token-matcher.suite.ts';
export type { TokenMatcherHarness } from './token-matcher.suite.ts';
