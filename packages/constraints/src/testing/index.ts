/** What tests of the packages above need of this one: `@trainyard/constraints/testing`. */
export { tokenMatcherSuite } from './token-matcher.suite.ts';
export type { TokenMatcherHarness } from './token-matcher.suite.ts';
