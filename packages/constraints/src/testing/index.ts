/** Test support for dependent packages: `@trainyard/constraints/testing`. */
export { tokenMatcherSuite } from './token-matcher.suite.ts';
export type { TokenMatcherHarness } from './token-matcher.suite.ts';
